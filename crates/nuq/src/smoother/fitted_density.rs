//! The fitted density estimate of a smoother.

use std::sync::OnceLock;

use nuq_neighbors::{Embeddings, NeighborIndex};

use super::gaussian_rows::GaussianRows;
use super::{FittedDensityParts, Groups};
use crate::Error;
use crate::density::{AutoDensity, ClassGaussians, GaussianParts, GmmDensity, RowClasses, auto};
use crate::row_source::RowSource;
use crate::sample_weights::SampleWeights;

pub(crate) enum FittedDensity<'a> {
    /// Kernel density with the bandwidth of the posterior.
    Same,
    /// Kernel density with its own bandwidth.
    Kde(f64),
    /// Gaussians of the classes.
    Gmm { learned: GmmDensity, gaussians: Gaussians<'a> },
    /// Kernel density combined with Gaussians.
    Auto { learned: AutoDensity, gaussians: Gaussians<'a> },
}

/// The Gaussians of a density.
pub(crate) enum Gaussians<'a> {
    /// They were fitted together with the model, or restored from a file.
    Fitted(Box<ClassGaussians<'a>>),
    /// They are fitted when they are first used: after a file without Gaussians was opened, and after rows were inserted, removed or
    /// relabeled.
    Deferred(OnceLock<Box<ClassGaussians<'static>>>),
}

impl FittedDensity<'_> {
    /// Restores a density. Gaussians that are not given are fitted when they are first used.
    pub(super) fn from_parts(
        parts: FittedDensityParts,
        gaussians: Option<GaussianParts>,
    ) -> Result<Self, Error> {
        let gaussians = match gaussians {
            Some(gaussians) => Gaussians::Fitted(Box::new(ClassGaussians::from_parts(gaussians)?)),
            None => Gaussians::Deferred(OnceLock::new()),
        };
        Ok(match parts {
            FittedDensityParts::Same => FittedDensity::Same,
            FittedDensityParts::Kde(h) => FittedDensity::Kde(h),
            FittedDensityParts::Auto(learned) => FittedDensity::Auto { learned, gaussians },
            FittedDensityParts::Gmm(learned) => FittedDensity::Gmm { learned, gaussians },
        })
    }

    /// The Gaussians as plain arrays; `None` if the density does not use any.
    pub(super) fn gaussian_parts(
        &self,
        index: &dyn NeighborIndex,
        groups: Groups<'_>,
        sample_weights: &SampleWeights,
    ) -> Result<Option<GaussianParts>, Error> {
        Ok(self.gaussians(index, groups, sample_weights)?.map(ClassGaussians::parts))
    }

    /// The Gaussians as plain arrays, if they were fitted together with the model or restored from a file, contain no training rows
    /// and take at most `max_bytes`.
    pub(super) fn small_gaussian_parts(&self, max_bytes: usize) -> Option<GaussianParts> {
        let (FittedDensity::Gmm { gaussians: Gaussians::Fitted(fitted), .. }
        | FittedDensity::Auto {
            learned: AutoDensity { gaussians: Some(_), .. },
            gaussians: Gaussians::Fitted(fitted),
        }) = self
        else {
            return None;
        };
        (fitted.bytes_without_rows()? <= max_bytes).then(|| fitted.parts())
    }

    /// The Gaussians; `None` if the density does not use any. Deferred ones are first fitted to the rows of `index`.
    fn gaussians(
        &self,
        index: &dyn NeighborIndex,
        groups: Groups<'_>,
        sample_weights: &SampleWeights,
    ) -> Result<Option<&ClassGaussians<'_>>, Error> {
        match self {
            FittedDensity::Gmm { learned, gaussians } => gaussians
                .get(index, groups, sample_weights, |rows, classes| learned.fit(rows, classes))
                .map(Some),
            FittedDensity::Auto { learned: AutoDensity { gaussians: Some(_), .. }, gaussians } => {
                gaussians.get(index, groups, sample_weights, auto::fit_gaussians).map(Some)
            }
            FittedDensity::Auto { .. } | FittedDensity::Same | FittedDensity::Kde(_) => Ok(None),
        }
    }

    pub(super) fn parts(&self) -> FittedDensityParts {
        match *self {
            FittedDensity::Same => FittedDensityParts::Same,
            FittedDensity::Kde(h) => FittedDensityParts::Kde(h),
            FittedDensity::Auto { learned, .. } => FittedDensityParts::Auto(learned),
            FittedDensity::Gmm { learned, .. } => FittedDensityParts::Gmm(learned),
        }
    }

    /// The bandwidth of the kernel density, if it has its own.
    pub(crate) fn bandwidth(&self) -> Option<f64> {
        match self {
            FittedDensity::Kde(h) => Some(*h),
            FittedDensity::Auto { learned, .. } => Some(learned.bandwidth),
            FittedDensity::Same | FittedDensity::Gmm { .. } => None,
        }
    }

    /// The log density that `n(x)` uses: minus the tail score for the density `gmm`, otherwise the log density itself. A tail
    /// score compares the score of a row with the scores of left-out training rows ([`LogisticTail`](crate::LogisticTail)).
    pub(super) fn calibrated(&self, log_density: f64) -> f64 {
        match self {
            FittedDensity::Gmm { learned, .. } => learned.calibrated(log_density),
            FittedDensity::Same | FittedDensity::Kde(_) | FittedDensity::Auto { .. } => log_density,
        }
    }

    /// Discards fitted Gaussians, because the training rows or their classes changed.
    pub(super) fn invalidate(&mut self) {
        if let FittedDensity::Gmm { gaussians, .. } | FittedDensity::Auto { gaussians, .. } = self {
            *gaussians = Gaussians::Deferred(OnceLock::new());
        }
    }

    /// One value per query from the Gaussians: `ln p̂` for [`FittedDensity::Gmm`], the tail score for
    /// [`FittedDensity::Auto`] (zero if it uses no Gaussians). `None` for kernel densities.
    pub(super) fn gaussian_values(
        &self,
        index: &dyn NeighborIndex,
        groups: Groups<'_>,
        sample_weights: &SampleWeights,
        queries: &Embeddings<'_>,
    ) -> Result<Option<Vec<f64>>, Error> {
        let Some(gaussians) = self.gaussians(index, groups, sample_weights)? else {
            let is_auto = matches!(self, FittedDensity::Auto { .. });
            return Ok(is_auto.then(|| vec![0.0; queries.len()]));
        };
        queries.load()?;
        match self {
            FittedDensity::Gmm { learned, .. } => learned.log_densities(gaussians, queries).map(Some),
            FittedDensity::Auto { learned: AutoDensity { gaussians: Some(part), .. }, .. } => {
                part.tail_scores(gaussians, queries).map(Some)
            }
            FittedDensity::Auto { .. } | FittedDensity::Same | FittedDensity::Kde(_) => {
                unreachable!("these densities have no Gaussians")
            }
        }
    }
}

impl Gaussians<'_> {
    /// The Gaussians. Deferred ones are first fitted by `fit` to the rows of `index`.
    fn get(
        &self,
        index: &dyn NeighborIndex,
        groups: Groups<'_>,
        sample_weights: &SampleWeights,
        fit: impl for<'r> FnOnce(&RowSource<'r>, RowClasses<'_>) -> Result<ClassGaussians<'r>, Error>,
    ) -> Result<&ClassGaussians<'_>, Error> {
        match self {
            Gaussians::Fitted(fitted) => Ok(fitted),
            Gaussians::Deferred(fitted) => {
                if fitted.get().is_none() {
                    let stored = GaussianRows::of_index(index, groups, sample_weights)?;
                    let classes = groups.classes(stored.rows.len());
                    let gaussians = fit(&stored.rows, stored.classes(&classes))?.into_static();
                    // Gaussians of changed rows must not be kept.
                    index.rows().verify_unchanged()?;
                    let _ = fitted.set(Box::new(gaussians));
                }
                Ok(fitted.get().expect("the Gaussians were set above"))
            }
        }
    }
}
