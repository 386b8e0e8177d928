//! Fits index, bandwidth, dimension, density and scale. A callback selects the bandwidth from leave-one-out predictions, which
//! depend on labels or targets.

use std::cell::OnceCell;

use nuq_neighbors::{IndexChoice, IndexRequest, NeighborIndex, progress};
use rayon::prelude::*;

use super::batch::Neighborhood;
use super::fit_density::fit_density;
use super::kernel_smoother::log_scale_volume;
use super::{Groups, KernelSmoother};
use crate::Error;
use crate::bandwidth::{self, Bandwidth, BandwidthRule, SelectionCurve, Selector};
use crate::density::Density;
use crate::dimension::intrinsic_dimension;
use crate::error::{no_bandwidth, no_density_bandwidth};
use crate::leave_one_out::LeaveOneOut;
use crate::params::{Params, Task};
use crate::quantiles::Quantiles;
use crate::row_source::RowSource;
use crate::sample_weights::SampleWeights;
use crate::scale::{FittedScale, Scale};
use crate::selection::Selection;

/// A smoother, and the selection of its bandwidth if the rule is leave-one-out.
type Fitted<'a, S> = (KernelSmoother<'a>, Option<SelectionCurve<S>>);

/// A value and its sample weight.
type Weighted = (f64, f64);

/// Fits a smoother. `selector` gives the scores of bandwidths if the rule is leave-one-out. `removed` are the rows of
/// sample weight 0, which are not counted by `groups`.
pub(crate) fn fit<'a, T: Task, S: Selector>(
    params: &Params<T>,
    rows: &RowSource<'a>,
    groups: Groups<'_>,
    (sample_weights, removed): (SampleWeights, &[u32]),
    selector: impl FnOnce(T::Criterion) -> S,
) -> Result<Fitted<'a, S::Score>, Error> {
    params.check()?;
    if rows.len() == 0 {
        return Err(nuq_neighbors::Error::Empty.into());
    }
    let rows = &rows.prepared(params.normalize)?;
    let (plan, index, choice) = plan(params, rows, removed)?;
    let sample = Sample { index: &*index, params, sample_weights: &sample_weights, drawn: OnceCell::new() };
    let (bandwidth, curve) = match plan {
        Plan::Known(bandwidth) => (bandwidth, None),
        Plan::LeaveOneOut { criterion, points } => {
            let left_out = sample.leave_one_out()?;
            let grid = left_out.grid(points, params.prior_weight)?;
            let curve = left_out.select(&grid, &selector(criterion.clone()));
            (Bandwidth::Scalar(curve.bandwidth()), Some(curve))
        }
    };
    let dimension = dimension(&sample)?;
    let log_scale_volume = log_scale_volume(&bandwidth, dimension);
    let (density, gaussian_values) = fit_density(rows, groups, &sample, (dimension, log_scale_volume))?;
    if params.scale == Scale::Effective && index.len() > 1 {
        // Draws the sample for `effective_scale`, unless an earlier step drew it.
        sample.get()?;
    }
    let selection = sample.drawn.into_inner();
    let mut smoother = KernelSmoother {
        kernel: params.kernel,
        bandwidth,
        density,
        dimension,
        scale: FittedScale::Ambient,
        n_neighbors: params.n_neighbors,
        log_scale_volume,
        normalize: params.normalize,
        column_names: None,
        sample_weights,
        index,
        choice,
    };
    smoother.scale = match params.scale {
        Scale::Effective => effective_scale(&smoother, selection, gaussian_values)?,
        Scale::Intrinsic => FittedScale::Intrinsic,
        Scale::Ambient => FittedScale::Ambient,
    };
    smoother.index.record_order();
    Ok((smoother, curve))
}

/// The medians of effective sample size and log density over the left-out rows of the sample. `gaussian_values` has one
/// value of the Gaussians for each of these rows, if the density has Gaussians. Rows without a value (the only row of
/// a class) are skipped. If the model has only one row, this row cannot be left out; it counts as its own neighbor.
fn effective_scale(
    smoother: &KernelSmoother<'_>,
    selection: Option<Selection>,
    gaussian_values: Option<Vec<Option<f64>>>,
) -> Result<FittedScale, Error> {
    let index = &*smoother.index;
    let (ids, neighbors) = match selection {
        Some(Selection { rows, neighbors }) => (rows, neighbors),
        None => {
            let only = index.rows().live_ids();
            let neighbors = index.search(&index.rows().gather(&only)?, 1)?;
            (only, neighbors)
        }
    };
    let is_known = |i: &usize| gaussian_values.as_ref().is_none_or(|values| values[*i].is_some());
    let known: Vec<usize> = (0..ids.len()).filter(is_known).collect();
    let values = gaussian_values
        .as_ref()
        .map(|values| values.iter().map(|value| value.unwrap_or(0.0)).collect::<Vec<f64>>());
    let rows = index.rows().gather(&ids)?;
    let batch = smoother.batch(&rows, &neighbors)?.with_gaussian_values(values);
    let sample_weights = &smoother.sample_weights;
    let (sizes, log_densities): (Vec<Weighted>, Vec<Weighted>) = known
        .into_par_iter()
        .map(|i| {
            let Neighborhood { weights, log_density, .. } = batch.neighborhood(i);
            let of_neighbors = neighbors.ids(i).iter().map(|&id| sample_weights.of(id));
            let (size, own) = (weights.effective_sample_size(of_neighbors), sample_weights.of(ids[i]));
            ((size, own), (smoother.density.calibrated(log_density), own))
        })
        .unzip();
    let [sample_size, log_density] =
        [sizes, log_densities].map(|values| Quantiles::of(values.into_iter()).median());
    Ok(FittedScale::Effective { sample_size, log_density })
}

