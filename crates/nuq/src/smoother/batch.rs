//! Kernel weights, density and effective sample size of a batch of queries.

use nuq_neighbors::{Embeddings, Neighbors};

use super::fitted_density::FittedDensity;
use super::{Groups, KernelSmoother};
use crate::weights::{Weights, scaled_differences, weigh};
use crate::{Bandwidth, Error, FittedScale};

/// The neighborhood of one query.
pub(crate) struct Neighborhood {
    /// Weights of the neighbors at the bandwidth of the posterior.
    pub(crate) weights: Weights,
    /// `ln p̂(x)`.
    pub(crate) log_density: f64,
    /// `ln n(x)`: the variance of the estimate is the variance of the labels divided by `n(x)`.
    pub(crate) log_sample_size: f64,
}

/// Prepared queries with their neighbors.
pub(crate) struct Batch<'b> {
    smoother: &'b KernelSmoother<'b>,
    queries: &'b Embeddings<'b>,
    neighbors: &'b Neighbors,
    /// The ids of the queries if they are training rows. The sums for a query are then over the other training rows.
    left_out: Option<&'b [u32]>,
    /// See [`FittedDensity::gaussian_values`].
    gaussian_values: Option<Vec<f64>>,
}

impl<'b> Batch<'b> {
    pub(super) fn new(
        smoother: &'b KernelSmoother<'b>,
        queries: &'b Embeddings<'b>,
        neighbors: &'b Neighbors,
    ) -> Self {
        Self { smoother, queries, neighbors, left_out: None, gaussian_values: None }
    }

    /// Leaves out the training row of each query: the sums for a query are over the other training rows.
    pub(super) fn without_own_rows(self, ids: &'b [u32]) -> Self {
        Self { left_out: Some(ids), ..self }
    }

    pub(crate) fn len(&self) -> usize {
        self.queries.len()
    }

    /// Evaluates the Gaussians of the density, if it has any, for the whole batch. This must be done before
    /// [`neighborhood`](Self::neighborhood) is called.
    pub(crate) fn with_density(self, groups: Groups<'_>) -> Result<Self, Error> {
        let KernelSmoother { density, index, sample_weights, .. } = self.smoother;
        let gaussian_values = density.gaussian_values(&**index, groups, sample_weights, self.queries)?;
        Ok(Self { gaussian_values, ..self })
    }

    /// Uses given values of the Gaussians, for left-out training rows.
    pub(super) fn with_gaussian_values(self, gaussian_values: Option<Vec<f64>>) -> Self {
        Self { gaussian_values, ..self }
    }

    /// Weights of the neighbors of query `i` at the bandwidth of the posterior.
    pub(crate) fn weights(&self, i: usize) -> Weights {
        self.weights_at(i, &self.smoother.bandwidth)
    }

    fn weights_at(&self, i: usize, bandwidth: &Bandwidth) -> Weights {
        let KernelSmoother { index, kernel, sample_weights, .. } = self.smoother;
        let stored = index.rows();
        let z = |id: u32, h: f64| scaled_differences(self.queries.row(i), stored.row(id), stored.scale(), h);
        let mut weights = Weights::default();
        let (ids, sq) = (self.neighbors.ids(i), self.neighbors.sq_distances(i));
        weigh(*kernel, bandwidth, ids, sq, z, &mut weights);
        sample_weights.apply(ids, &mut weights);
        weights
    }

    pub(crate) fn neighborhood(&self, i: usize) -> Neighborhood {
        let KernelSmoother { kernel, density, dimension, scale, log_scale_volume, sample_weights, .. } =
            self.smoother;
        let rows = self.left_out.map_or(sample_weights.total(), |ids| sample_weights.total_without(ids[i]));
        let (log_n, d) = (rows.ln(), *dimension);
        let weights = self.weights(i);
        let log_volume = self.smoother.log_volume(self.neighbors.ids(i), &weights);
        let log_density = match (density, &self.gaussian_values) {
            (FittedDensity::Same, _) => kernel.log_peak(d) + weights.log_sum() - log_volume - log_n,
            (FittedDensity::Kde(h), _) => {
                let log_sum = self.weights_at(i, &Bandwidth::Scalar(*h)).log_sum();
                kernel.log_peak(d) + log_sum - d * h.ln() - log_scale_volume - log_n
            }
            (FittedDensity::Gmm { .. }, Some(log_densities)) => log_densities[i],
            (FittedDensity::Auto { learned, .. }, Some(tail_scores)) => {
                let log_sum = self.weights_at(i, &Bandwidth::Scalar(learned.bandwidth)).log_sum();
                learned.log_density(log_sum, tail_scores[i])
            }
            (FittedDensity::Gmm { .. } | FittedDensity::Auto { .. }, None) => {
                unreachable!("with_density evaluates the Gaussians first")
            }
        };
        let log_sample_size = match scale {
            FittedScale::Effective { sample_size, log_density: typical } => {
                sample_size.ln() + density.calibrated(log_density) - typical
            }
            FittedScale::Intrinsic | FittedScale::Ambient => {
                log_n + log_volume + log_density - kernel.log_sq_norm(d)
            }
        };
        Neighborhood { weights, log_density, log_sample_size }
    }
}
