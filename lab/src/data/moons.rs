//! Two Moons: points around two interleaved half circles, with Gaussian noise.

use std::f64::consts::PI;

use crate::random::random_stream;
use crate::{Images, LabError, Labeled};

/// Standard deviation of the noise in each coordinate.
pub const NOISE: f64 = 0.15;

/// Draws `n` points of alternating class. Each point is an image with one row and two columns.
///
/// # Errors
/// None in practice, because all draws are finite. The error type is that of [`Images::new`].
pub fn sample(n: usize, seed: u64) -> Result<Labeled, LabError> {
    let mut rng = random_stream("moons", seed, 0);
    let mut pixels = Vec::with_capacity(2 * n);
    for i in 0..n {
        let (x, y) = on_arc(i % 2, PI * rng.uniform());
        pixels.extend([x + NOISE * rng.normal(), y + NOISE * rng.normal()].map(|v| v as f32));
    }
    Labeled::new(Images::new(1, 1, 2, pixels)?, (0..n).map(|i| i % 2).collect(), 2)
}

/// Whether a point lies in the gap: its distances to both arcs are nearly equal and below three standard deviations.
#[must_use]
pub fn is_between(x: f64, y: f64) -> bool {
    let (upper, lower) = (distance(0, x, y), distance(1, x, y));
    (upper - lower).abs() < 0.05 && upper.max(lower) < 3.0 * NOISE
}

/// Whether a point lies within one standard deviation of one arc and more than three from the other.
#[must_use]
pub fn is_inside(x: f64, y: f64) -> bool {
    let (upper, lower) = (distance(0, x, y), distance(1, x, y));
    upper.min(lower) < NOISE && upper.max(lower) > 3.0 * NOISE
}

/// A point of the upper unit half circle (`moon` 0), or of the lower half circle with center (1, 1/2).
fn on_arc(moon: usize, angle: f64) -> (f64, f64) {
    if moon == 0 { (angle.cos(), angle.sin()) } else { (1.0 - angle.cos(), 0.5 - angle.sin()) }
}

fn distance(moon: usize, x: f64, y: f64) -> f64 {
    let to = |i: i32| {
        let (a, b) = on_arc(moon, PI * f64::from(i) / 100.0);
        (x - a).hypot(y - b)
    };
    (0..=100).map(to).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_around_their_arcs() {
        let moons = sample(1000, 3).unwrap();
        let mean: f64 = (0..1000)
            .map(|i| {
                let point = moons.images.image(i);
                distance(moons.labels[i], f64::from(point[0]), f64::from(point[1]))
            })
            .sum::<f64>()
            / 1000.0;
        // The mean of |N(0, σ)| is 0.8 σ, a little more at the ends.
        assert!((0.7 * NOISE..NOISE).contains(&mean), "{mean}");
        assert_eq!(moons, sample(1000, 3).unwrap());
        assert_ne!(moons, sample(1000, 4).unwrap());
    }

    #[test]
    fn gap_and_moon_regions_are_disjoint() {
        assert!(is_between(0.5, 0.25) && !is_inside(0.5, 0.25));
        assert!(is_inside(0.0, 1.0) && !is_between(0.0, 1.0));
    }
}
