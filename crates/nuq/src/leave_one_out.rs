//! Leave-one-out evaluation of bandwidths from one neighbor table.
//!
//! Neighbors do not depend on the bandwidth `h`. So the neighbors of a seeded sample of training rows, each without itself, are
//! searched once and used for every `h` of the grid.

use nuq_neighbors::cancel::{Checkpoint, ParallelCheckpoints};
use nuq_neighbors::progress::{self, Steps};
use nuq_neighbors::{NeighborIndex, Neighbors};
use rayon::prelude::*;

use crate::error::no_bandwidth;
use crate::weights::{Weights, scaled_differences, weigh};
use crate::{Bandwidth, Error, Kernel};

/// Training rows and their nearest neighbors, each row without itself.
pub(crate) struct LeaveOneOut<'t> {
    pub(crate) index: &'t dyn NeighborIndex,
    pub(crate) rows: &'t [u32],
    pub(crate) neighbors: &'t Neighbors,
    pub(crate) kernel: Kernel,
}

impl LeaveOneOut<'_> {
    /// `points` values in geometric progression from the smallest positive neighbor distance to the largest.
    pub(crate) fn grid(&self, points: usize) -> Result<Vec<f64>, Error> {
        let (mut low, mut high) = (f64::INFINITY, 0f64);
        for i in 0..self.rows.len() {
            for &sq in self.neighbors.sq_distances(i).iter().filter(|&&sq| sq > 0.0) {
                (low, high) = (low.min(sq), high.max(sq));
            }
        }
        if high == 0.0 {
            return Err(no_bandwidth(self.index.len()));
        }
        let (low, high) = (0.5 * low.ln(), 0.5 * high.ln());
        let step = (high - low) / (points - 1) as f64;
        Ok((0..points).map(|i| (low + step * i as f64).exp()).collect())
    }

    /// For each `h` the sum over rows of `score(scratch, row, weights of its neighbors)`. The order of summation does not
    /// depend on the number of threads.
    pub(crate) fn sums<T: Default, const N: usize>(
        &self,
        grid: &[f64],
        score: impl Fn(&mut T, usize, &Weights) -> [f64; N] + Sync,
    ) -> Vec<[f64; N]> {
        progress::start("selecting the bandwidth", grid.len());
        let (here, steps) = (Checkpoint::current(), Steps::current());
        grid.par_iter()
            .map(|&h| {
                let (mut sums, mut weights, mut scratch) = ([0.0; N], Weights::default(), T::default());
                for i in 0..self.rows.len() {
                    here.check();
                    self.weigh(i, h, &mut weights);
                    let scores = score(&mut scratch, i, &weights);
                    sums.iter_mut().zip(scores).for_each(|(sum, s)| *sum += s);
                }
                steps.add(1);
                sums
            })
            .collect()
    }

    /// `ln Σ_k K(z_k)/K(0)` of each row at one `h`.
    pub(crate) fn log_sums(&self, h: f64) -> Vec<f64> {
        let log_sum = |weights: &mut Weights, i: usize| {
            self.weigh(i, h, weights);
            weights.log_sum()
        };
        (0..self.rows.len()).into_par_iter().with_checkpoints().map_init(Weights::default, log_sum).collect()
    }

    fn weigh(&self, i: usize, h: f64, weights: &mut Weights) {
        let stored = self.index.rows();
        let row = stored.row(self.rows[i]);
        let z = |id: u32, h: f64| scaled_differences(&row, stored.row(id), stored.scale(), h);
        let (ids, sq) = (self.neighbors.ids(i), self.neighbors.sq_distances(i));
        weigh(self.kernel, &Bandwidth::Scalar(h), ids, sq, z, weights);
    }
}
