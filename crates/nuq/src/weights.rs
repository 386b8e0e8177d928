//! Kernel weights of a query's neighbors, in log space and relative to the largest.
//!
//! Far from the data every kernel value underflows (`e^(−10¹²)` and below), but the ratios of kernel values are
//! ordinary numbers. So `ln K(z_k)/K(0)` is stored as the largest value plus the difference of each value from it. For a
//! radial kernel with one bandwidth for all neighbors, this difference is computed from differences of squared distances,
//! to avoid cancellation.

use std::borrow::Cow;

use crate::{Bandwidth, Kernel};

/// `ln K(z_k)/K(0) = log_top + log_relative[k]`; the largest `log_relative` is 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Weights {
    pub(crate) log_top: f64,
    pub(crate) log_relative: Vec<f64>,
}

/// Upper clamp of `‖z‖²` that keeps logarithms finite.
const FARTHEST: f64 = 1e300;

impl Weights {
    /// The weights of a radial kernel with one bandwidth, from squared distances in ascending order.
    pub(crate) fn fill_uniform(&mut self, kernel: Kernel, sq_distances: &[f64], h: f64) {
        debug_assert!(sq_distances.is_sorted(), "neighbors are sorted by distance");
        let nearest = sq_distances.first().copied().unwrap_or(0.0);
        let sq_norm = |sq: f64| (sq / (h * h)).min(FARTHEST);
        self.log_top = kernel.log_ratio_at(sq_norm(nearest));
        let relative = |sq: &f64| kernel.log_gap(sq_norm(nearest), sq_norm(sq - nearest));
        self.log_relative.clear();
        self.log_relative.extend(sq_distances.iter().map(relative));
    }

    /// Weights from their logarithms.
    pub(crate) fn fill(&mut self, log_ratios: impl Iterator<Item = f64>) {
        self.fill_from(0.0, log_ratios);
    }

    /// Weights from their logarithms relative to `log_anchor`.
    fn fill_from(&mut self, log_anchor: f64, log_ratios: impl Iterator<Item = f64>) {
        self.log_relative.clear();
        self.log_relative.extend(log_ratios.map(|ratio| ratio.max(-FARTHEST)));
        let top = self.log_relative.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.log_relative.iter_mut().for_each(|ratio| *ratio -= top);
        self.log_top = log_anchor + top;
    }

    /// Multiplies each weight by a positive factor.
    pub(crate) fn multiply(&mut self, factors: impl Iterator<Item = f64>) {
        self.log_relative.iter_mut().zip(factors).for_each(|(ratio, factor)| *ratio += factor.ln());
        let top = self.log_relative.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if top.is_finite() {
            self.log_relative.iter_mut().for_each(|ratio| *ratio -= top);
            self.log_top += top;
        }
    }

    /// The weights of a Gaussian kernel with one bandwidth per neighbor, relative to the weight of the first neighbor:
    /// `−(s_k − s_0)/(2h_k²) − s_0 (h_k⁻² − h_0⁻²)/2` with squared distances `s_k`. There is no cancellation if
    /// bandwidths are equal.
    fn fill_gaussian(&mut self, sq_distances: &[f64], bandwidths: impl Iterator<Item = f64> + Clone) {
        let inverse_square = |h: f64| 1.0 / (h * h);
        let (nearest, own) = match (sq_distances.first(), bandwidths.clone().next()) {
            (Some(&sq), Some(h)) => (sq, inverse_square(h)),
            _ => (0.0, 1.0),
        };
        let relative = |(sq, h): (&f64, f64)| {
            let other = inverse_square(h);
            -0.5 * ((sq - nearest) * other).min(FARTHEST)
                - 0.5 * (nearest * (other - own)).clamp(-FARTHEST, FARTHEST)
        };
        let log_anchor = -0.5 * (nearest * own).min(FARTHEST);
        self.fill_from(log_anchor, sq_distances.iter().zip(bandwidths).map(relative));
    }

    /// Weights from their logarithms.
    #[cfg(test)]
    pub(crate) fn of(log_ratios: &[f64]) -> Self {
        let mut weights = Self::default();
        weights.fill(log_ratios.iter().copied());
        weights
    }

    /// `ln Σ_k K(z_k)/K(0)`.
    pub(crate) fn log_sum(&self) -> f64 {
        self.log_top + self.log_relative_sum()
    }

    /// Kish's effective sample size `(Σ_k w_k)² / Σ_k w_k²/s_k`. The weights `w_k` already include the sample weights `s_k` as factors. A
    /// neighbor of sample weight `s` counts as `s` equal rows.
    pub(crate) fn effective_sample_size(&self, sample_weights: impl Iterator<Item = f64>) -> f64 {
        let terms = self.log_relative.iter().zip(sample_weights);
        let (sum, squares) = terms.fold((0.0, 0.0), |(sum, squares), (ratio, sample_weight)| {
            let weight = ratio.exp();
            (sum + weight, squares + weight * weight / sample_weight)
        });
        sum * sum / squares
    }

    fn log_relative_sum(&self) -> f64 {
        self.log_relative.iter().map(|ratio| ratio.exp()).sum::<f64>().ln()
    }

    /// The log of the weighted mean of `e^(v_k)`.
    pub(crate) fn log_mean_exp(&self, values: impl Iterator<Item = f64> + Clone) -> f64 {
        let terms = self.log_relative.iter().zip(values).map(|(ratio, value)| ratio + value);
        crate::log_space::log_sum(terms) - self.log_relative_sum()
    }
}

