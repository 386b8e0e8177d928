//! The sample of training rows from which bandwidths, the intrinsic dimension, the density and the effective scale are
//! estimated.
//!
//! The sample has at most `max_rows` rows, ten thousand by default. The standard error of an accuracy is then at most
//! half a percentage point. The sample is smaller in two cases: if its rows would have more than four million neighbors
//! together (`K` above 400 for ten thousand rows), or if its kernel sums would be slow (product kernels read every
//! coordinate of every neighbor for every `h`). These two limits never reduce the sample below 200 rows.

use nuq_neighbors::{NeighborIndex, Neighbors, SeededRng, progress};

use crate::error::no_density_bandwidth;
use crate::{Error, Kernel};

/// Maximum number of neighbors of all sampled rows together.
const MAX_NEIGHBORS: usize = 4_000_000;
/// Maximum number of coordinates that product kernels read.
const MAX_KERNEL_TERMS: usize = 2_000_000_000;
/// The two limits above do not reduce the sample below this number of rows.
const MIN_ROWS: usize = 200;

/// Sampled training rows and the nearest other rows of each.
pub(crate) struct Selection {
    pub(crate) rows: Vec<u32>,
    pub(crate) neighbors: Neighbors,
}

impl Selection {
    /// Draws the sample and searches its neighbors. The index must have at least two rows. The caller
    /// checks this, because its error names the value that cannot be estimated from one row.
    pub(crate) fn draw(
        index: &dyn NeighborIndex,
        kernel: Kernel,
        k: usize,
        grid_points: usize,
        max_rows: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        let n = index.len();
        let k = k.min(n - 1);
        let by_neighbors = MAX_NEIGHBORS / k;
        let by_kernel =
            if kernel.is_radial() { n } else { MAX_KERNEL_TERMS / (k * index.dim() * grid_points) };
        let count = max_rows.min(by_neighbors.min(by_kernel).max(MIN_ROWS));
        let live = index.rows().live_ids();
        let rows: Vec<u32> =
            SeededRng::new(seed).sample(n, count).into_iter().map(|i| live[i as usize]).collect();
        progress::start("searching neighbors of sampled rows", rows.len());
        let neighbors = index.leave_one_out(&rows, k)?;
        Ok(Self { rows, neighbors })
    }

    /// Half the median distance to the K-th neighbor. Rows whose K-th neighbor is a duplicate are skipped.
    pub(crate) fn half_median_distance(&self, training_rows: usize) -> Result<f64, Error> {
        let k = self.neighbors.k();
        let last = |i: usize| self.neighbors.sq_distances(i)[k - 1].sqrt();
        let mut distances: Vec<f64> = (0..self.rows.len()).map(last).filter(|&r| r > 0.0).collect();
        if distances.is_empty() {
            return Err(no_density_bandwidth(training_rows));
        }
        distances.sort_unstable_by(f64::total_cmp);
        let n = distances.len();
        Ok(0.25 * (distances[(n - 1) / 2] + distances[n / 2]))
    }
}
