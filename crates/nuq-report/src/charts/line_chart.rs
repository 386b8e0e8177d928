//! Line chart with one or more panels that share the horizontal axis.

use serde_json::{Value, json};

use crate::charts::legend::{LegendEntry, Symbol};
use crate::charts::plot_area::{LARGEST_TEXT, PlotArea, WIDTH, text};
use crate::drawing::axis::Axis;
use crate::drawing::canvas::{Anchor, Canvas, LineStyle};
use crate::drawing::color::Color;
use crate::drawing::number_format;
use crate::drawing::text_metrics;
use crate::report::Mark;

/// A line and its style.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) style: LineStyle,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A panel: lines that share a vertical axis.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) y: Axis,
    pub(crate) height: f64,
    pub(crate) series: Vec<Series>,
}

/// A line chart.
#[derive(Debug, Clone)]
pub(crate) struct LineChart {
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
    /// Highlighted value on the horizontal axis.
    pub(crate) mark: Option<Mark>,
}

/// Maximum deviation of a simplified line from its points, in drawing units.
const TOLERANCE: f64 = 0.15;

impl LineChart {
    /// Returns the drawing and the data for the page's script.
    pub(crate) fn draw(&self) -> (Canvas, Value) {
        let plots = self.plots();
        let height = plots.last().map_or(0.0, PlotArea::bottom_with_labels);
        let mut canvas = Canvas::transparent(WIDTH, height);
        let mut panels = Vec::new();
        let mut first = 0;
        for (panel, plot) in self.panels.iter().zip(&plots) {
            plot.draw(&mut canvas);
            if let Some(mark) = &self.mark {
                draw_mark(&mut canvas, plot, mark, panels.is_empty());
            }
            let simplified: Vec<Vec<(f64, f64)>> =
                panel.series.iter().map(|s| simplify(&s.points, plot)).collect();
            // The first line is drawn last, on top.
            canvas.clipped(plot.clip_area(), |canvas| {
                for (i, (series, points)) in panel.series.iter().zip(&simplified).enumerate().rev() {
                    let positions: Vec<(f64, f64)> =
                        points.iter().map(|&point| plot.position(point)).collect();
                    canvas.series(first + i, |canvas| canvas.stroke(&positions, series.style));
                }
            });
            first += panel.series.len();
            panels.push(panel_json(panel, plot, &simplified));
        }
        (canvas, json!({"kind": "lines", "panels": panels}))
    }

    /// Legend of the lines.
    pub(crate) fn legend(&self) -> Vec<LegendEntry> {
        let series = self.panels.iter().flat_map(|panel| &panel.series);
        series.map(|s| LegendEntry { name: s.name.clone(), symbol: Symbol::Line(s.style) }).collect()
    }

    /// Plot area of each panel. All have the same left edge; only the last one has the title of the horizontal axis.
    fn plots(&self) -> Vec<PlotArea> {
        let mut plots: Vec<PlotArea> = Vec::new();
        for (i, panel) in self.panels.iter().enumerate() {
            let top = plots.last().map_or(0.0, |plot| plot.bottom_with_labels() - 12.0);
            let mut x = self.x.clone();
            if i + 1 < self.panels.len() {
                x.title.clear();
            }
            plots.push(PlotArea::new(top, panel.height, x, panel.y.clone()));
        }
        let left = plots.iter().map(|plot| plot.area.x).fold(0.0, f64::max);
        plots.into_iter().map(|plot| plot.with_left(left)).collect()
    }
}

/// Draws a vertical line at a value of the horizontal axis, with its name if `is_named`.
pub(crate) fn draw_mark(canvas: &mut Canvas, plot: &PlotArea, mark: &Mark, is_named: bool) {
    if !(0.0..=1.0).contains(&plot.x.fraction(mark.value)) {
        return;
    }
    let x = plot.x_position(mark.value);
    let top = plot.area.y - if is_named { 6.0 } else { 0.0 };
    canvas.stroke(&[(x, top), (x, plot.bottom())], LineStyle { color: Color::TEXT, width: 1.2, dash: "4 3" });
    if is_named {
        // The name is placed to the right of the vertical axis title and inside the drawing.
        let right = plot.area.x + plot.area.width;
        let title_end = 2.0 + text_metrics::width(&plot.y.title, LARGEST_TEXT) + 16.0;
        let name = text_metrics::truncate(&mark.name, LARGEST_TEXT, right - title_end);
        let width = text_metrics::width(&name, LARGEST_TEXT);
        let end = (x + 0.5 * width).clamp(title_end + width, right.max(title_end + width));
        canvas.text(end, plot.area.y - 14.0, &name, text(400, Color::MUTED_TEXT, Anchor::End));
    }
}

