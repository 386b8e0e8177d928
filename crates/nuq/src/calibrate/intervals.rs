//! Prediction intervals of a regressor with a coverage guarantee: split conformal prediction.
//!
//! ```text
//! ŷ ± q √(σ² + τ²)
//! ```
//!
//! `ŷ` is the estimated mean, `σ²` its aleatoric variance and `τ²` its epistemic variance.
//! `q` is the k-th smallest of `|y − ŷ| / √(σ² + τ²)` over `n` held-out rows, `k = ⌈(n+1) coverage⌉`. The interval of a
//! new row of the same distribution contains its target with a probability of at least `coverage`, whether or not the
//! variances are correct. The interval is wider where targets vary more and where there are few training rows.

use std::fmt;

use super::rank::{coverage_interval, percent};
use super::sets::limit;
use super::training_rows::{kind_of_rows, write_sentence};
use super::{check_scores, check_share};
use crate::error::check_lengths;
use crate::{Error, Estimate};

/// A rule for prediction intervals, chosen on held-out rows. It is separate from the fitted model: changing it needs no refit.
///
/// ```
/// use nuq::calibrate::IntervalRule;
/// use nuq::{Embeddings, NuqRegressor};
///
/// let x = Embeddings::from_rows(&[[0.0], [1.0], [2.0], [3.0]])?;
/// let model = NuqRegressor::params().n_neighbors(2).bandwidth(1.0).fit(&x, &[0.0, 1.0, 2.0, 3.0])?;
/// let held_out = Embeddings::from_rows(&[[0.5], [1.5], [2.5]])?;
/// let rule = IntervalRule::calibrate(0.7, &model.predict(&held_out)?, &[0.4, 1.7, 2.5])?;
/// let estimates = model.predict(&Embeddings::from_rows(&[[1.2], [40.0]])?)?;
/// let width = |i: usize| rule.interval(&estimates[i]).1 - rule.interval(&estimates[i]).0;
/// assert!(width(1) > 1e3 * width(0)); // no training row is near 40
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalRule {
    /// The probability that an interval contains the target.
    pub coverage: f64,
    /// `q`, the half-width in standard deviations.
    pub factor: f64,
    /// The number of rows on which the rule was chosen.
    pub rows: usize,
    /// The number of training rows among [`rows`](Self::rows); 0 for held-out rows.
    pub training_rows: usize,
}

impl IntervalRule {
    /// Chooses the factor on the estimates and targets of held-out rows.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::NoRows`], [`Error::OutOfRange`] for a coverage outside (0, 1),
    /// [`Error::NanScore`] for a target that is NaN, [`Error::BadTarget`] for an infinite target, [`Error::FewHeldOutRows`] if
    /// there are too few rows for the coverage.
    pub fn calibrate(coverage: f64, estimates: &[Estimate], targets: &[f64]) -> Result<Self, Error> {
        check_share("intervals", coverage)?;
        check_lengths(("targets", targets.len()), ("held-out rows", estimates.len()))?;
        check_scores(targets, "held-out targets")?;
        if let Some(row) = targets.iter().position(|target| target.is_infinite()) {
            return Err(Error::BadTarget { row, value: targets[row] });
        }
        let score = |(estimate, &target): (&Estimate, &f64)| {
            let residual = (target - estimate.mean).abs();
            // An exact estimate has the score 0, even if its variance is 0.
            if residual == 0.0 { 0.0 } else { (residual.ln() - 0.5 * estimate.log_total).exp() }
        };
        let mut scores: Vec<f64> = estimates.iter().zip(targets).map(score).collect();
        let factor = limit(&mut scores, coverage)?;
        Ok(Self { coverage, factor, rows: targets.len(), training_rows: 0 })
    }

    /// Records that `training_rows` of the rows were training rows. The factor does not change. The text that
    /// [`Display`](fmt::Display) writes mentions these rows.
    #[must_use]
    pub fn on_training_rows(self, training_rows: usize) -> Self {
        Self { training_rows, ..self }
    }

    /// The ends of the interval. They are infinite if the half-width exceeds the range of `f64`.
    #[must_use]
    pub fn interval(&self, estimate: &Estimate) -> (f64, f64) {
        let half = match self.factor {
            0.0 => 0.0,
            // The interval is infinite even if the variance is 0. The product of factor and standard deviation would be
            // NaN.
            f64::INFINITY => f64::INFINITY,
            factor => (factor.ln() + 0.5 * estimate.log_total).exp(),
        };
        (estimate.mean - half, estimate.mean + half)
    }
}

