//! The neighbor table: found once, read by everything after it.

use crate::Error;

/// For each query its nearest training rows: ids and squared distances, nearest first, ties by id.
///
/// The table does not depend on any bandwidth, kernel or label, so one search serves bandwidth selection,
/// class probabilities, density and every neighbor-based baseline. It may come from an index of this crate,
/// from [several machines](Neighbors::merge), or from a vector database ([`Neighbors::new`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbors {
    k: usize,
    ids: Vec<u32>,
    sq_distances: Vec<f64>,
}

impl Neighbors {
    /// A table found elsewhere: `k` ids and squared distances per query, row after row, in any order within a
    /// row. Ids must be distinct within a row and distances finite and not negative.
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
            return Err(Error::PartialRow { len: ids.len(), dim: k });
        }
        if sq_distances.len() != ids.len() {
            let (got, expected) = (sq_distances.len(), ids.len());
            return Err(Error::LengthMismatch { what: "squared distances", got, expected });
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

    pub(crate) fn with_capacity(k: usize, queries: usize) -> Self {
        Self { k, ids: Vec::with_capacity(queries * k), sq_distances: Vec::with_capacity(queries * k) }
    }

    /// Appends one query's row, already nearest first.
    pub(crate) fn push(&mut self, row: &[Neighbor]) {
        assert_eq!(row.len(), self.k, "every row of a table has k neighbors");
        self.ids.extend(row.iter().map(|neighbor| neighbor.1));
        self.sq_distances.extend(row.iter().map(|neighbor| neighbor.0));
    }

    /// The number of queries.
    pub fn len(&self) -> usize {
        self.ids.len().checked_div(self.k).unwrap_or(0)
    }

    /// Whether the table holds no query.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Neighbors per query.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The ids of query `i`'s neighbors, nearest first.
    ///
    /// # Panics
    /// When `i` is not below [`len`](Self::len).
    pub fn ids(&self, i: usize) -> &[u32] {
        &self.ids[i * self.k..][..self.k]
    }

    /// The squared distances of query `i`'s neighbors, ascending.
    ///
    /// # Panics
    /// When `i` is not below [`len`](Self::len).
    pub fn sq_distances(&self, i: usize) -> &[f64] {
        &self.sq_distances[i * self.k..][..self.k]
    }

    /// The `k` nearest of each query's neighbors, or all of them: one search serves every smaller number.
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
        let kept = k.min(self.k);
        let mut nearest = Self::with_capacity(kept, self.len());
        for query in 0..self.len() {
            nearest.ids.extend(&self.ids(query)[..kept]);
            nearest.sq_distances.extend(&self.sq_distances(query)[..kept]);
        }
        Ok(nearest)
    }

    /// Checks every id against the number of training rows.
    pub fn check_ids(&self, len: usize) -> Result<(), Error> {
        match self.ids.iter().position(|&id| id as usize >= len) {
            Some(at) => Err(Error::UnknownId { query: at / self.k, id: self.ids[at], len }),
            None => Ok(()),
        }
    }

    /// The neighbors of the whole from those of its shards: each shard comes with the id of its first row. Shards
    /// share no row.
    ///
    /// When every shard was asked for the same k, the result is bit for bit the table of one search over all
    /// rows, because an exact index computes each distance from the two rows alone.
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
                let found = table.sq_distances(query).iter().zip(table.ids(query));
                for (&sq, &id) in found {
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

/// An id that stands twice in a row; `sorted` is working memory.
fn repeated(ids: impl Iterator<Item = u32>, sorted: &mut Vec<u32>) -> Option<u32> {
    sorted.clear();
    sorted.extend(ids);
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// A training row considered for a query: squared distance and id.
pub(crate) type Neighbor = (f64, u32);

fn nearest_first(a: &Neighbor, b: &Neighbor) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

fn sort_nearest_first(row: &mut [Neighbor]) {
    row.sort_unstable_by(nearest_first);
}

/// Cuts `row` down to its `k` nearest, nearest first, ties by id.
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

    #[test]
    fn tables_from_outside_are_checked() {
        let bad = |ids: Vec<u32>, sq: Vec<f64>| Neighbors::new(2, ids, sq).unwrap_err();
        assert_eq!(bad(vec![0, 1, 2], vec![0.0; 3]), Error::PartialRow { len: 3, dim: 2 });
        assert_eq!(bad(vec![0, 1, 4, 4], vec![0.0; 4]), Error::RepeatedId { query: 1, id: 4 });
        assert_eq!(bad(vec![0, 1], vec![-1.0, 0.0]), Error::BadDistance { query: 0, value: -1.0 });
        assert!(matches!(bad(vec![0, 1], vec![f64::NAN, 0.0]), Error::BadDistance { query: 0, .. }));
        let error = bad(vec![0, 1, 2, 3], vec![0.0; 5]);
        assert_eq!(error.to_string(), "5 squared distances given, 4 needed");
        assert!(Neighbors::new(usize::MAX, vec![], vec![]).unwrap().is_empty());
        let faiss_miss = Neighbors::new(1, vec![u32::MAX], vec![0.0]).unwrap();
        assert_eq!(
            faiss_miss.check_ids(10).unwrap_err(),
            Error::UnknownId { query: 0, id: u32::MAX, len: 10 }
        );
    }

    #[test]
    fn the_nearest_of_a_table_are_at_most_all_and_at_least_one() {
        let table = Neighbors::new(2, vec![8, 3], vec![4.0, 1.0]).unwrap();
        assert_eq!(table.nearest(5).unwrap(), table);
        assert_eq!(table.nearest(0), Err(Error::ZeroNeighbors));
    }

    #[test]
    fn merging_breaks_ties_by_global_id() {
        let a = Neighbors::new(1, vec![0], vec![1.0]).unwrap();
        let b = Neighbors::new(2, vec![0, 1], vec![1.0, 2.0]).unwrap();
        let merged = Neighbors::merge(&[(7, a), (3, b)], 5).unwrap();
        assert_eq!((merged.k(), merged.ids(0)), (3, &[3, 7, 4][..]));
    }

    #[test]
    fn shards_must_answer_the_same_queries() {
        let a = Neighbors::new(1, vec![0], vec![1.0]).unwrap();
        let b = Neighbors::new(1, vec![0, 1], vec![1.0, 2.0]).unwrap();
        assert!(matches!(Neighbors::merge(&[(0, a.clone()), (1, b)], 1), Err(Error::LengthMismatch { .. })));
        // Two machines may measure the row they share differently.
        let c = Neighbors::new(2, vec![0, 2], vec![1.000_000_1, 1.000_000_01]).unwrap();
        assert_eq!(Neighbors::merge(&[(5, a), (5, c)], 3), Err(Error::RepeatedId { query: 0, id: 5 }));
        let none = Neighbors::new(usize::MAX, vec![], vec![]).unwrap();
        assert!(Neighbors::merge(&[(0, none.clone()), (9, none)], 1).unwrap().is_empty());
    }
}
