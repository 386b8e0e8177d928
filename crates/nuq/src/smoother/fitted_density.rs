//! The fitted density estimate of a smoother.

use std::sync::OnceLock;

use nuq_neighbors::{Embeddings, NeighborIndex};

use super::{FittedDensityParts, Groups};
use crate::density::{AutoDensity, ClassGaussians, Covariance, Shrinkage, auto};
use crate::{Classes, Error};

pub(crate) enum FittedDensity<'a> {
    /// Kernel density with the bandwidth of the posterior.
    Same,
    /// Kernel density with its own bandwidth.
    Kde(f64),
    Gmm {
        covariance: Covariance,
        shrinkage: Shrinkage,
        gaussians: Gaussians<'a>,
    },
    Auto {
        learned: AutoDensity,
        gaussians: Gaussians<'a>,
    },
}

/// Class Gaussians that are fitted together with the model, or when they are first used: after a file was opened, and
/// after rows were inserted or removed.
pub(crate) enum Gaussians<'a> {
    Fitted(Box<ClassGaussians<'a>>),
    Deferred(OnceLock<Box<ClassGaussians<'static>>>),
}

impl FittedDensity<'_> {
    pub(super) fn from_parts(parts: FittedDensityParts) -> Self {
        let gaussians = Gaussians::Deferred(OnceLock::new());
        match parts {
            FittedDensityParts::Same => FittedDensity::Same,
            FittedDensityParts::Kde(h) => FittedDensity::Kde(h),
            FittedDensityParts::Auto(learned) => FittedDensity::Auto { learned, gaussians },
            FittedDensityParts::Gmm { covariance, shrinkage } => {
                FittedDensity::Gmm { covariance, shrinkage, gaussians }
            }
        }
    }

    pub(super) fn parts(&self) -> FittedDensityParts {
        match *self {
            FittedDensity::Same => FittedDensityParts::Same,
            FittedDensity::Kde(h) => FittedDensityParts::Kde(h),
            FittedDensity::Auto { learned, .. } => FittedDensityParts::Auto(learned),
            FittedDensity::Gmm { covariance, shrinkage, .. } => {
                FittedDensityParts::Gmm { covariance, shrinkage }
            }
        }
    }

    /// The bandwidth of the kernel density, where it has its own.
    pub(crate) fn bandwidth(&self) -> Option<f64> {
        match self {
            FittedDensity::Kde(h) => Some(*h),
            FittedDensity::Auto { learned, .. } => Some(learned.bandwidth),
            FittedDensity::Same | FittedDensity::Gmm { .. } => None,
        }
    }

    /// Discards fitted Gaussians, because the training rows changed.
    pub(super) fn invalidate(&mut self) {
        if let FittedDensity::Gmm { gaussians, .. } | FittedDensity::Auto { gaussians, .. } = self {
            *gaussians = Gaussians::Deferred(OnceLock::new());
        }
    }

    /// One value per query from the Gaussians: `ln p̂` for [`FittedDensity::Gmm`], the tail score for
    /// [`FittedDensity::Auto`], `None` for kernel densities.
    pub(super) fn gaussian_values(
        &self,
        index: &dyn NeighborIndex,
        groups: Groups<'_>,
        queries: &Embeddings<'_>,
    ) -> Result<Option<Vec<f64>>, Error> {
        match self {
            FittedDensity::Gmm { covariance, shrinkage, gaussians } => {
                let fit = |rows: &Embeddings<'static>, classes: &Classes, of_row: &[u32]| {
                    ClassGaussians::fit_encoded(rows, classes, of_row, *covariance, *shrinkage)
                };
                gaussians.get(index, groups, fit)?.log_density(queries).map(Some)
            }
            FittedDensity::Auto { learned, gaussians } => {
                let gaussians = gaussians.get(index, groups, auto::fit_gaussians)?;
                learned.gaussian_tail_scores(gaussians, queries).map(Some)
            }
            FittedDensity::Same | FittedDensity::Kde(_) => Ok(None),
        }
    }
}

impl Gaussians<'_> {
    /// The Gaussians. Deferred ones are first fitted by `fit` to the rows of `index`.
    fn get(
        &self,
        index: &dyn NeighborIndex,
        groups: Groups<'_>,
        fit: impl FnOnce(&Embeddings<'static>, &Classes, &[u32]) -> Result<ClassGaussians<'static>, Error>,
    ) -> Result<&ClassGaussians<'_>, Error> {
        match self {
            Gaussians::Fitted(fitted) => Ok(fitted),
            Gaussians::Deferred(fitted) => {
                if fitted.get().is_none() {
                    let ids = index.rows().live_ids();
                    let of_row = groups.of_ids(ids.iter().copied());
                    let rows = index.rows().gather(&ids)?;
                    let _ = fitted.set(Box::new(fit(&rows, &groups.classes(ids.len()), &of_row)?));
                }
                Ok(fitted.get().expect("the Gaussians were set above"))
            }
        }
    }
}
