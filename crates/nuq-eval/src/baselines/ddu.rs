//! DDU, deep deterministic uncertainty (Mukhoti et al. 2023): `−ln Σ_c π_c N(x; μ_c, S_c)` with the share `π_c`, the mean `μ_c` and
//! the covariance `S_c` of class `c`.

use nuq_neighbors::Embeddings;

use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::evaluate::MethodId;
use nuq::Label;
use nuq::{ClassGaussians, Covariance, Shrinkage};

/// Negative log density of a mixture with one Gaussian per class.
pub struct Ddu<'a> {
    pub(super) gaussians: ClassGaussians<'a>,
    pub(super) shrinkage: Shrinkage,
}

impl<'a> Ddu<'a> {
    /// Fits a Gaussian with a full covariance to each class.
    ///
    /// # Errors
    /// No rows, unequal numbers of rows and labels, a shrinkage outside of [0, 1], a covariance that is singular with a
    /// [fixed](Shrinkage::Fixed) shrinkage, or rows that are all equal.
    pub fn fit<'l, L>(rows: &Embeddings<'a>, labels: &'l [L], shrinkage: Shrinkage) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        Ok(Self { gaussians: ClassGaussians::fit(rows, labels, Covariance::Full, shrinkage)?, shrinkage })
    }
}

impl Scorer for Ddu<'_> {
    fn name(&self) -> String {
        "DDU".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let mut scores = self.gaussians.log_density(batch.need_embeddings(self)?)?;
        scores.iter_mut().for_each(|score| *score = -*score);
        Ok(scores)
    }

    fn bytes(&self) -> u64 {
        8 * self.gaussians.n_values() as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let parts = BaselineParts::new(MethodId::Ddu).param("shrinkage", self.shrinkage);
        Some(parts.gaussians("", &self.gaussians))
    }
}
