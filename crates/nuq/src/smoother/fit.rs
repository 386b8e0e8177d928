//! Fits index, bandwidth, dimension and density. A callback selects the bandwidth from leave-one-out predictions, which
//! depend on labels or targets.

use std::cell::OnceCell;

use nuq_neighbors::{Embeddings, IndexChoice, IndexRequest, NeighborIndex, progress};

use super::fit_density::fit_density;
use super::kernel_smoother::log_scale_volume;
use super::{Groups, KernelSmoother};
use crate::Error;
use crate::bandwidth::{self, Bandwidth, BandwidthRule, SelectionCurve};
use crate::density::Density;
use crate::dimension::{Dimension, intrinsic_dimension};
use crate::leave_one_out::LeaveOneOut;
use crate::params::{Params, Task};
use crate::selection::Selection;

/// Fits a smoother. `select` scores a grid of bandwidths if the rule is leave-one-out.
pub(crate) fn fit<'a, T: Task, S>(
    params: &Params<T>,
    embeddings: &Embeddings<'a>,
    groups: Groups<'_>,
    select: impl FnOnce(&LeaveOneOut<'_>, &T::Criterion, &[f64]) -> SelectionCurve<S>,
) -> Result<(KernelSmoother<'a>, Option<SelectionCurve<S>>), Error> {
    params.check()?;
    let normalized = params.normalize.then(|| embeddings.l2_normalized());
    let embeddings: &Embeddings<'a> = normalized.as_ref().unwrap_or(embeddings);
    if embeddings.is_empty() {
        return Err(nuq_neighbors::Error::Empty.into());
    }
    let (plan, index, choice) = plan(params, embeddings)?;
    let sample = Sample { index: &*index, params, drawn: OnceCell::new() };
    let (bandwidth, curve) = match plan {
        Plan::Known(bandwidth) => (bandwidth, None),
        Plan::LeaveOneOut { criterion, points } => {
            let Selection { rows, neighbors } = sample.get()?;
            let table = LeaveOneOut { index: &*index, rows, neighbors, kernel: params.kernel };
            let curve = select(&table, criterion, &table.grid(points)?);
            (Bandwidth::Scalar(curve.bandwidth()), Some(curve))
        }
    };
    let dimension = dimension(params, embeddings, &sample)?;
    let log_scale_volume = log_scale_volume(&bandwidth, dimension);
    let density = fit_density(embeddings, groups, &sample, (dimension, log_scale_volume))?;
    let smoother = KernelSmoother {
        kernel: params.kernel,
        bandwidth,
        density,
        dimension,
        n_neighbors: params.n_neighbors,
        log_scale_volume,
        normalize: params.normalize,
        column_names: None,
        index,
        choice,
    };
    Ok((smoother, curve))
}

/// The bandwidth, or the rule that selects it after the index is built.
enum Plan<'p, C> {
    Known(Bandwidth),
    LeaveOneOut { criterion: &'p C, points: usize },
}

/// The bandwidth plan, the index in the scaled space, and the reason for its kind.
type Planned<'p, 'a, C> = (Plan<'p, C>, Box<dyn NeighborIndex + 'a>, IndexChoice);

/// Computes bandwidths that need no neighbors and builds the index.
fn plan<'p, 'a, T: Task>(
    params: &'p Params<T>,
    embeddings: &Embeddings<'a>,
) -> Result<Planned<'p, 'a, T::Criterion>, Error> {
    let per_dimension = |rule: fn(&[f64]) -> Option<f64>| {
        progress::start("selecting the bandwidth of each column", 0);
        bandwidth::per_dimension(embeddings, rule).map(Bandwidth::PerDimension)
    };
    // Fitting searches the neighbors of its sample, which counts as queries.
    let queries = params.index.queries.saturating_add(params.selection_rows.min(embeddings.len()) as u64);
    let request =
        IndexRequest { n_neighbors: params.n_neighbors, queries, seed: params.seed, ..params.index };
    let known = match &params.bandwidth {
        BandwidthRule::LeaveOneOut { .. } | BandwidthRule::Adaptive { .. } => None,
        BandwidthRule::Fixed(given) => {
            given.check(embeddings.len(), embeddings.dim())?;
            Some(given.clone())
        }
        BandwidthRule::Silverman => Some(per_dimension(bandwidth::silverman)?),
        BandwidthRule::Scott => Some(per_dimension(bandwidth::scott)?),
        // With few points the fixed point may not exist.
        BandwidthRule::ImprovedSheatherJones => Some(per_dimension(|column| {
            bandwidth::improved_sheather_jones(column).or_else(|| bandwidth::silverman(column))
        })?),
    };
    let scale = match &known {
        Some(Bandwidth::PerDimension(scale)) => Some(scale.clone()),
        _ => None,
    };
    let (index, choice) = request.build(embeddings, scale)?;
    let plan = match (known, &params.bandwidth) {
        (Some(bandwidth), _) => Plan::Known(bandwidth),
        (None, BandwidthRule::LeaveOneOut { criterion, points }) => {
            Plan::LeaveOneOut { criterion, points: *points }
        }
        (None, BandwidthRule::Adaptive { k }) => Plan::Known(Bandwidth::PerPoint(
            bandwidth::kth_neighbor_distances(&*index, k.unwrap_or(params.n_neighbors))?,
        )),
        (None, _) => unreachable!("every other rule gives its bandwidth without an index"),
    };
    Ok((plan, index, choice))
}

/// The dimension in the constants. A single row has no intrinsic dimension and gives the ambient one.
fn dimension<T: Task>(
    params: &Params<T>,
    embeddings: &Embeddings<'_>,
    sample: &Sample<'_, T>,
) -> Result<f64, Error> {
    let ambient = embeddings.dim();
    // Product kernels and Gaussians are densities of all coordinates.
    let allows_intrinsic =
        params.kernel.is_radial() && matches!(params.density, Density::Kde { .. } | Density::Auto);
    match params.dimension {
        Dimension::Intrinsic if allows_intrinsic && embeddings.len() > 1 => {
            Ok(intrinsic_dimension(&sample.get()?.neighbors, ambient))
        }
        _ => Ok(ambient as f64),
    }
}

/// The sample from which bandwidths and dimension are estimated. It is drawn once, on first use.
pub(super) struct Sample<'s, T: Task> {
    pub(super) index: &'s dyn NeighborIndex,
    pub(super) params: &'s Params<T>,
    drawn: OnceCell<Selection>,
}

impl<T: Task> Sample<'_, T> {
    pub(super) fn get(&self) -> Result<&Selection, Error> {
        if let Some(drawn) = self.drawn.get() {
            return Ok(drawn);
        }
        let Params { kernel, n_neighbors, selection_rows, seed, .. } = *self.params;
        let points = match self.params.bandwidth {
            BandwidthRule::LeaveOneOut { points, .. } => points,
            _ => 1,
        };
        let drawn = Selection::draw(self.index, kernel, n_neighbors, points, selection_rows, seed)?;
        Ok(self.drawn.get_or_init(|| drawn))
    }
}
