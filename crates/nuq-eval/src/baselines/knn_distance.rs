//! Distance to the nearest training rows (Sun et al. 2022): the distance to the k-th nearest row, or the mean distance
//! to the k nearest rows.

use std::borrow::Cow;

use nuq_neighbors::device::exact_index;
use nuq_neighbors::{Embeddings, NeighborIndex, Neighbors};

use super::scorer::check_columns;
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::length_mismatch;
use crate::evaluate::MethodId;

/// Function that maps the distances to the k nearest rows to one score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnnReduction {
    /// The distance to the k-th neighbor.
    Kth,
    /// The mean of the k distances.
    Mean,
}

nuq_neighbors::choices!(KnnReduction, "reduction", { Kth => "kth", Mean => "mean" });

/// The distance to the nearest training rows.
pub struct KnnDistance<'a> {
    index: Box<dyn NeighborIndex + 'a>,
    k: usize,
    reduction: KnnReduction,
}

impl<'a> KnnDistance<'a> {
    /// The distance to the `k`-th nearest row, by exact search.
    ///
    /// # Errors
    /// No rows, or `k` is zero.
    pub fn kth(rows: &Embeddings<'a>, k: usize) -> Result<Self, Error> {
        Self::new(exact_index(rows)?, k, KnnReduction::Kth)
    }

    /// The mean distance to the `k` nearest rows, by exact search.
    ///
    /// # Errors
    /// No rows, or `k` is zero.
    pub fn mean(rows: &Embeddings<'a>, k: usize) -> Result<Self, Error> {
        Self::new(exact_index(rows)?, k, KnnReduction::Mean)
    }

    /// Creates the score from a given index.
    ///
    /// # Errors
    /// `k` is zero.
    pub fn new(index: Box<dyn NeighborIndex + 'a>, k: usize, reduction: KnnReduction) -> Result<Self, Error> {
        if k == 0 {
            return Err(nuq_neighbors::Error::ZeroNeighbors.into());
        }
        Ok(Self { index, k, reduction })
    }
}

impl KnnDistance<'static> {
    pub(super) fn from_parts(parts: &BaselineParts, index: Box<dyn NeighborIndex>) -> Result<Self, Error> {
        Self::new(index, parts.count("n_neighbors")?, parts.choice("reduction")?)
    }
}

/// The neighbors in the batch if it has at least `k` per row, or as many as the index has rows; otherwise the neighbors that a search
/// finds. It is an error if `rows` have another number of columns than the index, or if the batch has neighbors for another number of
/// rows than `rows`, or ids that are not in the index.
pub(super) fn neighbors_of<'b>(
    batch: &Batch<'b>,
    rows: &Embeddings<'_>,
    index: &dyn NeighborIndex,
    k: usize,
) -> Result<Cow<'b, Neighbors>, Error> {
    let Some(given) = batch.neighbors else { return Ok(Cow::Owned(index.search(rows, k)?)) };
    check_columns(rows, index.dim())?;
    if given.len() != rows.len() {
        let (got, expected) = (given.len(), rows.len());
        return Err(length_mismatch("rows of neighbors", got, "embeddings", expected));
    }
    if given.k() < k.min(index.len()) {
        return Ok(Cow::Owned(index.search(rows, k)?));
    }
    given.check_ids(index.rows())?;
    Ok(Cow::Borrowed(given))
}

impl Scorer for KnnDistance<'_> {
    fn name(&self) -> String {
        match self.reduction {
            KnnReduction::Kth => "kNN distance".to_owned(),
            KnnReduction::Mean => "mean kNN distance".to_owned(),
        }
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings]
    }

    fn takes_neighbors(&self) -> bool {
        true
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let rows = batch.need_embeddings(self)?;
        let neighbors = neighbors_of(batch, rows, &*self.index, self.k)?;
        let reduce = |i: usize| {
            let distances = &neighbors.sq_distances(i)[..self.k.min(neighbors.k())];
            match self.reduction {
                KnnReduction::Kth => distances.last().copied().unwrap_or(f64::INFINITY).sqrt(),
                KnnReduction::Mean => {
                    distances.iter().map(|sq| sq.sqrt()).sum::<f64>() / distances.len() as f64
                }
            }
        };
        Ok((0..rows.len()).map(reduce).collect())
    }

    fn parts(&self) -> Option<BaselineParts> {
        let parts = BaselineParts::new(MethodId::KnnDistance);
        Some(parts.param("n_neighbors", self.k).param("reduction", self.reduction.name()))
    }

    fn index(&self) -> Option<&dyn NeighborIndex> {
        Some(&*self.index)
    }
}
