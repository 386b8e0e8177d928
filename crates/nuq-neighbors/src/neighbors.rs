//! The neighbor table: the result of a search.

use crate::{Error, RowStorage};

/// The ids and squared distances of the nearest training rows of each query, nearest first, ties by id.
///
/// The table does not depend on bandwidth, kernel or labels. One search therefore serves bandwidth selection, class
/// probabilities, density and all neighbor-based baselines. A table can be the result of an index of this crate, of
/// [several shards](Neighbors::merge) or of a vector database ([`Neighbors::new`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbors {
    k: usize,
    ids: Vec<u32>,
    sq_distances: Vec<f64>,
}

impl Neighbors {
    /// A table from `k` ids and squared distances per query, query after query, in any order within a query.
    ///
    /// # Errors
    /// [`Error::ZeroNeighbors`], [`Error::PartialQuery`] or [`Error::LengthMismatch`] for an invalid shape;
    /// [`Error::BadDistance`] for a distance that is negative or not finite; [`Error::RepeatedId`] for an id that occurs
    /// twice in a query.
    ///
    /// ```
    /// use nuq_neighbors::Neighbors;
    /// let table = Neighbors::new(2, vec![8, 3], vec![4.0, 1.0])?;
    /// assert_eq!((table.ids(0), table.sq_distances(0)), (&[3, 8][..], &[1.0, 4.0][..]));
    /// # Ok::<(), nuq_neighbors::Error>(())
    /// ```
    pub fn new(k: usize, ids: Vec<u32>, sq_distances: Vec<f64>) -> Result<Self, Error> {
        if k == 0 {
            return Err(Error::ZeroNeighbors);
        }
        if !ids.len().is_multiple_of(k) {
            return Err(Error::PartialQuery { len: ids.len(), k });
        }
        if sq_distances.len() != ids.len() {
            let (got, expected) = (sq_distances.len(), ids.len());
            return Err(Error::LengthMismatch {
                what: "squared distances",
                got,
                counterpart: "ids",
                expected,
            });
        }
        let mut table = Self::with_capacity(k, ids.len() / k);
        let mut seen = Vec::new();
        for (query, (ids, sq)) in ids.chunks(k).zip(sq_distances.chunks(k)).enumerate() {
            if let Some(&value) = sq.iter().find(|v| !(v.is_finite() && **v >= 0.0)) {
                return Err(Error::BadDistance { query, value });
            }
            if let Some(id) = repeated(ids.iter().copied(), &mut seen) {
                return Err(Error::RepeatedId { query, id });
            }
            let mut row: Vec<Neighbor> = sq.iter().copied().zip(ids.iter().copied()).collect();
            sort_nearest_first(&mut row);
            table.push(&row);
        }
        Ok(table)
    }

    /// A table from the result of an index: `k` distinct ids per query, nearest first, ties by id.
    ///
    /// # Panics
    /// When `k` is 0, or the lengths do not fit each other. The order is not checked.
    #[doc(hidden)]
    #[must_use]
    pub fn sorted(k: usize, ids: Vec<u32>, sq_distances: Vec<f64>) -> Self {
        assert!(k > 0 && ids.len().is_multiple_of(k), "every query of a table has k neighbors");
        assert_eq!(ids.len(), sq_distances.len(), "every neighbor has a distance");
        Self { k, ids, sq_distances }
    }

    /// Replaces the neighbors of query `queries[i]` by those of query `i` of `others`, for every `i`.
    ///
    /// # Panics
    /// When a query does not exist, or the tables do not fit each other.
    #[doc(hidden)]
    pub fn replace(&mut self, queries: &[u32], others: &Self) {
        assert_eq!((others.k, others.len()), (self.k, queries.len()), "the tables fit each other");
        for (i, &query) in queries.iter().enumerate() {
            let cells = query as usize * self.k..(query as usize + 1) * self.k;
            self.ids[cells.clone()].copy_from_slice(others.ids(i));
            self.sq_distances[cells].copy_from_slice(others.sq_distances(i));
        }
    }

    pub(crate) fn with_capacity(k: usize, queries: usize) -> Self {
        Self { k, ids: Vec::with_capacity(queries * k), sq_distances: Vec::with_capacity(queries * k) }
    }

    /// Appends the neighbors of one query, sorted nearest first.
    pub(crate) fn push(&mut self, row: &[Neighbor]) {
        assert_eq!(row.len(), self.k, "every query of a table has k neighbors");
        self.ids.extend(row.iter().map(|neighbor| neighbor.1));
        self.sq_distances.extend(row.iter().map(|neighbor| neighbor.0));
    }

    /// Concatenates tables: one table with the queries of all tables, in this order.
    ///
    /// # Panics
    /// When the tables differ in their number of neighbors per query.
    #[must_use]
    pub fn concat(tables: impl IntoIterator<Item = Neighbors>) -> Self {
        let mut tables = tables.into_iter();
        let mut all = tables.next().unwrap_or(Self { k: 0, ids: Vec::new(), sq_distances: Vec::new() });
        for table in tables {
            assert_eq!(table.k, all.k, "tables of one search have the same number of neighbors per query");
            all.ids.extend(table.ids);
            all.sq_distances.extend(table.sq_distances);
        }
        all
    }

