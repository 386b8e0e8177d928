//! Knowing one's own errors: what is left of them when the least certain predictions are withheld.
//!
//! With rows sorted from the most certain to the least and $E_k$ errors among the first $k$ of $n$:
//!
//! - The risk-coverage curve is $E_k / k$ against $k / n$; RCC-AUC $= \frac1n \sum_k E_k / k$, lower is better.
//! - The prediction-rejection ratio (Malinin et al. 2020) $= (A_r - A) / (A_r - A_o)$ with $A = \frac1n \sum_k E_k / n$, and
//!   $A_r$, $A_o$ the same for a random order and for the order that knows the errors: 1 is best, 0 no better than chance.
//! - SCOD risk (Xia and Bouganis 2022): the share of errors and outliers among what is accepted of a mixture of both.

use super::ranked::Ranked;
use crate::Error;
use crate::error::length_mismatch;

/// Uncertainties and errors of the same rows, sorted once.
///
/// ```
/// use nuq_eval::metrics::Selective;
/// // The one error is the least certain but one.
/// let found = Selective::new(&[0.1, 0.2, 0.8, 0.9], &[false, false, true, false])?;
/// assert!((found.rcc_auc() - (1.0 / 3.0 + 1.0 / 4.0) / 4.0).abs() < 1e-15);
/// assert_eq!(found.risk_at(0.5), 0.0);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Selective {
    ranked: Ranked,
    is_error: Vec<bool>,
}

impl Selective {
    /// Sorts the rows; NaN, empty sets and unequal lengths are refused.
    pub fn new(uncertainty: &[f64], is_error: &[bool]) -> Result<Self, Error> {
        let ranked = Ranked::new(uncertainty, "uncertainties")?;
        if is_error.len() != uncertainty.len() {
            return Err(length_mismatch("errors", is_error.len(), "uncertainties", uncertainty.len()));
        }
        Ok(Self { ranked, is_error: is_error.to_vec() })
    }

    /// The number of rows: the stratum of [`Resampling::draws`](super::Resampling::draws).
    pub fn strata(&self) -> [usize; 1] {
        [self.ranked.len()]
    }

    /// The share of errors among all rows.
    pub fn error_rate(&self) -> f64 {
        self.is_error.iter().filter(|error| **error).count() as f64 / self.ranked.len() as f64
    }

    /// The error rate among the $k$ most certain, for $k$ from 1 to all.
    pub fn curve(&self) -> Vec<f64> {
        let mut curve = Vec::with_capacity(self.ranked.len());
        self.each(&|_| 1, |kept, errors| curve.push(errors / kept));
        curve
    }

    /// The mean of the curve: lower is better.
    pub fn rcc_auc(&self) -> f64 {
        self.rcc_auc_of(&|_| 1)
    }

    pub(crate) fn rcc_auc_of(&self, count: &impl Fn(u32) -> u32) -> f64 {
        let (mut sum, mut rows) = (0.0, 0.0);
        self.each(count, |kept, errors| {
            sum += errors / kept;
            rows = kept;
        });
        sum / rows
    }

    /// The error rate among the share `coverage` of the rows that is most certain (at least one row).
    pub fn risk_at(&self, coverage: f64) -> f64 {
        let curve = self.curve();
        let kept = (coverage * curve.len() as f64).round().clamp(1.0, curve.len() as f64);
        // A coverage that is no number keeps one row.
        curve[(kept as usize).max(1) - 1]
    }

    /// How much of the way from a random order to the best possible one is gone: 1 is best, 0 is chance. `None` where all
    /// rows or none are errors, and every order is as good.
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

    /// The best curve that any order of these rows has: all errors last.
    pub fn best_curve(&self) -> Vec<f64> {
        let rows = self.ranked.len();
        let right = rows - self.is_error.iter().filter(|error| **error).count();
        (1..=rows).map(|kept| kept.saturating_sub(right) as f64 / kept as f64).collect()
    }

    /// Calls `visit` with the rows kept and the errors expected among them, for each number of rows kept; row `i` counts
    /// `count(i)` times, and errors are spread evenly over rows of equal uncertainty.
    fn each(&self, count: &impl Fn(u32) -> u32, mut visit: impl FnMut(f64, f64)) {
        let (mut kept, mut errors) = (0.0, 0.0);
        for rows in self.ranked.groups() {
            let (mut size, mut wrong) = (0, 0);
            for &row in rows {
                let times = count(row);
                size += times;
                wrong += times * u32::from(self.is_error[row as usize]);
            }
            let share = f64::from(wrong) / f64::from(size.max(1));
            for j in 1..=size {
                visit(kept + f64::from(j), errors + share * f64::from(j));
            }
            kept += f64::from(size);
            errors += f64::from(wrong);
        }
    }
}

/// The area under the risk-coverage curve: lower is better.
///
/// ```
/// // Without any order each error rate is the overall one.
/// assert_eq!(nuq_eval::metrics::rcc_auc(&[1.0; 4], &[true, false, false, false])?, 0.25);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
pub fn rcc_auc(uncertainty: &[f64], is_error: &[bool]) -> Result<f64, Error> {
    Ok(Selective::new(uncertainty, is_error)?.rcc_auc())
}

/// How much of the way from a random order to the best possible one is gone; `None` where every order is as good.
pub fn prediction_rejection_ratio(uncertainty: &[f64], is_error: &[bool]) -> Result<Option<f64>, Error> {
    Ok(Selective::new(uncertainty, is_error)?.prediction_rejection_ratio())
}

/// The share of errors and outliers among the share `coverage` of all rows that is most certain.
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
    fn the_curve_by_hand_with_ties() {
        // The second and third are tied, one of them is wrong: half an error after the second.
        let found = Selective::new(&[0.0, 1.0, 1.0, 2.0], &[false, true, false, true]).unwrap();
        assert_eq!(found.curve(), [0.0, 0.25, 1.0 / 3.0, 0.5]);
        assert_eq!(found.best_curve(), [0.0, 0.0, 1.0 / 3.0, 0.5]);
        assert_eq!(found.risk_at(1.0), found.error_rate());
        // A = 0 + 0.5 + 1 + 2 = 3.5; random 5, best 3.
        assert_eq!(found.prediction_rejection_ratio(), Some(0.75));
    }

    #[test]
    fn counts_stand_for_repeated_rows() {
        let (uncertainty, wrong) = ([0.0, 1.0, 1.0, 2.0], [false, true, false, true]);
        let counts = [3u32, 1, 2, 0];
        let repeated =
            Selective::new(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0], &[false, false, false, true, false, false]);
        let weighted = Selective::new(&uncertainty, &wrong).unwrap().rcc_auc_of(&|row| counts[row as usize]);
        assert!((weighted - repeated.unwrap().rcc_auc()).abs() < 1e-15);
    }

    #[test]
    fn every_order_is_as_good_without_errors() {
        assert_eq!(prediction_rejection_ratio(&[1.0, 2.0], &[false, false]).unwrap(), None);
        let error = rcc_auc(&[1.0, 2.0], &[false]).unwrap_err();
        assert_eq!(error.to_string(), "1 errors beside 2 uncertainties: give one for each");
    }

    #[test]
    fn accepted_outliers_count_as_errors() {
        assert_eq!(scod_risk(&[0.0, 1.0], &[false, true], &[0.5, 9.0], 0.5).unwrap(), 0.5);
        assert_eq!(scod_risk(&[0.0, 1.0], &[false, true], &[0.5, 9.0], 1.0).unwrap(), 0.75);
    }
}
