//! Predictions of a fitted regressor.

use nuq_neighbors::{Embeddings, Neighbors};
use rayon::prelude::*;

use super::{Estimates, NuqRegressor};
use crate::Error;
use crate::estimate::Estimate;
use crate::smoother::Groups;

impl NuqRegressor<'_> {
    /// Mean and uncertainties of each query.
    ///
    /// # Errors
    /// A dimension mismatch between queries and training rows.
    pub fn predict(&self, queries: &Embeddings<'_>) -> Result<Estimates, Error> {
        let queries = self.smoother.prepare(queries);
        let neighbors = self.smoother.search(&queries)?;
        self.predict_prepared(&queries, neighbors)
    }

    /// The same as [`predict`](Self::predict) from a given neighbor table; see
    /// [`NuqClassifier::predict_from`](crate::NuqClassifier::predict_from).
    ///
    /// # Errors
    /// A dimension mismatch, a table with another number of rows, or an id that names no training row.
    pub fn predict_from(&self, queries: &Embeddings<'_>, neighbors: &Neighbors) -> Result<Estimates, Error> {
        self.predict_prepared(&self.smoother.prepare(queries), neighbors.clone())
    }

    fn predict_prepared(&self, queries: &Embeddings<'_>, neighbors: Neighbors) -> Result<Estimates, Error> {
        let batch = self.smoother.batch(queries, &neighbors)?.with_density(Groups::Single)?;
        let rows = (0..batch.len())
            .into_par_iter()
            .map(|i| {
                let neighborhood = batch.neighborhood(i);
                let moments = self.targets.moments(neighbors.ids(i), &neighborhood.weights);
                Estimate::new(moments, &neighborhood)
            })
            .collect();
        drop(batch);
        Ok(Estimates::new(rows, neighbors))
    }
}
