//! Fitting all that does not depend on labels, and asking the labels' side for the one thing that does: which
//! bandwidth predicts left-out points best.

use std::cell::OnceCell;

use nuq_neighbors::{Embeddings, IndexChoice, IndexRequest, NeighborIndex, Precision};

use super::{FittedDensity, Gaussians, Smoother, all_rows, log_scale_volume};
use crate::bandwidth::leave_one_out::LeaveOneOut;
use crate::bandwidth::{self, Bandwidth, BandwidthRule, SelectionCurve};
use crate::density::{AutoDensity, ClassGaussians, Density, DensityBandwidth, auto};
use crate::dimension::{Dimension, intrinsic_dimension};
use crate::params::{Params, Task};
use crate::selection::Selection;
use crate::{Classes, Error};

/// The classes that Gaussian densities are fitted to.
pub(crate) struct Groups<'g> {
    pub(crate) classes: &'g Classes,
    pub(crate) of_row: &'g [u32],
}

/// Fits a smoother; `select` chooses a scalar bandwidth when the rule is leave-one-out.
pub(crate) fn fit<'a, T: Task, S>(
    params: &Params<T>,
    embeddings: &Embeddings<'a>,
    groups: &Groups<'_>,
    select: impl FnOnce(&LeaveOneOut<'_>, &T::Criterion, &[f64]) -> SelectionCurve<S>,
) -> Result<(Smoother<'a>, Option<SelectionCurve<S>>), Error> {
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
    let density = density(params, embeddings, groups, &sample, (dimension, log_scale_volume))?;
    let smoother = Smoother {
        kernel: params.kernel,
        bandwidth,
        density,
        dimension,
        n_neighbors: params.n_neighbors,
        log_scale_volume,
        normalize: params.normalize,
        index,
        choice,
        thresholds: Default::default(),
    };
    Ok((smoother, curve))
}

/// Where the bandwidth comes from.
enum Plan<'p, C> {
    Known(Bandwidth),
    LeaveOneOut { criterion: &'p C, points: usize },
}

/// A bandwidth or how to find one, the index in its space, and why that index.
type Planned<'p, 'a, C> = (Plan<'p, C>, Box<dyn NeighborIndex + 'a>, IndexChoice);

/// The bandwidth, where leave-one-out is not needed to know it, and the index in its space.
fn plan<'p, 'a, T: Task>(
    params: &'p Params<T>,
    embeddings: &Embeddings<'a>,
) -> Result<Planned<'p, 'a, T::Criterion>, Error> {
    let per_dimension = |rule: fn(&[f64]) -> Option<f64>| {
        bandwidth::per_dimension(embeddings, rule).map(Bandwidth::PerDimension)
    };
    // Fitting asks for the neighbors of its sample, as a user would.
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
        // A few points may have no fixed point.
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
        (None, _) => unreachable!("every other rule knows its bandwidth"),
    };
    Ok((plan, index, choice))
}

fn density<'a, T: Task>(
    params: &Params<T>,
    embeddings: &Embeddings<'a>,
    groups: &Groups<'_>,
    sample: &Sample<'_, T>,
    constants: (f64, f64),
) -> Result<FittedDensity<'a>, Error> {
    Ok(match &params.density {
        Density::Auto => auto_density(embeddings, groups, sample, constants)?,
        Density::Kde { bandwidth: DensityBandwidth::Same } => FittedDensity::Same,
        Density::Kde { bandwidth: DensityBandwidth::Fixed(h) } => FittedDensity::Kde(*h),
        Density::Kde { bandwidth: DensityBandwidth::HalfMedian } => {
            FittedDensity::Kde(sample.get()?.half_median_distance(embeddings.len())?)
        }
        Density::Gmm { covariance, shrinkage } => {
            let Groups { classes, of_row } = groups;
            let embeddings = as_kept(embeddings, sample.index)?;
            let fitted = ClassGaussians::fit_encoded(&embeddings, classes, of_row, *covariance, *shrinkage)?;
            let fitted = Gaussians::Fitted(Box::new(fitted));
            FittedDensity::Gmm { covariance: *covariance, shrinkage: *shrinkage, fitted }
        }
    })
}

/// The rows as the model keeps them, so that what is fitted to them is the same after it was saved and opened.
fn as_kept<'a>(embeddings: &Embeddings<'a>, index: &dyn NeighborIndex) -> Result<Embeddings<'a>, Error> {
    if index.rows().precision() == Precision::F16 { all_rows(index) } else { Ok(embeddings.clone()) }
}

/// Kernel density and Gaussians, each compared with what it says of left-out training rows.
fn auto_density<'a, T: Task>(
    embeddings: &Embeddings<'a>,
    groups: &Groups<'_>,
    sample: &Sample<'_, T>,
    (dimension, log_scale_volume): (f64, f64),
) -> Result<FittedDensity<'a>, Error> {
    let selection = sample.get()?;
    let (index, kernel) = (sample.index, sample.params.kernel);
    let h = selection.half_median_distance(embeddings.len())?;
    let table = LeaveOneOut { index, rows: &selection.rows, neighbors: &selection.neighbors, kernel };
    let log_sums = table.log_sums(h);
    let constant =
        kernel.log_peak(dimension) - dimension * h.ln() - log_scale_volume - (index.len() as f64).ln();
    let rows = as_kept(embeddings, index)?;
    let Groups { classes, of_row } = groups;
    let gaussians = auto::fit_gaussians(&rows, classes, of_row)?;
    let own = |&row: &u32| if auto::has_only_singletons(classes) { 0 } else { of_row[row as usize] };
    let own: Vec<u32> = selection.rows.iter().map(own).collect();
    let left_out = rows.gather(&selection.rows);
    let shell = auto::Shell::of(&rows);
    let mixtures = gaussians.left_out_log_mixture(&left_out, &own);
    let gaussian_scores: Vec<Option<f64>> = mixtures
        .iter()
        .zip(left_out.rows())
        .map(|(mixture, row)| Some(shell.score((*mixture)?, row)))
        .collect();
    if gaussian_scores.iter().all(Option::is_none) {
        return Err(Error::NoSpread { rows: embeddings.len() });
    }
    let kernel_scores: Vec<f64> = log_sums.iter().map(|log_sum| -log_sum).collect();
    let log_densities: Vec<f64> = log_sums.iter().map(|log_sum| log_sum + constant).collect();
    let learned = AutoDensity::learn(h, &shell, &kernel_scores, &gaussian_scores, &log_densities);
    Ok(FittedDensity::Auto { learned, fitted: Gaussians::Fitted(Box::new(gaussians)) })
}

/// The dimension in the constants. A single row has no intrinsic one; it is no reason to refuse it.
fn dimension<T: Task>(
    params: &Params<T>,
    embeddings: &Embeddings<'_>,
    sample: &Sample<'_, T>,
) -> Result<f64, Error> {
    let ambient = embeddings.dim();
    let of_surfaces =
        params.kernel.is_radial() && matches!(params.density, Density::Kde { .. } | Density::Auto);
    match params.dimension {
        Dimension::Intrinsic if of_surfaces && embeddings.len() > 1 => {
            Ok(intrinsic_dimension(&sample.get()?.neighbors, ambient))
        }
        _ => Ok(ambient as f64),
    }
}

/// The sample that bandwidths and dimension are learned from: drawn when first asked for, and once.
struct Sample<'s, T: Task> {
    index: &'s dyn NeighborIndex,
    params: &'s Params<T>,
    drawn: OnceCell<Selection>,
}

impl<T: Task> Sample<'_, T> {
    fn get(&self) -> Result<&Selection, Error> {
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
