//! What a query's neighborhood says before any label is looked at: kernel weights, density, and the scale of
//! the estimate's variance. Classifier and regressor both stand on it.

use std::fmt;

use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex, Neighbors};

use crate::bandwidth::leave_one_out::{LeaveOneOut, scaled_differences};
use crate::bandwidth::{self, Bandwidth, BandwidthRule, SelectionCurve};
use crate::density::{ClassGaussians, Density, DensityBandwidth};
use crate::dimension::intrinsic_dimension;
use crate::log_space::log_sum;
use crate::params::{Params, Task};
use crate::selection::Selection;
use crate::{Classes, Dimension, Error, Kernel};

/// Neighbor search, kernel, bandwidths and density, fitted.
pub(crate) struct Smoother<'a> {
    pub(crate) index: ExactIndex<'a>,
    pub(crate) kernel: Kernel,
    pub(crate) bandwidth: Bandwidth,
    pub(crate) density: FittedDensity<'a>,
    /// The dimension in the constants.
    pub(crate) dimension: f64,
    pub(crate) neighbors: usize,
    /// The part of $\ln h^d$ that the search space has absorbed: all of it with a bandwidth per dimension, whose
    /// geometric mean counts, and none otherwise.
    log_scale_volume: f64,
    normalize: bool,
}

pub(crate) enum FittedDensity<'a> {
    /// The posterior's bandwidth.
    Same,
    Kde(f64),
    Gaussians(Box<ClassGaussians<'a>>),
}

impl fmt::Debug for Smoother<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smoother")
            .field("embeddings", self.index.embeddings())
            .field("neighbors", &self.neighbors)
            .field("kernel", &self.kernel)
            .field("bandwidth", &self.bandwidth)
            .field("dimension", &self.dimension)
            .finish_non_exhaustive()
    }
}

/// One query's neighborhood.
pub(crate) struct Local {
    /// $\ln K(z_k)/K(0)$ with the posterior's bandwidth.
    pub(crate) log_ratios: Vec<f64>,
    /// $\ln \hat p(x)$.
    pub(crate) log_density: f64,
    /// $\ln \|K\|_2^2 / (N h^d \hat p(x))$: what a variance of the labels is multiplied by.
    pub(crate) log_variance_scale: f64,
}

/// The classes that Gaussian densities are fitted to.
pub(crate) struct Groups<'g> {
    pub(crate) classes: &'g Classes,
    pub(crate) of_row: &'g [u32],
}

