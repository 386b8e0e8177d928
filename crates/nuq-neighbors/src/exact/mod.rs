//! The index that is never wrong: every training row is compared with every query.
//!
//! Candidates come from a blocked matrix product in `f32` ([`blocked`]), on rows centered on the training mean
//! and scaled by a power of two ([`rescaler`]). Each approximate score carries a bound on its rounding error, and
//! a row is dropped only when the bound proves that it is not among the k nearest ([`shortlist`]). The
//! survivors, a few more than k, are measured by direct difference in `f64` and ranked by that. So the answer
//! does not depend on how the product was rounded, and with it not on blocks, threads or shards; a common
//! offset of 1000 on every coordinate changes no neighbor.

mod blocked;
mod rescaler;
mod shortlist;

use std::borrow::Cow;
use std::sync::OnceLock;

use rayon::prelude::*;

use crate::distance::{scaled_sq_distance, sq_distance};
use crate::neighbors::{Neighbor, keep_nearest};
use crate::parts::{IndexParts, StoredRows};
use crate::rows::{Precision, Rows};
use crate::{Embeddings, Error, IndexSummary, NeighborIndex, Neighbors};
use rescaler::Rescaler;

/// Exact nearest neighbors by Euclidean distance, optionally with each coordinate divided by a scale.
///
/// Holds no copy of the rows: they are borrowed or shared with the caller's [`Embeddings`].
pub struct ExactIndex<'a> {
    rows: Rows<'a>,
    scale: Option<Vec<f64>>,
    /// `None` when `f32` cannot hold the scaled rows: then every distance is computed directly. Made when first needed: an
    /// index over a mapped file reads no row before that.
    rescaler: OnceLock<Option<Rescaler>>,
}

/// Below this many queries a matrix product cannot pay for laying out its blocks.
const FEWEST_BLOCKED_QUERIES: usize = 5;
/// Candidates held at a time.
const MOST_CANDIDATES: usize = 1 << 23;
/// Training rows per task when distances are computed directly.
const DIRECT_ROWS: usize = 4096;

impl<'a> ExactIndex<'a> {
    /// An index over at least one row.
    pub fn new(embeddings: &Embeddings<'a>) -> Result<Self, Error> {
        Ok(Self::over(Rows::new(embeddings, Precision::F32)?, None))
    }

    /// An index that divides coordinate `j` by `scale[j]` before it measures: with one bandwidth per
    /// dimension, neighbors are those of the scaled space. Distances are those of the scaled space too.
    pub fn scaled(embeddings: &Embeddings<'a>, scale: Vec<f64>) -> Result<Self, Error> {
        check_scale(&scale, embeddings.dim())?;
        Ok(Self::over(Rows::new(embeddings, Precision::F32)?, Some(scale)))
    }

    /// An index over rows that are not a copy of the caller's.
    pub(crate) fn over(rows: Rows<'a>, scale: Option<Vec<f64>>) -> Self {
        Self { rows, scale, rescaler: OnceLock::new() }
    }

    fn rescaler(&self) -> Option<&Rescaler> {
        if self.rescaler.get().is_none() {
            // Made outside the lock, for it is made in parallel and may meet another search on this thread.
            let mut rescaler = Rescaler::around(&self.rows, self.scale.as_deref());
            if let Some(rescaler) = &mut rescaler {
                self.rows.removed().iter().for_each(|&id| rescaler.remove(id));
            }
            let _ = self.rescaler.set(rescaler);
        }
        self.rescaler.get().and_then(Option::as_ref)
    }

    pub(crate) fn rows(&self) -> &Rows<'a> {
        &self.rows
    }

    pub(crate) fn distance(&self, query: &[f32], id: u32) -> f64 {
        let row = self.rows.row(id);
        match &self.scale {
            None => sq_distance(query, &row),
            Some(scale) => scaled_sq_distance(query, &row, scale),
        }
    }

    /// One query against every row, without approximation: for a handful of queries, for k near the number of
    /// rows, and for numbers beyond the reach of `f32` products.
    pub(crate) fn search_directly(&self, query: &[f32], k: usize, excluded: Option<u32>) -> Vec<Neighbor> {
        let len = self.rows.ids();
        let mut nearest = (0..len.div_ceil(DIRECT_ROWS))
            .into_par_iter()
            .flat_map_iter(|block| {
                let rows = block * DIRECT_ROWS..len.min((block + 1) * DIRECT_ROWS);
                let mut row: Vec<Neighbor> = rows
                    .map(|id| id as u32)
                    .filter(|&id| Some(id) != excluded && self.rows.contains(id))
                    .map(|id| (self.distance(query, id), id))
                    .collect();
                keep_nearest(&mut row, k);
                row
            })
            .collect();
        keep_nearest(&mut nearest, k);
        nearest
    }

    /// Refuses a search that cannot be answered; returns how many neighbors there will be for each query.
    pub(crate) fn check(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<usize, Error> {
        self.rows.verify_once()?;
        let available = self.len().saturating_sub(usize::from(excluded.is_some()));
        check_queries(queries, self.dim())?;
        match (k, available, excluded) {
            (0, _, _) => return Err(Error::ZeroNeighbors),
            (_, 0, _) => return Err(Error::Empty),
            (_, _, Some(ids)) if ids.len() != queries.len() => {
                let (got, expected) = (ids.len(), queries.len());
                return Err(Error::LengthMismatch { what: "excluded ids", got, expected });
            }
            _ => {}
        }
        if let Some((query, &id)) =
            excluded.unwrap_or(&[]).iter().enumerate().find(|(_, id)| !self.rows.contains(**id))
        {
            return Err(Error::UnknownId { query, id, len: self.len() });
        }
        Ok(k.min(available))
    }

    fn search_portion(&self, queries: &[f32], k: usize, excluded: Option<&[u32]>) -> Vec<Vec<Neighbor>> {
        let count = queries.len() / self.dim();
        let few = count < FEWEST_BLOCKED_QUERIES || !blocked::pays_for(k, self.len());
        match (!few).then(|| self.rescaler()).flatten() {
            Some(rescaler) => blocked::search(self, rescaler, queries, k, excluded),
            None => queries
                .par_chunks(self.dim())
                .enumerate()
                .map(|(i, query)| self.search_directly(query, k, excluded.map(|ids| ids[i])))
                .collect(),
        }
    }
}

