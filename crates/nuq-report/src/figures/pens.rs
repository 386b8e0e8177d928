//! How lines look: by color, and by pattern for who sees none.

use crate::canvas::Pen;
use crate::color::Color;

/// Patterns that tell lines apart without color. The first two lines of a chart are solid and long-dashed.
const DASHES: [&str; 8] = ["", "9 3", "2 2.5", "7 3 2 3", "5 2.5", "12 3 2 3 2 3", "1.5 4", "14 4"];

/// The line of what is no method: the best possible, or chance.
pub(crate) const REFERENCE: Pen = Pen { color: Color::FAINT_INK, width: 1.0, dash: "3 3" };
/// The width of the lines that a picture is about.
pub(crate) const STRONG: f64 = 2.8;
/// The width of all others.
pub(crate) const PLAIN: f64 = 1.7;

/// The line at a place of a picture.
pub(crate) fn at(place: usize, width: f64) -> Pen {
    Pen { color: Color::SERIES[place % Color::SERIES.len()], width, dash: DASHES[place % DASHES.len()] }
}
