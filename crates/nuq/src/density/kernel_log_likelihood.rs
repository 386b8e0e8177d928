//! The largest mean log-likelihood of left-out training rows under a kernel density.

use nuq_neighbors::Neighbors;

use crate::sample_weights::SampleWeights;
use rayon::prelude::*;

/// The number of bandwidths in each pass. Each later pass covers the interval around the best bandwidth of the previous
/// pass, up to the next grid value on either side.
const POINTS: [usize; 4] = [24, 9, 9, 9];

/// The mean over rows of `ln p̂` of a Gaussian kernel density in `dim` dimensions, at the bandwidth with the largest
/// mean.
///
/// `left_out` has the ids of the left-out rows, and `neighbors` the nearest other rows of each. Row `left_out[i]` is used if
/// `is_used(i)` is true. Zero distances are skipped: with duplicates the likelihood would grow without bound as
/// `h → 0`. `None` if no row is used, or if a used row has zero distances only.
pub(crate) fn kernel_log_likelihood(
    left_out: &[u32],
    neighbors: &Neighbors,
    is_used: impl Fn(usize) -> bool,
    sample_weights: &SampleWeights,
    dim: usize,
) -> Option<f64> {
    let rows: Vec<Row<'_>> = (0..neighbors.len())
        .filter(|&i| is_used(i))
        .map(|i| {
            let sq = neighbors.sq_distances(i);
            let first = sq.partition_point(|&sq| sq == 0.0);
            Row {
                sq: &sq[first..],
                weights: sample_weights.gather(&neighbors.ids(i)[first..]),
                own: sample_weights.of(left_out[i]),
                log_others: sample_weights.total_without(left_out[i]).ln(),
            }
        })
        .collect();
    if rows.is_empty() || rows.iter().any(|row| row.sq.is_empty()) {
        return None;
    }
    let (total, dim) = (rows.iter().map(|row| row.own).sum::<f64>(), dim as f64);
    // The sum is relative to the term of the nearest row, so that it does not underflow.
    let mean_log_sum = |h: f64| {
        let log_sum = |row: &Row<'_>| {
            let nearest = row.sq[0];
            let terms = row.sq.iter().zip(&row.weights);
            let sum: f64 = terms.map(|(sq, weight)| weight * (-0.5 * (sq - nearest) / (h * h)).exp()).sum();
            row.own * (sum.ln() - 0.5 * nearest / (h * h) - row.log_others)
        };
        rows.iter().map(log_sum).sum::<f64>() / total
    };
    let constant = -0.5 * dim * (2.0 * std::f64::consts::PI).ln();
    let log_likelihood = |log_h: &f64| mean_log_sum(log_h.exp()) + constant - dim * log_h;
    // The likelihood of one neighbor at distance r is largest at h = r/√d. Therefore the grid starts at the h of the
    // smallest distance.
    let nearest = rows.iter().map(|row| row.sq[0]).fold(f64::INFINITY, f64::min).sqrt();
    let farthest = rows.iter().map(|row| row.sq[row.sq.len() - 1]).fold(0.0, f64::max).sqrt();
    let (mut low, mut high) = ((nearest / dim.sqrt()).ln(), (2.0 * farthest).ln());
    let mut best = f64::NEG_INFINITY;
    for points in POINTS {
        let step = (high - low) / (points - 1) as f64;
        let grid: Vec<f64> = (0..points).map(|i| low + step * i as f64).collect();
        let values: Vec<f64> = grid.par_iter().map(log_likelihood).collect();
        let at = (0..points).reduce(|best, i| if values[i] > values[best] { i } else { best })?;
        best = best.max(values[at]);
        (low, high) = (grid[at.saturating_sub(1)], grid[(at + 1).min(points - 1)]);
    }
    Some(best)
}

/// A left-out row.
struct Row<'r> {
    /// Positive squared distances of its neighbors, ascending.
    sq: &'r [f64],
    /// Sample weights of these neighbors.
    weights: Vec<f64>,
    /// Its own sample weight.
    own: f64,
    /// The log of the sum of the sample weights of all other rows.
    log_others: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_for_one_neighbor_equals_its_closed_form() {
        // One neighbor at distance r in d dimensions: −d/2 ln 2π − r²/(2h²) − d ln h is largest at h = r/√d.
        let neighbors = Neighbors::new(1, vec![1], vec![9.0]).unwrap();
        let (r, d) = (3.0f64, 5.0f64);
        let want = -0.5 * d * (2.0 * std::f64::consts::PI).ln() - 0.5 * d - d * (r / d.sqrt()).ln();
        let got = kernel_log_likelihood(&[0], &neighbors, |_| true, &SampleWeights::ones(2), 5).unwrap();
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }

    #[test]
    fn duplicates_are_skipped() {
        let with = Neighbors::new(2, vec![1, 2], vec![0.0, 9.0]).unwrap();
        let without = Neighbors::new(1, vec![2], vec![9.0]).unwrap();
        let of = |neighbors: &Neighbors| {
            kernel_log_likelihood(&[0], neighbors, |_| true, &SampleWeights::ones(3), 5)
        };
        assert_eq!(of(&with), of(&without));
        let only = Neighbors::new(1, vec![1], vec![0.0]).unwrap();
        assert_eq!(kernel_log_likelihood(&[0], &only, |_| true, &SampleWeights::ones(2), 5), None);
    }
}
