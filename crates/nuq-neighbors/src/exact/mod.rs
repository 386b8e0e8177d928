//! Exact search: the result is provably the k nearest rows.
//!
//! Rows are centered on the training mean and scaled by a power of two ([`rescaler`]). There are two methods:
//!
//! - All rows are compared. A blocked matrix product in `f32` ([`blocked`]), or the distances of one-byte codes
//!   ([`coded`], [`row_codes`]), give approximate scores with a bound on their error. A row is dropped only when the bound
//!   proves that it is not among the k nearest ([`shortlist`]).
//! - Most rows are skipped. Rows are projected onto their first principal axes ([`axes`]) and ordered into nodes of rows
//!   that are near each other ([`partition`]), with a hierarchy of bounding boxes ([`boxes`]). Distances of the projections are
//!   lower bounds: nodes and rows whose bound exceeds the k-th smallest distance measured so far are skipped ([`pruned`]).
//!   With few columns, each query searches the hierarchy on its own ([`walk`]). With more columns, a node is
//!   read once for many queries ([`query`], with the kernels in [`lanes`] and [`codes`]), and the rows that are not skipped
//!   are compared by their codes. [`plan`] decides by the expected cost whether this method is used, and on how many axes.
//!
//! In both cases the remaining rows, a few more than k, are ranked by their squared distances, computed from direct
//! differences in `f64`. The result therefore does not depend on the method, on rounding, on blocks, threads or shards, nor on
//! an offset common to all rows.

mod axes;
mod blocked;
mod boxes;
mod centers;
mod coded;
mod codes;
mod lanes;
mod linear_algebra;
mod nearest;
mod order;
mod partition;
mod plan;
mod pruned;
mod query;
mod rescaler;
mod row_codes;
mod shortlist;
mod walk;

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use crate::cancel::{Checkpoint, ParallelCheckpoints};
use crate::choice::all_rows_seconds;
use crate::neighbors::{Neighbor, keep_nearest};
use crate::progress::Steps;
use crate::{
    Embeddings, Error, IndexParts, IndexSummary, NeighborIndex, Neighbors, OrderParts, Precision, Progress,
    RowStorage, StoredRows,
};
use axes::Spectrum;
use partition::{NO_ROW, Partition};
pub(crate) use plan::few_columns_seconds;
use rescaler::Rescaler;
pub(crate) use row_codes::CODED_COLUMNS;
use row_codes::RowCodes;

/// Exact nearest neighbors by Euclidean distance, optionally with each coordinate divided by a scale.
///
/// The rows are borrowed from the caller's [`Embeddings`] or shared with them, not copied.
pub struct ExactIndex<'a> {
    rows: StoredRows<'a>,
    /// `None` when `f32` cannot represent the rescaled rows; then all distances are computed directly. Computed at the
    /// first use, because an index over a mapped file must not read its rows earlier.
    rescaler: OnceLock<Option<Rescaler>>,
    pruning: Pruning,
    /// The nodes of near rows; `None` when they would not save time or cannot be computed. Built when the searches so far took as long
    /// as the construction would take.
    partition: OnceLock<Option<Partition>>,
    /// The codes of all rows; `None` if the processor or the rows are not suitable. Computed when it is known that there is no partition.
    codes: OnceLock<Option<RowCodes>>,
    /// The expected time of the searches without a partition so far, in microseconds.
    micros: AtomicU64,
    /// The order of a partition that was built during a fit. A partition is built faster from it.
    order: Option<OrderParts<'a>>,
    /// The ids that were used again for inserted rows. Their places in the order are those of the former rows.
    reused: BTreeSet<u32>,
}

/// Whether an index groups its projected rows into nodes, most of which a search can skip. The result of a search
/// does not depend on this choice.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pruning {
    /// Rows are grouped when this is expected to save time.
    Auto,
    /// Rows are never grouped, and compared in `f32`.
    Off,
    /// Rows are never grouped, and compared by codes of one byte per coordinate if the processor supports it.
    Codes,
    /// Rows are grouped at the first search, on at most this number of principal axes.
    On(usize),
}

