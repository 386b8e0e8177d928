//! What every index can do.

use std::borrow::Cow;

use crate::{Embeddings, Error, IndexParts, IndexSummary, Neighbors};

/// Finds nearest training rows: the only thing that search backends (exact, graph, GPU) have in common.
///
/// Batch-first and object-safe. Implementations return, for each query, exactly `min(k, available)` distinct
/// ids, nearest first, ties by id, with squared distances computed from the stored rows in `f64`.
pub trait NeighborIndex: Send + Sync {
    /// The number of training rows.
    fn len(&self) -> usize;

    /// The dimension of rows and queries.
    fn dim(&self) -> usize;

    /// One more than the largest id that a row has or had: [`len`](Self::len), unless rows were removed.
    fn ids(&self) -> usize;

    /// Whether an id names a row.
    fn contains(&self, id: u32) -> bool;

    /// A training row as the index keeps it.
    ///
    /// # Panics
    /// When `id` is not below [`ids`](Self::ids).
    fn row(&self, id: u32) -> Cow<'_, [f32]>;

    /// What kind of index this is, and how sure of its neighbors.
    fn describe(&self) -> IndexSummary;

    /// Whether the index may be read: one that came from a file only after the file was found whole. Every search asks.
    fn verify_once(&self) -> Result<(), Error>;

    /// The arrays that the index is made of.
    fn parts(&self) -> IndexParts<'_>;

    /// What the index divides coordinates by before it measures a distance, when it does.
    fn scale(&self) -> Option<&[f64]>;

    /// The `k` nearest rows of each query. `excluded`, when given, holds for each query the one id that must
    /// not be returned: a training point is not its own neighbor, wherever it would rank.
    fn search_excluding(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, Error>;

    /// The squared distances of rows that something else chose: `ids` holds `k` of them per query.
    fn measure(&self, queries: &Embeddings<'_>, k: usize, ids: &[u32]) -> Result<Neighbors, Error>;

    /// Adds rows and returns their ids: those of removed rows first, then new ones.
    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error>;

    /// Takes rows away; they never come back as neighbors. All of them go, or none when an id names no row.
    fn remove(&mut self, ids: &[u32]) -> Result<(), Error>;

    /// The `k` nearest rows of each query (all rows when there are fewer).
    fn search(&self, queries: &Embeddings<'_>, k: usize) -> Result<Neighbors, Error> {
        self.search_excluding(queries, k, None)
    }

    /// The `k` nearest *other* rows of the training rows `ids`, for cross-validation. Duplicates of a row
    /// stay; the row itself goes, by id.
    fn leave_one_out(&self, ids: &[u32], k: usize) -> Result<Neighbors, Error> {
        self.verify_once()?;
        if let Some((query, &id)) = ids.iter().enumerate().find(|(_, id)| !self.contains(**id)) {
            return Err(Error::UnknownId { query, id, len: self.len() });
        }
        self.search_excluding(&self.rows_of(ids)?, k, Some(ids))
    }

    /// The ids that name a row, ascending.
    fn live_ids(&self) -> Vec<u32> {
        (0..self.ids() as u32).filter(|&id| self.contains(id)).collect()
    }

    /// A copy of some rows.
    fn rows_of(&self, ids: &[u32]) -> Result<Embeddings<'static>, Error> {
        self.verify_once()?;
        let mut values = Vec::with_capacity(ids.len() * self.dim());
        ids.iter().for_each(|&id| values.extend_from_slice(&self.row(id)));
        Embeddings::new(values, self.dim())
    }

    /// Whether there is no training row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
