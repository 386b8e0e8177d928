//! Lines over one axis, in one panel or in several above each other.

use serde_json::{Value, json};

use crate::axis::Axis;
use crate::canvas::{Anchor, Canvas, Pen};
use crate::color::Color;
use crate::figures::legend::{Entry, Sign};
use crate::figures::plot::{LARGEST_TEXT, Plot, WIDTH, text};
use crate::lettering;
use crate::numbers;
use crate::report::Mark;

/// A line.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) pen: Pen,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Lines that share a vertical axis.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) y: Axis,
    pub(crate) height: f64,
    pub(crate) series: Vec<Series>,
}

/// The chart.
#[derive(Debug, Clone)]
pub(crate) struct LineChart {
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
    /// A place on the horizontal axis that is pointed at.
    pub(crate) mark: Option<Mark>,
}

/// How far, in units of the drawing, a line may pass by its points.
const TOLERANCE: f64 = 0.15;

impl LineChart {
    /// The drawing, and what a script needs to tell its values.
    pub(crate) fn draw(&self) -> (Canvas, Value) {
        let plots = self.plots();
        let height = plots.last().map_or(0.0, Plot::end);
        let mut canvas = Canvas::clear(WIDTH, height);
        let mut panels = Vec::new();
        let mut number = 0;
        for (panel, plot) in self.panels.iter().zip(&plots) {
            plot.draw(&mut canvas);
            if let Some(mark) = &self.mark {
                draw_mark(&mut canvas, plot, mark, panels.is_empty());
            }
            let thin: Vec<Vec<(f64, f64)>> = panel.series.iter().map(|s| thinned(&s.points, plot)).collect();
            // The first line is the most important one and lies on top.
            canvas.clipped(plot.inside(), |canvas| {
                for (i, (series, points)) in panel.series.iter().zip(&thin).enumerate().rev() {
                    let places: Vec<(f64, f64)> = points.iter().map(|&point| plot.at(point)).collect();
                    canvas.series(number + i, |canvas| canvas.stroke(&places, series.pen));
                }
            });
            number += panel.series.len();
            panels.push(panel_json(panel, plot, &thin));
        }
        (canvas, json!({"kind": "lines", "panels": panels}))
    }

    /// What its lines are.
    pub(crate) fn legend(&self) -> Vec<Entry> {
        let series = self.panels.iter().flat_map(|panel| &panel.series);
        series.map(|s| Entry { name: s.name.clone(), sign: Sign::Line(s.pen) }).collect()
    }

    /// The ground of each panel. All begin at the same left end; only the last names the horizontal axis.
    fn plots(&self) -> Vec<Plot> {
        let mut plots: Vec<Plot> = Vec::new();
        for (i, panel) in self.panels.iter().enumerate() {
            let top = plots.last().map_or(0.0, |plot| plot.end() - 12.0);
            let mut x = self.x.clone();
            if i + 1 < self.panels.len() {
                x.title.clear();
            }
            plots.push(Plot::new(top, panel.height, x, panel.y.clone()));
        }
        let left = plots.iter().map(|plot| plot.area.x).fold(0.0, f64::max);
        plots.into_iter().map(|plot| plot.with_left(left)).collect()
    }
}

/// A mark on the horizontal axis, named where asked.
pub(crate) fn draw_mark(canvas: &mut Canvas, plot: &Plot, mark: &Mark, is_named: bool) {
    if !(0.0..=1.0).contains(&plot.x.place(mark.value)) {
        return;
    }
    let x = plot.across(mark.value);
    let top = plot.area.y - if is_named { 6.0 } else { 0.0 };
    canvas.stroke(&[(x, top), (x, plot.floor())], Pen { color: Color::INK, width: 1.2, dash: "4 3" });
    if is_named {
        // The name stands beside the title of the vertical axis if it can, and never leaves the drawing.
        let right = plot.area.x + plot.area.width;
        let title_end = 2.0 + lettering::width(&plot.y.title, LARGEST_TEXT) + 16.0;
        let name = lettering::fit(&mark.name, LARGEST_TEXT, right - title_end);
        let width = lettering::width(&name, LARGEST_TEXT);
        let end = (x + 0.5 * width).clamp(title_end + width, right.max(title_end + width));
        canvas.text(end, plot.area.y - 14.0, &name, text(400, Color::FAINT_INK, Anchor::End));
    }
}

fn panel_json(panel: &Panel, plot: &Plot, thin: &[Vec<(f64, f64)>]) -> Value {
    let series = |(series, points): (&Series, &Vec<(f64, f64)>)| {
        let point = |&(x, y): &(f64, f64)| json!([numbers::json(x, 6), numbers::json(y, 5)]);
        json!({
            "name": series.name,
            "part": series.pen.color.part(),
            "points": points.iter().map(point).collect::<Vec<_>>(),
        })
    };
    let mut value = plot.json();
    value["series"] = panel.series.iter().zip(thin).map(series).collect();
    value
}

/// The points that a line needs to look the same (Douglas and Peucker): a curve of 10,000 rows has a few hundred.
fn thinned(points: &[(f64, f64)], plot: &Plot) -> Vec<(f64, f64)> {
    let places: Vec<(f64, f64)> = points.iter().map(|&point| plot.at(point)).collect();
    let mut is_kept = vec![false; points.len()];
    let mut spans = vec![(0, points.len().saturating_sub(1))];
    while let Some((first, last)) = spans.pop() {
        if let Some(end) = is_kept.get_mut(first) {
            *end = true;
        }
        if let Some(end) = is_kept.get_mut(last) {
            *end = true;
        }
        let off = |i: usize| distance(places[i], places[first], places[last]);
        let farthest = (first + 1..last).max_by(|&a, &b| off(a).total_cmp(&off(b)));
        if let Some(middle) = farthest.filter(|&i| off(i) > TOLERANCE) {
            spans.extend([(first, middle), (middle, last)]);
        }
    }
    points.iter().zip(is_kept).filter(|(_, is_kept)| *is_kept).map(|(&point, _)| point).collect()
}

/// How far a point is from the stretch between two others.
fn distance(point: (f64, f64), a: (f64, f64), b: (f64, f64)) -> f64 {
    let (along, off) = ((b.0 - a.0, b.1 - a.1), (point.0 - a.0, point.1 - a.1));
    let length = along.0 * along.0 + along.1 * along.1;
    let part =
        if length > 0.0 { ((off.0 * along.0 + off.1 * along.1) / length).clamp(0.0, 1.0) } else { 0.0 };
    (off.0 - part * along.0).hypot(off.1 - part * along.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Unit;

    #[test]
    fn a_thinned_line_passes_by_every_point() {
        let axis = || Axis::new("x", Unit::Share, 0.0, 1.0);
        let plot = Plot::new(0.0, 200.0, axis(), axis());
        let points: Vec<(f64, f64)> =
            (0..=10_000).map(|i| f64::from(i) / 1e4).map(|x| (x, x.sqrt())).collect();
        let thin = thinned(&points, &plot);
        assert!(thin.len() < 200, "{}", thin.len());
        assert_eq!((thin[0], thin[thin.len() - 1]), ((0.0, 0.0), (1.0, 1.0)));
        for &point in &points {
            let next = thin.iter().position(|p| p.0 >= point.0).unwrap().max(1);
            let off = distance(plot.at(point), plot.at(thin[next - 1]), plot.at(thin[next]));
            assert!(off <= TOLERANCE + 1e-9);
        }
        assert!(thinned(&[], &plot).is_empty());
        assert_eq!(thinned(&[(0.5, 0.5)], &plot), [(0.5, 0.5)]);
    }
}
