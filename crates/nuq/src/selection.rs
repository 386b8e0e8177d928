//! The sample of training rows from which bandwidths and the intrinsic dimension are estimated.
//!
//! With ten thousand left-out rows the standard error of an accuracy is at most half a percent. The sample is smaller if its
//! neighbor table would exceed four million entries (`K` above 400 for ten thousand rows), or if its kernel sums would be slow
//! (product kernels read every coordinate of every neighbor for every `h`), but it has at least 200 rows.

use nuq_neighbors::{NeighborIndex, Neighbors, SeededRng, progress};

use crate::error::{no_bandwidth, no_density_bandwidth};
use crate::{Error, Kernel};

/// Maximum number of entries of the neighbor table.
const MAX_NEIGHBORS: usize = 4_000_000;
/// Maximum number of coordinates that product kernels read.
const MAX_KERNEL_TERMS: usize = 2_000_000_000;
/// Minimum number of sampled rows.
const MIN_ROWS: usize = 200;

/// Sampled training rows with their neighbors, each row without itself.
pub(crate) struct Selection {
    pub(crate) rows: Vec<u32>,
    pub(crate) neighbors: Neighbors,
}

impl Selection {
    /// Draws the sample and searches its neighbors.
    pub(crate) fn draw(
        index: &dyn NeighborIndex,
        kernel: Kernel,
        k: usize,
        grid_points: usize,
        max_rows: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        let n = index.len();
        if n < 2 {
            return Err(no_bandwidth(n));
        }
        let k = k.min(n - 1);
        let by_table = MAX_NEIGHBORS / k;
        let by_kernel =
            if kernel.is_radial() { n } else { MAX_KERNEL_TERMS / (k * index.dim() * grid_points) };
        let count = max_rows.min(by_table.min(by_kernel).max(MIN_ROWS));
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