/// Computes the weights of one query's neighbors. `bandwidth` applies to distances in the search space. `z` gives the coordinates of the
/// difference between the query and a neighbor in units of `h`; only product kernels use it.
pub(crate) fn weigh<Z: Iterator<Item = f64>>(
    kernel: Kernel,
    bandwidth: &Bandwidth,
    ids: &[u32],
    sq_distances: &[f64],
    z: impl Fn(u32, f64) -> Z,
    weights: &mut Weights,
) {
    let at = |id: u32| match bandwidth {
        Bandwidth::Scalar(h) => *h,
        // The search space is already scaled by these bandwidths.
        Bandwidth::PerDimension(_) => 1.0,
        Bandwidth::PerPoint(h) => h[id as usize],
    };
    if !kernel.is_radial() {
        weights.fill(ids.iter().map(|&id| kernel.log_ratio(z(id, at(id)))));
    } else if let (Bandwidth::PerPoint(_), Kernel::Gaussian) = (bandwidth, kernel) {
        weights.fill_gaussian(sq_distances, ids.iter().map(|&id| at(id)));
    } else if let Bandwidth::PerPoint(_) = bandwidth {
        let ratio = |(&id, sq): (&u32, &f64)| kernel.log_ratio_at((sq / at(id).powi(2)).min(FARTHEST));
        weights.fill(ids.iter().zip(sq_distances).map(ratio));
    } else {
        weights.fill_uniform(kernel, sq_distances, at(0));
    }
}

/// `z_j = (a_j − b_j) / (s_j h)`, with `s_j = 1` if `scale` is `None`.
pub(crate) fn scaled_differences<'r>(
    a: &'r [f32],
    b: Cow<'r, [f32]>,
    scale: Option<&'r [f64]>,
    h: f64,
) -> impl Iterator<Item = f64> + 'r {
    let inverse = 1.0 / h;
    let difference = move |j: usize| (f64::from(a[j]) - f64::from(b[j])) * inverse;
    (0..a.len()).map(move |j| scale.map_or(difference(j), |s| difference(j) / s[j]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_exact_a_million_bandwidths_away() {
        // Squared distances 1e12 and 1e12 + 1: weights differ by the factor e^(-1/2) for h = 1.
        let mut weights = Weights::default();
        weights.fill_uniform(Kernel::Gaussian, &[1e12, 1e12 + 1.0, 1e12 + 1.0], 1.0);
        assert_eq!((weights.log_top, weights.log_relative.as_slice()), (-5e11, &[0.0, -0.5, -0.5][..]));
        weights.fill_uniform(Kernel::Student, &[0.0, 2.0], 1.0);
        assert!((weights.log_relative[1] + 2f64.ln()).abs() < 1e-15);
        weights.fill_uniform(Kernel::Student, &[2.0, 6.0], 1.0);
        assert!((weights.log_relative[1] + 2f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn equal_bandwidths_per_point_give_the_weights_of_one_bandwidth() {
        let (ids, sq) = ([0, 1, 2], [1e12, 1e12 + 1.0, 1e12 + 3.0]);
        let z = |_: u32, _: f64| std::iter::empty();
        let [mut one, mut each] = [Weights::default(), Weights::default()];
        weigh(Kernel::Gaussian, &Bandwidth::Scalar(0.7), &ids, &sq, z, &mut one);
        weigh(Kernel::Gaussian, &Bandwidth::PerPoint(vec![0.7; 3]), &ids, &sq, z, &mut each);
        for (a, b) in one.log_relative.iter().zip(&each.log_relative) {
            assert!((a - b).abs() < 1e-14);
        }
    }

    #[test]
    fn weighted_means_do_not_depend_on_the_largest_weight() {
        for far in [0.0, -5e11] {
            let mut weights = Weights::default();
            weights.fill_from(far, [0.0, -1.0].into_iter());
            let want = ((2f64.ln().exp() + (-1f64).exp() * 3.0) / (1.0 + (-1f64).exp())).ln();
            let got = weights.log_mean_exp([2f64.ln(), 3f64.ln()].into_iter());
            assert!((got - want).abs() < 1e-15, "{far}");
        }
    }

    #[test]
    fn the_effective_sample_size_matches_a_manual_calculation() {
        let size = |log_ratios: &[f64]| Weights::of(log_ratios).effective_sample_size([1.0; 7].into_iter());
        assert!((size(&[-5e19; 7]) - 7.0).abs() < 1e-12);
        assert!((size(&[0.0, -900.0]) - 1.0).abs() < 1e-12);
        // Weights 1 and 1/2: (3/2)² / (5/4).
        assert!((size(&[0.0, 0.5f64.ln()]) - 1.8).abs() < 1e-15);
    }

    #[test]
    fn a_sample_weight_counts_as_equal_rows() {
        let mut weights = Weights::of(&[-0.3, -2.0]);
        weights.multiply([1.0, 3.0].into_iter());
        let repeated = Weights::of(&[-0.3, -2.0, -2.0, -2.0]);
        assert!((weights.log_sum() - repeated.log_sum()).abs() < 1e-15);
        let size = weights.effective_sample_size([1.0, 3.0].into_iter());
        assert!((size - repeated.effective_sample_size([1.0; 4].into_iter())).abs() < 1e-14);
        weights.multiply([1e-100, 1e100].into_iter());
        assert_eq!(weights.log_relative[1], 0.0);
    }

    #[test]
    fn logs_are_finite_at_extreme_distances() {
        let mut weights = Weights::default();
        weights.fill_uniform(Kernel::Gaussian, &[1e300, 1e301], 1e-10);
        assert!(weights.log_top.is_finite() && weights.log_relative.iter().all(|r| r.is_finite()));
        weights.fill([f64::NEG_INFINITY, f64::NEG_INFINITY].into_iter());
        assert!(weights.log_sum().is_finite());
    }
}
