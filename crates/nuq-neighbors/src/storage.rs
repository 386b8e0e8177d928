//! The interface of row storage: training rows by id.

use std::borrow::Cow;

use rayon::prelude::*;

use crate::cancel::ParallelCheckpoints;
use crate::distance::{scaled_sq_distance, sq_distance};
use crate::{Embeddings, Error, Neighbors, Precision, RowParts, RowValues, ShardedRows};

/// Training rows by id.
///
/// Ids are below [`id_bound`](Self::id_bound). The id of a removed row is free: it names no row until an inserted row reuses it.
/// [`StoredRows`](crate::StoredRows) is the storage of the indexes of this crate; a backend can hold it as a field and
/// forward [`insert`](Self::insert) and [`remove`](Self::remove) to it.
pub trait RowStorage: Send + Sync {
    /// The number of rows.
    fn len(&self) -> usize;

    /// The number of columns.
    fn dim(&self) -> usize;

    /// Exclusive upper bound of the ids: the length of an array that is indexed by id. Equal to [`len`](Self::len) while
    /// no id is free.
    fn id_bound(&self) -> usize;

    /// Whether an id names a row.
    fn contains(&self, id: u32) -> bool;

    /// The stored values of a row.
    ///
    /// # Panics
    /// When `id` is not below [`id_bound`](Self::id_bound).
    fn row(&self, id: u32) -> Cow<'_, [f32]>;

    /// The rows as plain arrays, as a model file stores them.
    fn parts(&self) -> RowParts<'_>;

    /// Inserts rows and returns their ids: free ids first, in ascending order, then new ones.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`], [`Error::TooManyRows`], [`Error::OutOfHalfRange`] for storage in `f16`,
    /// [`Error::FixedShards`] for rows in shards, and the errors of [`verify_once`](Self::verify_once).
    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error>;

    /// Removes the rows with the given ids. On error no row is removed.
    ///
    /// # Errors
    /// [`Error::CannotRemove`] when an id names no row or is listed twice, [`Error::FixedShards`] for rows in shards, and
    /// the errors of [`verify_once`](Self::verify_once).
    fn remove(&mut self, ids: &[u32]) -> Result<(), Error>;

    /// The precision in which rows are stored.
    fn precision(&self) -> Precision {
        Precision::F32
    }

    /// The divisors of the coordinates, if distances are measured in a scaled space.
    fn scale(&self) -> Option<&[f64]> {
        None
    }

    /// Verifies mapped arrays before their first use. The result is computed once and then returned from memory.
    ///
    /// # Errors
    /// [`Error::Damaged`] when stored arrays differ from what was written, and [`Error::RowsNotStored`] when the values are
    /// not available ([`is_stored`](Self::is_stored)).
    fn verify_once(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Verifies that mapped arrays have not changed since they were mapped. Searches call this at their end.
    ///
    /// # Errors
    /// [`Error::FileChanged`] if the file of the arrays was changed, or could not be read.
    fn verify_unchanged(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The rows as shards, if they are stored in shards.
    fn sharded(&self) -> Option<&ShardedRows> {
        None
    }

    /// Whether the values of the rows are available. If not, only ids are known: [`row`](Self::row) must not be
    /// called, and every other function that needs values returns [`Error::RowsNotStored`].
    fn is_stored(&self) -> bool {
        true
    }

    /// Whether there is no row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids that name a row, ascending.
    fn live_ids(&self) -> Vec<u32> {
        (0..self.id_bound() as u32).filter(|&id| self.contains(id)).collect()
    }

    /// A copy of the rows with the given ids, in that order.
    ///
    /// # Errors
    /// The errors of [`verify_once`](Self::verify_once).
    ///
    /// # Panics
    /// When an id is not below [`id_bound`](Self::id_bound).
    fn gather(&self, ids: &[u32]) -> Result<Embeddings<'static>, Error> {
        self.verify_once()?;
        let mut values = Vec::with_capacity(ids.len() * self.dim());
        ids.iter().for_each(|&id| values.extend_from_slice(&self.row(id)));
        Embeddings::new(values, self.dim())
    }

    /// The rows with the ids [`live_ids`](Self::live_ids), in that order. They are copied only if rows were removed, or if they are
    /// stored in half precision or in shards.
    ///
    /// # Errors
    /// The errors of [`verify_once`](Self::verify_once).
    fn live_rows(&self) -> Result<Embeddings<'_>, Error> {
        let has_all = self.len() == self.id_bound() && self.sharded().is_none();
        if has_all && self.precision() == Precision::F32 {
            self.verify_once()?;
            if let RowValues::F32(values) = self.parts().values {
                return Embeddings::from_values(values, self.dim());
            }
        }
        self.gather(&self.live_ids())
    }

