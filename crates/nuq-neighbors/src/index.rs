//! What every index can do.

use crate::{Embeddings, Error, Neighbors};

/// Finds nearest training rows: the only thing that search backends (exact, graph, GPU) have in common.
///
/// Batch-first and object-safe. Implementations return, for each query, exactly `min(k, available)` distinct
/// ids, nearest first, ties by id, with squared distances computed from the stored rows in `f64`.
pub trait NeighborIndex: Send + Sync {
    /// The training rows, in the order of their ids.
    fn embeddings(&self) -> &Embeddings<'_>;

    /// What the index divides coordinates by before it measures a distance, when it does.
    fn scale(&self) -> Option<&[f64]>;

    /// The `k` nearest rows of each query. `excluded`, when given, holds for each query the one id that must
    /// not be returned: a training point is not its own neighbor, wherever it would rank.
    fn find(&self, queries: &Embeddings<'_>, k: usize, excluded: Option<&[u32]>) -> Result<Neighbors, Error>;

    /// The squared distances of rows that something else chose: `ids` holds `k` of them per query.
    fn measure(&self, queries: &Embeddings<'_>, k: usize, ids: &[u32]) -> Result<Neighbors, Error>;

    /// The `k` nearest rows of each query (all rows when there are fewer).
    fn search(&self, queries: &Embeddings<'_>, k: usize) -> Result<Neighbors, Error> {
        self.find(queries, k, None)
    }

    /// The `k` nearest *other* rows of the training rows `ids`, for cross-validation. Duplicates of a row
    /// stay; the row itself goes, by id.
    fn leave_one_out(&self, ids: &[u32], k: usize) -> Result<Neighbors, Error> {
        if let Some((query, &id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= self.len()) {
            return Err(Error::UnknownId { query, id, len: self.len() });
        }
        self.find(&self.embeddings().gather(ids), k, Some(ids))
    }

    /// The number of training rows.
    fn len(&self) -> usize {
        self.embeddings().len()
    }

    /// Whether there is no training row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The dimension of rows and queries.
    fn dim(&self) -> usize {
        self.embeddings().dim()
    }
}
