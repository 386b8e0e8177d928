//! An index without rows: the training rows are in a database, which searches them.

use std::borrow::Cow;

use crate::stored_rows::check_scale;
use crate::{
    Embeddings, Error, IndexParts, IndexSummary, NeighborIndex, Neighbors, RowParts, RowStorage, RowValues,
};

/// The ids of training rows that are stored elsewhere, for a model whose neighbors come from a vector database.
///
/// The ids are known, so neighbors from the database can be checked. Functions that need the values of a row, insertions and removals
/// return [`Error::RowsNotStored`], except for `RowStorage::row`, which must not be called.
///
/// ```
/// use nuq_neighbors::{AbsentIndex, Embeddings, Error, NeighborIndex};
///
/// let index = AbsentIndex::new(2, 3, &[1], None)?;
/// assert_eq!((index.len(), index.rows().live_ids()), (2, vec![0, 2]));
/// let query = Embeddings::from_rows(&[[0.0, 0.0]])?;
/// assert_eq!(index.search(&query, 1).err(), Some(Error::RowsNotStored));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct AbsentIndex {
    rows: AbsentRows,
}

#[derive(Debug, Clone)]
struct AbsentRows {
    dim: usize,
    id_bound: usize,
    /// Ascending.
    removed: Vec<u32>,
    scale: Option<Vec<f64>>,
}

impl AbsentIndex {
    /// Rows of `dim` columns with the ids below `id_bound`, without the `removed` ones. If distances are measured in
    /// a scaled space, `scale` has the divisor of each coordinate.
    ///
    /// # Errors
    /// [`Error::ZeroColumns`], [`Error::Empty`] if no id is left, [`Error::TooManyRows`], [`Error::Damaged`] if the removed ids
    /// are not distinct and below `id_bound`, [`Error::LengthMismatch`] unless there is one divisor per column, and
    /// [`Error::BadScale`] unless all are from 1e-100 to 1e100.
    pub fn new(dim: usize, id_bound: usize, removed: &[u32], scale: Option<Vec<f64>>) -> Result<Self, Error> {
        let mut removed = removed.to_vec();
        removed.sort_unstable();
        let is_valid = removed.windows(2).all(|pair| pair[0] < pair[1])
            && removed.last().is_none_or(|&id| (id as usize) < id_bound);
        if let Some(scale) = &scale {
            check_scale(scale, dim)?;
        }
        match () {
            () if dim == 0 => Err(Error::ZeroColumns),
            () if id_bound > u32::MAX as usize => Err(Error::TooManyRows { rows: id_bound }),
            () if !is_valid => {
                let problem = "the removed ids do not fit the rows".to_owned();
                Err(Error::Damaged { section: "model".to_owned(), problem })
            }
            () if removed.len() == id_bound => Err(Error::Empty),
            () => Ok(Self { rows: AbsentRows { dim, id_bound, removed, scale } }),
        }
    }
}

impl NeighborIndex for AbsentIndex {
    fn rows(&self) -> &dyn RowStorage {
        &self.rows
    }

    fn describe(&self) -> IndexSummary {
        IndexSummary::Other { name: "none, the training rows are not stored", recall: None }
    }

    fn search_excluding(&self, _: &Embeddings<'_>, _: usize, _: Option<&[u32]>) -> Result<Neighbors, Error> {
        Err(Error::RowsNotStored)
    }

    fn insert(&mut self, _: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        Err(Error::RowsNotStored)
    }

    fn remove(&mut self, _: &[u32]) -> Result<(), Error> {
        Err(Error::RowsNotStored)
    }

    fn parts(&self) -> IndexParts<'_> {
        IndexParts { rows: self.rows.parts(), graph: None, order: None }
    }
}

impl RowStorage for AbsentRows {
    fn len(&self) -> usize {
        self.id_bound - self.removed.len()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn id_bound(&self) -> usize {
        self.id_bound
    }

    fn contains(&self, id: u32) -> bool {
        (id as usize) < self.id_bound && self.removed.binary_search(&id).is_err()
    }

    fn row(&self, _: u32) -> Cow<'_, [f32]> {
        unreachable!("callers check `is_stored` before they read a row")
    }

    fn parts(&self) -> RowParts<'_> {
        let values = RowValues::F32(Vec::new().into());
        RowParts { dim: self.dim, values, removed: self.removed.clone(), scale: self.scale.clone() }
    }

    fn insert(&mut self, _: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        Err(Error::RowsNotStored)
    }

    fn remove(&mut self, _: &[u32]) -> Result<(), Error> {
        Err(Error::RowsNotStored)
    }

    fn scale(&self) -> Option<&[f64]> {
        self.scale.as_deref()
    }

    fn is_stored(&self) -> bool {
        false
    }

    fn gather(&self, _: &[u32]) -> Result<Embeddings<'static>, Error> {
        Err(Error::RowsNotStored)
    }

    fn measure(&self, _: &Embeddings<'_>, _: usize, _: &[u32]) -> Result<Neighbors, Error> {
        Err(Error::RowsNotStored)
    }

    fn check_search(&self, _: &Embeddings<'_>, _: usize, _: Option<&[u32]>) -> Result<usize, Error> {
        Err(Error::RowsNotStored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_checked_as_by_indexes_with_rows() {
        let error = |scale: &[f64]| AbsentIndex::new(1, 1, &[], Some(scale.to_vec())).err();
        assert!(matches!(error(&[0.0]), Some(Error::BadScale { column: 0, .. })));
        assert!(matches!(error(&[f64::NAN]), Some(Error::BadScale { column: 0, .. })));
        assert!(matches!(error(&[1.0, 1.0]), Some(Error::LengthMismatch { .. })));
        assert_eq!(error(&[2.0]), None);
    }
}
