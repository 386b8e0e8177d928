//! Exact search: every query is compared with every training row.
//!
//! 1. A blocked matrix product in `f32` ([`blocked`]) computes approximate scores, on rows centered on the training mean
//!    and scaled by a power of two ([`rescaler`]).
//! 2. Each score has a bound on its rounding error. A row is dropped only when the bound proves that it is not among the
//!    k nearest ([`shortlist`]).
//! 3. The remaining rows, a few more than k, are ranked by their squared distances, computed from direct differences in
//!    `f64`.
//!
//! The result therefore does not depend on the rounding of the product, on blocks, threads or shards, nor on an offset
//! common to all rows.

mod blocked;
mod rescaler;
mod shortlist;

use std::sync::OnceLock;

use rayon::prelude::*;

use crate::cancel::{Checkpoint, ParallelCheckpoints};
use crate::neighbors::{Neighbor, keep_nearest};
use crate::progress::Steps;
use crate::{Embeddings, Error, IndexSummary, NeighborIndex, Neighbors, Precision, RowStorage, StoredRows};
use rescaler::Rescaler;

/// Exact nearest neighbors by Euclidean distance, optionally with each coordinate divided by a scale.
///
/// The rows are borrowed from the caller's [`Embeddings`] or shared with them, not copied.
pub struct ExactIndex<'a> {
    rows: StoredRows<'a>,
    /// `None` when `f32` cannot represent the rescaled rows; then all distances are computed directly. Computed at the
    /// first use, because an index over a mapped file must not read its rows earlier.
    rescaler: OnceLock<Option<Rescaler>>,
}

/// With fewer queries than this, direct distances are faster than a matrix product.
const MIN_BLOCKED_QUERIES: usize = 5;
/// Limit of the neighbors held in memory before they are copied to the table.
const MAX_HELD_NEIGHBORS: usize = 1 << 23;
/// Training rows per task when distances are computed directly.
const DIRECT_ROWS: usize = 4096;

impl<'a> ExactIndex<'a> {
    /// Creates an index over at least one row.
    ///
    /// # Errors
    /// [`Error::Empty`] without rows.
    pub fn new(embeddings: &Embeddings<'a>) -> Result<Self, Error> {
        Ok(Self::over(StoredRows::new(embeddings, Precision::F32)?))
    }

    /// Creates an index in the space in which coordinate `j` is divided by `scale[j]`. Neighbors and distances are those
    /// of the scaled space; with one bandwidth per dimension, the bandwidths are the scale.
    ///
    /// # Errors
    /// [`Error::Empty`] without rows; [`Error::LengthMismatch`] or [`Error::BadScale`] for an invalid scale.
    pub fn scaled(embeddings: &Embeddings<'a>, scale: Vec<f64>) -> Result<Self, Error> {
        Ok(Self::over(StoredRows::new(embeddings, Precision::F32)?.scaled(scale)?))
    }

    /// Creates an index over stored rows.
    #[must_use]
    pub fn over(rows: StoredRows<'a>) -> Self {
        Self { rows, rescaler: OnceLock::new() }
    }

    pub(crate) fn stored_rows(&self) -> &StoredRows<'a> {
        &self.rows
    }

    /// Reverses an insertion of `ids` into an index with the id bound `id_bound`.
    pub(crate) fn undo_insert(&mut self, ids: &[u32], id_bound: usize) {
        self.rows.undo_insert(ids, id_bound);
        self.rescaler = OnceLock::new();
    }

    /// Reverses a removal of `ids`.
    pub(crate) fn undo_remove(&mut self, ids: &[u32]) {
        self.rows.undo_remove(ids);
        self.rescaler = OnceLock::new();
    }

    fn rescaler(&self) -> Option<&Rescaler> {
        if self.rescaler.get().is_none() {
            // No lock is held here: the fit runs in parallel, and this thread may execute another search meanwhile.
            let mut rescaler = Rescaler::fit(&self.rows);
            if let Some(rescaler) = &mut rescaler {
                self.rows.removed().iter().for_each(|&id| rescaler.remove(id));
            }
            let _ = self.rescaler.set(rescaler);
        }
        self.rescaler.get().and_then(Option::as_ref)
    }

    /// Compares one query with every row directly: for few queries, for large k (see [`blocked::is_efficient`]), and for
    /// values outside the range of `f32` products.
    pub(crate) fn search_directly(&self, query: &[f32], k: usize, excluded: Option<u32>) -> Vec<Neighbor> {
        let len = self.rows.id_bound();
        let mut nearest = (0..len.div_ceil(DIRECT_ROWS))
            .into_par_iter()
            .with_checkpoints()
            .flat_map_iter(|block| {
                let rows = block * DIRECT_ROWS..len.min((block + 1) * DIRECT_ROWS);
                let mut row: Vec<Neighbor> = rows
                    .map(|id| id as u32)
                    .filter(|&id| Some(id) != excluded && self.rows.contains(id))
                    .map(|id| (self.rows.sq_distance(query, id), id))
                    .collect();
                keep_nearest(&mut row, k);
                row
            })
            .collect();
        keep_nearest(&mut nearest, k);
        nearest
    }

    fn search_portion(&self, queries: &[f32], k: usize, excluded: Option<&[u32]>) -> Vec<Vec<Neighbor>> {
        let (here, steps) = (Checkpoint::current(), Steps::current());
        let count = queries.len() / self.dim();
        let use_blocks = count >= MIN_BLOCKED_QUERIES && blocked::is_efficient(k, self.len());
        match use_blocks.then(|| self.rescaler()).flatten() {
            Some(rescaler) => blocked::search(self, rescaler, queries, k, excluded),
            None => queries
                .par_chunks(self.dim())
                .with_checkpoints()
                .enumerate()
                .map(|(i, query)| here.enter(|| self.search_directly(query, k, excluded.map(|ids| ids[i]))))
                .inspect(|_| steps.add(1))
                .collect(),
        }
    }
}

impl NeighborIndex for ExactIndex<'_> {
    fn rows(&self) -> &dyn RowStorage {
        &self.rows
    }

    fn describe(&self) -> IndexSummary {
        IndexSummary::Exact
    }

    fn search_excluding(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, Error> {
        let k = self.rows.check_search(queries, k, excluded)?;
        let mut table = Neighbors::with_capacity(k, queries.len());
        // Queries are searched in portions to limit the memory of the neighbor lists, which need more space than the table.
        let portion = (MAX_HELD_NEIGHBORS / k).max(1);
        for (i, rows) in queries.as_slice().chunks(portion * self.dim()).enumerate() {
            let first = i * portion;
            let excluded = excluded.map(|ids| &ids[first..first + rows.len() / self.dim()]);
            self.search_portion(rows, k, excluded).iter().for_each(|row| table.push(row));
        }
        Ok(table)
    }

    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        // No check point follows: the index must not change in part.
        let ids = self.rows.insert(rows)?;
        // Norms are computed from the stored rows, which may be rounded.
        let mut stored = Vec::with_capacity(rows.as_slice().len());
        ids.iter().for_each(|&id| stored.extend_from_slice(&self.rows.row(id)));
        if let Some(Some(rescaler)) = self.rescaler.get_mut()
            && !rescaler.insert(&ids, &stored)
        {
            self.rescaler = OnceLock::new();
        }
        Ok(ids)
    }

    fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.rows.remove(ids)?;
        if let Some(Some(rescaler)) = self.rescaler.get_mut() {
            ids.iter().for_each(|&id| rescaler.remove(id));
        }
        Ok(())
    }
}
