//! Predictions of a fitted regressor.

use nuq_neighbors::cancel::ParallelCheckpoints;
use nuq_neighbors::{Embeddings, Neighbors};
use rayon::prelude::*;

use super::{Estimates, NuqRegressor};
use crate::Error;
use crate::estimate::Estimate;
use crate::smoother::{Batch, Groups};

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

    /// The same as [`predict`](Self::predict), from given neighbors; see
    /// [`NuqClassifier::predict_from`](crate::NuqClassifier::predict_from).
    ///
    /// # Errors
    /// A dimension mismatch, neighbors for a different number of queries, or an id that names no training row.
    pub fn predict_from(&self, queries: &Embeddings<'_>, neighbors: &Neighbors) -> Result<Estimates, Error> {
        self.predict_prepared(&self.smoother.prepare(queries), neighbors.clone())
    }

    fn predict_prepared(&self, queries: &Embeddings<'_>, neighbors: Neighbors) -> Result<Estimates, Error> {
        let rows = self.predict_batch(self.smoother.batch(queries, &neighbors)?, &neighbors)?;
        Ok(Estimates::new(rows, neighbors))
    }

    fn predict_batch(&self, batch: Batch<'_>, neighbors: &Neighbors) -> Result<Vec<Estimate>, Error> {
        let batch = batch.with_density(Groups::Single)?;
        let predict = |i: usize| {
            let neighborhood = batch.neighborhood(i);
            let moments = self.targets.moments(neighbors.ids(i), &neighborhood.weights);
            Estimate::new(moments, &neighborhood)
        };
        Ok((0..batch.len()).into_par_iter().with_checkpoints().map(predict).collect())
    }

    /// The estimate of each training row from the other training rows, by ascending id of the rows; see
    /// [`NuqClassifier::leave_one_out`](crate::NuqClassifier::leave_one_out).
    ///
    /// # Errors
    /// A model with a single row, or an index that comes from a damaged file.
    pub fn leave_one_out(&self) -> Result<Estimates, Error> {
        let predict = |batch: Batch<'_>, neighbors: &Neighbors| self.predict_batch(batch, neighbors);
        let (rows, neighbors) = self.smoother.predict_left_out(predict)?;
        Ok(Estimates::new(rows, neighbors))
    }
}
