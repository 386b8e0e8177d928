//! Predictions of a fitted classifier.

use nuq_neighbors::{Embeddings, Neighbors};
use rayon::prelude::*;

use super::{NuqClassifier, Predictions, Probabilities};
use crate::Error;
use crate::posterior::Scratch;
use crate::uncertainty::Prediction;

impl NuqClassifier<'_> {
    /// Label, probability and uncertainties of each query.
    ///
    /// # Errors
    /// A dimension mismatch between queries and training rows.
    pub fn predict(&self, queries: &Embeddings<'_>) -> Result<Predictions<'_>, Error> {
        let queries = self.smoother.prepare(queries);
        let neighbors = self.smoother.search(&queries)?;
        self.predict_prepared(&queries, neighbors)
    }

    /// The same as [`predict`](Self::predict) from a given neighbor table, for example of a vector database or of another
    /// machine.
    ///
    /// The squared distances are used as given. They must be those of the space that the model searches: rows of norm one
    /// under `normalize`, each coordinate divided by its bandwidth if there is one per dimension.
    /// [`FittedModel::measure`](crate::FittedModel::measure) computes them from ids.
    ///
    /// # Errors
    /// A dimension mismatch, a table with another number of rows, or an id that names no training row.
    pub fn predict_from(
        &self,
        queries: &Embeddings<'_>,
        neighbors: &Neighbors,
    ) -> Result<Predictions<'_>, Error> {
        self.predict_prepared(&self.smoother.prepare(queries), neighbors.clone())
    }

    fn predict_prepared(
        &self,
        queries: &Embeddings<'_>,
        neighbors: Neighbors,
    ) -> Result<Predictions<'_>, Error> {
        let batch = self.smoother.batch(queries, &neighbors)?.with_density(self.groups())?;
        let rows = (0..batch.len())
            .into_par_iter()
            .map_init(Scratch::default, |scratch, i| {
                let neighborhood = batch.neighborhood(i);
                let classes = self.classes_of(&neighbors, i);
                let summary = self.prior.summarize(classes, &neighborhood.weights, scratch);
                Prediction::new(&summary, &neighborhood, self.variance)
            })
            .collect();
        drop(batch);
        Ok(Predictions::new(rows, neighbors, &self.classes))
    }

    /// The probabilities of all classes for each query.
    ///
    /// # Errors
    /// Those of [`predict`](Self::predict).
    pub fn predict_proba(&self, queries: &Embeddings<'_>) -> Result<Probabilities, Error> {
        let queries = self.smoother.prepare(queries);
        let neighbors = self.smoother.search(&queries)?;
        self.probabilities(&queries, &neighbors)
    }

    /// The probabilities of all classes from a given neighbor table; see [`predict_from`](Self::predict_from).
    ///
    /// # Errors
    /// Those of [`predict_from`](Self::predict_from).
    pub fn predict_proba_from(
        &self,
        queries: &Embeddings<'_>,
        neighbors: &Neighbors,
    ) -> Result<Probabilities, Error> {
        self.probabilities(&self.smoother.prepare(queries), neighbors)
    }

    fn probabilities(&self, queries: &Embeddings<'_>, neighbors: &Neighbors) -> Result<Probabilities, Error> {
        let batch = self.smoother.batch(queries, neighbors)?;
        let classes = self.classes.len();
        let mut values = vec![0.0; queries.len() * classes];
        values.par_chunks_mut(classes).enumerate().for_each_init(Scratch::default, |scratch, (i, row)| {
            self.prior.probabilities(self.classes_of(neighbors, i), &batch.weights(i), scratch, row);
        });
        Ok(Probabilities::new(values, classes))
    }
}
