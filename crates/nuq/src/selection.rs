//! The sample of training points that bandwidths and the intrinsic dimension are learned from.
//!
//! Ten thousand left-out points know an accuracy to half a percent, and finding their neighbors takes a fraction
//! of the time of finding everyone's. The sample is smaller where its table would be large (at most four
//! million neighbors, for K in the thousands) or its kernel sums slow (product kernels, which visit every
//! coordinate of every neighbor for every h), but never below 200 points.

use nuq_neighbors::{NeighborIndex, Neighbors, SeededRng};

use crate::{Error, Kernel};

const MOST_NEIGHBORS: usize = 4_000_000;
const MOST_KERNEL_TERMS: usize = 2_000_000_000;
const FEWEST_ROWS: usize = 200;

/// Sampled training points with their nearest others.
pub(crate) struct Selection {
    pub(crate) rows: Vec<u32>,
    pub(crate) neighbors: Neighbors,
}

impl Selection {
    /// Draws the sample and finds its neighbors.
    pub(crate) fn draw(
        index: &dyn NeighborIndex,
        kernel: Kernel,
        k: usize,
        grid_points: usize,
        most_rows: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        let n = index.len();
        if n < 2 {
            return Err(Error::NoSpread { rows: n });
        }
        let k = k.min(n - 1);
        let by_table = MOST_NEIGHBORS / k;
        let by_kernel =
            if kernel.is_radial() { n } else { MOST_KERNEL_TERMS / (k * index.dim() * grid_points) };
        let count = most_rows.min(by_table.min(by_kernel).max(FEWEST_ROWS));
        let rows = SeededRng::new(seed).sample(n, count);
        let neighbors = index.leave_one_out(&rows, k)?;
        Ok(Self { rows, neighbors })
    }

    /// Half the median distance to the last neighbor; points with that many duplicates are passed over.
    pub(crate) fn half_median_distance(&self, training_rows: usize) -> Result<f64, Error> {
        let k = self.neighbors.k();
        let last = |i: usize| self.neighbors.sq_distances(i)[k - 1].sqrt();
        let mut distances: Vec<f64> = (0..self.rows.len()).map(last).filter(|&r| r > 0.0).collect();
        if distances.is_empty() {
            return Err(Error::NoSpread { rows: training_rows });
        }
        distances.sort_unstable_by(f64::total_cmp);
        let n = distances.len();
        Ok(0.25 * (distances[(n - 1) / 2] + distances[n / 2]))
    }
}