    /// The number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len().checked_div(self.k).unwrap_or(0)
    }

    /// Whether the table has no query.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The number of neighbors per query.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// The ids of query `i`'s neighbors, nearest first.
    ///
    /// # Panics
    /// When `i` is not below [`len`](Self::len).
    #[must_use]
    pub fn ids(&self, i: usize) -> &[u32] {
        &self.ids[i * self.k..][..self.k]
    }

    /// The squared distances of query `i`'s neighbors, ascending.
    ///
    /// # Panics
    /// When `i` is not below [`len`](Self::len).
    #[must_use]
    pub fn sq_distances(&self, i: usize) -> &[f64] {
        &self.sq_distances[i * self.k..][..self.k]
    }

    /// The table of the `k` nearest neighbors, or of all neighbors when there are fewer. One search with a large `k`
    /// therefore serves all smaller values of `k`.
    ///
    /// # Errors
    /// [`Error::ZeroNeighbors`] when `k` is 0.
    ///
    /// ```
    /// use nuq_neighbors::Neighbors;
    /// let table = Neighbors::new(2, vec![8, 3, 5, 4], vec![4.0, 1.0, 0.5, 2.0])?;
    /// assert_eq!(table.nearest(1)?, Neighbors::new(1, vec![3, 5], vec![1.0, 0.5])?);
    /// # Ok::<(), nuq_neighbors::Error>(())
    /// ```
    pub fn nearest(&self, k: usize) -> Result<Self, Error> {
        if k == 0 {
            return Err(Error::ZeroNeighbors);
        }
        let k = k.min(self.k);
        let mut nearest = Self::with_capacity(k, self.len());
        for query in 0..self.len() {
            nearest.ids.extend(&self.ids(query)[..k]);
            nearest.sq_distances.extend(&self.sq_distances(query)[..k]);
        }
        Ok(nearest)
    }

    /// Checks that every id names a row of `rows`.
    ///
    /// # Errors
    /// [`Error::UnknownId`] for the first id that names no row, for example because the row was removed.
    pub fn check_ids(&self, rows: &dyn RowStorage) -> Result<(), Error> {
        rows.check_ids(&self.ids, self.k)
    }

    /// Merges the tables of shards into the table of all rows. Each shard is given with the id of its first row; shards
    /// must be disjoint.
    ///
    /// When all shards were searched exactly with at least this `k`, the result is bit for bit the table of one search
    /// over all rows, because each distance is a function of the two rows alone.
    ///
    /// # Errors
    /// [`Error::ZeroNeighbors`] when `k` is 0, [`Error::LengthMismatch`] when shards have different numbers of queries,
    /// [`Error::TooManyRows`] when an id exceeds 32 bits, [`Error::RepeatedId`] when two tables have the same row for a query.
    ///
    /// ```
    /// use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex, Neighbors};
    /// let (a, b) = (Embeddings::from_rows(&[[0.0], [5.0]])?, Embeddings::from_rows(&[[1.0], [9.0]])?);
    /// let query = Embeddings::from_rows(&[[0.4]])?;
    /// let near_a = ExactIndex::new(&a)?.search(&query, 2)?;
    /// let near_b = ExactIndex::new(&b)?.search(&query, 2)?;
    /// let merged = Neighbors::merge(&[(0, near_a), (2, near_b)], 2)?;
    /// assert_eq!(merged.ids(0), [0, 2]);
    /// # Ok::<(), nuq_neighbors::Error>(())
    /// ```
    pub fn merge(shards: &[(u32, Neighbors)], k: usize) -> Result<Self, Error> {
        if k == 0 {
            return Err(Error::ZeroNeighbors);
        }
        let queries = shards.first().map_or(0, |(_, table)| table.len());
        for (_, table) in shards {
            if table.len() != queries {
                return Err(Error::LengthMismatch {
                    what: "queries of a shard",
                    got: table.len(),
                    counterpart: "queries of the first shard",
                    expected: queries,
                });
            }
        }
        let available = shards.iter().fold(0usize, |sum, (_, table)| sum.saturating_add(table.k));
        let mut merged = Self::with_capacity(k.min(available), queries);
        let (mut row, mut seen) = (Vec::<Neighbor>::new(), Vec::new());
        for query in 0..queries {
            row.clear();
            for (offset, table) in shards {
                for (&sq, &id) in table.sq_distances(query).iter().zip(table.ids(query)) {
                    let id = id
                        .checked_add(*offset)
                        .ok_or(Error::TooManyRows { rows: id as usize + *offset as usize + 1 })?;
                    row.push((sq, id));
                }
            }
            if let Some(id) = repeated(row.iter().map(|neighbor| neighbor.1), &mut seen) {
                return Err(Error::RepeatedId { query, id });
            }
            keep_nearest(&mut row, k);
            merged.push(&row);
        }
        Ok(merged)
    }
}