impl<'a> Smoother<'a> {
    /// Fits everything but the labels; `select` chooses a scalar bandwidth when the rule is leave-one-out.
    pub(crate) fn fit<T: Task, S>(
        params: &Params<T>,
        embeddings: &Embeddings<'a>,
        groups: Groups<'_>,
        select: impl FnOnce(&LeaveOneOut<'_>, &T::Criterion, &[f64]) -> SelectionCurve<S>,
    ) -> Result<(Self, Option<SelectionCurve<S>>), Error> {
        params.check()?;
        let normalized = params.normalize.then(|| embeddings.l2_normalized());
        let embeddings: &Embeddings<'a> = normalized.as_ref().unwrap_or(embeddings);
        if embeddings.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        let (known, index) = known_bandwidth(params, embeddings)?;
        let is_kde = matches!(params.density, Density::Kde { .. });
        let intrinsic = params.dimension == Dimension::Intrinsic && is_kde && params.kernel.is_radial();
        let own_bandwidth = params.density == Density::Kde { bandwidth: DensityBandwidth::KthNeighbor };
        // A single row has no intrinsic dimension; it is no reason to refuse a bandwidth that is given.
        let wanted = known.is_none() || own_bandwidth || (intrinsic && embeddings.len() > 1);
        let selection = wanted
            .then(|| {
                Selection::draw(&index, params.kernel, params.neighbors, params.selection_rows, params.seed)
            })
            .transpose()?;
        let selection = selection.as_ref();
        let (bandwidth, curve) = match (known, &params.bandwidth) {
            (Some(bandwidth), _) => (bandwidth, None),
            (None, BandwidthRule::LeaveOneOut { criterion, points }) => {
                let table = leave_one_out(selection, &index, params.kernel);
                let curve = select(&table, criterion, &table.grid(*points)?);
                (Bandwidth::Scalar(curve.bandwidth()), Some(curve))
            }
            _ => unreachable!("only leave-one-out leaves the bandwidth open"),
        };
        let density = match &params.density {
            Density::Kde { bandwidth: DensityBandwidth::Same } => FittedDensity::Same,
            Density::Kde { bandwidth: DensityBandwidth::Fixed(h) } => {
                bandwidth::check_scalar(*h, "density bandwidth")?;
                FittedDensity::Kde(*h)
            }
            Density::Kde { bandwidth: DensityBandwidth::KthNeighbor } => {
                let selection = selection.expect("the density's own bandwidth asked for the sample");
                FittedDensity::Kde(selection.half_median_distance(embeddings.len())?)
            }
            Density::Gaussians { covariance, shrinkage } => {
                let Groups { classes, of_row } = groups;
                let fitted =
                    ClassGaussians::fit_encoded(embeddings, classes, of_row, *covariance, *shrinkage)?;
                FittedDensity::Gaussians(Box::new(fitted))
            }
        };
        let dimension = match selection {
            Some(selection) if intrinsic => intrinsic_dimension(&selection.neighbors, embeddings.dim()),
            _ => embeddings.dim() as f64,
        };
        let log_scale_volume = match &bandwidth {
            Bandwidth::PerDimension(scale) => {
                dimension * scale.iter().map(|h| h.ln()).sum::<f64>() / scale.len() as f64
            }
            _ => 0.0,
        };
        let smoother = Self {
            index,
            kernel: params.kernel,
            bandwidth,
            density,
            dimension,
            neighbors: params.neighbors,
            log_scale_volume,
            normalize: params.normalize,
        };
        Ok((smoother, curve))
    }

    /// The queries as the index knows them.
    pub(crate) fn prepare<'q>(&self, queries: &Embeddings<'q>) -> Embeddings<'q> {
        if self.normalize { queries.l2_normalized() } else { queries.clone() }
    }

    /// The distances of rows that something else chose, for queries as the user has them.
    pub(crate) fn measure(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        ids: &[u32],
    ) -> Result<Neighbors, Error> {
        Ok(self.index.measure(&self.prepare(queries), k, ids)?)
    }

    /// The neighbors of prepared queries.
    pub(crate) fn search(&self, queries: &Embeddings<'_>) -> Result<Neighbors, Error> {
        Ok(self.index.search(queries, self.neighbors)?)
    }

    /// Checks a neighbor table against prepared queries.
    pub(crate) fn batch<'b>(
        &'b self,
        queries: &'b Embeddings<'b>,
        neighbors: &'b Neighbors,
    ) -> Result<Batch<'b>, Error> {
        let dim = self.index.dim();
        if queries.dim() != dim {
            let (got, expected) = (queries.dim(), dim);
            return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
        }
        if neighbors.len() != queries.len() {
            let (got, expected) = (neighbors.len(), queries.len());
            let what = "rows of the neighbor table";
            return Err(nuq_neighbors::Error::LengthMismatch { what, got, expected }.into());
        }
        neighbors.check_ids(self.index.len())?;
        Ok(Batch { smoother: self, queries, neighbors, log_gaussians: None })
    }

    /// The posterior's bandwidth at training point `id`, in the search space.
    fn bandwidth_of(&self, id: u32) -> f64 {
        match &self.bandwidth {
            Bandwidth::Scalar(h) => *h,
            Bandwidth::PerDimension(_) => 1.0,
            Bandwidth::PerPoint(h) => h[id as usize],
        }
    }

    /// $\ln h^d$ at a query. With a bandwidth per point, $h^{-d}$ is the kernel-weighted mean of the neighbors'
    /// $h_k^{-d}$, so that $N h^d \hat p$ is the plain kernel sum when the density has the same bandwidths.
    fn log_volume(&self, ids: &[u32], log_ratios: &[f64]) -> f64 {
        let d = self.dimension;
        match &self.bandwidth {
            Bandwidth::Scalar(h) => d * h.ln(),
            Bandwidth::PerDimension(_) => self.log_scale_volume,
            Bandwidth::PerPoint(h) => {
                let top = log_ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights = log_ratios.iter().map(|ratio| ratio - top);
                let divided = weights.clone().zip(ids).map(|(weight, &id)| weight - d * h[id as usize].ln());
                log_sum(weights) - log_sum(divided)
            }
        }
    }
}

