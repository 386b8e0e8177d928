//! Scatter plot of rows that are projected onto two dimensions: marker by data set, color by uncertainty.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::charts::legend::{LegendEntry, Symbol};
use crate::charts::marker::Marker;
use crate::drawing::canvas::{Anchor, Area, Canvas, TextStyle};
use crate::drawing::color::Color;
use crate::drawing::number_format;
use crate::report::{Map, MapPoint};

const WIDTH: f64 = 720.0;
const PLANE: Area = Area { x: 1.0, y: 1.0, width: 718.0, height: 500.0 };
const INSET: f64 = 14.0;
/// Number of color levels. Points of one level share an SVG element, which keeps pages small.
const LEVELS: usize = 24;
const FONT_SIZE: f64 = 13.0;

/// Returns the drawing and the data for the page's script.
pub(crate) fn draw(map: &Map) -> (Canvas, Value) {
    let mut canvas = Canvas::transparent(WIDTH, PLANE.height + 50.0);
    canvas.frame(PLANE, Color::FRAME);
    let positions = positions(map);
    let radius = radius(map.points.len());
    canvas.clipped(PLANE, |canvas| {
        for set in 0..map.sets.len() {
            canvas.series(set, |canvas| draw_set(canvas, map, &positions, set, radius));
        }
    });
    color_bar(&mut canvas);
    (canvas, hover(map, &positions, radius))
}

/// Legend of the marker shapes.
pub(crate) fn legend(map: &Map) -> Vec<LegendEntry> {
    let entry = |(i, name): (usize, &String)| LegendEntry {
        name: name.clone(),
        symbol: Symbol::Points(Marker::of(i)),
    };
    map.sets.iter().enumerate().map(entry).collect()
}

/// Points of a set; the most uncertain are drawn last, on top.
fn draw_set(canvas: &mut Canvas, map: &Map, positions: &[(f64, f64)], set: usize, radius: f64) {
    let mut paths = vec![String::new(); LEVELS];
    for (point, &(x, y)) in map.points.iter().zip(positions).filter(|(point, _)| point.set == set) {
        // Writing to a String cannot fail.
        let _ = write!(paths[level(point)], "{}", Marker::of(set).path(x, y, radius));
    }
    for (i, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        canvas.shapes(path, level_color(i));
    }
}

fn level(point: &MapPoint) -> usize {
    ((point.rank.clamp(0.0, 1.0) * LEVELS as f64) as usize).min(LEVELS - 1)
}

fn level_color(level: usize) -> Color {
    Color::viridis(level as f64 / (LEVELS - 1) as f64)
}

fn radius(points: usize) -> f64 {
    match points {
        0..=300 => 4.5,
        301..=1200 => 3.5,
        _ => 2.8,
    }
}

/// Positions of the points. Both axes have the same scale, so distances in all directions can be compared.
fn positions(map: &Map) -> Vec<(f64, f64)> {
    let ends = |coordinate: &dyn Fn(&MapPoint) -> f64| {
        let values = map.points.iter().map(coordinate).filter(|v| v.is_finite());
        let ends = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (f64::min(low, v), f64::max(high, v)));
        if ends.1 >= ends.0 { ends } else { (0.0, 0.0) }
    };
    let (xs, ys) = (ends(&|point| point.x), ends(&|point| point.y));
    let fit = |length: f64, (low, high): (f64, f64)| (length - 2.0 * INSET) / (high - low);
    let scale = f64::min(fit(PLANE.width, xs), fit(PLANE.height, ys));
    let scale = if scale.is_finite() { scale } else { 1.0 };
    let (center_x, center_y) = (PLANE.x + 0.5 * PLANE.width, PLANE.y + 0.5 * PLANE.height);
    let middle = |(low, high): (f64, f64)| 0.5 * (low + high);
    let position = |point: &MapPoint| {
        (center_x + scale * (point.x - middle(xs)), center_y - scale * (point.y - middle(ys)))
    };
    map.points.iter().map(position).collect()
}

fn color_bar(canvas: &mut Canvas) {
    let (top, left, width) = (PLANE.y + PLANE.height + 18.0, 210.0, 300.0);
    let part = width / LEVELS as f64;
    for i in 0..LEVELS {
        let area = Area { x: left + i as f64 * part, y: top, width: part + 0.3, height: 12.0 };
        canvas.rect(area, level_color(i));
    }
    let style = |anchor| TextStyle { size: FONT_SIZE, weight: 400, color: Color::MUTED_TEXT, anchor };
    canvas.text(left - 10.0, top + 11.5, "most certain", style(Anchor::End));
    canvas.text(left + width + 10.0, top + 11.5, "most uncertain", style(Anchor::Start));
}

/// Data for the page's script. Points refer to labels by index, which keeps a page with 4000 points small.
fn hover(map: &Map, positions: &[(f64, f64)], radius: f64) -> Value {
    let mut labels: Vec<&str> = Vec::new();
    let mut label_indices: HashMap<&str, usize> = HashMap::new();
    let mut points = Vec::new();
    for (point, &(x, y)) in map.points.iter().zip(positions) {
        let mut index_of = |label| {
            *label_indices.entry(label).or_insert_with(|| {
                labels.push(label);
                labels.len() - 1
            })
        };
        let (label, truth) = (index_of(point.label.as_str()), point.truth.as_deref().map(&mut index_of));
        points.push(json!([
            number_format::json(x, 1),
            number_format::json(y, 1),
            point.set,
            point.row,
            label,
            truth,
            number_format::json(point.probability, 3),
            number_format::json(point.log_epistemic, 2),
        ]));
    }
    let Area { x, y, width, height } = PLANE;
    json!({"kind": "map", "area": [x, y, width, height], "radius": radius, "sets": map.sets, "labels": labels, "points": points})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64, rank: f64) -> MapPoint {
        MapPoint {
            x,
            y,
            set: 0,
            row: 7,
            label: "cat".to_owned(),
            truth: None,
            probability: 0.5,
            log_epistemic: f64::NEG_INFINITY,
            rank,
        }
    }

    #[test]
    fn both_axes_have_the_same_scale_and_points_stay_inside() {
        let points = vec![point(0.0, 0.0, 0.0), point(1.0, 0.0, 0.5), point(0.0, 1.0, 1.0)];
        let map = Map { explained: (0.5, 0.2), sets: vec!["test".to_owned()], points };
        let positions = positions(&map);
        // y is measured downward.
        let (right, up) = (positions[1].0 - positions[0].0, positions[0].1 - positions[2].1);
        assert!((right - up).abs() < 1e-9 && right > 0.0);
        let is_inside = |&(x, y): &(f64, f64)| {
            x > PLANE.x && x < PLANE.x + PLANE.width && y > PLANE.y && y < PLANE.y + PLANE.height
        };
        assert!(positions.iter().all(is_inside));
        // The epistemic uncertainty -∞ is null in the data for the page's script.
        assert!(draw(&map).1["points"][0][7].is_null());
    }

    #[test]
    fn maps_of_one_point_or_none_are_drawn() {
        for points in [vec![], vec![point(3.0, 3.0, 0.2)]] {
            let map = Map { explained: (0.5, 0.2), sets: vec!["test".to_owned()], points };
            assert!(positions(&map).iter().all(|p| p.0.is_finite() && p.1.is_finite()));
            draw(&map);
        }
    }
}
