//! Numbers of a table at a glance: a line per row, a marker per column.

use serde_json::Value;

use crate::axis::Axis;
use crate::canvas::{Anchor, Canvas};
use crate::color::Color;
use crate::figure::Figure;
use crate::figures::chart::ChartAxis;
use crate::figures::legend::{Entry, Sign};
use crate::figures::marker::Marker;
use crate::figures::picture::Picture;
use crate::figures::plot::{TEXT, WIDTH, text};
use crate::lettering;

/// The figure.
///
/// ```
/// use nuq_report::{ChartAxis, DotPlot, DotRow, Spread};
/// let plot = DotPlot {
///     title: "Who finds outliers".to_owned(),
///     caption: String::new(),
///     x: ChartAxis::new("ROC-AUC (%)", Spread::Share),
///     series: vec!["SVHN".to_owned()],
///     rows: vec![DotRow { name: "NUQ".to_owned(), values: vec![Some((0.95, 0.01))] }],
/// };
/// assert!(plot.draw().svg().contains("NUQ"));
/// ```
#[derive(Debug, Clone)]
pub struct DotPlot {
    /// Above everything.
    pub title: String,
    /// Below the title: what to see.
    pub caption: String,
    /// The axis of all numbers.
    pub x: ChartAxis,
    /// What the markers of a row are.
    pub series: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<DotRow>,
}

/// A row of numbers.
#[derive(Debug, Clone)]
pub struct DotRow {
    /// To its left.
    pub name: String,
    /// For each of the series a number and how far it may be off, or nothing.
    pub values: Vec<Option<(f64, f64)>>,
}

const ROW: f64 = 24.0;
const HEAD: f64 = 6.0;
const FOOT: f64 = 52.0;
const RIGHT: f64 = 18.0;
const RADIUS: f64 = 4.6;

impl DotPlot {
    /// Draws the figure.
    pub fn draw(&self) -> Figure {
        let ends = |(value, off): (f64, f64)| [value - off, value + off];
        let values = self.rows.iter().flat_map(|row| row.values.iter().flatten().copied().flat_map(ends));
        let axis = self.x.axis(values);
        let names = self.rows.iter().map(|row| lettering::width(&row.name, TEXT));
        let left = names.fold(40.0, f64::max).min(0.5 * WIDTH) + 12.0;
        let mut canvas = Canvas::clear(WIDTH, HEAD + ROW * self.rows.len() as f64 + FOOT);
        let across = |value: f64| left + axis.place(value).clamp(0.0, 1.0) * (WIDTH - left - RIGHT);
        self.draw_ground(&mut canvas, &axis, left, &across);
        for (i, row) in self.rows.iter().enumerate() {
            let y = HEAD + ROW * (i as f64 + 0.5);
            // As wide as the widest name, but for rounding.
            let name = lettering::fit(&row.name, TEXT, left - 11.0);
            canvas.text(left - 10.0, y + 4.5, &name, text(400, Color::INK, Anchor::End));
            // The first series lies on top.
            for (j, &value) in row.values.iter().enumerate().rev() {
                let Some((value, off)) = value else { continue };
                let color = Color::SERIES[j % Color::SERIES.len()];
                if off > 0.0 {
                    canvas.line(&[(across(value - off), y), (across(value + off), y)], color, 1.6);
                }
                canvas.shapes(&Marker::of(j).path(across(value), y, RADIUS), color);
            }
        }
        let (title, caption) = (self.title.clone(), self.caption.clone());
        let (stem, legend, hover) = (String::new(), self.legend(), Value::Null);
        Picture { stem, title, caption, legend, drawing: canvas, hover }.figure()
    }

    fn draw_ground(&self, canvas: &mut Canvas, axis: &Axis, left: f64, across: &impl Fn(f64) -> f64) {
        let floor = HEAD + ROW * self.rows.len() as f64;
        for (value, label) in axis.ticks(5.0) {
            let x = across(value);
            canvas.line(&[(x, HEAD), (x, floor)], Color::GRID, 1.0);
            canvas.text(x, floor + 20.0, &label, text(400, Color::FAINT_INK, Anchor::Middle));
        }
        canvas.line(&[(left, floor), (WIDTH - RIGHT, floor)], Color::FRAME, 1.0);
        let middle = 0.5 * (left + WIDTH - RIGHT);
        canvas.text(middle, floor + 42.0, &axis.title, text(500, Color::INK, Anchor::Middle));
    }

    /// One series needs no legend: the axis says what it is.
    fn legend(&self) -> Vec<Entry> {
        let entry = |(i, name): (usize, &String)| Entry {
            name: name.clone(),
            sign: Sign::Dots(Marker::of(i), Color::SERIES[i % Color::SERIES.len()]),
        };
        if self.series.len() < 2 { vec![] } else { self.series.iter().enumerate().map(entry).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::chart::Spread;

    #[test]
    fn every_number_has_a_marker_and_gaps_have_none() {
        let row = |name: &str, values: &[Option<(f64, f64)>]| DotRow {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        let plot = DotPlot {
            title: "t".to_owned(),
            caption: "c".to_owned(),
            x: ChartAxis::new("ROC-AUC (%)", Spread::Share),
            series: vec!["SVHN".to_owned(), "Smooth".to_owned()],
            rows: vec![
                row("NUQ", &[Some((0.95, 0.01)), Some((0.9, 0.0))]),
                row(
                    "a method whose name is much too long for the room that it has here",
                    &[None, Some((0.7, 0.2))],
                ),
            ],
        };
        let figure = plot.draw();
        // Three markers and two signs of the legend.
        assert_eq!(figure.svg().matches("stroke-opacity").count(), 5);
        assert!(figure.svg().contains('…'));
        figure.png(1.0).unwrap();
    }
}
