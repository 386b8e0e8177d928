//! The toy of the paper's appendix on actual uncertainties: three Gaussians on a line, two classes.
//!
//! The paper shows its mixture in a figure and prints no numbers. This one has what the figure shows: two classes that overlap, and
//! a gap between 3 and 5 with a third bump behind it.

use crate::stream::stream;

/// Mean and class of the components; each has weight ⅓ and standard deviation 1.
pub const COMPONENTS: [(f64, usize); 3] = [(-1.0, 0), (1.0, 1), (7.0, 0)];

/// `n` points with their classes.
pub fn sample(n: usize, seed: u64) -> (Vec<f32>, Vec<usize>) {
    let mut rng = stream("mixture", seed, 0);
    let mut draw = || {
        let (mean, class) = COMPONENTS[rng.below(COMPONENTS.len())];
        ((mean + rng.normal()) as f32, class)
    };
    (0..n).map(|_| draw()).unzip()
}

/// The density of a class at `x`, its weight included.
pub fn density(x: f64, class: usize) -> f64 {
    let of = |mean: f64| (-0.5 * (x - mean).powi(2)).exp() / (2.0 * std::f64::consts::PI).sqrt();
    COMPONENTS.iter().filter(|(_, of_class)| *of_class == class).map(|(mean, _)| of(*mean)).sum::<f64>() / 3.0
}

/// $\eta(x)$, the probability of class 1.
pub fn eta(x: f64) -> f64 {
    let (zero, one) = (density(x, 0), density(x, 1));
    one / (zero + one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_by_hand() {
        assert!((eta(0.0) - 0.5).abs() < 1e-9);
        // As far from 1 as from 7; the component at −1 hardly counts.
        assert!((eta(4.0) - 0.5).abs() < 1e-3);
        assert!(eta(7.0) < 1e-6 && eta(2.0) > 0.98);
        let total: f64 =
            (-800..1500).map(|i| f64::from(i) / 100.0).map(|x| density(x, 0) + density(x, 1)).sum();
        assert!((total / 100.0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn samples_follow_the_mixture() {
        let (points, classes) = sample(30_000, 1);
        let ones = classes.iter().sum::<usize>() as f64 / 30_000.0;
        assert!((ones - 1.0 / 3.0).abs() < 0.015, "{ones}");
        let mean = points.iter().map(|&x| f64::from(x)).sum::<f64>() / 30_000.0;
        assert!((mean - 7.0 / 3.0).abs() < 0.1, "{mean}");
    }
}
