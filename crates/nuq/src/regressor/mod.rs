//! The regressor: embeddings and numbers in; means, variances and uncertainties out.

mod select;
mod targets;

pub use select::RegressionScore;

use std::ops::Deref;

use nuq_neighbors::{Embeddings, NeighborIndex, Neighbors};
use rayon::prelude::*;

use crate::bandwidth::SelectionCurve;
use crate::log_space::log_add;
use crate::params::{Params, Regression};
use crate::parts::{RegressorParts, SmootherParts, check_length};
use crate::smoother::{self, Groups, Smoother};
use crate::{Classes, Error};
use targets::Targets;

/// A fitted NUQ regressor. It borrows or shares the training embeddings.
///
/// ```
/// use nuq::{Embeddings, NuqRegressor};
///
/// let x = Embeddings::from_rows(&[[0.0], [1.0], [2.0]])?;
/// let model = NuqRegressor::params().prior_weight(0.0).bandwidth(1.0).fit(&x, &[1.0, 3.0, 1.0])?;
/// // At the middle point the outer two weigh e^(-1/2) each: mean (3 + 2q)/(1 + 2q).
/// let q = (-0.5f64).exp();
/// let found = model.predict(&Embeddings::from_rows(&[[1.0]])?)?;
/// assert!((found[0].mean - (3.0 + 2.0 * q) / (1.0 + 2.0 * q)).abs() < 1e-12);
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug)]
pub struct NuqRegressor<'a> {
    pub(crate) smoother: Smoother<'a>,
    targets: Targets,
    curve: Option<SelectionCurve<RegressionScore>>,
}

/// What is said of one query. Uncertainties are variances here, in squared units of the target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// $\hat y$, the weighted mean of the neighbors' targets.
    pub mean: f64,
    /// $\ln \sigma^2$, the log of the aleatoric uncertainty: how targets vary near the query.
    pub log_aleatoric: f64,
    /// $\ln \tau^2$ with $\tau^2 = \|K\|_2^2 \sigma^2 / (N h^d \hat p)$, the log of the epistemic uncertainty:
    /// how the mean itself may err.
    pub log_epistemic: f64,
    /// $\ln(\sigma^2 + \tau^2)$.
    pub log_total: f64,
    /// $\ln \hat p(x)$.
    pub log_density: f64,
}

impl Estimate {
    /// $\sigma^2$.
    pub fn aleatoric(&self) -> f64 {
        self.log_aleatoric.exp()
    }

    /// $\tau^2$.
    pub fn epistemic(&self) -> f64 {
        self.log_epistemic.exp()
    }

    /// $\sigma^2 + \tau^2$.
    pub fn total(&self) -> f64 {
        self.log_total.exp()
    }
}

/// A slice of one [`Estimate`] per query, with the training rows behind each.
#[derive(Debug, Clone)]
pub struct Estimates {
    rows: Vec<Estimate>,
    neighbors: Neighbors,
}

impl Estimates {
    /// The training rows behind each estimate.
    pub fn neighbors(&self) -> &Neighbors {
        &self.neighbors
    }
}

impl Deref for Estimates {
    type Target = [Estimate];

    fn deref(&self) -> &[Estimate] {
        &self.rows
    }
}

impl<'e> IntoIterator for &'e Estimates {
    type Item = &'e Estimate;
    type IntoIter = std::slice::Iter<'e, Estimate>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

impl Params<Regression> {
    /// Fits a regressor to `embeddings` and their `targets`, one per row.
    pub fn fit<'a>(&self, embeddings: &Embeddings<'a>, targets: &[f64]) -> Result<NuqRegressor<'a>, Error> {
        if targets.len() != embeddings.len() {
            let (got, expected) = (targets.len(), embeddings.len());
            return Err(Error::LengthMismatch {
                what: "targets",
                got,
                counterpart: "training rows",
                expected,
            });
        }
        let targets = Targets::new(targets, self.prior_weight)?;
        let classes = Classes::single(embeddings.len());
        let groups = Groups { classes: &classes, of_row: &vec![0; embeddings.len()] };
        let (smoother, curve) =
            smoother::fit(self, embeddings, &groups, |table, _, grid| select::select(table, grid, &targets))?;
        Ok(NuqRegressor { smoother, targets, curve })
    }
}

smoother::learned!(NuqRegressor);

impl<'a> NuqRegressor<'a> {
    /// What the model is made of, index aside.
    pub fn parts(&self) -> RegressorParts {
        RegressorParts {
            smoother: self.smoother_parts(),
            targets: self.targets.values().to_vec(),
            curve: self.curve.clone(),
        }
    }

