//! The Two Moons data: two interleaved half circles with noise, and regions of the plane relative to them.

use std::f64::consts::PI;

use nuq::Embeddings;
use nuq_neighbors::SeededRng;
use nuq_report::Extent;

/// The part of the plane that the demo maps.
pub(super) const EXTENT: Extent = Extent { x: (-2.0, 3.0), y: (-1.75, 2.25) };
/// The standard deviation of the points around their arc.
const NOISE: f64 = 0.15;

/// The position of a point relative to the moons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Region {
    /// On one of the moons.
    Inside,
    /// At about the same distance from both moons.
    Between,
    /// Far from both moons.
    Far,
}

/// Draws `n` points and their labels, 0 or 1 alternating.
pub(super) fn sample(n: usize, seed: u64) -> (Embeddings<'static>, Vec<i64>) {
    let mut rng = SeededRng::new(seed);
    let (mut values, mut labels) = (Vec::with_capacity(2 * n), Vec::with_capacity(n));
    for i in 0..n {
        let moon = i % 2;
        let (x, y) = on_arc(moon, PI * rng.uniform());
        values.extend([(x + NOISE * rng.normal()) as f32, (y + NOISE * rng.normal()) as f32]);
        labels.push(moon as i64);
    }
    (Embeddings::new(values, 2).expect("normal draws are finite"), labels)
}

/// The point at `angle` of the arc of a moon: the upper half of the unit circle, or its lower half moved by (1, ½).
fn on_arc(moon: usize, angle: f64) -> (f64, f64) {
    if moon == 0 { (angle.cos(), angle.sin()) } else { (1.0 - angle.cos(), 0.5 - angle.sin()) }
}

fn distance_to_arc(moon: usize, x: f64, y: f64) -> f64 {
    let to = |i: i32| {
        let (a, b) = on_arc(moon, PI * f64::from(i) / 100.0);
        (x - a).hypot(y - b)
    };
    (0..=100).map(to).fold(f64::INFINITY, f64::min)
}

/// The region of a point; `None` if the point is not clearly in one of them.
pub(super) fn region(x: f64, y: f64) -> Option<Region> {
    let (a, b) = (distance_to_arc(0, x, y), distance_to_arc(1, x, y));
    let (near, other) = (a.min(b), a.max(b));
    if near < NOISE && other > 3.0 * NOISE {
        Some(Region::Inside)
    } else if other - near < 0.05 && other < 0.45 {
        Some(Region::Between)
    } else if near > 1.0 {
        Some(Region::Far)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_assigned_to_regions() {
        assert_eq!(region(0.0, 1.0), Some(Region::Inside));
        assert_eq!(region(0.5, 0.25), Some(Region::Between));
        assert_eq!(region(2.9, 2.2), Some(Region::Far));
        assert_eq!(region(0.0, 1.4), None);
    }
}