/// An id that occurs twice; `sorted` is working memory.
fn repeated(ids: impl Iterator<Item = u32>, sorted: &mut Vec<u32>) -> Option<u32> {
    sorted.clear();
    sorted.extend(ids);
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// The squared distance and the id of a row.
pub(crate) type Neighbor = (f64, u32);

fn nearest_first(a: &Neighbor, b: &Neighbor) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

fn sort_nearest_first(row: &mut [Neighbor]) {
    row.sort_unstable_by(nearest_first);
}

/// Truncates `row` to its `k` nearest entries, nearest first, ties by id.
pub(crate) fn keep_nearest(row: &mut Vec<Neighbor>, k: usize) {
    if row.len() > k {
        row.select_nth_unstable_by(k - 1, nearest_first);
        row.truncate(k);
    }
    sort_nearest_first(row);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embeddings, Precision, StoredRows};

    #[test]
    fn invalid_tables_are_errors() {
        let bad = |ids: Vec<u32>, sq: Vec<f64>| Neighbors::new(2, ids, sq).unwrap_err();
        assert_eq!(bad(vec![0, 1, 2], vec![0.0; 3]), Error::PartialQuery { len: 3, k: 2 });
        assert_eq!(bad(vec![0, 1, 4, 4], vec![0.0; 4]), Error::RepeatedId { query: 1, id: 4 });
        assert_eq!(bad(vec![0, 1], vec![-1.0, 0.0]), Error::BadDistance { query: 0, value: -1.0 });
        assert!(matches!(bad(vec![0, 1], vec![f64::NAN, 0.0]), Error::BadDistance { query: 0, .. }));
        let error = bad(vec![0, 1, 2, 3], vec![0.0; 5]);
        assert_eq!(error.to_string(), "5 squared distances for 4 ids: give one for each");
        // A table without queries is valid, also with the largest `k`.
        assert!(Neighbors::new(usize::MAX, vec![], vec![]).unwrap().is_empty());
    }

    #[test]
    fn nearest_returns_at_most_all_neighbors_and_rejects_zero() {
        let table = Neighbors::new(2, vec![8, 3], vec![4.0, 1.0]).unwrap();
        assert_eq!(table.nearest(5).unwrap(), table);
        assert_eq!(table.nearest(0), Err(Error::ZeroNeighbors));
    }

    #[test]
    fn ids_that_name_no_row_are_unknown_ids() {
        let mut rows = StoredRows::new(&Embeddings::new(vec![0.0; 10], 1).unwrap(), Precision::F32).unwrap();
        // FAISS returns -1 for a missing neighbor; as an unsigned integer this is `u32::MAX`.
        let missing = Neighbors::new(1, vec![3, u32::MAX], vec![0.0; 2]).unwrap();
        let unknown = |query, id, len| Err(Error::UnknownId { query, id, len });
        assert_eq!(missing.check_ids(&rows), unknown(1, u32::MAX, 10));
        let table = Neighbors::new(2, vec![0, 1, 2, 3], vec![0.0; 4]).unwrap();
        assert_eq!(table.check_ids(&rows), Ok(()));
        rows.remove(&[3]).unwrap();
        assert_eq!(table.check_ids(&rows), unknown(1, 3, 9));
    }

    #[test]
    fn merging_breaks_ties_by_global_id() {
        let a = Neighbors::new(1, vec![0], vec![1.0]).unwrap();
        let b = Neighbors::new(2, vec![0, 1], vec![1.0, 2.0]).unwrap();
        let merged = Neighbors::merge(&[(7, a), (3, b)], 5).unwrap();
        assert_eq!((merged.k(), merged.ids(0)), (3, &[3, 7, 4][..]));
    }

    #[test]
    fn invalid_shards_are_errors() {
        let a = Neighbors::new(1, vec![0], vec![1.0]).unwrap();
        let b = Neighbors::new(1, vec![0, 1], vec![1.0, 2.0]).unwrap();
        assert!(matches!(Neighbors::merge(&[(0, a.clone()), (1, b)], 1), Err(Error::LengthMismatch { .. })));
        // Two machines may compute slightly different distances for a shared row, so the row is recognized by its id.
        let c = Neighbors::new(2, vec![0, 2], vec![1.000_000_1, 1.000_000_01]).unwrap();
        assert_eq!(Neighbors::merge(&[(5, a), (5, c)], 3), Err(Error::RepeatedId { query: 0, id: 5 }));
        // Shards without queries are valid, also if the sum of their `k` exceeds `usize`.
        let none = Neighbors::new(usize::MAX, vec![], vec![]).unwrap();
        assert!(Neighbors::merge(&[(0, none.clone()), (9, none)], 1).unwrap().is_empty());
    }
}
