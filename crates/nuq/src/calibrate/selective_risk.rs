//! The largest threshold whose accepted predictions are wrong at most so often, with a finite-sample guarantee.
//!
//! Sort the $n$ held-out rows by uncertainty. Given the $m$-th smallest value $t$, the $m - 1$ rows below it are independent
//! draws from the accepted region $\{u < t\}$, so the number of errors $e$ among them is binomial, and
//! $p_m = \Pr(\mathrm{Bin}(m - 1, r) \le e)$ is a p-value for "the region's risk is at least $r$". Fixed sequences of such tests
//! need no correction as long as each stops at its first failure (Learn then Test, Angelopoulos et al. 2021): a few start at
//! evenly spread ranks, share $\delta$ equally, and move on to larger regions. The largest region that any of them certifies
//! is taken. One start alone would have to sit where nothing can yet be proven, or beyond where the risk is reached.

use super::beta::{beta_quantile, binomial_at_most};
use super::check_scores;
use crate::Error;
use crate::error::out_of_range;

/// Sequences of tests, and so the shares into which $\delta$ is cut.
const STARTS: usize = 10;
/// Steps that a sequence may take: a step is at least a row.
const STEPS: usize = 200;

/// A region of certain rows whose risk is known to be small.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CertifiedRisk {
    /// Accept where the uncertainty is at most this.
    pub value: f64,
    /// Held-out rows that are accepted.
    pub accepted: usize,
    /// Errors among them.
    pub errors: usize,
}

/// The largest region $\{u \le t\}$ of which at most the share `risk` is wrong, with probability at least `1 - delta` over the
/// draw of the held-out rows. `None` where no region can be certified: there are too few rows, or too many errors among the
/// most certain ones.
///
/// ```
/// use nuq::calibrate::selective_risk;
/// // A thousand rows, wrong only among the 200 least certain.
/// let uncertainty: Vec<f64> = (0..1000).map(f64::from).collect();
/// let is_error: Vec<bool> = (0..1000).map(|i| i >= 800 && i % 2 == 0).collect();
/// let found = selective_risk(&uncertainty, &is_error, 0.05, 0.05)?.unwrap();
/// assert!(found.accepted > 800 && found.errors <= 50);
/// // Ten rows prove nothing.
/// assert_eq!(selective_risk(&uncertainty[..10], &is_error[..10], 0.05, 0.05)?, None);
/// # Ok::<(), nuq::Error>(())
/// ```
pub fn selective_risk(
    uncertainty: &[f64],
    is_error: &[bool],
    risk: f64,
    delta: f64,
) -> Result<Option<CertifiedRisk>, Error> {
    check_scores(uncertainty, "uncertainties")?;
    if uncertainty.len() != is_error.len() {
        let (got, expected) = (is_error.len(), uncertainty.len());
        return Err(Error::LengthMismatch { what: "errors", got, counterpart: "uncertainties", expected });
    }
    for (name, value) in [("risk", risk), ("delta", delta)] {
        if !(value > 0.0 && value < 1.0) {
            return Err(out_of_range(name, value, "it must lie strictly between 0 and 1"));
        }
    }
    let regions = Regions::new(uncertainty, is_error);
    let certified = (1..=STARTS).filter_map(|start| regions.sequence(start, risk, delta / STARTS as f64));
    Ok(certified.max_by_key(|region| region.accepted))
}

/// The smallest risk that [`selective_risk`] certifies for these rows, rounded up to three digits; `None` where it certifies
/// none. A sequence goes nowhere unless its first region passes, so that the smallest is an upper bound of Clopper and Pearson
/// (1934) for one of those.
pub(super) fn smallest_risk(uncertainty: &[f64], is_error: &[bool], delta: f64) -> Option<f64> {
    let regions = Regions::new(uncertainty, is_error);
    let bound = |start: usize| {
        let CertifiedRisk { accepted, errors, .. } = regions.below(regions.ranks(start).next()?);
        let right = accepted - errors;
        (right > 0).then(|| beta_quantile(1.0 - delta / STARTS as f64, errors as f64 + 1.0, right as f64))
    };
    let smallest = (1..=STARTS).filter_map(bound).min_by(f64::total_cmp)?;
    let units = 10f64.powi(2 - smallest.log10().floor() as i32);
    Some((smallest * units).ceil() / units).filter(|&risk| risk < 1.0)
}

/// Regions $\{u < t\}$ for each held-out value $t$ and beyond.
struct Regions {
    sorted: Vec<(f64, bool)>,
    /// Errors among the first so many.
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

    /// The ranks that a sequence walks along.
    fn ranks(&self, start: usize) -> impl Iterator<Item = usize> + use<> {
        let n = self.sorted.len();
        let (first, step) = (start * n / (STARTS + 1), n.div_ceil(STEPS));
        (first.max(1)..n).step_by(step.max(1)).chain(std::iter::once(n))
    }

    /// The last region of a sequence that passes its test, all before it having passed too.
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

    /// The rows strictly below the one of this rank (counted from zero); all rows for the rank after the last.
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
        let found = selective_risk(&uncertainty, &[false; 500], 0.02, 0.05).unwrap().unwrap();
        assert_eq!((found.value, found.accepted, found.errors), (f64::INFINITY, 500, 0));
        // (1 - 0.001)^500 = 0.6: half a thousand right answers do not show a risk of one in a thousand.
        assert_eq!(selective_risk(&uncertainty, &[false; 500], 0.001, 0.05).unwrap(), None);
    }

    #[test]
    fn rows_of_equal_uncertainty_are_accepted_together_or_not_at_all() {
        let uncertainty = [[0.0; 300], [1.0; 300]].concat();
        let wrong: Vec<bool> = (0..600).map(|i| i >= 300 && i % 3 == 0).collect();
        let found = selective_risk(&uncertainty, &wrong, 0.05, 0.05).unwrap().unwrap();
        assert_eq!((found.accepted, found.errors), (300, 0));
        assert!(found.value >= 0.0 && found.value < 1.0);
    }

    #[test]
    fn the_smallest_risk_is_where_certifying_begins() {
        let uncertainty: Vec<f64> = (0..1000).map(f64::from).collect();
        let few: Vec<bool> = (0..1000).map(|i| i % 97 == 5).collect();
        let ties: Vec<f64> = (0..1000).map(|i| f64::from(i / 250)).collect();
        for (scores, wrong) in [(&uncertainty, &vec![false; 1000]), (&uncertainty, &few), (&ties, &few)] {
            let smallest = smallest_risk(scores, wrong, 0.05).unwrap();
            let found = |risk: f64| selective_risk(scores, wrong, risk, 0.05).unwrap();
            assert!(found(smallest).is_some() && found(0.99 * smallest).is_none(), "{smallest}");
        }
        // Without errors among 909 rows: 1 - 0.005^(1/909) = 0.00581.
        assert_eq!(smallest_risk(&uncertainty, &[false; 1000], 0.05), Some(0.00582));
        assert_eq!(smallest_risk(&[0.0; 9], &[true; 9], 0.05), None);
        assert_eq!(smallest_risk(&[0.0], &[true], 0.05), None);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(selective_risk(&[0.0], &[true], 0.0, 0.1).is_err());
        assert!(selective_risk(&[0.0], &[true], 0.1, 1.0).is_err());
        assert!(selective_risk(&[0.0], &[], 0.1, 0.1).is_err());
        assert!(selective_risk(&[f64::NAN], &[true], 0.1, 0.1).is_err());
    }
}
