//! One-dimensional mixture of three Gaussians with two classes, for the paper's appendix on actual uncertainties.
//!
//! The paper shows its mixture in a figure without parameters. This mixture has the same features: two overlapping classes, a gap
//! between 3 and 5, and a third component beyond the gap.

use crate::random::random_stream;

/// Mean and class of each component. All components have weight 1/3 and standard deviation 1.
pub const COMPONENTS: [(f64, usize); 3] = [(-1.0, 0), (1.0, 1), (7.0, 0)];

/// Draws `n` points and their classes.
#[must_use]
pub fn sample(n: usize, seed: u64) -> (Vec<f32>, Vec<usize>) {
    let mut rng = random_stream("mixture", seed, 0);
    let mut draw = || {
        let (mean, class) = COMPONENTS[rng.below(COMPONENTS.len())];
        ((mean + rng.normal()) as f32, class)
    };
    (0..n).map(|_| draw()).unzip()
}

/// The density of a class at `x`, multiplied by the class weight.
#[must_use]
pub fn density(x: f64, class: usize) -> f64 {
    let normal = |mean: f64| (-0.5 * (x - mean).powi(2)).exp() / (2.0 * std::f64::consts::PI).sqrt();
    COMPONENTS.iter().filter(|(_, of_class)| *of_class == class).map(|(mean, _)| normal(*mean)).sum::<f64>()
        / 3.0
}

/// η(x), the probability of class 1.
#[must_use]
pub fn eta(x: f64) -> f64 {
    let (zero, one) = (density(x, 0), density(x, 1));
    one / (zero + one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn density_and_eta_have_expected_values() {
        assert!((eta(0.0) - 0.5).abs() < 1e-9);
        // 4 has equal distance to 1 and 7; the component at −1 is negligible.
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
