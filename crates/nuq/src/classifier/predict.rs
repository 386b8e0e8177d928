//! Predictions of a fitted classifier.

use nuq_neighbors::cancel::ParallelCheckpoints;
use nuq_neighbors::{Embeddings, Neighbors};
use rayon::prelude::*;

use super::{NuqClassifier, Predictions, Probabilities};
use crate::error::check_lengths;
use crate::model::sealed::Sealed;
use crate::posterior::Scratch;
use crate::smoother::Batch;
use crate::uncertainty::Prediction;
use crate::{Error, NetworkProbabilities};

impl NuqClassifier<'_> {
    /// Label, probability and uncertainties of each query.
    ///
    /// # Errors
    /// The errors of the neighbor search: for example a dimension mismatch between queries and training rows, or a model that was saved
    /// without its rows.
    pub fn predict(&self, queries: &Embeddings<'_>) -> Result<Predictions<'_>, Error> {
        let queries = self.smoother.prepare(queries);
        let neighbors = self.smoother.search(&queries)?;
        self.predict_prepared(&queries, neighbors)
    }

    /// The same as [`predict`](Self::predict), from given neighbors, for example from a vector database or from another
    /// machine.
    ///
    /// The squared distances are used as given. They must be distances in the space that the model searches: rows are
    /// divided by their norm if `normalize` is set, and each coordinate is divided by its bandwidth if there is one
    /// bandwidth per dimension. [`FittedModel::measure`](crate::FittedModel::measure) computes these distances from
    /// ids.
    ///
    /// # Errors
    /// A dimension mismatch, neighbors for a different number of queries, or an id that names no training row.
    pub fn predict_from(
        &self,
        queries: &Embeddings<'_>,
        neighbors: &Neighbors,
    ) -> Result<Predictions<'_>, Error> {
        self.predict_prepared(&self.smoother.prepare(queries), neighbors.clone())
    }

    /// The class probabilities of the network from its logits, one column per class. The logits are divided by the
    /// fitted temperature if there is one ([`Rules::set_temperature`](crate::calibrate::Rules::set_temperature)).
    ///
    /// # Errors
    /// Logits whose number of columns differs from the number of classes.
    pub fn network(&self, logits: &Embeddings<'_>) -> Result<NetworkProbabilities, Error> {
        check_lengths(("columns of logits", logits.dim()), ("classes", self.classes.len()))?;
        NetworkProbabilities::from_logits(logits.as_slice(), logits.dim(), self.rules.temperature())
    }

    /// The predictions of the network itself, with uncertainties by this model: the network's class probabilities
    /// replace `η`, the class probabilities of this model, in label, probability and uncertainties. The density and `n(x)`, the number of
    /// training rows that support the estimate, come from the model.
    ///
    /// ```
    /// use nuq::{Embeddings, NetworkProbabilities, NuqClassifier};
    /// let x = Embeddings::from_rows(&[[0.0], [0.1], [1.0], [1.1]])?;
    /// let model = NuqClassifier::params().n_neighbors(2).fit(&x, &["a", "a", "b", "b"])?;
    /// // The network gives "b" a high probability for both rows; the second is far from the training rows.
    /// let network = NetworkProbabilities::from_logits(&[0.0, 5.0, 0.0, 5.0], 2, 1.0)?;
    /// let predictions = model.predict_with(&Embeddings::from_rows(&[[1.05], [40.0]])?, &network)?;
    /// assert_eq!(predictions.label(1), "b");
    /// assert_eq!(predictions[0].aleatoric, predictions[1].aleatoric);
    /// assert!(predictions[1].log_epistemic > predictions[0].log_epistemic + 3.0);
    /// # Ok::<(), nuq::Error>(())
    /// ```
    ///
    /// # Errors
    /// A dimension mismatch, or network outputs that do not have one row per query and one column per class.
    pub fn predict_with(
        &self,
        queries: &Embeddings<'_>,
        network: &NetworkProbabilities,
    ) -> Result<Predictions<'_>, Error> {
        network.check(queries.len(), self.classes.len())?;
        self.with_network(&self.predict(queries)?, network)
    }

    /// The same as [`predict_with`](Self::predict_with), from predictions of this model for the same queries.
    ///
    /// # Errors
    /// Network outputs that do not have one row per prediction and one column per class.
    pub fn with_network<'m>(
        &'m self,
        predictions: &Predictions<'_>,
        network: &NetworkProbabilities,
    ) -> Result<Predictions<'m>, Error> {
        network.check(predictions.len(), self.classes.len())?;
        let prediction = |i: usize| predictions[i].with_summary(&network.summarize(i), self.variance);
        let rows = (0..predictions.len()).into_par_iter().with_checkpoints().map(prediction).collect();
        Ok(Predictions::new(rows, predictions.neighbors().clone(), &self.classes))
    }

    fn predict_prepared(
        &self,
        queries: &Embeddings<'_>,
        neighbors: Neighbors,
    ) -> Result<Predictions<'_>, Error> {
        let rows = self.predict_batch(self.smoother.batch(queries, &neighbors)?, &neighbors)?;
        Ok(Predictions::new(rows, neighbors, &self.classes))
    }

    fn predict_batch(&self, batch: Batch<'_>, neighbors: &Neighbors) -> Result<Vec<Prediction>, Error> {
        let batch = batch.with_density(self.groups())?;
        let predict = |scratch: &mut Scratch, i: usize| {
            let neighborhood = batch.neighborhood(i);
            let classes = self.classes_of(neighbors, i);
            let summary = self.prior.summarize(classes, &neighborhood.weights, scratch);
            Prediction::new(&summary, &neighborhood, self.variance)
        };
        Ok((0..batch.len()).into_par_iter().with_checkpoints().map_init(Scratch::default, predict).collect())
    }

    /// The prediction of each training row from the other training rows, by ascending id of the rows. Bandwidths,
    /// dimension, scale, class frequencies and the Gaussians of the densities `gmm` and `auto` remain as fitted to all
    /// rows.
    ///
    /// ```
    /// use nuq::{Embeddings, NuqClassifier};
    /// let x = Embeddings::from_rows(&[[0.0], [0.1], [0.2], [5.0], [5.1], [9.0]])?;
    /// let labels = ["a", "a", "b", "b", "b", "b"];
    /// let model = NuqClassifier::params().n_neighbors(3).bandwidth(0.2).fit(&x, &labels)?;
    /// let left_out = model.leave_one_out()?;
    /// assert_eq!(left_out.label(2), "a"); // the label of the row is not used
    /// assert!(left_out[5].log_epistemic > left_out[4].log_epistemic); // no other row is near 9
    /// # Ok::<(), nuq::Error>(())
    /// ```
    ///
    /// # Errors
    /// A model with a single row, a model that was saved without its rows, or an index that comes from a damaged file.
    pub fn leave_one_out(&self) -> Result<Predictions<'_>, Error> {
        let predict = |batch: Batch<'_>, neighbors: &Neighbors| self.predict_batch(batch, neighbors);
        let (rows, neighbors) = self.smoother.predict_left_out(predict)?;
        Ok(Predictions::new(rows, neighbors, &self.classes))
    }

    /// The probabilities of all classes for each query.
    ///
    /// # Errors
    /// The errors of [`predict`](Self::predict).
    pub fn predict_proba(&self, queries: &Embeddings<'_>) -> Result<Probabilities, Error> {
        let queries = self.smoother.prepare(queries);
        let neighbors = self.smoother.search(&queries)?;
        self.probabilities(&queries, &neighbors)
    }

    /// The probabilities of all classes from given neighbors; see [`predict_from`](Self::predict_from).
    ///
    /// # Errors
    /// The errors of [`predict_from`](Self::predict_from).
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
        values.par_chunks_mut(classes).with_checkpoints().enumerate().for_each_init(
            Scratch::default,
            |scratch, (i, row)| {
                self.prior.probabilities(self.classes_of(neighbors, i), &batch.weights(i), scratch, row);
            },
        );
        Ok(Probabilities::new(values, classes))
    }
}
