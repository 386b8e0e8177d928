//! The largest threshold whose risk is bounded with a finite-sample guarantee.
//!
//! Sort the n held-out rows by uncertainty. Given the m-th smallest value `t`, the `m − 1` rows below it are independent draws
//! from the accepted region `{u < t}`. So the number of errors `e` among them is binomial, and `p_m = P(Bin(m − 1, r) ≤ e)` is
//! a p-value for the hypothesis that the risk of the region is at least `r`. A fixed sequence of such tests needs no
//! correction if it stops at its first failure (Learn then Test, Angelopoulos et al. 2021). Ten sequences with level `δ/10`
//! each are tested. Nine start at evenly spaced ranks and continue with larger regions; the last one tests all rows together,
//! so that everything is accepted if the risk of all rows meets the target. The result is the largest certified region. With
//! a single sequence, the first region would often be too small to certify anything, or already exceed the risk.

use super::beta::{beta_quantile, binomial_at_most};
use super::{check_scores, check_share};
use crate::Error;
use crate::error::check_lengths;

/// Number of test sequences; each has the level `δ/STARTS`.
const STARTS: usize = 10;
/// Maximum number of steps per sequence; a step is at least one row.
const STEPS: usize = 200;

/// A region of low uncertainty whose risk is certified.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CertifiedRisk {
    /// Rows are accepted if their uncertainty is at most this value.
    pub value: f64,
    /// The number of accepted held-out rows.
    pub accepted: usize,
    /// The number of errors among them.
    pub errors: usize,
}