/// Writes the guarantee in words.
impl fmt::Display for IntervalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = kind_of_rows(self.training_rows, self.rows);
        write_sentence(f, self.training_rows, self.rows)?;
        if self.factor == f64::INFINITY {
            return write!(
                f,
                "Every interval is infinite: too many of the {} {kind} have an estimate without variance that is wrong, and no finite \
                 interval contains {} of the targets.",
                self.rows,
                percent(self.coverage)
            );
        }
        let (low, high) = coverage_interval(self.rows, self.coverage);
        write!(
            f,
            "The interval of a new row of the same distribution as the {} {kind} contains its target with a probability of at least \
             {}. With 95 % confidence, {} to {} of such intervals contain the target of their row (more if several calibration scores \
             are equal).",
            self.rows,
            percent(self.coverage),
            percent(low),
            percent(high)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, variance: f64) -> Estimate {
        let log = variance.ln();
        Estimate {
            mean,
            log_aleatoric: log,
            log_epistemic: f64::NEG_INFINITY,
            log_total: log,
            log_density: 0.0,
        }
    }

    #[test]
    fn the_factor_is_a_quantile_of_standardized_residuals() {
        let estimates: Vec<Estimate> = (0..9).map(|_| estimate(1.0, 4.0)).collect();
        let targets: Vec<f64> = (0..9).map(|i| 1.0 + 2.0 * f64::from(i)).collect();
        // Scores 0, 1, …, 8; the rank is ⌈10 · 0.8⌉ = 8.
        let rule = IntervalRule::calibrate(0.8, &estimates, &targets).unwrap();
        assert!((rule.factor - 7.0).abs() < 1e-12);
        let (low, high) = rule.interval(&estimate(10.0, 9.0));
        assert!((low + 11.0).abs() < 1e-10 && (high - 31.0).abs() < 1e-10);
    }

    #[test]
    fn estimates_without_variance_have_intervals() {
        let exact: Vec<Estimate> = (0..9).map(|_| estimate(1.0, 0.0)).collect();
        let rule = IntervalRule::calibrate(0.8, &exact, &[1.0; 9]).unwrap();
        assert_eq!(rule.interval(&exact[0]), (1.0, 1.0));
        let rule = IntervalRule::calibrate(0.8, &exact, &[2.0; 9]).unwrap();
        assert_eq!(rule.factor, f64::INFINITY);
        assert_eq!(rule.interval(&exact[0]), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(rule.to_string().starts_with("Every interval is infinite"), "{rule}");
    }

    #[test]
    fn the_text_of_an_infinite_factor_is_true_if_only_some_estimates_have_no_variance() {
        // The rank is ⌈10 · 0.8⌉ = 8 of 9, so two infinite scores give an infinite factor.
        let mut estimates = [estimate(1.0, 1.0); 9];
        estimates[..2].fill(estimate(1.0, 0.0));
        let rule = IntervalRule::calibrate(0.8, &estimates, &[2.0; 9]).unwrap();
        assert_eq!(
            rule.to_string(),
            "Every interval is infinite: too many of the 9 held-out rows have an estimate without variance that is wrong, and no \
             finite interval contains 80 % of the targets."
        );
    }

    #[test]
    fn the_text_states_that_the_upper_limit_does_not_hold_for_equal_scores() {
        // All intervals of exact estimates contain the target. The upper limit in the text is lower than 100 %.
        let exact = [estimate(1.0, 0.0); 9];
        let rule = IntervalRule::calibrate(0.9, &exact, &[1.0; 9]).unwrap();
        assert!(exact.iter().all(|exact| rule.interval(exact) == (1.0, 1.0)));
        let end = "of such intervals contain the target of their row (more if several calibration scores are equal).";
        assert!(rule.to_string().ends_with(end), "{rule}");
    }

    #[test]
    fn infinite_targets_are_errors() {
        for value in [f64::INFINITY, f64::NEG_INFINITY] {
            let mut targets = [0.0; 9];
            targets[4] = value;
            let error = IntervalRule::calibrate(0.9, &[estimate(0.0, 1.0); 9], &targets).unwrap_err();
            assert_eq!(error, Error::BadTarget { row: 4, value });
        }
    }

    #[test]
    fn too_few_held_out_rows_are_an_error_with_the_number_needed() {
        let error = IntervalRule::calibrate(0.9, &[estimate(0.0, 1.0); 8], &[0.0; 8]).unwrap_err();
        assert_eq!(error, Error::FewHeldOutRows { rows: 8, coverage: 0.9, needed: Some(9) });
        assert!(error.to_string().contains("at least 9 held-out rows"), "{error}");
        assert!(IntervalRule::calibrate(0.9, &[estimate(0.0, 1.0); 9], &[0.0; 9]).is_ok());
        assert!(IntervalRule::calibrate(0.5, &[estimate(0.0, 1.0); 2], &[0.0, f64::NAN]).is_err());
        assert!(IntervalRule::calibrate(1.0, &[estimate(0.0, 1.0)], &[0.0]).is_err());
    }
}
