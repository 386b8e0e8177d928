//! The index that is never wrong: every training row is compared with every query.
//!
//! Candidates come from a blocked matrix product in `f32` ([`blocked`]), on rows centered on the training mean
//! and scaled by a power of two ([`frame`]). Each approximate score carries a bound on its rounding error, and
//! a row is dropped only when the bound proves that it is not among the k nearest ([`shortlist`]). The
//! survivors, a few more than k, are measured by direct difference in `f64` and ranked by that. So the answer
//! does not depend on how the product was rounded, and with it not on blocks, threads or shards; a common
//! offset of 1000 on every coordinate changes no neighbor.

mod blocked;
mod frame;
mod shortlist;

use rayon::prelude::*;

use crate::distance::{scaled_sq_distance, sq_distance};
use crate::neighbors::{Candidate, keep_nearest};
use crate::{Embeddings, Error, NeighborIndex, Neighbors};
use frame::Frame;

/// Exact nearest neighbors by Euclidean distance, optionally with each coordinate divided by a scale.
///
/// Holds no copy of the rows: they are borrowed or shared with the caller's [`Embeddings`].
pub struct ExactIndex<'a> {
    embeddings: Embeddings<'a>,
    scale: Option<Vec<f64>>,
    /// `None` when `f32` cannot hold the scaled rows: then every distance is computed directly.
    frame: Option<Frame>,
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
        Self::build(embeddings, None)
    }

    /// An index that divides coordinate `j` by `scale[j]` before it measures: with one bandwidth per
    /// dimension, neighbors are those of the scaled space. Distances are those of the scaled space too.
    pub fn scaled(embeddings: &Embeddings<'a>, scale: Vec<f64>) -> Result<Self, Error> {
        if scale.len() != embeddings.dim() {
            let (got, expected) = (scale.len(), embeddings.dim());
            return Err(Error::LengthMismatch { what: "scales", got, expected });
        }
        // Squares of any f32 over these stay finite and positive.
        let usable = |s: f64| (1e-100..=1e100).contains(&s);
        if let Some(column) = scale.iter().position(|&s| !usable(s)) {
            return Err(Error::BadScale { column, value: scale[column] });
        }
        Self::build(embeddings, Some(scale))
    }

    fn build(embeddings: &Embeddings<'a>, scale: Option<Vec<f64>>) -> Result<Self, Error> {
        if embeddings.is_empty() {
            return Err(Error::Empty);
        }
        let frame = Frame::around(embeddings, scale.as_deref());
        Ok(Self { embeddings: embeddings.clone(), scale, frame })
    }

    pub(crate) fn distance(&self, query: &[f32], id: u32) -> f64 {
        let row = self.embeddings.row(id as usize);
        match &self.scale {
            None => sq_distance(query, row),
            Some(scale) => scaled_sq_distance(query, row, scale),
        }
    }

    /// One query against every row, without approximation: for a handful of queries, for k near the number of
    /// rows, and for numbers beyond the reach of `f32` products.
    pub(crate) fn find_directly(&self, query: &[f32], k: usize, excluded: Option<u32>) -> Vec<Candidate> {
        let len = self.embeddings.len();
        let mut nearest = (0..len.div_ceil(DIRECT_ROWS))
            .into_par_iter()
            .flat_map_iter(|block| {
                let rows = block * DIRECT_ROWS..len.min((block + 1) * DIRECT_ROWS);
                let mut row: Vec<Candidate> = rows
                    .map(|id| id as u32)
                    .filter(|&id| Some(id) != excluded)
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
        let available = self.len() - usize::from(excluded.is_some());
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
            excluded.unwrap_or(&[]).iter().enumerate().find(|(_, id)| **id as usize >= self.len())
        {
            return Err(Error::UnknownId { query, id, len: self.len() });
        }
        Ok(k.min(available))
    }

    fn find_portion(&self, queries: &[f32], k: usize, excluded: Option<&[u32]>) -> Vec<Vec<Candidate>> {
        let count = queries.len() / self.dim();
        match &self.frame {
            Some(frame) if count >= FEWEST_BLOCKED_QUERIES && blocked::pays_for(k, self.len()) => {
                blocked::find(self, frame, queries, k, excluded)
            }
            _ => queries
                .par_chunks(self.dim())
                .enumerate()
                .map(|(i, query)| self.find_directly(query, k, excluded.map(|ids| ids[i])))
                .collect(),
        }
    }
}

impl NeighborIndex for ExactIndex<'_> {
    fn embeddings(&self) -> &Embeddings<'_> {
        &self.embeddings
    }

    fn scale(&self) -> Option<&[f64]> {
        self.scale.as_deref()
    }

    fn find(&self, queries: &Embeddings<'_>, k: usize, excluded: Option<&[u32]>) -> Result<Neighbors, Error> {
        let k = self.check(queries, k, excluded)?;
        let mut table = Neighbors::with_capacity(k, queries.len());
        // Candidates are larger than what the table keeps of them: with a large k they come in portions.
        let portion = (MOST_CANDIDATES / k).max(1);
        for (i, rows) in queries.as_slice().chunks(portion * self.dim()).enumerate() {
            let first = i * portion;
            let excluded = excluded.map(|ids| &ids[first..first + rows.len() / self.dim()]);
            self.find_portion(rows, k, excluded).iter().for_each(|row| table.push(row));
        }
        Ok(table)
    }

    fn measure(&self, queries: &Embeddings<'_>, k: usize, ids: &[u32]) -> Result<Neighbors, Error> {
        check_queries(queries, self.dim())?;
        if k == 0 {
            return Err(Error::ZeroNeighbors);
        }
        if ids.len() / k != queries.len() || !ids.len().is_multiple_of(k) {
            let (got, expected) = (ids.len(), queries.len().saturating_mul(k));
            return Err(Error::LengthMismatch { what: "neighbor ids", got, expected });
        }
        if let Some(at) = ids.iter().position(|&id| id as usize >= self.len()) {
            return Err(Error::UnknownId { query: at / k, id: ids[at], len: self.len() });
        }
        let sq_distances = ids
            .par_chunks(k)
            .enumerate()
            .flat_map_iter(|(i, row)| row.iter().map(move |&id| self.distance(queries.row(i), id)))
            .collect();
        Neighbors::new(k, ids.to_vec(), sq_distances)
    }
}

fn check_queries(queries: &Embeddings<'_>, dim: usize) -> Result<(), Error> {
    if queries.dim() != dim {
        return Err(Error::DimensionMismatch { got: queries.dim(), expected: dim });
    }
    Ok(())
}
