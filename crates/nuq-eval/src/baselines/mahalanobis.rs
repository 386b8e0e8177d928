//! Mahalanobis distance (Lee et al. 2018), $\min_c (x - \mu_c)^\top \Sigma^{-1} (x - \mu_c)$ with one covariance for all classes, and
//! relative to the distance from all data (Ren et al. 2021), $-\,(x - \mu_0)^\top \Sigma_0^{-1} (x - \mu_0)$ added: directions in which
//! everything varies count less.

use nuq_neighbors::Embeddings;

use super::{Batch, Input, Scorer};
use crate::Error;
use nuq::Label;
use nuq::{ClassGaussians, Covariance, Shrinkage};

/// The squared Mahalanobis distance to the nearest class.
pub struct Mahalanobis<'a> {
    gaussians: ClassGaussians<'a>,
}

impl<'a> Mahalanobis<'a> {
    /// Fits class means and one covariance.
    pub fn fit<'l, L>(rows: &Embeddings<'a>, labels: &'l [L], shrinkage: Shrinkage) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        Ok(Self { gaussians: ClassGaussians::fit(rows, labels, Covariance::Tied, shrinkage)? })
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
}

/// The same, less the squared Mahalanobis distance from all data.
pub struct RelativeMahalanobis<'a> {
    classes: Mahalanobis<'a>,
    all: ClassGaussians<'a>,
}

impl<'a> RelativeMahalanobis<'a> {
    /// Fits class means with one covariance, and the mean and covariance of all rows.
    pub fn fit<'l, L>(rows: &Embeddings<'a>, labels: &'l [L], shrinkage: Shrinkage) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        Ok(Self { classes: Mahalanobis::fit(rows, labels, shrinkage)?, all: one_gaussian(rows, shrinkage)? })
    }
}

/// The mean and covariance of all rows.
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
}
