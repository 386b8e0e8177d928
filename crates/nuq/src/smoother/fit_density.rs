//! Fits the density estimate of a smoother.

use nuq_neighbors::{Embeddings, NeighborIndex, Precision, progress};

use super::Groups;
use super::fit::Sample;
use super::fitted_density::{FittedDensity, Gaussians};
use crate::Error;
use crate::density::{AutoDensity, ClassGaussians, Density, DensityBandwidth, RadialCorrection, auto};
use crate::error::no_covariance;
use crate::leave_one_out::LeaveOneOut;
use crate::params::Task;

/// Fits the density. `constants` are the dimension and the log volume of the scaled search space.
pub(super) fn fit_density<'a, T: Task>(
    embeddings: &Embeddings<'a>,
    groups: Groups<'_>,
    sample: &Sample<'_, T>,
    constants: (f64, f64),
) -> Result<FittedDensity<'a>, Error> {
    if !matches!(sample.params.density, Density::Kde { .. }) {
        progress::start("fitting the density", 0);
    }
    Ok(match sample.params.density {
        Density::Auto => auto_density(embeddings, groups, sample, constants)?,
        Density::Kde { bandwidth: DensityBandwidth::Same } => FittedDensity::Same,
        Density::Kde { bandwidth: DensityBandwidth::Fixed(h) } => FittedDensity::Kde(h),
        Density::Kde { bandwidth: DensityBandwidth::HalfMedian } => {
            FittedDensity::Kde(sample.get()?.half_median_distance(embeddings.len())?)
        }
        Density::Gmm { covariance, shrinkage } => {
            let rows = as_stored(embeddings, sample.index)?;
            let of_row = groups.of_ids(0..rows.len() as u32);
            let classes = groups.classes(rows.len());
            let fitted = ClassGaussians::fit_encoded(&rows, &classes, &of_row, covariance, shrinkage)?;
            FittedDensity::Gmm { covariance, shrinkage, gaussians: Gaussians::Fitted(Box::new(fitted)) }
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

/// Fits the Gaussians, and both logistic tails to the scores of left-out training rows.
fn auto_density<'a, T: Task>(
    embeddings: &Embeddings<'a>,
    groups: Groups<'_>,
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

    let rows = as_stored(embeddings, index)?;
    let classes = groups.classes(rows.len());
    let gaussians = auto::fit_gaussians(&rows, &classes, &groups.of_ids(0..rows.len() as u32))?;
    let own_class = match auto::has_only_singletons(&classes) {
        true => vec![0; selection.rows.len()],
        false => groups.of_ids(selection.rows.iter().copied()),
    };
    let left_out = rows.gather(&selection.rows);
    let correction = RadialCorrection::of(&rows);
    let gaussian_scores: Vec<Option<f64>> = gaussians
        .left_out_log_mixture(&left_out, &own_class)
        .into_iter()
        .zip(left_out.rows())
        .map(|(log_mixture, row)| Some(correction.score(log_mixture?, row)))
        .collect();
    if gaussian_scores.iter().all(Option::is_none) {
        return Err(no_covariance(embeddings.len()));
    }
    let kernel_scores: Vec<f64> = log_sums.iter().map(|log_sum| -log_sum).collect();
    let log_densities: Vec<f64> = log_sums.iter().map(|log_sum| log_sum + constant).collect();
    let learned = AutoDensity::learn(h, &correction, &kernel_scores, &gaussian_scores, &log_densities);
    Ok(FittedDensity::Auto { learned, gaussians: Gaussians::Fitted(Box::new(gaussians)) })
}
