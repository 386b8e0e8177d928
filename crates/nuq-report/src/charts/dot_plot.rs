//! Dot plot of a table: one line per row, one marker per column.

use serde_json::Value;

use crate::charts::captioned_drawing::CaptionedDrawing;
use crate::charts::chart::ChartAxis;
use crate::charts::legend::{LegendEntry, Symbol};
use crate::charts::marker::Marker;
use crate::charts::plot_area::{TEXT, WIDTH, text};
use crate::drawing::axis::Axis;
use crate::drawing::canvas::{Anchor, Canvas};
use crate::drawing::color::Color;
use crate::drawing::figure::Figure;
use crate::drawing::text_metrics;

/// A dot plot.
///
/// ```
/// use nuq_report::{ChartAxis, DotPlot, DotRow, AxisScale};
/// let plot = DotPlot {
///     title: "Outlier detection".to_owned(),
///     caption: String::new(),
///     x: ChartAxis::new("ROC-AUC (%)", AxisScale::Percent),
///     series: vec!["SVHN".to_owned()],
///     rows: vec![DotRow { name: "NUQ".to_owned(), values: vec![Some((0.95, 0.01))] }],
/// };
/// assert!(plot.draw().svg().contains("NUQ"));
/// ```
#[derive(Debug, Clone)]
pub struct DotPlot {
    /// Title of the plot.
    pub title: String,
    /// Text below the title.
    pub caption: String,
    /// Horizontal axis.
    pub x: ChartAxis,
    /// Names of the series; each row has one marker per series.
    pub series: Vec<String>,
    /// Rows from top to bottom.
    pub rows: Vec<DotRow>,
}

/// A row of the plot.
#[derive(Debug, Clone)]
pub struct DotRow {
    /// Name, drawn to the left.
    pub name: String,
    /// For each series a value and the half-width of its error bar, or `None`.
    pub values: Vec<Option<(f64, f64)>>,
}

const ROW: f64 = 24.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 52.0;
const RIGHT: f64 = 18.0;
const RADIUS: f64 = 4.6;

impl DotPlot {
    /// Draws the plot.
    #[must_use]
    pub fn draw(&self) -> Figure {
        let ends = |(value, error): (f64, f64)| [value - error, value + error];
        let values = self.rows.iter().flat_map(|row| row.values.iter().flatten().copied().flat_map(ends));
        let axis = self.x.axis(values);
        let names = self.rows.iter().map(|row| text_metrics::width(&row.name, TEXT));
        let left = names.fold(40.0, f64::max).min(0.5 * WIDTH) + 12.0;
        let mut canvas = Canvas::transparent(WIDTH, TOP + ROW * self.rows.len() as f64 + BOTTOM);
        let x_of = |value: f64| left + axis.fraction(value).clamp(0.0, 1.0) * (WIDTH - left - RIGHT);
        self.draw_axis(&mut canvas, &axis, left, &x_of);
        for (i, row) in self.rows.iter().enumerate() {
            let y = TOP + ROW * (i as f64 + 0.5);
            // One unit is left free, because text widths are approximate.
            let name = text_metrics::truncate(&row.name, TEXT, left - 11.0);
            canvas.text(left - 10.0, y + 4.5, &name, text(400, Color::TEXT, Anchor::End));
            // The first series is drawn last, on top.
            for (j, &value) in row.values.iter().enumerate().rev() {
                let Some((value, error)) = value else { continue };
                let color = Color::SERIES[j % Color::SERIES.len()];
                if error > 0.0 {
                    canvas.line(&[(x_of(value - error), y), (x_of(value + error), y)], color, 1.6);
                }
                canvas.shapes(&Marker::of(j).path(x_of(value), y, RADIUS), color);
            }
        }
        let (title, caption) = (self.title.clone(), self.caption.clone());
        let (stem, legend, hover) = (String::new(), self.legend(), Value::Null);
        CaptionedDrawing { stem, title, caption, legend, drawing: canvas, hover }.figure()
    }

    fn draw_axis(&self, canvas: &mut Canvas, axis: &Axis, left: f64, x_of: &impl Fn(f64) -> f64) {
        let bottom = TOP + ROW * self.rows.len() as f64;
        for (value, label) in axis.ticks(5.0) {
            let x = x_of(value);
            canvas.line(&[(x, TOP), (x, bottom)], Color::GRID, 1.0);
            canvas.text(x, bottom + 20.0, &label, text(400, Color::MUTED_TEXT, Anchor::Middle));
        }
        canvas.line(&[(left, bottom), (WIDTH - RIGHT, bottom)], Color::FRAME, 1.0);
        let middle = 0.5 * (left + WIDTH - RIGHT);
        canvas.text(middle, bottom + 42.0, &axis.title, text(500, Color::TEXT, Anchor::Middle));
    }

    /// The legend. It is empty for a single series, which has no other series to be distinguished from.
    fn legend(&self) -> Vec<LegendEntry> {
        let entry = |(i, name): (usize, &String)| LegendEntry {
            name: name.clone(),
            symbol: Symbol::Dots(Marker::of(i), Color::SERIES[i % Color::SERIES.len()]),
        };
        if self.series.len() < 2 { vec![] } else { self.series.iter().enumerate().map(entry).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::chart::AxisScale;

    #[test]
    fn every_value_has_a_marker_and_missing_values_have_none() {
        let row = |name: &str, values: &[Option<(f64, f64)>]| DotRow {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        let plot = DotPlot {
            title: "t".to_owned(),
            caption: "c".to_owned(),
            x: ChartAxis::new("ROC-AUC (%)", AxisScale::Percent),
            series: vec!["SVHN".to_owned(), "Smooth".to_owned()],
            rows: vec![
                row("NUQ", &[Some((0.95, 0.01)), Some((0.9, 0.0))]),
                row(
                    "a method whose name is much too long for the space to the left",
                    &[None, Some((0.7, 0.2))],
                ),
            ],
        };
        let figure = plot.draw();
        // Three markers and two legend symbols have this attribute.
        assert_eq!(figure.svg().matches("stroke-opacity").count(), 5);
        assert!(figure.svg().contains('…'));
        #[cfg(feature = "png")]
        figure.png(1.0).unwrap();
    }
}
