//! The fitted smoother: index, kernel, bandwidths and density.

use std::collections::HashSet;
use std::fmt;

use nuq_neighbors::{Embeddings, IndexChoice, NeighborIndex, Neighbors, progress};

use super::batch::Batch;
use super::fitted_density::FittedDensity;
use super::{Groups, SmootherParts};
use crate::density::GaussianParts;
use crate::error::check_lengths;
use crate::sample_weights::SampleWeights;
use crate::weights::Weights;
use crate::{Bandwidth, Error, FittedScale, Kernel};

/// Neighbor search, kernel, bandwidths and density of a fitted model.
pub struct KernelSmoother<'a> {
    pub(crate) index: Box<dyn NeighborIndex + 'a>,
    pub(crate) choice: IndexChoice,
    pub(crate) kernel: Kernel,
    pub(crate) bandwidth: Bandwidth,
    pub(crate) density: FittedDensity<'a>,
    /// The dimension in the constants of density and kernel.
    pub(crate) dimension: f64,
    pub(crate) scale: FittedScale,
    pub(crate) n_neighbors: usize,
    /// The part of `ln h^d`, with `d = dimension`, that belongs to the scaled search space; see [`log_scale_volume`].
    pub(super) log_scale_volume: f64,
    pub(crate) normalize: bool,
    pub(crate) column_names: Option<Vec<String>>,
    pub(crate) sample_weights: SampleWeights,
}

impl fmt::Debug for KernelSmoother<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelSmoother")
            .field("index", &self.index.describe())
            .field("rows", &self.index.len())
            .field("dim", &self.index.dim())
            .field("n_neighbors", &self.n_neighbors)
            .field("kernel", &self.kernel)
            .field("bandwidth", &self.bandwidth)
            .field("dimension", &self.dimension)
            .field("scale", &self.scale)
            .finish_non_exhaustive()
    }
}

/// `ln h^d` with the geometric mean `h` of bandwidths per dimension and `d = dimension`, which may be the intrinsic dimension. Zero
/// for other bandwidths, because they do not scale the search space.
pub(super) fn log_scale_volume(bandwidth: &Bandwidth, dimension: f64) -> f64 {
    match bandwidth {
        Bandwidth::PerDimension(scale) => {
            dimension * scale.iter().map(|h| h.ln()).sum::<f64>() / scale.len() as f64
        }
        _ => 0.0,
    }
}

impl<'a> KernelSmoother<'a> {
    pub(crate) fn parts(&self) -> SmootherParts {
        let Self { kernel, dimension, scale, n_neighbors, normalize, .. } = *self;
        let (bandwidth, density, choice) =
            (self.bandwidth.clone(), self.density.parts(), self.choice.clone());
        let column_names = self.column_names.clone();
        let sample_weights = self.sample_weights.by_id().map(<[f64]>::to_vec);
        SmootherParts {
            kernel,
            bandwidth,
            density,
            dimension,
            scale,
            n_neighbors,
            normalize,
            choice,
            column_names,
            sample_weights,
            gaussians: None,
        }
    }

    /// The Gaussians of the density; `None` if it has none.
    pub(crate) fn gaussian_parts(&self, groups: Groups<'_>) -> Result<Option<GaussianParts>, Error> {
        self.density.gaussian_parts(&*self.index, groups, &self.sample_weights)
    }

    /// As [`FittedDensity::small_gaussian_parts`].
    pub(crate) fn small_gaussian_parts(&self, max_bytes: usize) -> Option<GaussianParts> {
        self.density.small_gaussian_parts(max_bytes)
    }

    /// Checks that the classes of rows can be changed. After a change the Gaussians of the density are fitted again,
    /// and this needs stored rows.
    pub(crate) fn check_refit(&self) -> Result<(), Error> {
        match self.index.rows().is_stored() || !self.density.parts().has_gaussians() {
            true => Ok(()),
            false => Err(nuq_neighbors::Error::RowsNotStored.into()),
        }
    }

    /// Restores a smoother from its parts and an index that is scaled by the bandwidths per dimension, if there are any.
    pub(crate) fn from_parts(
        parts: SmootherParts,
        index: Box<dyn NeighborIndex + 'a>,
    ) -> Result<Self, Error> {
        parts.check(&*index)?;
        let SmootherParts {
            kernel,
            bandwidth,
            density,
            dimension,
            scale,
            n_neighbors,
            normalize,
            choice,
            column_names,
            sample_weights,
            gaussians,
        } = parts;
        let rows = index.rows();
        let sample_weights = SampleWeights::restored(sample_weights, &rows.live_ids(), rows.id_bound())?;
        let log_scale_volume = log_scale_volume(&bandwidth, dimension);
        let density = FittedDensity::from_parts(density, gaussians)?;
        Ok(Self {
            index,
            choice,
            kernel,
            bandwidth,
            density,
            dimension,
            scale,
            n_neighbors,
            log_scale_volume,
            normalize,
            column_names,
            sample_weights,
        })
    }

    /// Inserts rows, which are not yet normalized, and returns their ids. Bandwidths, dimension and scale are not fitted again. Weights
    /// of 0 are not allowed.
    pub(crate) fn insert(
        &mut self,
        rows: &Embeddings<'_>,
        sample_weights: Option<&[f64]>,
    ) -> Result<Vec<u32>, Error> {
        if matches!(self.bandwidth, Bandwidth::PerPoint(_)) {
            return Err(Error::PerPointBandwidthFixed);
        }
        let ids = self.index.insert(&self.prepare(rows))?;
        self.sample_weights.insert(&ids, sample_weights, self.index.rows().id_bound());
        self.update_derived();
        Ok(ids)
    }

