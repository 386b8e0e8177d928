//! The rank of the held-out score at which a threshold has a required coverage.

use super::beta_quantile;

/// `⌈(n + 1) share⌉`, at least 1: the rank of the held-out score at which a threshold has the coverage `share`.
pub(super) fn coverage_rank(rows: usize, share: f64) -> usize {
    // The rounding error of the product, a few units in the last place, must not increase the rank.
    (((rows + 1) as f64 * share * (1.0 - 4.0 * f64::EPSILON)).ceil() as usize).max(1)
}

/// The smallest number of held-out rows for which a finite threshold has this coverage; `None` if it is 10¹⁵ or more.
pub(super) fn sufficient_rows(share: f64) -> Option<usize> {
    let bound = share / (1.0 - share);
    if bound >= 1e15 {
        return None;
    }
    // The bound has rounding errors. Therefore the numbers of rows near it are checked by their ranks.
    let near = (bound as usize).saturating_sub(1);
    (near..near + 4).find(|&rows| coverage_rank(rows, share) <= rows)
}

/// The central 95 % interval of the coverage for one set of held-out rows. This coverage has the distribution
/// `Beta(k, n + 1 − k)` with the rank `k` if no two rows have equal scores. Otherwise rows whose score equals the threshold are
/// covered too, and the coverage can exceed the upper end; the lower end remains valid.
pub(super) fn coverage_interval(rows: usize, share: f64) -> (f64, f64) {
    let rank = coverage_rank(rows, share);
    let (a, b) = (rank as f64, (rows + 1 - rank.min(rows)) as f64);
    (beta_quantile(0.025, a, b), beta_quantile(0.975, a, b))
}

pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').to_owned() + " %"
}