/// With fewer queries than the first number, or fewer per thread than the second, direct distances are faster than a matrix product:
/// each task of a product rescales all rows, and with few queries there are fewer tasks than threads.
const MIN_BLOCKED_QUERIES: usize = 5;
const MIN_BLOCKED_PER_THREAD: usize = 3;
/// Limit of the number of neighbors in lists that are not yet copied to the result.
const MAX_LISTED_NEIGHBORS: usize = 1 << 23;
/// With at least the first number of queries, about the second number of them are searched first, to see whether bounds exclude rows.
const MIN_SAMPLED: usize = 4096;
const SAMPLED: usize = 128;
/// An order is recorded if it takes at most the memory of the rows divided by this number. With few columns it takes more, but rows of few
/// columns are ordered quickly.
const ORDER_SHARE: usize = 8;
/// Training rows per task when distances are computed directly.
const DIRECT_ROWS: usize = 4096;

impl<'a> ExactIndex<'a> {
    /// Creates an index over at least one row.
    ///
    /// # Errors
    /// [`Error::Empty`] without rows.
    pub fn new(embeddings: &Embeddings<'a>) -> Result<Self, Error> {
        Ok(Self::from_rows(StoredRows::new(embeddings, Precision::F32)?))
    }

    /// Creates an index in the space in which coordinate `j` is divided by `scale[j]`. Neighbors and distances are
    /// computed in this space. A model with one bandwidth per dimension uses the bandwidths as the scale.
    ///
    /// # Errors
    /// [`Error::Empty`] without rows; [`Error::LengthMismatch`] or [`Error::BadScale`] for an invalid scale.
    pub fn scaled(embeddings: &Embeddings<'a>, scale: Vec<f64>) -> Result<Self, Error> {
        Ok(Self::from_rows(StoredRows::new(embeddings, Precision::F32)?.scaled(scale)?))
    }

    /// Creates an index over stored rows.
    #[must_use]
    pub fn from_rows(rows: StoredRows<'a>) -> Self {
        let (rescaler, partition, codes) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (pruning, micros) = (Pruning::Auto, AtomicU64::new(0));
        Self { rows, rescaler, pruning, partition, codes, micros, order: None, reused: BTreeSet::new() }
    }

    /// Sets the recorded order; `None` if it cannot be the order of these rows. Its values are checked when they are first used.
    pub(crate) fn with_order(mut self, order: OrderParts<'a>) -> Option<Self> {
        let is_order = partition::fits_rows(&order, &self.rows);
        self.order = Some(order);
        is_order.then_some(self)
    }

