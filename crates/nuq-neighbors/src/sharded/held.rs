//! Shards (parts of the training rows) whose indexes stay in memory, for a worker process of a cluster that answers many
//! searches.

use crate::device::{self, Device};
use crate::{Embeddings, Error, ExactIndex, NeighborIndex, Neighbors, RowStorage, ShardMerge, ShardedRows};

/// The shards of one worker, which are some of the shards of a model. Each search returns the ids that the rows have in the
/// whole model, so the results of several workers can be merged without further information ([`HeldShards::merge`]).
///
/// [`ShardedIndex`](crate::ShardedIndex) searches all shards of a model and keeps none of them in memory.
///
/// ```
/// use nuq_neighbors::{Device, Embeddings, HeldShards, Precision, Shard, ShardedRows, StoredRows};
///
/// let held = |values: &[f32], first: u32| -> Result<HeldShards, nuq_neighbors::Error> {
///     let rows = StoredRows::new(&Embeddings::new(values.to_vec(), 1)?, Precision::F32)?;
///     let rows = ShardedRows::new(vec![Shard { name: "rows".to_owned(), rows }], false)?;
///     HeldShards::new(&rows, &[first], Device::Auto)
/// };
/// let query = Embeddings::from_rows(&[[1.2]])?;
/// let tables = [held(&[0.0, 5.0], 0)?.search(&query, 2)?, held(&[1.0], 2)?.search(&query, 2)?];
/// assert_eq!(HeldShards::merge(&tables, 2)?.ids(0), [2, 0]);
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
pub struct HeldShards {
    /// The id of the first row of each shard, and the index of the shard.
    shards: Vec<(u32, Box<dyn NeighborIndex + 'static>)>,
}

impl HeldShards {
    /// Indexes over the given shards. `firsts` has the id of the first row of each shard.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `firsts` has one id per shard, [`Error::TooManyRows`] with the largest id plus one if an
    /// id would not be below `u32::MAX`, or [`Error::Device`] if the device cannot be used.
    pub fn new(rows: &ShardedRows, firsts: &[u32], device: Device) -> Result<Self, Error> {
        let (got, expected) = (firsts.len(), rows.shards().len());
        if got != expected {
            return Err(Error::LengthMismatch { what: "first ids", got, counterpart: "shards", expected });
        }
        let held = |(&first, (_, shard)): (&u32, (u32, &crate::Shard))| {
            // `first` counts the rows of all earlier shards, so `end` is a number of rows of the model, not of the shard.
            let end = (first as usize).saturating_add(shard.rows.len());
            if end > u32::MAX as usize {
                return Err(Error::TooManyRows { rows: end });
            }
            Ok((first, device::place(ExactIndex::from_rows(shard.rows.clone()), device)?))
        };
        Ok(Self { shards: firsts.iter().zip(rows.shards()).map(held).collect::<Result<_, Error>>()? })
    }

    /// The `k` nearest rows of each query, or all rows if there are fewer.
    ///
    /// # Errors
    /// The errors of [`NeighborIndex::search`].
    pub fn search(&self, queries: &Embeddings<'_>, k: usize) -> Result<Neighbors, Error> {
        if k == 0 {
            return Err(Error::ZeroNeighbors);
        }
        let mut merge = ShardMerge::new(queries.len(), k);
        for (first, index) in &self.shards {
            merge.add(*first, &index.search(queries, k)?, None);
        }
        Ok(merge.finish())
    }

    /// Merges several tables into one with the `k` nearest rows of each query. The order of the tables has no effect.
    ///
    /// # Errors
    /// [`Error::Empty`] without tables, [`Error::ZeroNeighbors`], [`Error::LengthMismatch`] for tables with different numbers of
    /// queries, or [`Error::RepeatedId`] if two tables have the same row, for example because a table is given twice.
    pub fn merge(tables: &[Neighbors], k: usize) -> Result<Neighbors, Error> {
        let expected = tables.first().ok_or(Error::Empty)?.len();
        if k == 0 {
            return Err(Error::ZeroNeighbors);
        }
        if let Some(table) = tables.iter().find(|table| table.len() != expected) {
            let (what, counterpart) = ("queries of a table", "queries of the first table");
            return Err(Error::LengthMismatch { what, got: table.len(), counterpart, expected });
        }
        let mut merge = ShardMerge::new(expected, k);
        tables.iter().for_each(|table| merge.add(0, table, None));
        let merged = merge.finish();
        for query in 0..merged.len() {
            // Equal rows are adjacent, because neighbors are ordered by distance and id.
            if let Some(pair) = merged.ids(query).windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Error::RepeatedId { query, id: pair[0] });
            }
        }
        Ok(merged)
    }
}
