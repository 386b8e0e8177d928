//! Weighted means and variances of targets, without cancellation.
//!
//! The prior counts as one more neighbor of weight $w$ whose target has the training mean and variance. All
//! targets are taken relative to that of the heaviest term, whose own difference is then exactly zero: so that
//! $\sigma^2 = \sum_k p_k (\delta_k - \bar\delta)^2$ keeps its digits even where one neighbor carries all but
//! $e^{-1000}$ of the weight, and at targets of 1e6 ± 1e-3.

use crate::Error;
use crate::log_space::log_sum;
use crate::weights::Weights;

/// The training targets and what they are on average.
#[derive(Debug)]
pub(super) struct Targets {
    values: Vec<f64>,
    weight: f64,
    log_weight: f64,
    mean: f64,
    log_variance: f64,
    /// The largest deviation from the mean, or 1 without any.
    unit: f64,
}

const LARGEST: f64 = 1e150;

impl Targets {
    pub(super) fn new(values: &[f64], prior_weight: f64) -> Result<Self, Error> {
        let all: Vec<u32> = (0..values.len() as u32).collect();
        Self::of_rows(values.to_vec(), &all, prior_weight)
    }

    /// Of values by id, of which those of `live` name a row.
    pub(super) fn of_rows(values: Vec<f64>, live: &[u32], prior_weight: f64) -> Result<Self, Error> {
        if let Some(row) = values.iter().position(|y| y.is_nan() || y.abs() >= LARGEST) {
            return Err(Error::BadTarget { row, value: values[row] });
        }
        let n = live.len() as f64;
        let used = || live.iter().map(|&id| values[id as usize]);
        let first = used().next().unwrap_or(0.0);
        let mean_offset = used().map(|y| (y - first) / n).sum::<f64>();
        // Squares are taken in units of the largest deviation: those of 1e-170 would vanish.
        let deviation = |y: f64| y - first - mean_offset;
        let unit = used().map(|y| deviation(y).abs()).fold(0.0, f64::max);
        let unit = if unit > 0.0 { unit } else { 1.0 };
        let variance = used().map(|y| (deviation(y) / unit).powi(2) / n).sum::<f64>();
        Ok(Self {
            weight: prior_weight,
            log_weight: prior_weight.ln(),
            mean: first + mean_offset,
            log_variance: variance.ln() + 2.0 * unit.ln(),
            unit,
            values,
        })
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    pub(super) fn prior_weight(&self) -> f64 {
        self.weight
    }

    pub(super) fn value(&self, row: u32) -> f64 {
        self.values[row as usize]
    }

    pub(super) fn unit(&self) -> f64 {
        self.unit
    }

    /// $\hat y$ and $\ln \sigma^2$ from the ids and weights of a query's neighbors.
    pub(super) fn moments(&self, ids: &[u32], weights: &Weights) -> (f64, f64) {
        let top = weights.log_top.max(self.log_weight);
        let (shift, log_weight) = (weights.log_top - top, self.log_weight - top);
        let relative = weights.log_relative.iter().map(|ratio| ratio + shift);
        let log_total = log_sum(relative.clone().chain([log_weight]));
        let neighbors = ids.iter().map(|&id| self.value(id));
        let (mut heaviest, mut anchor) = (log_weight, self.mean);
        for (ratio, y) in relative.clone().zip(neighbors.clone()) {
            if ratio > heaviest {
                (heaviest, anchor) = (ratio, y);
            }
        }
        let terms = || {
            let terms = relative.clone().zip(neighbors.clone()).chain([(log_weight, self.mean)]);
            terms.map(|(log, y)| (log - log_total, y - anchor))
        };
        let offset: f64 = terms().map(|(log_share, delta)| log_share.exp() * delta).sum();
        let deviations = terms().map(|(log_share, delta)| log_share + 2.0 * (delta - offset).abs().ln());
        let own_variance = log_weight - log_total + self.log_variance;
        (anchor + offset, log_sum(deviations.chain([own_variance])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_a_million_bandwidths_away_are_ties() {
        let targets = Targets::new(&[1.0, 2.0, 6.0], 0.0).unwrap();
        let (mean, log_variance) = targets.moments(&[0, 1, 2], &Weights::of(&[-5e19; 3]));
        assert!((mean - 3.0).abs() < 1e-14);
        assert!((log_variance.exp() - 14.0 / 3.0).abs() < 1e-13);
    }

    #[test]
    fn by_hand_with_a_prior() {
        // Targets 0 and 2: mean 1, variance 1. One neighbor (target 2, ratio 1) and w = 1: mean 3/2,
        // variance (1/4 + 1/4 + 1)/2.
        let targets = Targets::new(&[0.0, 2.0], 1.0).unwrap();
        let (mean, log_variance) = targets.moments(&[1], &Weights::of(&[0.0]));
        assert!((mean - 1.5).abs() < 1e-15);
        assert!((log_variance.exp() - 0.75).abs() < 1e-15);
    }

    #[test]
    fn a_dominating_neighbor_does_not_cancel_the_variance() {
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
    fn targets_that_cannot_be_squared_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, -1e200] {
            assert!(matches!(Targets::new(&[0.0, bad], 0.0), Err(Error::BadTarget { row: 1, .. })));
        }
    }
}