impl NeighborIndex for ExactIndex<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn ids(&self) -> usize {
        self.rows.ids()
    }

    fn contains(&self, id: u32) -> bool {
        self.rows.contains(id)
    }

    fn row(&self, id: u32) -> Cow<'_, [f32]> {
        self.rows.row(id)
    }

    fn describe(&self) -> IndexSummary {
        IndexSummary::Exact
    }

    fn verify_once(&self) -> Result<(), Error> {
        self.rows.verify_once()
    }

    fn parts(&self) -> IndexParts<'_> {
        IndexParts {
            dim: self.dim(),
            rows: StoredRows::from(&self.rows),
            removed: self.rows.removed().iter().copied().collect(),
            scale: self.scale.clone(),
            graph: None,
        }
    }

    fn scale(&self) -> Option<&[f64]> {
        self.scale.as_deref()
    }

    fn search_excluding(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, Error> {
        let k = self.check(queries, k, excluded)?;
        let mut table = Neighbors::with_capacity(k, queries.len());
        // Candidates are larger than what the table keeps of them: with a large k they come in portions.
        let portion = (MOST_CANDIDATES / k).max(1);
        for (i, rows) in queries.as_slice().chunks(portion * self.dim()).enumerate() {
            let first = i * portion;
            let excluded = excluded.map(|ids| &ids[first..first + rows.len() / self.dim()]);
            self.search_portion(rows, k, excluded).iter().for_each(|row| table.push(row));
        }
        Ok(table)
    }

    fn measure(&self, queries: &Embeddings<'_>, k: usize, ids: &[u32]) -> Result<Neighbors, Error> {
        self.rows.verify_once()?;
        check_queries(queries, self.dim())?;
        if k == 0 {
            return Err(Error::ZeroNeighbors);
        }
        if ids.len() / k != queries.len() || !ids.len().is_multiple_of(k) {
            let (got, expected) = (ids.len(), queries.len().saturating_mul(k));
            return Err(Error::LengthMismatch { what: "neighbor ids", got, expected });
        }
        if let Some(at) = ids.iter().position(|&id| !self.rows.contains(id)) {
            return Err(Error::UnknownId { query: at / k, id: ids[at], len: self.len() });
        }
        let sq_distances = ids
            .par_chunks(k)
            .enumerate()
            .flat_map_iter(|(i, row)| row.iter().map(move |&id| self.distance(queries.row(i), id)))
            .collect();
        Neighbors::new(k, ids.to_vec(), sq_distances)
    }

    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        let ids = self.rows.insert(rows)?;
        // The norms are those of the rows as they are kept, which may be rounded.
        let mut kept = Vec::with_capacity(rows.as_slice().len());
        ids.iter().for_each(|&id| kept.extend_from_slice(&self.rows.row(id)));
        if let Some(Some(rescaler)) = self.rescaler.get_mut()
            && !rescaler.insert(&ids, &kept)
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

pub(crate) fn check_scale(scale: &[f64], dim: usize) -> Result<(), Error> {
    if scale.len() != dim {
        return Err(Error::LengthMismatch { what: "scales", got: scale.len(), expected: dim });
    }
    // Squares of any f32 over these stay finite and positive.
    let usable = |s: f64| (1e-100..=1e100).contains(&s);
    match scale.iter().position(|&s| !usable(s)) {
        Some(column) => Err(Error::BadScale { column, value: scale[column] }),
        None => Ok(()),
    }
}

fn check_queries(queries: &Embeddings<'_>, dim: usize) -> Result<(), Error> {
    if queries.dim() != dim {
        return Err(Error::DimensionMismatch { got: queries.dim(), expected: dim });
    }
    Ok(())
}
