//! Weighted means and variances of targets, without cancellation.
//!
//! The prior counts as one more neighbor of weight `w` whose target has the training mean and variance. So the terms of the sums are
//! the neighbors and the prior. Each target is replaced by its difference `δ_k` from the target of the term with the largest weight.
//! The difference of this term is exactly zero. `p_k` is the share of a term in the sum of weights, and `δ̄ = Σ_k p_k δ_k`. So
//! `σ² = Σ_k p_k (δ_k − δ̄)²` (to which the variance of the prior, times its share, is added) is accurate even if one
//! neighbor has all but `e^(−1000)` of the weight, and for targets such as 1e6 ± 1e-3.

use crate::Error;
use crate::log_space::log_sum;
use crate::sample_weights::SampleWeights;
use crate::weights::Weights;

/// The training targets by id, with the mean and variance of the targets of existing rows, weighted by sample weights.
#[derive(Debug)]
pub(super) struct Targets {
    values: Vec<f64>,
    prior_weight: f64,
    log_prior_weight: f64,
    mean: f64,
    log_variance: f64,
    /// The largest absolute deviation from the mean; 1 if all targets are equal.
    unit: f64,
}

/// Exclusive upper bound of absolute targets; their squares are finite.
const MAX_TARGET: f64 = 1e150;

impl Targets {
    pub(super) fn new(values: &[f64], prior_weight: f64) -> Result<Self, Error> {
        let all: Vec<u32> = (0..values.len() as u32).collect();
        Self::of_rows(values.to_vec(), &all, &SampleWeights::ones(all.len()), prior_weight)
    }

    /// Targets by id. `live` are the ids that name a row.
    pub(super) fn of_rows(
        values: Vec<f64>,
        live: &[u32],
        sample_weights: &SampleWeights,
        prior_weight: f64,
    ) -> Result<Self, Error> {
        if let Some(row) = values.iter().position(|y| y.is_nan() || y.abs() >= MAX_TARGET) {
            return Err(Error::BadTarget { row, value: values[row] });
        }
        let total = sample_weights.total();
        let weighted = || live.iter().map(|&id| (sample_weights.of(id), values[id as usize]));
        let used = || live.iter().map(|&id| values[id as usize]);
        let first = used().next().unwrap_or(0.0);
        let mean_offset = weighted().map(|(weight, y)| weight * (y - first) / total).sum::<f64>();
        // Squares are computed in units of the largest deviation. Otherwise squares of values near 1e-170 would
        // underflow.
        let deviation = |y: f64| y - first - mean_offset;
        let unit = used().map(|y| deviation(y).abs()).fold(0.0, f64::max);
        let unit = if unit > 0.0 { unit } else { 1.0 };
        let square = |(weight, y): (f64, f64)| weight * (deviation(y) / unit).powi(2) / total;
        let variance = weighted().map(square).sum::<f64>();
        Ok(Self {
            prior_weight,
            log_prior_weight: prior_weight.ln(),
            mean: first + mean_offset,
            log_variance: variance.ln() + 2.0 * unit.ln(),
            unit,
            values,
        })
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Takes the values out, to change them without a copy.
    pub(super) fn take_values(&mut self) -> Vec<f64> {
        std::mem::take(&mut self.values)
    }

    pub(super) fn prior_weight(&self) -> f64 {
        self.prior_weight
    }

    pub(super) fn value(&self, row: u32) -> f64 {
        self.values[row as usize]
    }

    pub(super) fn unit(&self) -> f64 {
        self.unit
    }

    /// `ŷ` and `ln σ²` from the ids and weights of a query's neighbors.
    pub(super) fn moments(&self, ids: &[u32], weights: &Weights) -> (f64, f64) {
        let top = weights.log_top.max(self.log_prior_weight);
        let (shift, log_prior_weight) = (weights.log_top - top, self.log_prior_weight - top);
        let relative = weights.log_relative.iter().map(|ratio| ratio + shift);
        let log_total = log_sum(relative.clone().chain([log_prior_weight]));
        let neighbors = ids.iter().map(|&id| self.value(id));
        let (mut largest, mut anchor) = (log_prior_weight, self.mean);
        for (ratio, y) in relative.clone().zip(neighbors.clone()) {
            if ratio > largest {
                (largest, anchor) = (ratio, y);
            }
        }
        let terms = || {
            let terms = relative.clone().zip(neighbors.clone()).chain([(log_prior_weight, self.mean)]);
            terms.map(|(log, y)| (log - log_total, y - anchor))
        };
        let offset: f64 = terms().map(|(log_share, delta)| log_share.exp() * delta).sum();
        let deviations = terms().map(|(log_share, delta)| log_share + 2.0 * (delta - offset).abs().ln());
        let prior_variance = log_prior_weight - log_total + self.log_variance;
        (anchor + offset, log_sum(deviations.chain([prior_variance])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_give_the_mean_and_variance_without_weights_at_any_distance() {
        let targets = Targets::new(&[1.0, 2.0, 6.0], 0.0).unwrap();
        let (mean, log_variance) = targets.moments(&[0, 1, 2], &Weights::of(&[-5e19; 3]));
        assert!((mean - 3.0).abs() < 1e-14);
        assert!((log_variance.exp() - 14.0 / 3.0).abs() < 1e-13);
    }

    #[test]
    fn mean_and_variance_with_a_prior_match_a_manual_calculation() {
        // Targets 0 and 2: mean 1, variance 1. One neighbor (target 2, weight 1) and prior weight w = 1: mean 3/2,
        // variance (1/4 + 1/4 + 1)/2.
        let targets = Targets::new(&[0.0, 2.0], 1.0).unwrap();
        let (mean, log_variance) = targets.moments(&[1], &Weights::of(&[0.0]));
        assert!((mean - 1.5).abs() < 1e-15);
        assert!((log_variance.exp() - 0.75).abs() < 1e-15);
    }

    #[test]
    fn the_variance_is_accurate_if_one_neighbor_dominates() {
        // Weights 1 and e^-900, targets 1e6 and 1e6 + 1e-3: the variance is e^-900 times 1e-6.
        let targets = Targets::new(&[1e6, 1e6 + 1e-3], 0.0).unwrap();
        let (mean, log_variance) = targets.moments(&[0, 1], &Weights::of(&[0.0, -900.0]));
        let gap: f64 = (1e6 + 1e-3) - 1e6;
        assert_eq!(mean, 1e6);
        assert!((log_variance - (-900.0 + 2.0 * gap.ln())).abs() < 1e-12);
    }

    #[test]
    fn constant_targets_have_no_variance() {
        let targets = Targets::new(&[0.1; 3], 1e-3).unwrap();
        assert_eq!(targets.moments(&[0, 1], &Weights::of(&[0.0, -1.0])), (0.1, f64::NEG_INFINITY));
    }

    #[test]
    fn targets_without_a_finite_square_are_errors() {
        for bad in [f64::NAN, f64::INFINITY, -1e200] {
            assert!(matches!(Targets::new(&[0.0, bad], 0.0), Err(Error::BadTarget { row: 1, .. })));
        }
    }
}