    /// Removes rows. On error no row is removed.
    pub(crate) fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        let mut distinct = ids.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() >= self.index.len() && distinct.iter().all(|&id| self.index.rows().contains(id)) {
            return Err(Error::NoRows { what: "training rows left" });
        }
        self.index.remove(ids)?;
        self.update_derived();
        Ok(())
    }

    /// Rejects an id that names no row or is listed twice.
    pub(crate) fn check_ids(&self, ids: &[u32]) -> Result<(), Error> {
        let rows = self.index.rows();
        let mut listed = HashSet::with_capacity(ids.len());
        let problem = |id: u32, is_new: bool| match rows.contains(id) {
            false => Some("which names no row"),
            true => (!is_new).then_some("which is listed twice"),
        };
        for (position, &id) in ids.iter().enumerate() {
            if let Some(problem) = problem(id, listed.insert(id)) {
                return Err(Error::CannotRelabel { position, id, problem });
            }
        }
        Ok(())
    }

    /// Discards the fitted Gaussians, because the classes of rows have changed. They are fitted again before their next
    /// use.
    pub(crate) fn invalidate_density(&mut self) {
        self.density.invalidate();
    }

    /// Updates the sum of the sample weights and discards the fitted Gaussians, because both depend on the rows.
    fn update_derived(&mut self) {
        match self.sample_weights.by_id() {
            None => self.sample_weights = SampleWeights::ones(self.index.len()),
            Some(_) => self.sample_weights.update_total(&self.index.rows().live_ids()),
        }
        self.density.invalidate();
    }

    /// Converts queries from the user's space to the space of the index.
    pub(crate) fn prepare<'q>(&self, queries: &Embeddings<'q>) -> Embeddings<'q> {
        if self.normalize { queries.l2_normalized() } else { queries.clone() }
    }

    /// The neighbors of prepared queries.
    pub(crate) fn search(&self, queries: &Embeddings<'_>) -> Result<Neighbors, Error> {
        Ok(self.index.search(queries, self.n_neighbors)?)
    }

    /// Combines prepared queries with their neighbors, after a check that both fit together.
    pub(crate) fn batch<'b>(
        &'b self,
        queries: &'b Embeddings<'b>,
        neighbors: &'b Neighbors,
    ) -> Result<Batch<'b>, Error> {
        self.index.verify_once()?;
        let dim = self.index.dim();
        if queries.dim() != dim {
            let (got, expected) = (queries.dim(), dim);
            return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
        }
        check_lengths(("rows of the neighbor table", neighbors.len()), ("queries", queries.len()))?;
        neighbors.check_ids(self.index.rows())?;
        Ok(Batch::new(self, queries, neighbors))
    }

    /// Calls `work` for each block of training rows. The arguments are the ids of the rows, a batch with the rows as
    /// queries, and the neighbors of the rows. A row is never its own neighbor.
    pub(crate) fn for_left_out_blocks(
        &self,
        mut work: impl FnMut(&[u32], Batch<'_>, &Neighbors) -> Result<(), Error>,
    ) -> Result<(), Error> {
        const ROWS: usize = 4096;
        let ids = self.index.rows().live_ids();
        progress::start("searching neighbors of training rows", ids.len());
        for ids in ids.chunks(ROWS) {
            let neighbors = self.index.leave_one_out(ids, self.n_neighbors)?;
            let rows = self.index.rows().gather(ids)?;
            work(ids, self.batch(&rows, &neighbors)?.without_own_rows(ids), &neighbors)?;
        }
        // The rows were read after the search of their neighbors.
        Ok(self.index.rows().verify_unchanged()?)
    }

    /// The results of `predict` for all training rows, and the neighbors of each row among the other rows.
    pub(crate) fn predict_left_out<T>(
        &self,
        mut predict: impl FnMut(Batch<'_>, &Neighbors) -> Result<Vec<T>, Error>,
    ) -> Result<(Vec<T>, Neighbors), Error> {
        let (mut rows, mut blocks) = (Vec::new(), Vec::new());
        self.for_left_out_blocks(|_, batch, neighbors| {
            rows.extend(predict(batch, neighbors)?);
            blocks.push(neighbors.clone());
            Ok(())
        })?;
        Ok((rows, Neighbors::concat(blocks)))
    }

    /// `ln h^d` at a query. With one bandwidth per training row, `h^(−d)` is the kernel-weighted mean of the neighbors'
    /// `h_k^(−d)`, so that `N h^d p̂` is the kernel sum `Σ_k K(z_k)` if the density has the same bandwidths.
    pub(super) fn log_volume(&self, ids: &[u32], weights: &Weights) -> f64 {
        let d = self.dimension;
        match &self.bandwidth {
            Bandwidth::Scalar(h) => d * h.ln(),
            Bandwidth::PerDimension(_) => self.log_scale_volume,
            Bandwidth::PerPoint(h) => -weights.log_mean_exp(ids.iter().map(|&id| -d * h[id as usize].ln())),
        }
    }
}
