//! A line chart by itself: title, caption and legend above one panel or several.

use crate::axis::{Axis, Unit};
use crate::figure::Figure;
use crate::figures::line_chart::{LineChart, Panel, Series};
use crate::figures::pens;
use crate::figures::picture::Picture;

/// The figure.
///
/// ```
/// use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Look, Spread};
/// let line = ChartLine { name: "NUQ".to_owned(), look: Look::Strong, points: vec![(1.0, 0.5), (100.0, 0.9)] };
/// let chart = Chart {
///     title: "More neighbors".to_owned(),
///     caption: "Area under the ROC curve.".to_owned(),
///     x: ChartAxis::new("K", Spread::Decades),
///     panels: vec![ChartPanel { y: ChartAxis::new("ROC-AUC (%)", Spread::Share), height: 200.0, lines: vec![line] }],
/// };
/// assert!(chart.draw().svg().contains("More neighbors"));
/// ```
#[derive(Debug, Clone)]
pub struct Chart {
    /// Above everything.
    pub title: String,
    /// Below the title: what to see.
    pub caption: String,
    /// The horizontal axis, which all panels share.
    pub x: ChartAxis,
    /// From top to bottom.
    pub panels: Vec<ChartPanel>,
}

/// Lines that share a vertical axis.
#[derive(Debug, Clone)]
pub struct ChartPanel {
    /// The vertical axis.
    pub y: ChartAxis,
    /// How high it is drawn; the figure is 440 wide.
    pub height: f64,
    /// The most important first.
    pub lines: Vec<ChartLine>,
}

/// A line. Lines of one name look alike in all panels and have one place in the legend.
#[derive(Debug, Clone)]
pub struct ChartLine {
    /// What it is.
    pub name: String,
    /// How much it matters.
    pub look: Look,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The chart is about it.
    Strong,
    /// It is compared.
    Plain,
    /// It is no result: the best possible, the truth, chance.
    Reference,
}

/// An axis and its ends.
#[derive(Debug, Clone)]
pub struct ChartAxis {
    /// What it measures, with its unit.
    pub title: String,
    /// How values spread along it.
    pub spread: Spread,
    /// Where it begins and ends; round numbers around all values where nothing is said.
    pub ends: Option<(f64, f64)>,
}

/// How values spread along an axis, and how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Evenly; shares of one, written in percent.
    Share,
    /// Evenly; whole numbers.
    Count,
    /// Evenly.
    Number,
    /// By their powers of ten.
    Decades,
}

impl ChartAxis {
    /// An axis that holds all values.
    pub fn new(title: &str, spread: Spread) -> Self {
        Self { title: title.to_owned(), spread, ends: None }
    }

    /// An axis with given ends.
    pub fn between(title: &str, spread: Spread, low: f64, high: f64) -> Self {
        Self { ends: Some((low, high)), ..Self::new(title, spread) }
    }

    pub(super) fn axis(&self, values: impl Iterator<Item = f64>) -> Axis {
        let unit = match self.spread {
            Spread::Share => Unit::Share,
            Spread::Count => Unit::Count,
            Spread::Number | Spread::Decades => Unit::Number,
        };
        let is_log = self.spread == Spread::Decades;
        match self.ends {
            Some((low, high)) => Axis { is_log, ..Axis::new(&self.title, unit, low, high) },
            None if is_log => Axis::decades(&self.title, values),
            None => Axis::holding(&self.title, unit, values),
        }
    }
}

impl Chart {
    /// Draws the figure.
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
        let mut place = 0;
        legend.retain(|entry| {
            place += 1;
            !names[..place - 1].contains(&entry.name)
        });
        let (drawing, hover) = chart.draw();
        let (title, caption) = (self.title.clone(), self.caption.clone());
        Picture { stem: String::new(), title, caption, legend, drawing, hover }.figure()
    }

    fn series(&self, line: &ChartLine) -> Series {
        let pen = match line.look {
            Look::Strong => pens::at(self.place(&line.name), pens::STRONG),
            Look::Plain => pens::at(self.place(&line.name), pens::PLAIN),
            Look::Reference => pens::REFERENCE,
        };
        Series { name: line.name.clone(), pen, points: line.points.clone() }
    }

    /// The place of a name among all that have colors, strong ones first.
    fn place(&self, name: &str) -> usize {
        let mut names: Vec<&str> = Vec::new();
        for look in [Look::Strong, Look::Plain] {
            let lines = self.panels.iter().flat_map(|panel| &panel.lines);
            for line in lines.filter(|line| line.look == look) {
                if !names.contains(&line.name.as_str()) {
                    names.push(&line.name);
                }
            }
        }
        names.iter().position(|known| *known == name).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_looks_alike_everywhere_and_is_told_once() {
        let line = |name: &str, look| ChartLine {
            name: name.to_owned(),
            look,
            points: vec![(0.0, 0.1), (1.0, 0.2)],
        };
        let panel = |lines| ChartPanel { y: ChartAxis::new("y", Spread::Number), height: 100.0, lines };
        let chart = Chart {
            title: "t".to_owned(),
            caption: "c".to_owned(),
            x: ChartAxis::between("x", Spread::Number, 0.0, 2.0),
            panels: vec![
                panel(vec![
                    line("truth", Look::Reference),
                    line("one", Look::Strong),
                    line("two", Look::Plain),
                ]),
                panel(vec![line("two", Look::Plain)]),
            ],
        };
        assert_eq!((chart.place("one"), chart.place("two")), (0, 1));
        let figure = chart.draw();
        assert_eq!(figure.svg().matches(">two<").count(), 1);
        assert_eq!(figure.svg().matches("data-series").count(), 4);
        figure.png(1.0).unwrap();
    }
}
