//! Standalone line chart: title, caption and legend above one or more panels.

use crate::charts::captioned_drawing::CaptionedDrawing;
use crate::charts::line_chart::{LineChart, Panel, Series};
use crate::charts::line_style;
use crate::drawing::axis::{Axis, Unit};
use crate::drawing::figure::Figure;

/// A line chart.
///
/// ```
/// use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Emphasis, AxisScale};
/// let line = ChartLine { name: "NUQ".to_owned(), emphasis: Emphasis::Strong, points: vec![(1.0, 0.5), (100.0, 0.9)] };
/// let chart = Chart {
///     title: "More neighbors".to_owned(),
///     caption: "Area under the ROC curve.".to_owned(),
///     x: ChartAxis::new("K", AxisScale::Log),
///     panels: vec![ChartPanel { y: ChartAxis::new("ROC-AUC (%)", AxisScale::Percent), height: 200.0, lines: vec![line] }],
/// };
/// assert!(chart.draw().svg().contains("More neighbors"));
/// ```
#[derive(Debug, Clone)]
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// Text below the title.
    pub caption: String,
    /// Horizontal axis, shared by all panels.
    pub x: ChartAxis,
    /// Panels from top to bottom.
    pub panels: Vec<ChartPanel>,
}

/// A panel: lines that share a vertical axis.
#[derive(Debug, Clone)]
pub struct ChartPanel {
    /// Vertical axis.
    pub y: ChartAxis,
    /// Height of the plot area in SVG units; the drawing is 440 units wide.
    pub height: f64,
    /// Lines; each line is drawn over the lines after it.
    pub lines: Vec<ChartLine>,
}

/// A line. Lines with the same name share a style in all panels and one legend entry.
#[derive(Debug, Clone)]
pub struct ChartLine {
    /// Name in the legend.
    pub name: String,
    /// Visual weight.
    pub emphasis: Emphasis,
    /// Points in increasing order of x.
    pub points: Vec<(f64, f64)>,
}

/// Visual weight of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    /// Thick: the subject of the chart.
    Strong,
    /// Normal width: compared with the subject.
    Normal,
    /// Thin and gray: a reference such as the optimum, the true value or the result of random scores.
    Reference,
}

/// An axis: title, scale and range.
#[derive(Debug, Clone)]
pub struct ChartAxis {
    /// Measured quantity with its unit.
    pub title: String,
    /// Scale and number format.
    pub scale: AxisScale,
    /// First and last value; with `None`, the axis covers all values.
    pub range: Option<(f64, f64)>,
}

/// Scale of an axis and format of its tick labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisScale {
    /// Linear; fractions in [0, 1], written as percentages.
    Percent,
    /// Linear; whole numbers.
    Count,
    /// Linear; real numbers.
    Linear,
    /// Logarithmic.
    Log,
}

impl ChartAxis {
    /// An axis that covers all values.
    #[must_use]
    pub fn new(title: &str, scale: AxisScale) -> Self {
        Self { title: title.to_owned(), scale, range: None }
    }

    /// An axis from `low` to `high`.
    #[must_use]
    pub fn between(title: &str, scale: AxisScale, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..Self::new(title, scale) }
    }

    pub(super) fn axis(&self, values: impl Iterator<Item = f64>) -> Axis {
        let unit = match self.scale {
            AxisScale::Percent => Unit::Share,
            AxisScale::Count => Unit::Count,
            AxisScale::Linear | AxisScale::Log => Unit::Number,
        };
        let is_log = self.scale == AxisScale::Log;
        match self.range {
            Some((low, high)) => Axis { is_log, ..Axis::new(&self.title, unit, low, high) },
            None if is_log => Axis::log(&self.title, values),
            None => Axis::covering(&self.title, unit, values),
        }
    }
}

impl Chart {
    /// Draws the chart.
    #[must_use]
    pub fn draw(&self) -> Figure {
        let points = || self.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
        let panel = |panel: &ChartPanel| {
            let values = panel.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
            let series = panel.lines.iter().map(|line| self.series(line)).collect();
            Panel { y: panel.y.axis(values), height: panel.height, series }
        };
        let chart = LineChart {
            x: self.x.axis(points().map(|point| point.0)),
            panels: self.panels.iter().map(panel).collect(),
            mark: None,
        };
        let mut legend = chart.legend();
        let names: Vec<String> = legend.iter().map(|entry| entry.name.clone()).collect();
        let mut index = 0;
        legend.retain(|entry| {
            index += 1;
            !names[..index - 1].contains(&entry.name)
        });
        let (drawing, hover) = chart.draw();
        let (title, caption) = (self.title.clone(), self.caption.clone());
        CaptionedDrawing { stem: String::new(), title, caption, legend, drawing, hover }.figure()
    }

    fn series(&self, line: &ChartLine) -> Series {
        let style = match line.emphasis {
            Emphasis::Strong => line_style::nth(self.color_index(&line.name), line_style::STRONG),
            Emphasis::Normal => line_style::nth(self.color_index(&line.name), line_style::NORMAL),
            Emphasis::Reference => line_style::REFERENCE,
        };
        Series { name: line.name.clone(), style, points: line.points.clone() }
    }

    /// Index of a name among all colored lines, strong lines first.
    fn color_index(&self, name: &str) -> usize {
        let mut names: Vec<&str> = Vec::new();
        for emphasis in [Emphasis::Strong, Emphasis::Normal] {
            let lines = self.panels.iter().flat_map(|panel| &panel.lines);
            for line in lines.filter(|line| line.emphasis == emphasis) {
                if !names.contains(&line.name.as_str()) {
                    names.push(&line.name);
                }
            }
        }
        names.iter().position(|other| *other == name).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_the_same_name_share_a_style_and_a_legend_entry() {
        let line = |name: &str, emphasis| ChartLine {
            name: name.to_owned(),
            emphasis,
            points: vec![(0.0, 0.1), (1.0, 0.2)],
        };
        let panel = |lines| ChartPanel { y: ChartAxis::new("y", AxisScale::Linear), height: 100.0, lines };
        let chart = Chart {
            title: "t".to_owned(),
            caption: "c".to_owned(),
            x: ChartAxis::between("x", AxisScale::Linear, 0.0, 2.0),
            panels: vec![
                panel(vec![
                    line("truth", Emphasis::Reference),
                    line("one", Emphasis::Strong),
                    line("two", Emphasis::Normal),
                ]),
                panel(vec![line("two", Emphasis::Normal)]),
            ],
        };
        assert_eq!((chart.color_index("one"), chart.color_index("two")), (0, 1));
        let figure = chart.draw();
        assert_eq!(figure.svg().matches(">two<").count(), 1);
        assert_eq!(figure.svg().matches("data-series").count(), 4);
        #[cfg(feature = "png")]
        figure.png(1.0).unwrap();
    }
}
