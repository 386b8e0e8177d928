//! Leave-one-out evaluation of bandwidths from one neighbor search.
//!
//! Neighbors do not depend on the bandwidth `h`. So neighbors are searched once, for a seeded sample of training rows,
//! and used for every `h` of the grid. A row is never its own neighbor.

use nuq_neighbors::cancel::{Checkpoint, ParallelCheckpoints};
use nuq_neighbors::progress::{self, Steps};
use nuq_neighbors::{NeighborIndex, Neighbors};
use rayon::prelude::*;

use crate::bandwidth::{CurvePoint, SelectionCurve, Selector};
use crate::error::no_bandwidth;
use crate::quantiles::Quantiles;
use crate::sample_weights::SampleWeights;
use crate::weights::{Weights, scaled_differences, weigh};
use crate::{Bandwidth, Error, Kernel};

/// The number of bandwidths of the finer grid on each side of the best bandwidth.
const FINER_POINTS: usize = 4;

/// Left-out training rows and the nearest other rows of each.
pub(crate) struct LeaveOneOut<'t> {
    pub(crate) index: &'t dyn NeighborIndex,
    pub(crate) rows: &'t [u32],
    pub(crate) neighbors: &'t Neighbors,
    pub(crate) kernel: Kernel,
    pub(crate) sample_weights: &'t SampleWeights,
}

impl LeaveOneOut<'_> {
    /// `points` bandwidths in geometric progression, for a prior of weight `w`.
    ///
    /// The first is computed from the smallest positive distance of each row to a neighbor: the 1 % quantile of these
    /// distances, divided by `√max(1, 2 ln(1/w))` (by 4 without a prior). At smaller bandwidths even the nearest
    /// neighbor has a smaller Gaussian weight than the prior. The last is twice the 99 % quantile of the distances to
    /// the farthest of the K neighbors. At larger bandwidths all neighbors have similar weights.
    pub(crate) fn grid(&self, points: usize, prior_weight: f64) -> Result<Vec<f64>, Error> {
        let (mut nearest, mut farthest) = (Vec::new(), Vec::new());
        for i in 0..self.rows.len() {
            let sq = self.neighbors.sq_distances(i);
            let positive = &sq[sq.partition_point(|&sq| sq == 0.0)..];
            if let [first, ..] = positive {
                nearest.push(first.sqrt());
                farthest.push(sq[sq.len() - 1].sqrt());
            }
        }
        if nearest.is_empty() {
            return Err(no_bandwidth(self.index.len()));
        }
        let quantile = |values: Vec<f64>, share: f64| {
            Quantiles::of(values.into_iter().map(|value| (value, 1.0))).at(share)
        };
        // Without the maximum, a prior weight above e^(−1/2) would make the first bandwidth larger than the distance itself.
        let divisor = if prior_weight > 0.0 { (-2.0 * prior_weight.ln()).max(1.0).sqrt() } else { 4.0 };
        let (low, high) = ((quantile(nearest, 0.01) / divisor).ln(), (2.0 * quantile(farthest, 0.99)).ln());
        let step = (high - low) / (points - 1) as f64;
        Ok((0..points).map(|i| (low + step * i as f64).exp()).collect())
    }

    /// Scores the grid, then [`FINER_POINTS`] bandwidths on each side of the best one, and selects the best of all.
    pub(crate) fn select<S: Selector>(&self, grid: &[f64], selector: &S) -> SelectionCurve<S::Score> {
        let rows = self.rows.len();
        let scored = |grid: Vec<f64>| {
            let scores = selector.scores(self, &grid);
            grid.into_iter().zip(scores).map(|(bandwidth, score)| CurvePoint { bandwidth, score })
        };
        let mut points: Vec<CurvePoint<S::Score>> = scored(grid.to_vec()).collect();
        let best = selector.choose(&points, rows);
        let finer = points[best.saturating_sub(1)..(best + 2).min(points.len())]
            .windows(2)
            .flat_map(|pair| {
                let (low, high) = (pair[0].bandwidth.ln(), pair[1].bandwidth.ln());
                let step = (high - low) / (FINER_POINTS + 1) as f64;
                (1..=FINER_POINTS).map(move |i| (low + step * i as f64).exp())
            })
            .collect();
        points.extend(scored(finer));
        points.sort_by(|a, b| a.bandwidth.total_cmp(&b.bandwidth));
        SelectionCurve { chosen: selector.choose(&points, rows), points, rows }
    }

    /// The sum of the sample weights of the left-out rows.
    pub(crate) fn total_weight(&self) -> f64 {
        self.rows.iter().map(|&id| self.sample_weights.of(id)).sum()
    }

    /// For each `h` the sum over `i` of `score(scratch, i, weights)` times the sample weight of row `rows[i]`. `weights` are those
    /// of the neighbors of this row. The order of summation does not depend on the number of threads.
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
                    let own = self.sample_weights.of(self.rows[i]);
                    sums.iter_mut().zip(scores).for_each(|(sum, s)| *sum += own * s);
                }
                steps.add(1);
                sums
            })
            .collect()
    }

    /// `ln Σ_k s_k K(z_k)/K(0)` of each row at one `h`: `s_k` is the sample weight of neighbor `k`, and `z_k` its difference from the row,
    /// divided by `h`.
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
        self.sample_weights.apply(ids, weights);
    }
}
