//! Selective prediction: the errors that remain when the most uncertain predictions are rejected.
//!
//! With rows in ascending order of uncertainty and `E_k` errors among the first `k` of `n`:
//!
//! - Risk-coverage curve: `E_k / k` against `k / n`. RCC-AUC: `(1/n) Σ_k E_k / k`; lower is better.
//! - Prediction-rejection ratio (Malinin et al. 2020): `(A_r − A) / (A_r − A_o)` with `A = (1/n) Σ_k E_k / n`. `A_r`
//!   and `A_o` are the values of `A` for a random order and for the optimal order. A ratio of 1 is optimal, 0 is
//!   random.
//! - SCOD risk (selective classification with out-of-distribution data, Xia and Bouganis 2022): the share of errors and
//!   outliers among the accepted rows of a mixture of inliers and outliers.

use super::ranked::Ranked;
use crate::Error;
use crate::error::length_mismatch;

/// Uncertainties and errors of the same rows, sorted once.
///
/// ```
/// use nuq_eval::metrics::Selective;
/// // The only error has the second largest uncertainty.
/// let selective = Selective::new(&[0.1, 0.2, 0.8, 0.9], &[false, false, true, false])?;
/// assert!((selective.rcc_auc() - (1.0 / 3.0 + 1.0 / 4.0) / 4.0).abs() < 1e-15);
/// assert_eq!(selective.risk_at(0.5), 0.0);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Selective {
    ranked: Ranked,
    is_error: Vec<bool>,
}

impl Selective {
    /// Sorts the rows.
    ///
    /// # Errors
    /// No rows, unequal lengths, or NaN.
    pub fn new(uncertainty: &[f64], is_error: &[bool]) -> Result<Self, Error> {
        let ranked = Ranked::new(uncertainty, "uncertainties")?;
        if is_error.len() != uncertainty.len() {
            return Err(length_mismatch("errors", is_error.len(), "uncertainties", uncertainty.len()));
        }
        Ok(Self { ranked, is_error: is_error.to_vec() })
    }

    /// The number of rows, which is the only stratum of [`Resampling::draws`](super::Resampling::draws).
    #[must_use]
    pub fn strata(&self) -> [usize; 1] {
        [self.ranked.len()]
    }

    /// The error rate of all rows.
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        self.is_error.iter().filter(|error| **error).count() as f64 / self.ranked.len() as f64
    }

    /// The error rate of the `k` rows with the lowest uncertainty, for each `k` from 1 to the number of rows.
    #[must_use]
    pub fn curve(&self) -> Vec<f64> {
        let mut curve = Vec::with_capacity(self.ranked.len());
        self.each(&|_| 1, |accepted, errors| curve.push(errors / accepted));
        curve
    }

    /// The mean of the curve; lower is better.
    #[must_use]
    pub fn rcc_auc(&self) -> f64 {
        self.rcc_auc_of(&|_| 1)
    }

    pub(crate) fn rcc_auc_of(&self, count: &impl Fn(u32) -> u32) -> f64 {
        let (mut sum, mut rows) = (0.0, 0.0);
        self.each(count, |accepted, errors| {
            sum += errors / accepted;
            rows = accepted;
        });
        sum / rows
    }

    /// The error rate of the accepted rows. These are the rows with the lowest uncertainty; their share of all rows is `coverage`. At least
    /// one row is accepted.
    #[must_use]
    pub fn risk_at(&self, coverage: f64) -> f64 {
        let curve = self.curve();
        let accepted = (coverage * curve.len() as f64).round().clamp(1.0, curve.len() as f64);
        // A coverage of NaN accepts one row.
        curve[(accepted as usize).max(1) - 1]
    }

    /// The improvement over a random order, divided by the improvement of the optimal order: 1 is optimal, 0 is random.
    /// `None` if all rows are errors or none is, because all orders are then equal.
    #[must_use]
    pub fn prediction_rejection_ratio(&self) -> Option<f64> {
        let rows = self.ranked.len() as f64;
        let errors = self.is_error.iter().filter(|error| **error).count() as f64;
        if errors == 0.0 || errors == rows {
            return None;
        }
        let mut area = 0.0;
        self.each(&|_| 1, |_, errors| area += errors);
        let random = errors * (rows + 1.0) / 2.0;
        let best = errors * (errors + 1.0) / 2.0;
        Some((random - area) / (random - best))
    }

    /// The curve of the optimal order, which has all errors last.
    #[must_use]
    pub fn best_curve(&self) -> Vec<f64> {
        let rows = self.ranked.len();
        let correct = rows - self.is_error.iter().filter(|error| **error).count();
        (1..=rows).map(|accepted| accepted.saturating_sub(correct) as f64 / accepted as f64).collect()
    }

    /// Calls `visit` with the number of accepted rows and the expected number of errors among them, for each number of accepted
    /// rows. Row `i` is repeated `count(i)` times. Errors are distributed evenly over rows of equal uncertainty.
    fn each(&self, count: &impl Fn(u32) -> u32, mut visit: impl FnMut(f64, f64)) {
        let (mut accepted, mut errors) = (0.0, 0.0);
        for rows in self.ranked.groups() {
            let (mut size, mut wrong) = (0, 0);
            for &row in rows {
                let times = count(row);
                size += times;
                wrong += times * u32::from(self.is_error[row as usize]);
            }
            let share = f64::from(wrong) / f64::from(size.max(1));
            for j in 1..=size {
                visit(accepted + f64::from(j), errors + share * f64::from(j));
            }
            accepted += f64::from(size);
            errors += f64::from(wrong);
        }
    }
}

