//! A scorer of rows divided by their length: directions are compared and lengths forgotten.

use super::{Batch, Input, Scorer};
use crate::Error;

/// Another scorer, fitted to normalized rows and asked about normalized rows.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::{Batch, KnnDistance, Normalized, Scorer};
///
/// let train = Embeddings::from_rows(&[[1.0, 0.0], [0.0, 1.0]])?;
/// let scorer = Normalized::new(KnnDistance::kth(&train.l2_normalized(), 1)?);
/// // A hundred times as long, but in a direction that was seen.
/// let queries = Embeddings::from_rows(&[[100.0, 0.0], [1.0, 1.0]])?;
/// let scores = scorer.score(&Batch { embeddings: Some(&queries), ..Batch::default() })?;
/// assert_eq!(scores[0], 0.0);
/// assert!(scores[1] > 0.7);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Normalized<S>(S);

impl<S: Scorer> Normalized<S> {
    /// Of a scorer that was fitted to [normalized](nuq_neighbors::Embeddings::l2_normalized) rows.
    pub fn new(fitted_to_normalized_rows: S) -> Self {
        Self(fitted_to_normalized_rows)
    }
}

impl<S: Scorer> Scorer for Normalized<S> {
    fn name(&self) -> String {
        format!("{}, L2", self.0.name())
    }

    fn inputs(&self) -> &'static [Input] {
        self.0.inputs()
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let rows = batch.need_embeddings(self)?.l2_normalized();
        let neighbors = batch.normalized_neighbors;
        self.0.score(&Batch { embeddings: Some(&rows), neighbors, normalized_neighbors: None, ..*batch })
    }

    fn takes_neighbors(&self) -> bool {
        self.0.takes_neighbors()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}
