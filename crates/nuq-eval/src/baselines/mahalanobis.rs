//! Mahalanobis distance (Lee et al. 2018), and relative Mahalanobis distance (Ren et al. 2021).
//!
//! ```text
//! s(x) = min_c (x − μ_c)ᵀ Σ⁻¹ (x − μ_c)                              Mahalanobis
//! s(x) = min_c (x − μ_c)ᵀ Σ⁻¹ (x − μ_c) − (x − μ₀)ᵀ Σ₀⁻¹ (x − μ₀)    relative Mahalanobis
//! ```
//!
//! All classes share the covariance `Σ`. `μ₀` and `Σ₀` are the mean and the covariance of all training rows. The
//! relative distance gives less weight to directions in which all data vary.

use nuq_neighbors::Embeddings;

use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::evaluate::MethodId;
use nuq::Label;
use nuq::{ClassGaussians, Covariance, Shrinkage};

/// The squared Mahalanobis distance to the nearest class.
pub struct Mahalanobis<'a> {
    pub(super) gaussians: ClassGaussians<'a>,
    pub(super) shrinkage: Shrinkage,
}

impl<'a> Mahalanobis<'a> {
    /// Fits class means and a shared covariance.
    ///
    /// # Errors
    /// No rows, unequal numbers of rows and labels, a shrinkage outside of [0, 1], a covariance that is singular with a
    /// [fixed](Shrinkage::Fixed) shrinkage, or rows that are all equal.
    pub fn fit<'l, L>(rows: &Embeddings<'a>, labels: &'l [L], shrinkage: Shrinkage) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        Ok(Self { gaussians: ClassGaussians::fit(rows, labels, Covariance::Tied, shrinkage)?, shrinkage })
    }
}

impl Scorer for Mahalanobis<'_> {
    fn name(&self) -> String {
        "Mahalanobis".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        Ok(self.gaussians.nearest_sq_distance(batch.need_embeddings(self)?)?)
    }

    fn bytes(&self) -> u64 {
        8 * self.gaussians.n_values() as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let parts = BaselineParts::new(MethodId::Mahalanobis).param("shrinkage", self.shrinkage);
        Some(parts.gaussians("", &self.gaussians))
    }
}

/// The squared Mahalanobis distance to the nearest class, minus the squared Mahalanobis distance to the mean of all rows.
pub struct RelativeMahalanobis<'a> {
    pub(super) classes: Mahalanobis<'a>,
    pub(super) all: ClassGaussians<'a>,
}

impl<'a> RelativeMahalanobis<'a> {
    /// Fits class means with a shared covariance, and the mean and covariance of all rows.
    ///
    /// # Errors
    /// No rows, unequal numbers of rows and labels, a shrinkage outside of [0, 1], a covariance that is singular with a
    /// [fixed](Shrinkage::Fixed) shrinkage, or rows that are all equal.
    pub fn fit<'l, L>(rows: &Embeddings<'a>, labels: &'l [L], shrinkage: Shrinkage) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        Ok(Self { classes: Mahalanobis::fit(rows, labels, shrinkage)?, all: one_gaussian(rows, shrinkage)? })
    }
}

/// Mean and covariance of all rows, as a mixture of a single class.
fn one_gaussian<'a>(rows: &Embeddings<'a>, shrinkage: Shrinkage) -> Result<ClassGaussians<'a>, Error> {
    Ok(ClassGaussians::fit(rows, &vec![0; rows.len()], Covariance::Full, shrinkage)?)
}

impl Scorer for RelativeMahalanobis<'_> {
    fn name(&self) -> String {
        "relative Mahalanobis".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let mut scores = self.classes.score(batch)?;
        let from_all = self.all.nearest_sq_distance(batch.need_embeddings(self)?)?;
        scores.iter_mut().zip(from_all).for_each(|(score, all)| *score -= all);
        Ok(scores)
    }

    fn bytes(&self) -> u64 {
        self.classes.bytes() + 8 * self.all.n_values() as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let parts =
            BaselineParts::new(MethodId::RelativeMahalanobis).param("shrinkage", self.classes.shrinkage);
        Some(parts.gaussians("classes.", &self.classes.gaussians).gaussians("all.", &self.all))
    }
}
