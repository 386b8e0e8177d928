//! The training rows of a fit: one matrix, or shards.

use nuq_neighbors::{Embeddings, IndexChoice, IndexRequest, NeighborIndex, RowStorage, ShardedRows};

use crate::Error;

/// Training rows by number. Both kinds of storage give the same sums bit for bit, because sums run over the rows in the order
/// of their numbers.
#[derive(Clone)]
pub(crate) enum RowSource<'a> {
    Matrix(Embeddings<'a>),
    Shards(ShardedRows),
}

impl<'a> From<&Embeddings<'a>> for RowSource<'a> {
    fn from(embeddings: &Embeddings<'a>) -> Self {
        Self::Matrix(embeddings.clone())
    }
}

impl<'a> RowSource<'a> {
    /// The rows of shards. The shards are verified first.
    pub(crate) fn of_shards(shards: &ShardedRows) -> Result<Self, Error> {
        shards.verify_once()?;
        Ok(Self::Shards(shards.clone()))
    }

    /// A source with `dim` columns and no rows.
    pub(crate) fn empty(dim: usize) -> Self {
        Self::Matrix(Embeddings::new(vec![], dim).expect("rows have at least one column"))
    }

    /// The same rows, copied unless they are shards.
    pub(crate) fn into_static(self) -> RowSource<'static> {
        match self {
            Self::Matrix(rows) => {
                let values = rows.as_slice().to_vec();
                RowSource::Matrix(Embeddings::new(values, rows.dim()).expect("the rows are valid"))
            }
            Self::Shards(rows) => RowSource::Shards(rows),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Matrix(rows) => rows.len(),
            Self::Shards(rows) => rows.len(),
        }
    }

    pub(crate) fn dim(&self) -> usize {
        match self {
            Self::Matrix(rows) => rows.dim(),
            Self::Shards(rows) => rows.dim(),
        }
    }

    pub(crate) fn row(&self, i: usize) -> &[f32] {
        match self {
            Self::Matrix(rows) => rows.row(i),
            Self::Shards(rows) => rows.row(i as u32),
        }
    }

    /// A copy of the rows with these numbers.
    pub(crate) fn gather(&self, ids: &[u32]) -> Vec<f32> {
        ids.iter().flat_map(|&id| self.row(id as usize)).copied().collect()
    }

    /// Column `j` of the rows for which `is_used` is true, in `f64`.
    pub(crate) fn column(&self, j: usize, is_used: impl Fn(u32) -> bool) -> Vec<f64> {
        let value = |(i, row): (u32, &[f32])| is_used(i).then(|| f64::from(row[j]));
        match self {
            Self::Matrix(rows) => (0..).zip(rows.rows()).filter_map(value).collect(),
            Self::Shards(rows) => {
                (0..rows.len() as u32).map(|i| (i, rows.row(i))).filter_map(value).collect()
            }
        }
    }

    /// The rows in the space of the search: divided by their norms if `normalize` is set. The rows of shards were divided when
    /// the shards were written.
    pub(crate) fn prepared(&self, normalize: bool) -> Result<Self, Error> {
        match self {
            Self::Matrix(rows) if normalize => Ok(Self::Matrix(rows.l2_normalized())),
            Self::Shards(rows) if rows.is_normalized() != normalize => {
                Err(Error::ShardNormalization { normalize })
            }
            _ => Ok(self.clone()),
        }
    }

    /// Builds the index over the rows. With `scale`, coordinate `j` is divided by `scale[j]`.
    pub(crate) fn build(
        &self,
        request: &IndexRequest,
        scale: Option<Vec<f64>>,
    ) -> Result<(Box<dyn NeighborIndex + 'a>, IndexChoice), Error> {
        Ok(match self {
            Self::Matrix(rows) => request.build(rows, scale)?,
            Self::Shards(rows) => request.build_sharded(rows.clone(), scale)?,
        })
    }
}
