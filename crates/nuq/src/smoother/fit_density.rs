//! Fits the density estimate of a smoother.

use nuq_neighbors::{NeighborIndex, progress};

use super::Groups;
use super::fit::Sample;
use super::fitted_density::{FittedDensity, Gaussians};
use super::gaussian_rows::GaussianRows;
use crate::Error;
use crate::density::auto::{self, GaussianScores};
use crate::density::{
    AutoDensity, ClassGaussians, Density, DensityBandwidth, GmmDensity, LeftOut, LogLikelihoods,
    LogisticTail, RadialCorrection, kernel_log_likelihood,
};
use crate::params::Task;
use crate::row_source::RowSource;
use crate::sample_weights::SampleWeights;
use crate::selection::Selection;

/// A density with the values of its Gaussians for the left-out rows of the sample, in the form of
/// [`FittedDensity::gaussian_values`]. The value of the only row of a class is `None`.
pub(super) type WithLeftOut<'a> = (FittedDensity<'a>, Option<Vec<Option<f64>>>);

/// Fits the density. `constants` are the dimension and the log volume of the scaled search space.
pub(super) fn fit_density<'a, T: Task>(
    rows: &RowSource<'a>,
    groups: Groups<'_>,
    sample: &Sample<'_, T>,
    constants: (f64, f64),
) -> Result<WithLeftOut<'a>, Error> {
    if !matches!(sample.params.density, Density::Kde { .. }) {
        progress::start("fitting the density", 0);
    }
    let kernel = |h: f64| (FittedDensity::Kde(h), None);
    Ok(match sample.params.density {
        Density::Auto => auto_density(rows, groups, sample, constants)?,
        Density::Kde { bandwidth: DensityBandwidth::Same } => (FittedDensity::Same, None),
        Density::Kde { bandwidth: DensityBandwidth::Fixed(h) } => kernel(h),
        Density::Kde { bandwidth: DensityBandwidth::HalfMedian } => {
            kernel(sample.get()?.half_median_distance(sample.index.len())?)
        }
        Density::Gmm { covariance, shrinkage, scale_free } => {
            let options = GmmDensity { covariance, shrinkage, scale_free: None, tail: None };
            gmm_density(options, scale_free, rows, groups, sample)?
        }
    })
}

/// Fits Gaussians, and a logistic distribution to the upper tail of the scores `−ln p̂` of left-out rows.
fn gmm_density<'a, T: Task>(
    mut learned: GmmDensity,
    scale_free: bool,
    rows: &RowSource<'a>,
    groups: Groups<'_>,
    sample: &Sample<'_, T>,
) -> Result<WithLeftOut<'a>, Error> {
    let stored = GaussianRows::of(rows, sample.index, groups, sample.sample_weights)?;
    let rows = &stored.rows;
    let gaussians = learned.fit(rows, stored.classes(&groups.classes(rows.len())))?;
    learned.scale_free = scale_free.then(|| RadialCorrection::of(rows));
    let selection = sample.get()?;
    let (index, ids) = (sample.index, &selection.rows);
    let weights = sample.sample_weights.gather(ids);
    let own_class = groups.of_ids(ids.iter().copied());
    let log_densities: Vec<Option<f64>> = left_out(&gaussians, index, ids, &own_class, &weights)?
        .into_iter()
        .zip(ids)
        .map(|(of, &id)| Some(learned.corrected(of?.log_density, &index.rows().row(id))))
        .collect();
    // If every class has only one row, no row can be left out. Then the densities from the fit to all rows are used.
    let log_densities = match log_densities.iter().any(Option::is_some) {
        true => log_densities,
        false => {
            learned.log_densities(&gaussians, &index.rows().gather(ids)?)?.into_iter().map(Some).collect()
        }
    };
    let score = |(log, &weight): (&Option<f64>, &f64)| Some((-(*log)?, weight));
    let scores: Vec<(f64, f64)> = log_densities.iter().zip(&weights).filter_map(score).collect();
    learned.tail = Some(LogisticTail::of(&scores));
    let gaussians = Gaussians::Fitted(Box::new(gaussians));
    Ok((FittedDensity::Gmm { learned, gaussians }, Some(log_densities)))
}