/// The largest region `{u ≤ t}` in which at most the share `risk` is wrong, with probability at least `1 − delta` over the
/// draw of the held-out rows. `None` if no region can be certified, because there are too few rows or too many errors among
/// the most certain rows.
///
/// ```
/// use nuq::calibrate::selective_risk;
/// // A thousand rows, with errors only among the 200 least certain ones.
/// let uncertainty: Vec<f64> = (0..1000).map(f64::from).collect();
/// let is_error: Vec<bool> = (0..1000).map(|i| i >= 800 && i % 2 == 0).collect();
/// let region = selective_risk(&uncertainty, &is_error, 0.05, 0.05)?.unwrap();
/// assert!(region.accepted > 800 && region.errors <= 50);
/// // Ten rows are too few.
/// assert_eq!(selective_risk(&uncertainty[..10], &is_error[..10], 0.05, 0.05)?, None);
/// # Ok::<(), nuq::Error>(())
/// ```
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::OutOfRange`] for `risk` or `delta` outside (0, 1), [`Error::NoRows`],
/// [`Error::NanScore`].
pub fn selective_risk(
    uncertainty: &[f64],
    is_error: &[bool],
    risk: f64,
    delta: f64,
) -> Result<Option<CertifiedRisk>, Error> {
    check_scores(uncertainty, "uncertainties")?;
    check_lengths(("errors", is_error.len()), ("uncertainties", uncertainty.len()))?;
    check_share("risk", risk)?;
    check_share("delta", delta)?;
    let regions = Regions::new(uncertainty, is_error);
    let certified = (1..=STARTS).filter_map(|start| regions.sequence(start, risk, delta / STARTS as f64));
    Ok(certified.max_by_key(|region| region.accepted))
}

/// The smallest risk that [`selective_risk`] certifies for these rows, rounded up to three digits; `None` if it certifies
/// none. A sequence certifies nothing unless its first region passes. So the smallest risk is the smallest of the upper
/// bounds of Clopper and Pearson (1934) of the first regions.
pub(super) fn smallest_risk(uncertainty: &[f64], is_error: &[bool], delta: f64) -> Option<f64> {
    let regions = Regions::new(uncertainty, is_error);
    let bound = |start: usize| {
        let CertifiedRisk { accepted, errors, .. } = regions.below(regions.ranks(start).next()?);
        let correct = accepted - errors;
        (correct > 0).then(|| beta_quantile(1.0 - delta / STARTS as f64, errors as f64 + 1.0, correct as f64))
    };
    let smallest = (1..=STARTS).filter_map(bound).min_by(f64::total_cmp)?;
    let units = 10f64.powi(2 - smallest.log10().floor() as i32);
    Some((smallest * units).ceil() / units).filter(|&risk| risk < 1.0)
}

/// The number of held-out rows that is sufficient to certify the risk for all rows together, if the share of errors
/// stays the same. `None` if the share is too close to the risk, or above it.
pub(super) fn sufficient_rows(rows: usize, errors: usize, risk: f64, delta: f64) -> Option<usize> {
    const MOST: usize = 10_000_000;
    let share = errors as f64 / rows as f64;
    let is_certified =
        |n: usize| binomial_at_most((share * n as f64).round() as usize, n, risk) <= delta / STARTS as f64;
    let mut enough = rows.max(1);
    while !is_certified(enough) {
        enough *= 2;
        if share >= risk || enough > MOST {
            return None;
        }
    }
    let mut too_few = enough / 2;
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        *(if is_certified(middle) { &mut enough } else { &mut too_few }) = middle;
    }
    Some(enough)
}

/// The regions `{u < t}` for each held-out value `t`, and the region of all rows.
struct Regions {
    sorted: Vec<(f64, bool)>,
    /// `errors[m]` is the number of errors among the first `m` rows.
    errors: Vec<usize>,
}

impl Regions {
    fn new(uncertainty: &[f64], is_error: &[bool]) -> Self {
        let mut sorted: Vec<(f64, bool)> =
            uncertainty.iter().copied().zip(is_error.iter().copied()).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut errors = vec![0];
        for (_, wrong) in &sorted {
            errors.push(errors[errors.len() - 1] + usize::from(*wrong));
        }
        Self { sorted, errors }
    }

    /// The ranks that a sequence tests. `start` is the number of the sequence, from 1 to [`STARTS`].
    fn ranks(&self, start: usize) -> impl Iterator<Item = usize> + use<> {
        let n = self.sorted.len();
        let first = if start == STARTS { n } else { start * n / (STARTS + 1) };
        let step = n.div_ceil(STEPS);
        (first.max(1)..n).step_by(step.max(1)).chain(std::iter::once(n))
    }

    /// The last region of a sequence before the first failed test.
    fn sequence(&self, start: usize, risk: f64, level: f64) -> Option<CertifiedRisk> {
        let mut last = None;
        for rank in self.ranks(start) {
            let region = self.below(rank);
            if binomial_at_most(region.errors, region.accepted, risk) > level || region.accepted == 0 {
                break;
            }
            last = Some(region);
        }
        last
    }

    /// The region of rows strictly below the row of this rank (from zero); all rows for the rank after the last.
    fn below(&self, rank: usize) -> CertifiedRisk {
        let Some(&(limit, _)) = self.sorted.get(rank) else {
            let n = self.sorted.len();
            return CertifiedRisk { value: f64::INFINITY, accepted: n, errors: self.errors[n] };
        };
        let accepted = self.sorted.partition_point(|(value, _)| *value < limit);
        CertifiedRisk { value: limit.next_down(), accepted, errors: self.errors[accepted] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_errors_everything_is_accepted() {
        let uncertainty: Vec<f64> = (0..500).map(f64::from).collect();
        let region = selective_risk(&uncertainty, &[false; 500], 0.02, 0.05).unwrap().unwrap();
        assert_eq!((region.value, region.accepted, region.errors), (f64::INFINITY, 500, 0));
        // (1 − 0.001)^500 = 0.6: 500 rows without errors do not certify a risk of 0.001.
        assert_eq!(selective_risk(&uncertainty, &[false; 500], 0.001, 0.05).unwrap(), None);
    }

    #[test]
    fn a_risk_that_all_rows_meet_accepts_everything() {
        // All errors are among the most certain rows: no smaller region meets the risk.
        let uncertainty: Vec<f64> = (0..200).map(f64::from).collect();
        let wrong: Vec<bool> = (0..200).map(|i| i < 36).collect();
        let region = selective_risk(&uncertainty, &wrong, 0.3, 0.05).unwrap().unwrap();
        assert_eq!((region.value, region.accepted, region.errors), (f64::INFINITY, 200, 36));
    }

    #[test]
    fn the_number_of_sufficient_rows_is_enough_for_all_rows_together() {
        // 0.7^15 = 0.0047 < 0.005 < 0.7^14.
        assert_eq!(sufficient_rows(10, 0, 0.3, 0.05), Some(15));
        assert_eq!(sufficient_rows(10, 3, 0.3, 0.05), None);
        let n = sufficient_rows(50, 10, 0.3, 0.05).unwrap();
        let wrong: Vec<bool> = (0..n).map(|i| i < (0.2 * n as f64).round() as usize).collect();
        let uncertainty: Vec<f64> = (0..n).map(|i| i as f64).collect();
        assert!(selective_risk(&uncertainty, &wrong, 0.3, 0.05).unwrap().is_some());
        assert!(n > 50);
    }

    #[test]
    fn rows_of_equal_uncertainty_are_accepted_together_or_not_at_all() {
        let uncertainty = [[0.0; 300], [1.0; 300]].concat();
        let wrong: Vec<bool> = (0..600).map(|i| i >= 300 && i % 3 == 0).collect();
        let region = selective_risk(&uncertainty, &wrong, 0.05, 0.05).unwrap().unwrap();
        assert_eq!((region.accepted, region.errors), (300, 0));
        assert!(region.value >= 0.0 && region.value < 1.0);
    }

    #[test]
    fn the_smallest_risk_is_certified_and_a_smaller_one_is_not() {
        let uncertainty: Vec<f64> = (0..1000).map(f64::from).collect();
        let few: Vec<bool> = (0..1000).map(|i| i % 97 == 5).collect();
        let ties: Vec<f64> = (0..1000).map(|i| f64::from(i / 250)).collect();
        for (scores, wrong) in [(&uncertainty, &vec![false; 1000]), (&uncertainty, &few), (&ties, &few)] {
            let smallest = smallest_risk(scores, wrong, 0.05).unwrap();
            let certified = |risk: f64| selective_risk(scores, wrong, risk, 0.05).unwrap();
            assert!(certified(smallest).is_some() && certified(0.99 * smallest).is_none(), "{smallest}");
        }
        // Without errors among 1000 rows: 1 - 0.005^(1/1000) = 0.00528.
        assert_eq!(smallest_risk(&uncertainty, &[false; 1000], 0.05), Some(0.00529));
        assert_eq!(smallest_risk(&[0.0; 9], &[true; 9], 0.05), None);
        assert_eq!(smallest_risk(&[0.0], &[true], 0.05), None);
    }

    #[test]
    fn numbers_out_of_range_are_errors() {
        assert!(selective_risk(&[0.0], &[true], 0.0, 0.1).is_err());
        assert!(selective_risk(&[0.0], &[true], 0.1, 1.0).is_err());
        assert!(selective_risk(&[0.0], &[], 0.1, 0.1).is_err());
        assert!(selective_risk(&[f64::NAN], &[true], 0.1, 0.1).is_err());
    }
}
