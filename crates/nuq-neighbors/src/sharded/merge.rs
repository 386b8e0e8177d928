//! The merge of the neighbor tables of shards.

use rayon::prelude::*;

use crate::Neighbors;
use crate::cancel::ParallelCheckpoints;
use crate::neighbors::{Neighbor, keep_nearest};

/// The nearest rows of each query among the shards that were added so far.
///
/// The result does not depend on the order of the shards: it is the table of one search over all rows, bit for bit, because
/// each distance is a function of the two rows alone and ties are ordered by id. Leave-one-out search excludes one row per
/// query. Each shard is then searched for one neighbor more, and the excluded row is dropped here.
///
/// ```
/// use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex, ShardMerge};
///
/// let (a, b) = (Embeddings::from_rows(&[[0.0], [5.0]])?, Embeddings::from_rows(&[[1.0], [9.0]])?);
/// // The neighbors of row 0 without itself, among the rows 0 to 3.
/// let query = a.gather(&[0]);
/// let mut merge = ShardMerge::new(1, 2);
/// for (first, shard) in [(2, &b), (0, &a)] {
///     merge.add(first, &ExactIndex::new(shard)?.search(&query, 3)?, Some(&[0]));
/// }
/// assert_eq!(merge.finish().ids(0), [2, 1]);
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ShardMerge {
    k: usize,
    /// `k` entries per query, nearest first; entries without a row are last.
    nearest: Vec<Neighbor>,
}

/// An entry without a row. It is farther than every row, because squared distances of rows are finite.
const NO_ROW: Neighbor = (f64::INFINITY, u32::MAX);

impl ShardMerge {
    /// Creates a merge without shards. The result will have at most `k` neighbors for each of `queries` queries.
    ///
    /// # Panics
    /// When `k` is 0.
    #[must_use]
    pub fn new(queries: usize, k: usize) -> Self {
        assert!(k > 0, "every query has at least one neighbor");
        Self { k, nearest: vec![NO_ROW; queries * k] }
    }

    /// Adds the result of a search in a shard whose first row has the id `first`. Without `excluded`, the shard was
    /// searched for the `k` nearest rows. With `excluded`, it was searched for the `k + 1` nearest rows, and
    /// `excluded` has the id of one row per query that is left out.
    ///
    /// # Panics
    /// When the table or the excluded ids have another number of queries, or `first` plus an id of the table exceeds
    /// `u32::MAX`.
    pub fn add(&mut self, first: u32, table: &Neighbors, excluded: Option<&[u32]>) {
        let k = self.k;
        assert_eq!(table.len() * k, self.nearest.len(), "the table has one entry per query");
        assert!(excluded.is_none_or(|ids| ids.len() == table.len()), "each query has one excluded id");
        self.nearest.par_chunks_mut(k).with_checkpoints().enumerate().for_each_init(
            Vec::new,
            |row: &mut Vec<Neighbor>, (query, nearest)| {
                let entries = table.sq_distances(query).iter().copied().zip(table.ids(query));
                let in_model =
                    |id: u32| first.checked_add(id).expect("every id of a shard fits into 32 bits");
                let entries = entries.map(|(sq, &id)| (sq, in_model(id)));
                let is_left_out = |id: u32| excluded.is_some_and(|ids| ids[query] == id);
                row.clear();
                row.extend_from_slice(nearest);
                row.extend(entries.filter(|entry| !is_left_out(entry.1)));
                keep_nearest(row, k);
                nearest.copy_from_slice(row);
            },
        );
    }

    /// The merged table. It has `k` neighbors per query, or as many as the shards have rows.
    ///
    /// # Panics
    /// When a query has no neighbor.
    #[must_use]
    pub fn finish(self) -> Neighbors {
        let count = |nearest: &[Neighbor]| nearest.partition_point(|entry| entry.0.is_finite());
        let k = self.nearest.chunks(self.k).map(count).min().unwrap_or(self.k);
        let entries = || self.nearest.chunks(self.k).flat_map(|nearest| &nearest[..k]);
        Neighbors::sorted(
            k,
            entries().map(|entry| entry.1).collect(),
            entries().map(|entry| entry.0).collect(),
        )
    }
}