/// The area under the risk-coverage curve; lower is better.
///
/// ```
/// // Equal uncertainties: the error rate is the same at each coverage.
/// assert_eq!(nuq_eval::metrics::rcc_auc(&[1.0; 4], &[true, false, false, false])?, 0.25);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// No rows, unequal lengths, or NaN.
pub fn rcc_auc(uncertainty: &[f64], is_error: &[bool]) -> Result<f64, Error> {
    Ok(Selective::new(uncertainty, is_error)?.rcc_auc())
}

/// The improvement over a random order, divided by the improvement of the optimal order; `None` if all orders are
/// equal.
///
/// # Errors
/// No rows, unequal lengths, or NaN.
pub fn prediction_rejection_ratio(uncertainty: &[f64], is_error: &[bool]) -> Result<Option<f64>, Error> {
    Ok(Selective::new(uncertainty, is_error)?.prediction_rejection_ratio())
}

/// The share of errors and outliers among the accepted rows. These are the rows with the lowest uncertainty; their share of all inliers
/// and outliers is `coverage`.
///
/// # Errors
/// No rows, unequal lengths, NaN, or `coverage` outside (0, 1].
pub fn scod_risk(inliers: &[f64], is_error: &[bool], outliers: &[f64], coverage: f64) -> Result<f64, Error> {
    if !(coverage > 0.0 && coverage <= 1.0) {
        return Err(crate::error::out_of_range("coverage", coverage, "it must lie in (0, 1]"));
    }
    let wrong = [is_error, &vec![true; outliers.len()]].concat();
    Ok(Selective::new(&[inliers, outliers].concat(), &wrong)?.risk_at(coverage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_with_ties_equals_hand_computed_values() {
        // The second and third rows have equal uncertainties, and one of them is wrong. So half an error is expected
        // after the second row.
        let selective = Selective::new(&[0.0, 1.0, 1.0, 2.0], &[false, true, false, true]).unwrap();
        assert_eq!(selective.curve(), [0.0, 0.25, 1.0 / 3.0, 0.5]);
        assert_eq!(selective.best_curve(), [0.0, 0.0, 1.0 / 3.0, 0.5]);
        assert_eq!(selective.risk_at(1.0), selective.error_rate());
        // n² A = 0 + 0.5 + 1 + 2 = 3.5; random order 5, optimal order 3.
        assert_eq!(selective.prediction_rejection_ratio(), Some(0.75));
    }

    #[test]
    fn the_area_with_row_counts_equals_that_of_repeated_rows() {
        let (uncertainty, wrong) = ([0.0, 1.0, 1.0, 2.0], [false, true, false, true]);
        let counts = [3u32, 1, 2, 0];
        let repeated =
            Selective::new(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0], &[false, false, false, true, false, false]);
        let weighted = Selective::new(&uncertainty, &wrong).unwrap().rcc_auc_of(&|row| counts[row as usize]);
        assert!((weighted - repeated.unwrap().rcc_auc()).abs() < 1e-15);
    }

    #[test]
    fn the_rejection_ratio_is_undefined_without_errors_and_unequal_lengths_are_rejected() {
        assert_eq!(prediction_rejection_ratio(&[1.0, 2.0], &[false, false]).unwrap(), None);
        let error = rcc_auc(&[1.0, 2.0], &[false]).unwrap_err();
        assert_eq!(error, length_mismatch("errors", 1, "uncertainties", 2));
    }

    #[test]
    fn accepted_outliers_count_as_errors() {
        assert_eq!(scod_risk(&[0.0, 1.0], &[false, true], &[0.5, 9.0], 0.5).unwrap(), 0.5);
        assert_eq!(scod_risk(&[0.0, 1.0], &[false, true], &[0.5, 9.0], 1.0).unwrap(), 0.75);
    }
}