    /// Puts a model together.
    pub fn from_parts(parts: RegressorParts, index: Box<dyn NeighborIndex + 'a>) -> Result<Self, Error> {
        check_length("targets", parts.targets.len(), &*index)?;
        let targets = Targets::of_rows(parts.targets, &index.rows().live_ids(), parts.smoother.prior_weight)?;
        let classes = Classes::single(index.len());
        let of_row = vec![0; index.rows().id_bound()];
        let smoother = Smoother::restored(parts.smoother, index, classes, &of_row)?;
        Ok(Self { smoother, targets, curve: parts.curve })
    }
}

impl NuqRegressor<'_> {
    /// The parameters, at their defaults.
    pub fn params() -> Params<Regression> {
        Params::default()
    }

    /// Mean and uncertainties of each query.
    pub fn predict(&self, queries: &Embeddings<'_>) -> Result<Estimates, Error> {
        let queries = self.smoother.prepare(queries);
        let neighbors = self.smoother.search(&queries)?;
        self.predict_prepared(&queries, neighbors)
    }

    /// The same from neighbors that something else found; see
    /// [`NuqClassifier::predict_from`](crate::NuqClassifier::predict_from).
    pub fn predict_from(&self, queries: &Embeddings<'_>, neighbors: &Neighbors) -> Result<Estimates, Error> {
        self.predict_prepared(&self.smoother.prepare(queries), neighbors.clone())
    }

    fn predict_prepared(&self, queries: &Embeddings<'_>, neighbors: Neighbors) -> Result<Estimates, Error> {
        let batch = self.smoother.batch(queries, &neighbors)?.with_density()?;
        let rows = (0..batch.len())
            .into_par_iter()
            .map(|i| {
                let local = batch.local(i);
                let (mean, log_aleatoric) = self.targets.moments(neighbors.ids(i), &local.weights);
                let log_epistemic = log_aleatoric + local.log_variance_scale;
                let log_total = log_add(log_aleatoric, log_epistemic);
                Estimate { mean, log_aleatoric, log_epistemic, log_total, log_density: local.log_density }
            })
            .collect();
        drop(batch);
        Ok(Estimates { rows, neighbors })
    }

    /// Learns more rows and returns their ids, as
    /// [`NuqClassifier::insert`](crate::NuqClassifier::insert) does.
    pub fn insert(&mut self, rows: &Embeddings<'_>, targets: &[f64]) -> Result<Vec<u32>, Error> {
        if targets.len() != rows.len() {
            let (got, expected) = (targets.len(), rows.len());
            return Err(Error::LengthMismatch { what: "targets", got, counterpart: "new rows", expected });
        }
        // Refused before any row is taken.
        Targets::new(targets, self.targets.prior_weight())?;
        let ids = self.smoother.insert(rows)?;
        let mut values = self.targets.values().to_vec();
        values.resize(self.smoother.index.rows().id_bound(), 0.0);
        ids.iter().zip(targets).for_each(|(&id, &target)| values[id as usize] = target);
        self.recount(values)?;
        Ok(ids)
    }

    /// Forgets training rows: all of them, or none when an id names no row or no row would be left. Thresholds go too.
    pub fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.smoother.remove(ids)?;
        self.recount(self.targets.values().to_vec())
    }

    fn recount(&mut self, values: Vec<f64>) -> Result<(), Error> {
        let index = &*self.smoother.index;
        self.targets = Targets::of_rows(values, &index.rows().live_ids(), self.targets.prior_weight())?;
        let (classes, of_row) = (Classes::single(index.len()), vec![0; index.rows().id_bound()]);
        self.smoother.regroup(&classes, &of_row);
        Ok(())
    }

    /// The target of a training row.
    ///
    /// # Panics
    /// When `id` names no row.
    pub fn target(&self, id: u32) -> f64 {
        self.targets.value(id)
    }

    /// The targets by id. Values at ids of removed rows have no meaning.
    #[must_use]
    pub fn targets(&self) -> &[f64] {
        self.targets.values()
    }

    /// The options and learned values that a regressor shares with a classifier, without a copy of the targets.
    #[must_use]
    pub fn smoother_parts(&self) -> SmootherParts {
        self.smoother.parts(self.targets.prior_weight())
    }

    /// What leave-one-out said of each bandwidth, when it was asked.
    pub fn bandwidth_curve(&self) -> Option<&SelectionCurve<RegressionScore>> {
        self.curve.as_ref()
    }
}
