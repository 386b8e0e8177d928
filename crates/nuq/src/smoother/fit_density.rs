//! Fits the density estimate of a smoother.

use nuq_neighbors::{Embeddings, NeighborIndex, Precision, progress};

use super::Groups;
use super::fit::Sample;
use super::fitted_density::{FittedDensity, Gaussians};
use crate::Error;
use crate::density::auto::{self, GaussianScores};
use crate::density::{
    AutoDensity, Density, DensityBandwidth, GmmDensity, LogLikelihoods, LogisticTail, RadialCorrection,
    kernel_log_likelihood,
};
use crate::leave_one_out::LeaveOneOut;
use crate::params::Task;
use crate::selection::Selection;

/// A density with the values of its Gaussians for the left-out rows of the sample, in the form of
/// [`FittedDensity::gaussian_values`]. `None` for the only row of a class.
pub(super) type WithLeftOut<'a> = (FittedDensity<'a>, Option<Vec<Option<f64>>>);

/// Fits the density. `constants` are the dimension and the log volume of the scaled search space.
pub(super) fn fit_density<'a, T: Task>(
    embeddings: &Embeddings<'a>,
    groups: Groups<'_>,
    sample: &Sample<'_, T>,
    constants: (f64, f64),
) -> Result<WithLeftOut<'a>, Error> {
    if !matches!(sample.params.density, Density::Kde { .. }) {
        progress::start("fitting the density", 0);
    }
    let kernel = |h: f64| (FittedDensity::Kde(h), None);
    Ok(match sample.params.density {
        Density::Auto => auto_density(embeddings, groups, sample, constants)?,
        Density::Kde { bandwidth: DensityBandwidth::Same } => (FittedDensity::Same, None),
        Density::Kde { bandwidth: DensityBandwidth::Fixed(h) } => kernel(h),
        Density::Kde { bandwidth: DensityBandwidth::HalfMedian } => {
            kernel(sample.get()?.half_median_distance(embeddings.len())?)
        }
        Density::Gmm { covariance, shrinkage, scale_free } => {
            let options = GmmDensity { covariance, shrinkage, scale_free: None, tail: None };
            gmm_density(options, scale_free, embeddings, groups, sample)?
        }
    })
}

/// The rows in the precision of the index. Gaussians are fitted to these, so that they are the same after the model was
/// saved and opened.
fn as_stored<'a>(embeddings: &Embeddings<'a>, index: &dyn NeighborIndex) -> Result<Embeddings<'a>, Error> {
    if index.rows().precision() == Precision::F16 {
        let ids: Vec<u32> = (0..index.rows().id_bound() as u32).collect();
        Ok(index.rows().gather(&ids)?)
    } else {
        Ok(embeddings.clone())
    }
}

/// Fits Gaussians, and the tail of the scores of left-out rows.
fn gmm_density<'a, T: Task>(
    mut learned: GmmDensity,
    scale_free: bool,
    embeddings: &Embeddings<'a>,
    groups: Groups<'_>,
    sample: &Sample<'_, T>,
) -> Result<WithLeftOut<'a>, Error> {
    let rows = as_stored(embeddings, sample.index)?;
    let of_row = groups.of_ids(0..rows.len() as u32);
    let gaussians = learned.fit(&rows, &groups.classes(rows.len()), &of_row)?;
    learned.scale_free = scale_free.then(|| RadialCorrection::of(&rows));
    let selection = sample.get()?;
    let left_out = rows.gather(&selection.rows);
    let log_densities: Vec<Option<f64>> = gaussians
        .left_out(&left_out, &groups.of_ids(selection.rows.iter().copied()))
        .into_iter()
        .zip(left_out.rows())
        .map(|(of, row)| Some(learned.corrected(of?.log_density, row)))
        .collect();
    let scores: Vec<f64> = log_densities.iter().flatten().map(|log| -log).collect();
    // If every class has one row, no row can be left out, and the densities of the rows themselves are used.
    let (scores, log_densities) = match scores.is_empty() {
        false => (scores, log_densities),
        true => {
            let own = learned.log_densities(&gaussians, &left_out)?;
            (own.iter().map(|log| -log).collect(), own.into_iter().map(Some).collect())
        }
    };
    learned.tail = Some(LogisticTail::of(&scores));
    let gaussians = Gaussians::Fitted(Box::new(gaussians));
    Ok((FittedDensity::Gmm { learned, gaussians }, Some(log_densities)))
}

