//! Exact search in the shards of a model (parts of its training rows), one after the other.

use crate::device::{self, Device};
use crate::progress::{Progress, Steps};
use crate::{
    Embeddings, Error, ExactIndex, IndexSummary, NeighborIndex, Neighbors, RowStorage, Shard, ShardMerge,
    ShardedRows,
};

/// Exact nearest neighbors among the rows of all shards. The result equals the result of an [`ExactIndex`] over all
/// rows, bit for bit.
///
/// A search passes through the shards one after the other. Everything that is computed from the rows of a shard is
/// dropped before the next shard is searched. Memory therefore contains at most one shard in addition to mapped
/// files, which the operating system can evict. With a [`ShardSearch`], other processes search the shards instead.
pub struct ShardedIndex {
    rows: ShardedRows,
    device: Device,
}

impl ShardedIndex {
    /// Creates an index that is searched on `device`.
    #[must_use]
    pub fn new(rows: ShardedRows, device: Device) -> Self {
        Self { rows, device }
    }

    /// Merges the results of a [`ShardSearch`] in the order in which they arrive. `searched` is the number of neighbors
    /// per query that each shard is searched for.
    fn search_with(
        &self,
        searcher: &dyn ShardSearch,
        queries: &Embeddings<'_>,
        searched: usize,
        mut merge: impl FnMut(u32, &Neighbors),
    ) -> Result<(), Error> {
        let failed = |problem: String| Err(Error::ShardSearch { problem });
        let shards: Vec<(u32, &Shard)> = self.rows.shards().collect();
        let mut is_merged = vec![false; shards.len()];
        let mut add = |i: usize, table: &Neighbors| {
            let Some((first, Shard { name, rows })) = shards.get(i) else {
                return failed(format!("there is no shard number {i}"));
            };
            if std::mem::replace(&mut is_merged[i], true) {
                return failed(format!("{name} has two results"));
            }
            if table.len() != queries.len() || table.k() != searched.min(rows.len()) {
                return failed(format!("the result of {name} has another shape than the search"));
            }
            if table.check_ids(rows).is_err() {
                return failed(format!("the result of {name} has an id that is not in the shard"));
            }
            merge(*first, table);
            Ok(())
        };
        searcher.search(queries, searched, self.rows.scale(), &mut add)?;
        match is_merged.iter().position(|merged| !merged) {
            Some(i) => failed(format!("{} has no result", shards[i].1.name)),
            None => Ok(()),
        }
    }
}

/// Receives the position of a shard, counted from 0 in the order of [`ShardedRows::shards`], and its neighbor table.
pub type AddTable<'a> = dyn FnMut(usize, &Neighbors) -> Result<(), Error> + 'a;

/// Searches shards in other processes, for example on the machines of a cluster.
pub trait ShardSearch: Send + Sync {
    /// Passes the table of every shard to `add`, in any order. A table holds the `k` nearest rows of each query, or all rows of a
    /// smaller shard, as an exact search gives them. The ids of a shard begin with 0. With `scale`, coordinate `j` is divided by
    /// `scale[j]`.
    ///
    /// # Errors
    /// [`Error::ShardSearch`], and the errors of `add`.
    fn search(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        scale: Option<&[f64]>,
        add: &mut AddTable<'_>,
    ) -> Result<(), Error>;
}

impl NeighborIndex for ShardedIndex {
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
        let searched = k + usize::from(excluded.is_some());
        let mut merge = ShardMerge::new(queries.len(), k);
        if let Some(searcher) = self.rows.searcher() {
            let add = |first: u32, table: &Neighbors| merge.add(first, table, excluded);
            self.search_with(searcher, queries, searched, add)?;
            Steps::current().add(queries.len());
            return Ok(merge.finish());
        }
        let (steps, shards) = (Steps::current(), self.rows.shards().len());
        // The number of finished steps after this number of shards.
        let done = |finished_shards: usize| queries.len() * finished_shards / shards;
        for (i, (first, shard)) in self.rows.shards().enumerate() {
            let index = device::place(ExactIndex::from_rows(shard.rows.clone()), self.device)?;
            // A query is one step of the whole search, but the search of each shard counts it again. A separate observer, which is not
            // read, receives these counts.
            // The files of all shards are examined at the end of the whole search.
            let search = || index.search_excluding(queries, searched, None);
            merge.add(first, &Progress::new().observe(search)?, excluded);
            steps.add(done(i + 1) - done(i));
        }
        Ok(merge.finish())
    }

    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        self.rows.insert(rows)
    }

    fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.rows.remove(ids)
    }
}
