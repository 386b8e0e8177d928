//! Line styles, which differ in color and in dash pattern.

use crate::drawing::canvas::LineStyle;
use crate::drawing::color::Color;

/// Dash patterns. They distinguish lines for readers who do not see the colors. The first line of a chart is solid.
const DASHES: [&str; 8] = ["", "9 3", "2 2.5", "7 3 2 3", "5 2.5", "12 3 2 3 2 3", "1.5 4", "14 4"];

/// Style of reference lines, such as the optimum or the result of random scores.
pub(crate) const REFERENCE: LineStyle = LineStyle { color: Color::MUTED_TEXT, width: 1.0, dash: "3 3" };
/// Width of emphasized lines.
pub(crate) const STRONG: f64 = 2.8;
/// Width of other lines.
pub(crate) const NORMAL: f64 = 1.7;

/// Style of the line with a given index in a chart.
pub(crate) fn nth(index: usize, width: f64) -> LineStyle {
    LineStyle { color: Color::SERIES[index % Color::SERIES.len()], width, dash: DASHES[index % DASHES.len()] }
}