/// Fits both parts of the combined density: a kernel density and Gaussians. Describes the upper tail of the scores of each part by the
/// scores of left-out training rows, and decides whether Gaussians are used.
fn auto_density<'a, T: Task>(
    rows: &RowSource<'a>,
    groups: Groups<'_>,
    sample: &Sample<'_, T>,
    (dimension, log_scale_volume): (f64, f64),
) -> Result<WithLeftOut<'a>, Error> {
    let selection = sample.get()?;
    let (index, kernel) = (sample.index, sample.params.kernel);
    let h = selection.half_median_distance(index.len())?;
    let log_sums = sample.leave_one_out()?.log_sums(h);
    let constant = kernel.log_peak(dimension)
        - dimension * h.ln()
        - log_scale_volume
        - sample.sample_weights.total().ln();
    let log_densities: Vec<f64> = log_sums.iter().map(|log_sum| log_sum + constant).collect();

    let stored = GaussianRows::of(rows, index, groups, sample.sample_weights)?;
    let rows = &stored.rows;
    let classes = groups.classes(rows.len());
    let gaussians = auto::fit_gaussians(rows, stored.classes(&classes))?;
    // If every class has only one row, `fit_gaussians` fits one Gaussian to all rows, as class 0.
    let own_class = match auto::has_only_singletons(&classes) {
        true => vec![0; selection.rows.len()],
        false => groups.of_ids(selection.rows.iter().copied()),
    };
    let weights = sample.sample_weights.gather(&selection.rows);
    let left_out = left_out(&gaussians, index, &selection.rows, &own_class, &weights)?;
    let likelihoods = log_likelihoods(
        index,
        selection,
        sample.sample_weights,
        &left_out.iter().map(|of| of.map(|of| of.log_density)).collect::<Vec<_>>(),
    );
    let correction = RadialCorrection::of(rows);
    let uses_gaussians =
        auto::MIN_COLUMNS <= correction.columns && likelihoods.is_some_and(|of| of.gaussians >= of.kernel);
    let scores = || {
        let score = |(of, &id): (Option<LeftOut>, &u32)| {
            Some(correction.score(of?.log_mixture, &index.rows().row(id)))
        };
        GaussianScores { correction, scores: left_out.into_iter().zip(&selection.rows).map(score).collect() }
    };
    let scores = uses_gaussians.then(scores);
    let learned = AutoDensity::learn(h, &weights, &log_sums, &log_densities, scores.as_ref(), likelihoods);
    let tail_scores = learned.left_out_tail_scores(scores.as_ref(), log_sums.len());
    let gaussians = Gaussians::Fitted(Box::new(gaussians));
    Ok((FittedDensity::Auto { learned, gaussians }, Some(tail_scores)))
}

/// Rows that are copied at a time. All of them would take 80 MiB with 2048 columns.
const COPIED_ROWS: usize = 2048;

/// The mixture at each of the given training rows, fitted without this row; see [`ClassGaussians::left_out`].
fn left_out(
    gaussians: &ClassGaussians<'_>,
    index: &dyn NeighborIndex,
    ids: &[u32],
    classes: &[u32],
    weights: &[f64],
) -> Result<Vec<Option<LeftOut>>, Error> {
    let mut all = Vec::with_capacity(ids.len());
    for first in (0..ids.len()).step_by(COPIED_ROWS) {
        let block = first..ids.len().min(first + COPIED_ROWS);
        let rows = index.rows().gather(&ids[block.clone()])?;
        all.extend(gaussians.left_out(&rows, &classes[block.clone()], &weights[block]));
    }
    Ok(all)
}

/// The mean log-likelihoods of both parts over the rows that can be left out of the Gaussians, in the space of all columns.
/// `None` if there is no such row, or if all neighbors of such a row are duplicates of it.
fn log_likelihoods(
    index: &dyn NeighborIndex,
    Selection { rows, neighbors }: &Selection,
    sample_weights: &SampleWeights,
    gaussians: &[Option<f64>],
) -> Option<LogLikelihoods> {
    let known = || rows.iter().zip(gaussians).filter_map(|(&id, log)| Some((sample_weights.of(id), (*log)?)));
    let is_used = |i: usize| gaussians[i].is_some();
    let log_volume = index.rows().scale().map_or(0.0, |scale| scale.iter().map(|h| h.ln()).sum());
    Some(LogLikelihoods {
        kernel: kernel_log_likelihood(rows, neighbors, is_used, sample_weights, index.dim())? - log_volume,
        gaussians: known().map(|(weight, log)| weight * log).sum::<f64>()
            / known().map(|(weight, _)| weight).sum::<f64>(),
    })
}