/// The bandwidth, or the options of leave-one-out, which selects it later.
enum Plan<'p, C> {
    Known(Bandwidth),
    LeaveOneOut { criterion: &'p C, points: usize },
}

/// The bandwidth plan, the index in the scaled space, and the reason for its kind.
type Planned<'p, 'a, C> = (Plan<'p, C>, Box<dyn NeighborIndex + 'a>, IndexChoice);

/// Determines the bandwidth unless leave-one-out selects it later. Builds the index and removes the rows `removed` from it. The
/// adaptive bandwidth is computed after the index is built, because it needs neighbors.
fn plan<'p, 'a, T: Task>(
    params: &'p Params<T>,
    rows: &RowSource<'a>,
    removed: &[u32],
) -> Result<Planned<'p, 'a, T::Criterion>, Error> {
    let per_dimension = |rule: fn(&[f64]) -> Option<f64>| {
        progress::start("selecting the bandwidth of each column", 0);
        bandwidth::per_dimension(rows, removed, rule).map(Bandwidth::PerDimension)
    };
    // The neighbors of the sample are searched too. These searches count as queries.
    let queries = params.index.queries.saturating_add(params.selection_rows.min(rows.len()) as u64);
    let request =
        IndexRequest { n_neighbors: params.n_neighbors, queries, seed: params.seed, ..params.index };
    let known = match &params.bandwidth {
        BandwidthRule::LeaveOneOut { .. } | BandwidthRule::Adaptive { .. } => None,
        BandwidthRule::Fixed(given) => {
            given.check(rows.len(), rows.dim())?;
            Some(given.clone())
        }
        BandwidthRule::Silverman => Some(per_dimension(bandwidth::silverman)?),
        BandwidthRule::Scott => Some(per_dimension(bandwidth::scott)?),
        // With few rows the equation of this rule may have no solution; then Silverman's rule is used.
        BandwidthRule::ImprovedSheatherJones => Some(per_dimension(|column| {
            bandwidth::improved_sheather_jones(column).or_else(|| bandwidth::silverman(column))
        })?),
    };
    let scale = match &known {
        Some(Bandwidth::PerDimension(scale)) => Some(scale.clone()),
        _ => None,
    };
    let (mut index, choice) = rows.build(&request, scale)?;
    if !removed.is_empty() {
        index.remove(removed)?;
    }
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

/// The dimension used in the normalization constants of the density: the intrinsic dimension or the ambient one (the number of columns).
/// A single row has no intrinsic dimension; the ambient one is then used.
fn dimension<T: Task>(sample: &Sample<'_, T>) -> Result<f64, Error> {
    let (params, ambient) = (sample.params, sample.index.dim());
    // Product kernels and Gaussians are densities of all coordinates.
    let allows_intrinsic =
        params.kernel.is_radial() && matches!(params.density, Density::Kde { .. } | Density::Auto);
    if params.scale != Scale::Ambient && allows_intrinsic && sample.index.len() > 1 {
        return Ok(intrinsic_dimension(&sample.get()?.neighbors, ambient));
    }
    Ok(ambient as f64)
}

/// The sample from which bandwidths, dimension, density and effective scale are estimated. It is drawn once, on first
/// use.
pub(super) struct Sample<'s, T: Task> {
    pub(super) index: &'s dyn NeighborIndex,
    pub(super) params: &'s Params<T>,
    pub(super) sample_weights: &'s SampleWeights,
    drawn: OnceCell<Selection>,
}

impl<T: Task> Sample<'_, T> {
    pub(super) fn get(&self) -> Result<&Selection, Error> {
        if let Some(drawn) = self.drawn.get() {
            return Ok(drawn);
        }
        let Params { kernel, n_neighbors, selection_rows, seed, .. } = *self.params;
        let rows = self.index.len();
        let points = match self.params.bandwidth {
            BandwidthRule::LeaveOneOut { .. } if rows < 2 => return Err(no_bandwidth(rows)),
            // The other rules do not use the sample, so only the bandwidth of the density is missing.
            _ if rows < 2 => return Err(no_density_bandwidth(rows)),
            BandwidthRule::LeaveOneOut { points, .. } => points,
            _ => 1,
        };
        let drawn = Selection::draw(self.index, kernel, n_neighbors, points, selection_rows, seed)?;
        Ok(self.drawn.get_or_init(|| drawn))
    }

    /// The sampled rows with their neighbors, for leave-one-out.
    pub(super) fn leave_one_out(&self) -> Result<LeaveOneOut<'_>, Error> {
        let Selection { rows, neighbors } = self.get()?;
        let Self { index, params, sample_weights, .. } = *self;
        Ok(LeaveOneOut { index, rows, neighbors, kernel: params.kernel, sample_weights })
    }
}