    /// The rows with the given ids, in that order: [`live_rows`](Self::live_rows) if these are the ids of all rows, otherwise a copy.
    ///
    /// # Errors
    /// The errors of [`verify_once`](Self::verify_once).
    ///
    /// # Panics
    /// When an id is not below [`id_bound`](Self::id_bound).
    fn rows_with_ids(&self, ids: &[u32]) -> Result<Embeddings<'_>, Error> {
        let are_all = ids.len() == self.len() && ids == self.live_ids();
        if are_all { self.live_rows() } else { self.gather(ids) }
    }

    /// The squared distance of a query to a row, after division by the [`scale`](Self::scale).
    ///
    /// # Panics
    /// When the query has another dimension, or `id` is not below [`id_bound`](Self::id_bound).
    fn sq_distance(&self, query: &[f32], id: u32) -> f64 {
        let row = self.row(id);
        match self.scale() {
            None => sq_distance(query, &row),
            Some(scale) => scaled_sq_distance(query, &row, scale),
        }
    }

    /// A neighbor table from given ids, `k` per query: computes their squared distances and sorts them.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`], [`Error::ZeroNeighbors`], [`Error::LengthMismatch`], [`Error::UnknownId`] or
    /// [`Error::RepeatedId`], and the errors of [`verify_once`](Self::verify_once) and [`verify_unchanged`](Self::verify_unchanged).
    fn measure(&self, queries: &Embeddings<'_>, k: usize, ids: &[u32]) -> Result<Neighbors, Error> {
        self.verify_once()?;
        check_dim(queries, self.dim())?;
        if k == 0 {
            return Err(Error::ZeroNeighbors);
        }
        if ids.len() / k != queries.len() || !ids.len().is_multiple_of(k) {
            let (got, expected) = (ids.len(), queries.len().saturating_mul(k));
            return Err(Error::LengthMismatch {
                what: "ids",
                got,
                counterpart: "requested neighbors",
                expected,
            });
        }
        self.check_ids(ids, k)?;
        let sq_distances: Vec<f64> = ids
            .par_chunks(k)
            .with_checkpoints()
            .enumerate()
            .flat_map_iter(|(i, row)| row.iter().map(move |&id| self.sq_distance(queries.row(i), id)))
            .collect();
        self.verify_unchanged()?;
        Neighbors::new(k, ids.to_vec(), sq_distances)
    }

    /// Checks that every id names a row; `ids` holds `per_query` ids per query.
    ///
    /// # Errors
    /// [`Error::UnknownId`] for the first id that names no row.
    fn check_ids(&self, ids: &[u32], per_query: usize) -> Result<(), Error> {
        match ids.iter().position(|&id| !self.contains(id)) {
            Some(at) => Err(Error::UnknownId { query: at / per_query, id: ids[at], len: self.len() }),
            None => Ok(()),
        }
    }

    /// Checks the arguments of a search and returns the number of neighbors that each query gets: `k`, or the number of rows
    /// without the excluded one if it is smaller.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`], [`Error::ZeroNeighbors`], [`Error::Empty`] when no row is available,
    /// [`Error::LengthMismatch`] or [`Error::UnknownId`] for the excluded ids, and the errors of
    /// [`verify_once`](Self::verify_once).
    fn check_search(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<usize, Error> {
        self.verify_once()?;
        check_dim(queries, self.dim())?;
        let available = self.len().saturating_sub(usize::from(excluded.is_some()));
        match (k, available, excluded) {
            (0, _, _) => return Err(Error::ZeroNeighbors),
            (_, 0, _) => return Err(Error::Empty),
            (_, _, Some(ids)) if ids.len() != queries.len() => {
                let (got, expected) = (ids.len(), queries.len());
                return Err(Error::LengthMismatch {
                    what: "excluded ids",
                    got,
                    counterpart: "queries",
                    expected,
                });
            }
            _ => {}
        }
        self.check_ids(excluded.unwrap_or(&[]), 1)?;
        Ok(k.min(available))
    }
}

fn check_dim(queries: &Embeddings<'_>, dim: usize) -> Result<(), Error> {
    if queries.dim() != dim {
        return Err(Error::DimensionMismatch { got: queries.dim(), expected: dim });
    }
    Ok(())
}