    /// The recorded order without the rows that were removed or replaced later.
    fn recorded_order(&self) -> Option<OrderParts<'_>> {
        let order = self.order.clone()?;
        if self.rows.removed().is_empty() && self.reused.is_empty() {
            return Some(order);
        }
        let is_in_place = |id: &u32| self.rows.contains(*id) && !self.reused.contains(id);
        let ids: Vec<u32> = order.ids.iter().copied().filter(is_in_place).collect();
        Some(OrderParts { ids: ids.into(), ..order })
    }

    /// Sets whether rows are grouped into nodes.
    #[doc(hidden)]
    #[must_use]
    pub fn pruning(mut self, pruning: Pruning) -> Self {
        self.pruning = pruning;
        self
    }

    pub(crate) fn stored_rows(&self) -> &StoredRows<'a> {
        &self.rows
    }

    /// Reverses an insertion of `ids` into an index whose id bound was `id_bound`.
    pub(crate) fn undo_insert(&mut self, ids: &[u32], id_bound: usize) {
        self.rows.undo_insert(ids, id_bound);
        self.drop_derived();
    }

    /// Reverses a removal of `ids`.
    pub(crate) fn undo_remove(&mut self, ids: &[u32]) {
        self.rows.undo_remove(ids);
        self.drop_derived();
    }

    /// Drops everything that was computed from the rows.
    fn drop_derived(&mut self) {
        self.rescaler = OnceLock::new();
        self.drop_partition();
    }

    /// Drops the partition. A new one is built when further searches took as long as its construction.
    fn drop_partition(&mut self) {
        self.partition = OnceLock::new();
        self.codes = OnceLock::new();
        self.micros = AtomicU64::new(0);
    }

    /// The partition. It is built when the searches so far and `queries` more queries take as long as its construction.
    fn partition(&self, queries: usize) -> Option<&Partition> {
        if self.partition.get().is_none() {
            let partition = match self.pruning {
                Pruning::Off | Pruning::Codes => return None,
                Pruning::On(axes) => self.rescaler().and_then(|rescaler| {
                    if let Some(order) = self.recorded_order() {
                        return plan::ordered_partition(self, rescaler, &order);
                    }
                    let spectrum = Spectrum::of(&self.rows, rescaler)?;
                    let axes = spectrum.axes(axes.min(spectrum.count()), rescaler);
                    let mut partition = Partition::new(&self.rows, axes)?;
                    partition.add_row_codes(&self.rows, rescaler);
                    Some(partition)
                }),
                Pruning::Auto => {
                    // As in `plan`, the time is estimated for 20 neighbors per query.
                    let seconds = all_rows_seconds(self.len(), self.dim(), queries as u64, 20);
                    let micros = self.micros.fetch_add((1e6 * seconds) as u64, Relaxed) as f64;
                    let build = match self.order {
                        Some(_) => plan::restore_seconds(self.len(), self.dim()),
                        None => plan::build_seconds(self.len(), self.dim()),
                    };
                    if 1e-6 * micros + seconds < build {
                        return None;
                    }
                    self.rescaler().and_then(|rescaler| {
                        let order = self.recorded_order();
                        let restored = order.and_then(|order| plan::restore(self, rescaler, &order));
                        restored.or_else(|| plan::plan(self, rescaler))
                    })
                }
            };
            let _ = self.partition.set(partition);
        }
        self.partition.get().and_then(Option::as_ref)
    }

    /// The codes of all rows, if it is known that there is no partition.
    fn codes(&self) -> Option<&RowCodes> {
        let is_used = match self.pruning {
            Pruning::Auto => matches!(self.partition.get(), Some(None)),
            Pruning::Codes => true,
            Pruning::Off | Pruning::On(_) => false,
        };
        if is_used && self.codes.get().is_none() {
            let id = |id| if self.rows.contains(id) { id } else { NO_ROW };
            let ids: Vec<u32> = (0..self.rows.id_bound() as u32).map(id).collect();
            let codes = self.rescaler().and_then(|rescaler| RowCodes::new(&self.rows, rescaler, &ids));
            let _ = self.codes.set(codes);
        }
        self.codes.get().filter(|_| is_used).and_then(Option::as_ref)
    }

    fn rescaler(&self) -> Option<&Rescaler> {
        if self.rescaler.get().is_none() {
            // No lock is held during the fit. The fit runs in parallel, and meanwhile this thread may execute another
            // search, which would wait for the lock.
            let mut rescaler = Rescaler::fit(&self.rows);
            if let Some(rescaler) = &mut rescaler {
                self.rows.removed().iter().for_each(|&id| rescaler.remove(id));
            }
            let _ = self.rescaler.set(rescaler);
        }
        self.rescaler.get().and_then(Option::as_ref)
    }

    /// Compares one query with every row directly: for few queries, for large k (see [`blocked::is_efficient`]), and for
    /// values outside the range of `f32` products.
    pub(crate) fn search_directly(&self, query: &[f32], k: usize, excluded: Option<u32>) -> Vec<Neighbor> {
        let len = self.rows.id_bound();
        let mut nearest = (0..len.div_ceil(DIRECT_ROWS))
            .into_par_iter()
            .with_checkpoints()
            .flat_map_iter(|block| {
                let rows = block * DIRECT_ROWS..len.min((block + 1) * DIRECT_ROWS);
                let mut nearest_of_block: Vec<Neighbor> = rows
                    .map(|id| id as u32)
                    .filter(|&id| Some(id) != excluded && self.rows.contains(id))
                    .map(|id| (self.rows.sq_distance(query, id), id))
                    .collect();
                keep_nearest(&mut nearest_of_block, k);
                nearest_of_block
            })
            .collect();
        keep_nearest(&mut nearest, k);
        nearest
    }

    fn search_portion(&self, queries: &[f32], k: usize, excluded: Option<&[u32]>) -> Vec<Vec<Neighbor>> {
        let count = queries.len() / self.dim();
        // With a larger k, few rows can be skipped.
        let partition = if k <= self.len() / 16 { self.partition(count) } else { None };
        let Some(partition) = partition else { return self.search_all(queries, k, excluded) };
        let search = |queries: &[f32], excluded: Option<&[u32]>| {
            pruned::search(self, partition, queries, k, excluded).0
        };
        self.search_with(search, queries, k, excluded)
    }

    /// Compares each query with every row.
    fn search_all(&self, queries: &[f32], k: usize, excluded: Option<&[u32]>) -> Vec<Vec<Neighbor>> {
        let has_short_lists = blocked::is_efficient(k, self.len());
        if let (true, Some(codes), Some(rescaler)) = (has_short_lists, self.codes(), self.rescaler()) {
            let search = |queries: &[f32], excluded: Option<&[u32]>| {
                coded::search(self, rescaler, codes, queries, k, excluded)
            };
            return self.search_with(search, queries, k, excluded);
        }
        self.search_all_in_floats(queries, k, excluded)
    }

    /// Searches with a method that gives no result for queries whose bounds exclude too few rows, for example queries far from all rows.
    /// These queries are compared with every row. If the method has no result for nearly all queries of a sample, it is not used.
    fn search_with(
        &self,
        search: impl Fn(&[f32], Option<&[u32]>) -> Vec<Option<Vec<Neighbor>>>,
        queries: &[f32],
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Vec<Vec<Neighbor>> {
        let count = queries.len() / self.dim();
        if count >= MIN_SAMPLED {
            let sample: Vec<usize> = (0..count).step_by(count / SAMPLED).collect();
            let (rows, excluded_rows) = self.selected(queries, excluded, &sample);
            // The queries of the sample are searched again, so the steps of this search are not counted.
            let found = Progress::new().observe(|| search(&rows, excluded_rows.as_deref()));
            let without_result = found.iter().filter(|nearest| nearest.is_none()).count();
            if 10 * without_result >= 9 * found.len() {
                return self.search_all_in_floats(queries, k, excluded);
            }
        }
        self.complete(search(queries, excluded), queries, k, excluded)
    }

    /// The selected queries and their excluded ids.
    fn selected(
        &self,
        queries: &[f32],
        excluded: Option<&[u32]>,
        places: &[usize],
    ) -> (Vec<f32>, Option<Vec<u32>>) {
        let rows = places.iter().flat_map(|&i| &queries[i * self.dim()..][..self.dim()]).copied().collect();
        (rows, excluded.map(|ids| places.iter().map(|&i| ids[i]).collect()))
    }

    /// Compares each query that has no result yet with every row, and adds its result.
    fn complete(
        &self,
        mut found: Vec<Option<Vec<Neighbor>>>,
        queries: &[f32],
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Vec<Vec<Neighbor>> {
        let missing: Vec<usize> = (0..found.len()).filter(|&i| found[i].is_none()).collect();
        if missing.len() == found.len() {
            return self.search_all_in_floats(queries, k, excluded);
        }
        if !missing.is_empty() {
            let (rows, excluded) = self.selected(queries, excluded, &missing);
            let others = self.search_all_in_floats(&rows, k, excluded.as_deref());
            missing.iter().zip(others).for_each(|(&i, nearest)| found[i] = Some(nearest));
        }
        found.into_iter().flatten().collect()
    }

    /// Compares each query with every row, without codes.
    fn search_all_in_floats(
        &self,
        queries: &[f32],
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Vec<Vec<Neighbor>> {
        let (here, steps) = (Checkpoint::current(), Steps::current());
        let count = queries.len() / self.dim();
        let min_queries = MIN_BLOCKED_QUERIES.max(MIN_BLOCKED_PER_THREAD * rayon::current_num_threads());
        let use_blocks = count >= min_queries && blocked::is_efficient(k, self.len());
        match use_blocks.then(|| self.rescaler()).flatten() {
            Some(rescaler) => blocked::search(self, rescaler, queries, k, excluded),
            None => queries
                .par_chunks(self.dim())
                .with_checkpoints()
                .enumerate()
                .map(|(i, query)| here.enter(|| self.search_directly(query, k, excluded.map(|ids| ids[i]))))
                .inspect(|_| steps.add(1))
                .collect(),
        }
    }
}

impl NeighborIndex for ExactIndex<'_> {
    fn rows(&self) -> &dyn RowStorage {
        &self.rows
    }

    fn describe(&self) -> IndexSummary {
        IndexSummary::Exact
    }

    fn parts(&self) -> IndexParts<'_> {
        IndexParts { rows: self.rows.parts(), graph: None, order: self.recorded_order() }
    }

    fn record_order(&mut self) {
        let order = self.partition.get().and_then(Option::as_ref).map(Partition::order);
        let is_small = |order: &OrderParts<'_>| {
            let bytes = size_of_val(&*order.axes) + size_of_val(&*order.ids);
            bytes <= size_of::<f32>() * self.len() * self.dim() / ORDER_SHARE
        };
        self.order = order.filter(is_small);
    }

    fn search_excluding(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, Error> {
        let k = self.rows.check_search(queries, k, excluded)?;
        let mut table = Neighbors::with_capacity(k, queries.len());
        // Queries are searched in portions to limit the memory of the neighbor lists, which need more space than the
        // result.
        let portion = (MAX_LISTED_NEIGHBORS / k).max(1);
        for (i, rows) in queries.as_slice().chunks(portion * self.dim()).enumerate() {
            let first = i * portion;
            let excluded = excluded.map(|ids| &ids[first..first + rows.len() / self.dim()]);
            self.search_portion(rows, k, excluded).iter().for_each(|row| table.push(row));
        }
        Ok(table)
    }

    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        // No check point follows, because a cancelled insertion must not leave a partly changed index.
        let id_bound = self.rows.id_bound() as u32;
        let ids = self.rows.insert(rows)?;
        if self.order.is_some() {
            self.reused.extend(ids.iter().filter(|&&id| id < id_bound));
        }
        // Norms are computed from the stored rows, which may be rounded.
        let mut stored = Vec::with_capacity(rows.as_slice().len());
        ids.iter().for_each(|&id| stored.extend_from_slice(&self.rows.row(id)));
        if let Some(Some(rescaler)) = self.rescaler.get_mut()
            && !rescaler.insert(&ids, &stored)
        {
            self.drop_derived();
        }
        if let (Some(Some(rescaler)), Some(Some(codes))) = (self.rescaler.get(), self.codes.get_mut()) {
            ids.iter()
                .zip(stored.chunks_exact(self.rows.dim()))
                .for_each(|(&id, row)| codes.write(id as usize, row, rescaler));
        }
        // If there is no partition, the decision is made again when the number of rows passes a power of two.
        let power_of_two = |rows: usize| rows.max(1).ilog2();
        let passes_power_of_two = power_of_two(self.rows.len()) > power_of_two(self.rows.len() - ids.len());
        if passes_power_of_two && matches!(self.partition.get(), Some(None)) {
            self.drop_partition();
        }
        if let Some(Some(partition)) = self.partition.get_mut()
            && !(partition.insert(&ids, &stored, self.rescaler.get().and_then(Option::as_ref))
                && partition.is_ordered(self.rows.len()))
        {
            self.drop_partition();
        }
        Ok(ids)
    }

    fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.rows.remove(ids)?;
        if let Some(Some(rescaler)) = self.rescaler.get_mut() {
            ids.iter().for_each(|&id| rescaler.remove(id));
        }
        if let Some(Some(codes)) = self.codes.get_mut() {
            ids.iter().for_each(|&id| codes.remove(id as usize));
        }
        if let Some(Some(partition)) = self.partition.get_mut() {
            partition.remove(ids);
            if !partition.is_ordered(self.rows.len()) {
                self.drop_partition();
            }
        }
        Ok(())
    }
}