/// The bandwidth where it does not take leave-one-out to know it, and the index in its space.
fn known_bandwidth<'a, T: Task>(
    params: &Params<T>,
    embeddings: &Embeddings<'a>,
) -> Result<(Option<Bandwidth>, ExactIndex<'a>), Error> {
    let per_dimension = |rule: fn(&[f64]) -> Option<f64>| bandwidth::per_dimension(embeddings, rule);
    let fallback =
        |column: &[f64]| bandwidth::improved_sheather_jones(column).or_else(|| bandwidth::silverman(column));
    let known = match &params.bandwidth {
        BandwidthRule::LeaveOneOut { .. } => None,
        BandwidthRule::Fixed(given) => {
            given.check(embeddings.len(), embeddings.dim())?;
            Some(given.clone())
        }
        BandwidthRule::Silverman => Some(Bandwidth::PerDimension(per_dimension(bandwidth::silverman)?)),
        BandwidthRule::Scott => Some(Bandwidth::PerDimension(per_dimension(bandwidth::scott)?)),
        BandwidthRule::ImprovedSheatherJones => {
            Some(Bandwidth::PerDimension(bandwidth::per_dimension(embeddings, fallback)?))
        }
        BandwidthRule::KthNeighbor { k } => {
            let index = ExactIndex::new(embeddings)?;
            let distances = bandwidth::kth_neighbor_distances(&index, *k)?;
            return Ok((Some(Bandwidth::PerPoint(distances)), index));
        }
    };
    let index = match &known {
        Some(Bandwidth::PerDimension(scale)) => ExactIndex::scaled(embeddings, scale.clone())?,
        _ => ExactIndex::new(embeddings)?,
    };
    Ok((known, index))
}

fn leave_one_out<'t>(
    selection: Option<&'t Selection>,
    index: &'t ExactIndex<'_>,
    kernel: Kernel,
) -> LeaveOneOut<'t> {
    let Selection { rows, neighbors } = selection.expect("an open bandwidth asked for the sample");
    LeaveOneOut { index, rows, neighbors, kernel }
}

/// Queries with their neighbors, ready to be read row by row.
pub(crate) struct Batch<'b> {
    smoother: &'b Smoother<'b>,
    queries: &'b Embeddings<'b>,
    neighbors: &'b Neighbors,
    /// $\ln \hat p$ of each query, where the density is one of Gaussians.
    log_gaussians: Option<Vec<f64>>,
}

impl Batch<'_> {
    pub(crate) fn len(&self) -> usize {
        self.queries.len()
    }

    /// Evaluates the densities that take whole batches; [`local`](Self::local) needs it.
    pub(crate) fn with_density(self) -> Result<Self, Error> {
        let log_gaussians = match &self.smoother.density {
            FittedDensity::Gaussians(gaussians) => Some(gaussians.log_density(self.queries)?),
            _ => None,
        };
        Ok(Self { log_gaussians, ..self })
    }

    /// $\ln K(z_k)/K(0)$ of query `i`'s neighbors with the posterior's bandwidth.
    pub(crate) fn log_ratios(&self, i: usize) -> Vec<f64> {
        self.log_ratios_with(i, &|id| self.smoother.bandwidth_of(id))
    }

    /// The neighborhood of query `i`.
    pub(crate) fn local(&self, i: usize) -> Local {
        let Smoother { index, kernel, density, dimension, log_scale_volume, .. } = self.smoother;
        let (n, d) = (index.len() as f64, *dimension);
        let log_peak = kernel.log_peak(d);
        let log_ratios = self.log_ratios(i);
        let log_volume = self.smoother.log_volume(self.neighbors.ids(i), &log_ratios);
        let log_density = match (density, &self.log_gaussians) {
            (FittedDensity::Same, _) => log_peak + log_sum(log_ratios.iter().copied()) - log_volume - n.ln(),
            (FittedDensity::Kde(h), _) => {
                let log_mass = log_sum(self.log_ratios_with(i, &|_| *h).into_iter());
                log_peak + log_mass - d * h.ln() - log_scale_volume - n.ln()
            }
            (FittedDensity::Gaussians(_), Some(log_densities)) => log_densities[i],
            (FittedDensity::Gaussians(_), None) => unreachable!("with_density evaluates the Gaussians"),
        };
        let log_variance_scale = kernel.log_sq_norm(d) - n.ln() - log_volume - log_density;
        Local { log_ratios, log_density, log_variance_scale }
    }

    /// $\ln K(z_k)/K(0)$ of query `i`'s neighbors, each with its bandwidth in the search space.
    fn log_ratios_with(&self, i: usize, bandwidth: &dyn Fn(u32) -> f64) -> Vec<f64> {
        let Smoother { index, kernel, .. } = self.smoother;
        let neighbors = self.neighbors.ids(i).iter().zip(self.neighbors.sq_distances(i));
        if kernel.is_radial() {
            let ratio = |(&id, sq): (&u32, &f64)| {
                let h = bandwidth(id);
                kernel.log_ratio_at(sq / (h * h))
            };
            return neighbors.map(ratio).collect();
        }
        let query = self.queries.row(i);
        let ratio = |(&id, _): (&u32, &f64)| {
            let row = index.embeddings().row(id as usize);
            kernel.log_ratio(scaled_differences(query, row, index.scale(), bandwidth(id)))
        };
        neighbors.map(ratio).collect()
    }
}
