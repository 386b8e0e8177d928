//! The search interface that all indexes implement.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::{Embeddings, Error, IndexParts, IndexSummary, Neighbors, RowStorage};

/// Nearest-neighbor search over training rows.
///
/// The trait is object-safe, and a search takes a batch of queries. A backend stores its rows in a [`RowStorage`] and
/// implements the five required methods; the argument checks, leave-one-out search and the arrays for the model file are
/// provided.
///
/// A search returns, for each query, exactly `min(k, available)` distinct ids of stored rows, nearest first, ties by id.
/// `available` is the number of stored rows, less one if a row is excluded.
/// Squared distances are computed in `f64` from the stored rows, as [`RowStorage::measure`] computes them.
pub trait NeighborIndex: Send + Sync {
    /// The training rows.
    fn rows(&self) -> &dyn RowStorage;

    /// The kind of the index and its measured recall.
    fn describe(&self) -> IndexSummary;

    /// The device of the last search, with the reason if it was the CPU; `auto` before the device is chosen. `None` for an index
    /// that uses the CPU only or that does not report its device.
    fn device(&self) -> Option<String> {
        None
    }

    /// The `k` nearest rows of each query.
    ///
    /// `excluded` holds one id per query, which is left out of the result of that query. Leave-one-out search excludes
    /// the query row itself in this way, independently of its rank.
    ///
    /// # Errors
    /// The errors of [`RowStorage::check_search`], which implementations call first.
    fn search_excluding(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, Error>;

    /// Inserts rows and returns their ids; see [`RowStorage::insert`].
    ///
    /// # Errors
    /// The errors of [`RowStorage::insert`].
    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error>;

    /// Removes rows; see [`RowStorage::remove`].
    ///
    /// # Errors
    /// The errors of [`RowStorage::remove`].
    fn remove(&mut self, ids: &[u32]) -> Result<(), Error>;

    /// The arrays of the index, as a model file stores them.
    ///
    /// By default only the rows are stored, and the index is restored as an [`ExactIndex`](crate::ExactIndex).
    fn parts(&self) -> IndexParts<'_> {
        IndexParts { rows: self.rows().parts(), graph: None, order: None }
    }

    /// Records the order in which the searches so far have put the rows, for [`parts`](Self::parts). A fit calls this at its end. An order
    /// that later searches compute is not recorded, so that the arrays of a model do not depend on its predictions.
    fn record_order(&mut self) {}

    /// Verifies mapped arrays before their first use; see [`RowStorage::verify_once`].
    ///
    /// # Errors
    /// [`Error::Damaged`] when stored arrays differ from what was written.
    fn verify_once(&self) -> Result<(), Error> {
        self.rows().verify_once()
    }

    /// The number of training rows.
    fn len(&self) -> usize {
        self.rows().len()
    }

    /// Whether there is no training row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The dimension of rows and queries.
    fn dim(&self) -> usize {
        self.rows().dim()
    }

    /// The `k` nearest rows of each query, or all rows when there are fewer.
    ///
    /// # Errors
    /// The errors of [`search_excluding`](Self::search_excluding) and of [`RowStorage::verify_unchanged`].
    fn search(&self, queries: &Embeddings<'_>, k: usize) -> Result<Neighbors, Error> {
        verified_after(self.rows(), || self.search_excluding(queries, k, None))
    }

    /// The `k` nearest *other* rows of the training rows `ids`, for cross-validation. A row is excluded by its id;
    /// duplicates of it remain.
    ///
    /// # Errors
    /// [`Error::UnknownId`] when an id names no row, and the errors of [`search_excluding`](Self::search_excluding) and of
    /// [`RowStorage::verify_unchanged`].
    fn leave_one_out(&self, ids: &[u32], k: usize) -> Result<Neighbors, Error> {
        self.verify_once()?;
        self.rows().check_ids(ids, 1)?;
        verified_after(self.rows(), || self.search_excluding(&self.rows().rows_with_ids(ids)?, k, Some(ids)))
    }
}

/// The result of a search, if the file of the rows was not changed. In a changed file, links may lead to rows that do not exist. A search that
/// panics for this reason ends with the error of the changed file.
fn verified_after<T>(rows: &dyn RowStorage, search: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(search)) {
        Ok(result) => result.and_then(|found| rows.verify_unchanged().map(|()| found)),
        Err(panic) => {
            rows.verify_unchanged()?;
            resume_unwind(panic)
        }
    }
}