/// Fits both parts of the combined density to left-out training rows, and decides whether Gaussians are used.
fn auto_density<'a, T: Task>(
    embeddings: &Embeddings<'a>,
    groups: Groups<'_>,
    sample: &Sample<'_, T>,
    (dimension, log_scale_volume): (f64, f64),
) -> Result<WithLeftOut<'a>, Error> {
    let selection = sample.get()?;
    let (index, kernel) = (sample.index, sample.params.kernel);
    let h = selection.half_median_distance(embeddings.len())?;
    let table = LeaveOneOut { index, rows: &selection.rows, neighbors: &selection.neighbors, kernel };
    let log_sums = table.log_sums(h);
    let constant =
        kernel.log_peak(dimension) - dimension * h.ln() - log_scale_volume - (index.len() as f64).ln();
    let log_densities: Vec<f64> = log_sums.iter().map(|log_sum| log_sum + constant).collect();

    let rows = as_stored(embeddings, index)?;
    let classes = groups.classes(rows.len());
    let gaussians = auto::fit_gaussians(&rows, &classes, &groups.of_ids(0..rows.len() as u32))?;
    let own_class = match auto::has_only_singletons(&classes) {
        true => vec![0; selection.rows.len()],
        false => groups.of_ids(selection.rows.iter().copied()),
    };
    let left_out_rows = rows.gather(&selection.rows);
    let left_out = gaussians.left_out(&left_out_rows, &own_class);
    let likelihoods = log_likelihoods(
        index,
        selection,
        &left_out.iter().map(|of| of.map(|of| of.log_density)).collect::<Vec<_>>(),
    );
    let uses_gaussians = likelihoods.is_some_and(|of| of.gaussians >= of.kernel);
    let correction = RadialCorrection::of(&rows);
    let scores = || {
        let score = |(of, row): (Option<crate::density::LeftOut>, &[f32])| {
            Some(correction.score(of?.log_mixture, row))
        };
        GaussianScores {
            correction,
            scores: left_out.into_iter().zip(left_out_rows.rows()).map(score).collect(),
        }
    };
    let scores = uses_gaussians.then(scores);
    let learned = AutoDensity::learn(h, &log_sums, &log_densities, scores.as_ref(), likelihoods);
    let tail_scores = learned.left_out_tail_scores(scores.as_ref(), log_sums.len());
    let gaussians = Gaussians::Fitted(Box::new(gaussians));
    Ok((FittedDensity::Auto { learned, gaussians }, Some(tail_scores)))
}

/// The mean log-likelihoods of both parts over the rows that can be left out of the Gaussians, in the space of all columns.
/// `None` if there is no such row, or if such a row has duplicates only.
fn log_likelihoods(
    index: &dyn NeighborIndex,
    Selection { neighbors, .. }: &Selection,
    gaussians: &[Option<f64>],
) -> Option<LogLikelihoods> {
    let known: Vec<f64> = gaussians.iter().flatten().copied().collect();
    let is_used = |i: usize| gaussians[i].is_some();
    let log_volume = index.rows().scale().map_or(0.0, |scale| scale.iter().map(|h| h.ln()).sum());
    Some(LogLikelihoods {
        kernel: kernel_log_likelihood(neighbors, is_used, index.len() - 1, index.dim())? - log_volume,
        gaussians: known.iter().sum::<f64>() / known.len() as f64,
    })
}
