//! The toy of the paper's appendix on rejection: points around 0.5 on a line, and a chance of class 1 that goes in steps.
//!
//! The paper says "smoothed step function" and prints no numbers. These steps have what its text says of the four points: no noise
//! at 0.1, mass around 0.3 and 0.5, and few points but noise at 0.95, behind a region that looks sure.

use nuq_neighbors::SeededRng;

/// Points are normal with this mean and the standard deviation below: a variance of 0.04.
const MEAN: f64 = 0.5;
const DEVIATION: f64 = 0.2;
/// Where $\eta$ changes, and by how much.
const STEPS: [(f64, f64); 3] = [(0.2, 0.3), (0.5, 0.6), (0.85, -0.3)];
/// How wide a step is.
const WIDTH: f64 = 0.015;

/// $\eta(x)$, the probability of class 1.
pub fn eta(x: f64) -> f64 {
    STEPS.iter().map(|(at, by)| by / (1.0 + (-(x - at) / WIDTH).exp())).sum()
}

/// `n` points with their classes.
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

    /// The density of points.
    fn density(x: f64) -> f64 {
        (-0.5 * ((x - MEAN) / DEVIATION).powi(2)).exp() / (DEVIATION * (2.0 * std::f64::consts::PI).sqrt())
    }

    #[test]
    fn the_points_that_are_looked_at_are_as_the_paper_says() {
        for (x, expected) in [(0.1, 0.0), (0.3, 0.3), (0.5, 0.6), (0.7, 0.9), (0.95, 0.6)] {
            assert!((eta(x) - expected).abs() < 2e-3, "{x}: {}", eta(x));
        }
        assert!(density(0.95) < 0.1 * density(0.5));
    }

    #[test]
    fn classes_are_drawn_by_their_chance() {
        let (points, classes) = sample(40_000, &mut SeededRng::new(5));
        let near: Vec<usize> = (0..points.len()).filter(|&i| (0.65..0.75).contains(&points[i])).collect();
        let ones = near.iter().map(|&i| classes[i]).sum::<usize>() as f64 / near.len() as f64;
        assert!((ones - 0.9).abs() < 0.02, "{ones}");
    }
}
