//! A scorer of L2-normalized rows, which compares directions and ignores lengths.

use nuq_neighbors::{Embeddings, NeighborIndex};

use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;

/// Wraps a scorer that was fitted to L2-normalized rows, and normalizes the rows of each batch.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::{Batch, KnnDistance, Normalized, Scorer};
///
/// let train = Embeddings::from_rows(&[[1.0, 0.0], [0.0, 1.0]])?;
/// let scorer = Normalized::new(KnnDistance::kth(&train.l2_normalized(), 1)?);
/// // The first query is 100 times as long as a training row of the same direction.
/// let queries = Embeddings::from_rows(&[[100.0, 0.0], [1.0, 1.0]])?;
/// let scores = scorer.score(&Batch { embeddings: Some(&queries), ..Batch::default() })?;
/// assert_eq!(scores[0], 0.0);
/// assert!(scores[1] > 0.7);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Normalized<S>(S);

impl<S: Scorer> Normalized<S> {
    /// Wraps a scorer that was fitted to [normalized](nuq_neighbors::Embeddings::l2_normalized) rows.
    #[must_use]
    pub fn new(scorer: S) -> Self {
        Self(scorer)
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

    fn parts(&self) -> Option<BaselineParts> {
        let parts = self.0.parts()?;
        Some(BaselineParts { method: parts.method.normalized()?, ..parts })
    }

    fn index(&self) -> Option<&dyn NeighborIndex> {
        self.0.index()
    }

    fn equal_training_rows(&self, rows: &Embeddings<'_>) -> Result<Option<usize>, Error> {
        self.0.equal_training_rows(&rows.l2_normalized())
    }
}
