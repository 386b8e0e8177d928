//! One-dimensional data for the paper's appendix on the reject option: normally distributed points whose probability of class 1 is a
//! smoothed step function.
//!
//! The paper describes a "smoothed step function" without parameters. These steps match its description of the four query points: no
//! label noise at 0.1, many points around 0.3 and 0.5, and few points with label noise at 0.95, next to a region of low noise.

use nuq_neighbors::SeededRng;

/// Mean of the points.
const MEAN: f64 = 0.5;
/// Standard deviation of the points (variance 0.04).
const DEVIATION: f64 = 0.2;
/// Position and height of each step of η, the probability of class 1.
const STEPS: [(f64, f64); 3] = [(0.2, 0.3), (0.5, 0.6), (0.85, -0.3)];
/// Width of the logistic smoothing.
const WIDTH: f64 = 0.015;

/// η(x), the probability of class 1.
#[must_use]
pub fn eta(x: f64) -> f64 {
    STEPS.iter().map(|(position, height)| height / (1.0 + (-(x - position) / WIDTH).exp())).sum()
}

/// Draws `n` points and their classes.
pub fn sample(n: usize, rng: &mut SeededRng) -> (Vec<f32>, Vec<usize>) {
    let mut draw = || {
        let x = MEAN + DEVIATION * rng.normal();
        (x as f32, usize::from(rng.uniform() < eta(x)))
    };
    (0..n).map(|_| draw()).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Density of the points.
    fn density(x: f64) -> f64 {
        (-0.5 * ((x - MEAN) / DEVIATION).powi(2)).exp() / (DEVIATION * (2.0 * std::f64::consts::PI).sqrt())
    }

    #[test]
    fn query_points_match_the_description_of_the_paper() {
        for (x, expected) in [(0.1, 0.0), (0.3, 0.3), (0.5, 0.6), (0.7, 0.9), (0.95, 0.6)] {
            assert!((eta(x) - expected).abs() < 2e-3, "{x}: {}", eta(x));
        }
        assert!(density(0.95) < 0.1 * density(0.5));
    }

    #[test]
    fn class_frequency_matches_eta() {
        let (points, classes) = sample(40_000, &mut SeededRng::new(5));
        let near: Vec<usize> = (0..points.len()).filter(|&i| (0.65..0.75).contains(&points[i])).collect();
        let ones = near.iter().map(|&i| classes[i]).sum::<usize>() as f64 / near.len() as f64;
        assert!((ones - 0.9).abs() < 0.02, "{ones}");
    }
}
