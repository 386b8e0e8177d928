//! The largest mean log-likelihood that a kernel density reaches on left-out training rows.

use nuq_neighbors::Neighbors;
use rayon::prelude::*;

/// Bandwidths per pass.
const POINTS: usize = 40;

/// The mean over rows of `ln p̂` of a Gaussian kernel density in `dim` dimensions, at the bandwidth where it is largest.
///
/// `neighbors` holds the nearest of the `others` other rows of each left-out row. Zero distances are skipped: with duplicates the
/// likelihood would grow without bound as `h → 0`. `None` if a row of `is_used` has no other distance.
pub(crate) fn kernel_log_likelihood(
    neighbors: &Neighbors,
    is_used: impl Fn(usize) -> bool,
    others: usize,
    dim: usize,
) -> Option<f64> {
    let rows: Vec<&[f64]> = (0..neighbors.len())
        .filter(|&i| is_used(i))
        .map(|i| {
            let sq = neighbors.sq_distances(i);
            &sq[sq.partition_point(|&sq| sq == 0.0)..]
        })
        .collect();
    if rows.is_empty() || rows.iter().any(|sq| sq.is_empty()) {
        return None;
    }
    let (count, dim) = (rows.len() as f64, dim as f64);
    // The sum is relative to the nearest row, which does not underflow.
    let mean_log_sum = |h: f64| {
        let log_sum = |sq: &&[f64]| {
            let nearest = sq[0];
            let sum: f64 = sq.iter().map(|sq| (-0.5 * (sq - nearest) / (h * h)).exp()).sum();
            sum.ln() - 0.5 * nearest / (h * h)
        };
        rows.iter().map(log_sum).sum::<f64>() / count
    };
    let constant = -0.5 * dim * (2.0 * std::f64::consts::PI).ln() - (others as f64).ln();
    let log_likelihood = |log_h: &f64| mean_log_sum(log_h.exp()) + constant - dim * log_h;
    // The likelihood of one neighbor at distance r is largest at h = r/√d.
    let nearest = rows.iter().map(|sq| sq[0]).fold(f64::INFINITY, f64::min).sqrt();
    let farthest = rows.iter().map(|sq| sq[sq.len() - 1]).fold(0.0, f64::max).sqrt();
    let (mut low, mut high) = ((nearest / dim.sqrt()).ln(), (2.0 * farthest).ln());
    let mut best = f64::NEG_INFINITY;
    for _ in 0..3 {
        let step = (high - low) / (POINTS - 1) as f64;
        let grid: Vec<f64> = (0..POINTS).map(|i| low + step * i as f64).collect();
        let values: Vec<f64> = grid.par_iter().map(log_likelihood).collect();
        let at = (0..POINTS).reduce(|best, i| if values[i] > values[best] { i } else { best })?;
        best = best.max(values[at]);
        (low, high) = (grid[at.saturating_sub(1)], grid[(at + 1).min(POINTS - 1)]);
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_neighbor_has_the_maximum_in_closed_form() {
        // One neighbor at distance r in d dimensions: −d/2 ln 2π − r²/(2h²) − d ln h is largest at h = r/√d.
        let table = Neighbors::new(1, vec![1], vec![9.0]).unwrap();
        let (r, d) = (3.0f64, 5.0f64);
        let want = -0.5 * d * (2.0 * std::f64::consts::PI).ln() - 0.5 * d - d * (r / d.sqrt()).ln();
        let got = kernel_log_likelihood(&table, |_| true, 1, 5).unwrap();
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }

    #[test]
    fn duplicates_are_skipped() {
        let with = Neighbors::new(2, vec![1, 2], vec![0.0, 9.0]).unwrap();
        let without = Neighbors::new(1, vec![2], vec![9.0]).unwrap();
        let of = |table: &Neighbors| kernel_log_likelihood(table, |_| true, 2, 5);
        assert_eq!(of(&with), of(&without));
        let only = Neighbors::new(1, vec![1], vec![0.0]).unwrap();
        assert_eq!(kernel_log_likelihood(&only, |_| true, 1, 5), None);
    }
}
