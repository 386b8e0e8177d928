//! The density `gmm`: a mixture of class Gaussians, with the options and learned values that a file stores.

use nuq_neighbors::Embeddings;

use super::{ClassGaussians, Covariance, LogisticTail, RadialCorrection, RowClasses, Shrinkage};
use crate::Error;
use crate::row_source::RowSource;

/// Options and learned values of the density `gmm`, without its Gaussians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GmmDensity {
    /// The structure of the covariances.
    pub covariance: Covariance,
    /// The shrinkage of the covariances.
    pub shrinkage: Shrinkage,
    /// The factor `‖x‖^d′` of a scale-free density; `None` for the plain density.
    pub scale_free: Option<RadialCorrection>,
    /// The tail of the scores `−ln p̂` of left-out training rows. In hundreds of dimensions, log densities of typical
    /// rows differ by tens. Therefore `n(x)` (see [`Scale`](crate::Scale)) uses the tail score instead. `None` in files that were
    /// written before the tail existed.
    pub tail: Option<LogisticTail>,
}

impl GmmDensity {
    /// Fits the Gaussians to rows and their classes.
    pub(crate) fn fit<'a>(
        &self,
        rows: &RowSource<'a>,
        classes: RowClasses<'_>,
    ) -> Result<ClassGaussians<'a>, Error> {
        ClassGaussians::fit_encoded(rows, classes, self.covariance, self.shrinkage)
    }

    /// `ln p̂` of each query, relative to the measure `dx/‖x‖^d′` if the density is scale-free.
    pub(crate) fn log_densities(
        &self,
        gaussians: &ClassGaussians<'_>,
        queries: &Embeddings<'_>,
    ) -> Result<Vec<f64>, Error> {
        let log_densities = gaussians.log_density(queries)?;
        Ok(log_densities.into_iter().zip(queries.rows()).map(|(log, row)| self.corrected(log, row)).collect())
    }

    /// `ln p̂ + d′ ln ‖x‖` of a scale-free density, `ln p̂` otherwise.
    pub(crate) fn corrected(&self, log_density: f64, row: &[f32]) -> f64 {
        match &self.scale_free {
            Some(correction) => -correction.score(log_density, row),
            None => log_density,
        }
    }

    /// Minus the tail score of a log density; the log density itself if there is no tail.
    pub(crate) fn calibrated(&self, log_density: f64) -> f64 {
        self.tail.map_or(log_density, |tail| -tail.tail_score(-log_density))
    }
}