fn panel_json(panel: &Panel, plot: &PlotArea, simplified: &[Vec<(f64, f64)>]) -> Value {
    let series = |(series, points): (&Series, &Vec<(f64, f64)>)| {
        // The axis may be logarithmic, so values of x may have any magnitude.
        let point =
            |&(x, y): &(f64, f64)| json!([number_format::json_significant(x, 6), number_format::json(y, 5)]);
        json!({
            "name": series.name,
            "role": series.style.color.role(),
            "points": points.iter().map(point).collect::<Vec<_>>(),
        })
    };
    let mut value = plot.json();
    value["series"] = panel.series.iter().zip(simplified).map(series).collect();
    value
}

/// Simplifies a line by the Douglas-Peucker algorithm. A smooth curve of 10,000 points keeps fewer than 200 of them.
fn simplify(points: &[(f64, f64)], plot: &PlotArea) -> Vec<(f64, f64)> {
    let positions: Vec<(f64, f64)> = points.iter().map(|&point| plot.position(point)).collect();
    let mut is_kept = vec![false; points.len()];
    let mut spans = vec![(0, points.len().saturating_sub(1))];
    while let Some((first, last)) = spans.pop() {
        if let Some(end) = is_kept.get_mut(first) {
            *end = true;
        }
        if let Some(end) = is_kept.get_mut(last) {
            *end = true;
        }
        let deviation = |i: usize| distance(positions[i], positions[first], positions[last]);
        let farthest = (first + 1..last).max_by(|&a, &b| deviation(a).total_cmp(&deviation(b)));
        if let Some(middle) = farthest.filter(|&i| deviation(i) > TOLERANCE) {
            spans.extend([(first, middle), (middle, last)]);
        }
    }
    points.iter().zip(is_kept).filter(|(_, is_kept)| *is_kept).map(|(&point, _)| point).collect()
}

/// Distance of a point from the segment between `a` and `b`.
fn distance(point: (f64, f64), a: (f64, f64), b: (f64, f64)) -> f64 {
    let (segment, offset) = ((b.0 - a.0, b.1 - a.1), (point.0 - a.0, point.1 - a.1));
    let sq_length = segment.0 * segment.0 + segment.1 * segment.1;
    let dot = offset.0 * segment.0 + offset.1 * segment.1;
    let t = if sq_length > 0.0 { (dot / sq_length).clamp(0.0, 1.0) } else { 0.0 };
    (offset.0 - t * segment.0).hypot(offset.1 - t * segment.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::axis::Unit;

    #[test]
    fn a_simplified_line_stays_within_the_tolerance() {
        let axis = || Axis::new("x", Unit::Share, 0.0, 1.0);
        let plot = PlotArea::new(0.0, 200.0, axis(), axis());
        let points: Vec<(f64, f64)> =
            (0..=10_000).map(|i| f64::from(i) / 1e4).map(|x| (x, x.sqrt())).collect();
        let simplified = simplify(&points, &plot);
        assert!(simplified.len() < 200, "{}", simplified.len());
        assert_eq!((simplified[0], simplified[simplified.len() - 1]), ((0.0, 0.0), (1.0, 1.0)));
        for &point in &points {
            let next = simplified.iter().position(|p| p.0 >= point.0).unwrap().max(1);
            let deviation = distance(
                plot.position(point),
                plot.position(simplified[next - 1]),
                plot.position(simplified[next]),
            );
            assert!(deviation <= TOLERANCE + 1e-9);
        }
        assert!(simplify(&[], &plot).is_empty());
        assert_eq!(simplify(&[(0.5, 0.5)], &plot), [(0.5, 0.5)]);
    }

    #[test]
    fn small_values_on_a_logarithmic_axis_keep_their_digits_in_the_tooltip() {
        let points = vec![(1.234_567e-9, 0.5), (2.5e-5, 0.75)];
        let x = Axis::log("h", points.iter().map(|point| point.0));
        let style = LineStyle { color: Color::SERIES[0], width: 1.0, dash: "" };
        let series = vec![Series { name: "accuracy".to_owned(), style, points }];
        let y = Axis::new("accuracy (%)", Unit::Share, 0.0, 1.0);
        let chart = LineChart { x, panels: vec![Panel { y, height: 150.0, series }], mark: None };
        let (_, hover) = chart.draw();
        assert_eq!(hover["panels"][0]["series"][0]["points"], json!([[1.23457e-9, 0.5], [2.5e-5, 0.75]]));
    }
}
