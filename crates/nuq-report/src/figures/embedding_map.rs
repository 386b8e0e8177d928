//! The rows in a plane: a shape for each set, colored by how uncertain they are.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::canvas::{Anchor, Area, Canvas, Style};
use crate::color::Color;
use crate::figures::legend::{Entry, Sign};
use crate::figures::marker::Marker;
use crate::numbers;
use crate::report::{Map, MapPoint};

const WIDTH: f64 = 720.0;
const PLANE: Area = Area { x: 1.0, y: 1.0, width: 718.0, height: 500.0 };
const INSET: f64 = 14.0;
/// As many colors as eyes tell apart here; points of one color are one element.
const SHADES: usize = 24;
const SIZE: f64 = 13.0;

/// The drawing, and what a script needs to tell its points.
pub(crate) fn draw(map: &Map) -> (Canvas, Value) {
    let mut canvas = Canvas::clear(WIDTH, PLANE.height + 50.0);
    canvas.frame(PLANE, Color::FRAME);
    let places = places(map);
    let radius = radius(map.points.len());
    canvas.clipped(PLANE, |canvas| {
        for set in 0..map.sets.len() {
            canvas.series(set, |canvas| draw_set(canvas, map, &places, set, radius));
        }
    });
    color_bar(&mut canvas);
    (canvas, hover(map, &places, radius))
}

/// What its shapes are.
pub(crate) fn legend(map: &Map) -> Vec<Entry> {
    let entry = |(i, name): (usize, &String)| Entry { name: name.clone(), sign: Sign::Points(Marker::of(i)) };
    map.sets.iter().enumerate().map(entry).collect()
}

/// The points of a set, the most uncertain last and on top.
fn draw_set(canvas: &mut Canvas, map: &Map, places: &[(f64, f64)], set: usize, radius: f64) {
    let mut paths = vec![String::new(); SHADES];
    for (point, &(x, y)) in map.points.iter().zip(places).filter(|(point, _)| point.set == set) {
        // Writing to a String cannot fail.
        let _ = write!(paths[shade(point)], "{}", Marker::of(set).path(x, y, radius));
    }
    for (i, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        canvas.shapes(path, shade_color(i));
    }
}

fn shade(point: &MapPoint) -> usize {
    ((point.rank.clamp(0.0, 1.0) * SHADES as f64) as usize).min(SHADES - 1)
}

fn shade_color(shade: usize) -> Color {
    Color::viridis(shade as f64 / (SHADES - 1) as f64)
}

fn radius(points: usize) -> f64 {
    match points {
        0..=300 => 4.5,
        301..=1200 => 3.5,
        _ => 2.8,
    }
}

/// Where the points lie. Both axes have one scale, since distances are what the map is about.
fn places(map: &Map) -> Vec<(f64, f64)> {
    let ends = |coordinate: &dyn Fn(&MapPoint) -> f64| {
        let values = map.points.iter().map(coordinate).filter(|v| v.is_finite());
        let ends = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (f64::min(low, v), f64::max(high, v)));
        if ends.1 >= ends.0 { ends } else { (0.0, 0.0) }
    };
    let (xs, ys) = (ends(&|point| point.x), ends(&|point| point.y));
    let room = |room: f64, (low, high): (f64, f64)| (room - 2.0 * INSET) / (high - low);
    let scale = f64::min(room(PLANE.width, xs), room(PLANE.height, ys));
    let scale = if scale.is_finite() { scale } else { 1.0 };
    let (left, top) = (PLANE.x + 0.5 * PLANE.width, PLANE.y + 0.5 * PLANE.height);
    let middle = |(low, high): (f64, f64)| 0.5 * (low + high);
    let place =
        |point: &MapPoint| (left + scale * (point.x - middle(xs)), top - scale * (point.y - middle(ys)));
    map.points.iter().map(place).collect()
}

fn color_bar(canvas: &mut Canvas) {
    let (top, left, width) = (PLANE.y + PLANE.height + 18.0, 210.0, 300.0);
    let part = width / SHADES as f64;
    for i in 0..SHADES {
        let area = Area { x: left + i as f64 * part, y: top, width: part + 0.3, height: 12.0 };
        canvas.rect(area, shade_color(i));
    }
    let style = |anchor| Style { size: SIZE, weight: 400, color: Color::FAINT_INK, anchor };
    canvas.text(left - 10.0, top + 11.5, "most certain", style(Anchor::End));
    canvas.text(left + width + 10.0, top + 11.5, "most uncertain", style(Anchor::Start));
}

/// Labels are named once and points refer to them by number, which keeps a page of 4000 points small.
fn hover(map: &Map, places: &[(f64, f64)], radius: f64) -> Value {
    let mut labels: Vec<&str> = Vec::new();
    let mut numbers_of: HashMap<&str, usize> = HashMap::new();
    let mut points = Vec::new();
    for (point, &(x, y)) in map.points.iter().zip(places) {
        let mut number = |label| {
            *numbers_of.entry(label).or_insert_with(|| {
                labels.push(label);
                labels.len() - 1
            })
        };
        let (label, truth) = (number(point.label.as_str()), point.truth.as_deref().map(&mut number));
        points.push(json!([
            numbers::json(x, 1),
            numbers::json(y, 1),
            point.set,
            point.row,
            label,
            truth,
            numbers::json(point.probability, 3),
            numbers::json(point.log_epistemic, 2),
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
    fn points_keep_their_distances_and_stay_inside() {
        let points = vec![point(0.0, 0.0, 0.0), point(1.0, 0.0, 0.5), point(0.0, 1.0, 1.0)];
        let map = Map { explained: (0.5, 0.2), sets: vec!["test".to_owned()], points };
        let places = places(&map);
        let (right, up) = (places[1].0 - places[0].0, places[0].1 - places[2].1);
        assert!((right - up).abs() < 1e-9 && right > 0.0);
        assert!(places.iter().all(|p| p.1 > PLANE.y && p.1 < PLANE.y + PLANE.height));
        assert!(draw(&map).1["points"][0][7].is_null());
    }

    #[test]
    fn one_point_and_none_are_maps_too() {
        for points in [vec![], vec![point(3.0, 3.0, 0.2)]] {
            let map = Map { explained: (0.5, 0.2), sets: vec!["test".to_owned()], points };
            assert!(places(&map).iter().all(|p| p.0.is_finite() && p.1.is_finite()));
            draw(&map);
        }
    }
}
