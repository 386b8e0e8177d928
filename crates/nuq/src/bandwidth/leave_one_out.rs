//! Leave-one-out selection of one bandwidth, from one neighbor table.
//!
//! Neighbors do not depend on h, so one search of (a seeded sample of) the training points among the others
//! serves every h on the grid. The whole curve is returned, not just the winner.

use std::borrow::Cow;

use nuq_neighbors::{NeighborIndex, Neighbors, choices};
use rayon::prelude::*;

use crate::weights::{Weights, weigh};
use crate::{Bandwidth, Error, Kernel};

/// What a classifier's bandwidth is chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Criterion {
    /// The mean log probability of the left-out labels: the best aleatoric uncertainty.
    #[default]
    LogLikelihood,
    /// The share of left-out labels predicted right, as in the paper. On embeddings of a well-trained network
    /// it is flat over decades of h, so among those within one standard error of the best, the h of the best
    /// log-likelihood is taken.
    Accuracy,
}

choices!(Criterion, "bandwidth", { LogLikelihood => "log_likelihood", Accuracy => "accuracy" });

/// What a regressor's bandwidth is chosen by: the mean squared error of the left-out targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SquaredError;

/// One h of the grid and what leaving one out said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePoint<S> {
    /// The bandwidth tried.
    pub bandwidth: f64,
    /// Its score.
    pub score: S,
}

/// Every h that was tried, ascending, and which was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectionCurve<S> {
    /// The grid.
    pub points: Vec<CurvePoint<S>>,
    /// The place of the winner in `points`.
    pub chosen: usize,
    /// Training points that were left out in turn.
    pub rows: usize,
}

impl<S> SelectionCurve<S> {
    /// The bandwidth that was taken.
    pub fn bandwidth(&self) -> f64 {
        self.points[self.chosen].bandwidth
    }

    /// Whether it is the first or last of the grid, so that the optimum may lie beyond.
    pub fn is_at_edge(&self) -> bool {
        self.chosen == 0 || self.chosen + 1 == self.points.len()
    }
}

/// Training points and their nearest others.
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
            return Err(Error::NoSpread { rows: self.index.len() });
        }
        let (low, high) = (0.5 * low.ln(), 0.5 * high.ln());
        let step = (high - low) / (points - 1) as f64;
        Ok((0..points).map(|i| (low + step * i as f64).exp()).collect())
    }

    /// For each h the sum over rows of `score(scratch, row, weights of its neighbors)`, in the order of the rows, so
    /// that no number of threads changes it.
    pub(crate) fn sums<T: Default, const N: usize>(
        &self,
        grid: &[f64],
        score: impl Fn(&mut T, usize, &Weights) -> [f64; N] + Sync,
    ) -> Vec<[f64; N]> {
        grid.par_iter()
            .map(|&h| {
                let (mut sums, mut weights, mut scratch) = ([0.0; N], Weights::default(), T::default());
                for i in 0..self.rows.len() {
                    self.weigh(i, h, &mut weights);
                    let scores = score(&mut scratch, i, &weights);
                    sums.iter_mut().zip(scores).for_each(|(sum, s)| *sum += s);
                }
                sums
            })
            .collect()
    }

    /// $\ln \sum_k K(z_k)/K(0)$ of each row at one h.
    pub(crate) fn log_sums(&self, h: f64) -> Vec<f64> {
        let log_sum = |weights: &mut Weights, i: usize| {
            self.weigh(i, h, weights);
            weights.log_sum()
        };
        (0..self.rows.len()).into_par_iter().map_init(Weights::default, log_sum).collect()
    }

    fn weigh(&self, i: usize, h: f64, weights: &mut Weights) {
        let stored = self.index.rows();
        let row = stored.row(self.rows[i]);
        let z = |id: u32, h: f64| scaled_differences(&row, stored.row(id), stored.scale(), h);
        let (ids, sq) = (self.neighbors.ids(i), self.neighbors.sq_distances(i));
        weigh(self.kernel, &Bandwidth::Scalar(h), ids, sq, z, weights);
    }
}

/// $z_j = (a_j - b_j) / (s_j h)$.
pub(crate) fn scaled_differences<'r>(
    a: &'r [f32],
    b: Cow<'r, [f32]>,
    scale: Option<&'r [f64]>,
    h: f64,
) -> impl Iterator<Item = f64> + 'r {
    let inverse = 1.0 / h;
    let difference = move |j: usize| (f64::from(a[j]) - f64::from(b[j])) * inverse;
    (0..a.len()).map(move |j| scale.map_or(difference(j), |s| difference(j) / s[j]))
}
