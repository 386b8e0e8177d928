//! Exact search on a GPU, with the interface of all indexes.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use nuq_neighbors::device::cpu_seconds;
use nuq_neighbors::{
    Embeddings, Error as SearchError, ExactIndex, IndexSummary, NeighborIndex, Neighbors, RowParts,
    RowStorage,
};

use crate::Error;
use crate::bound::MAX_DIM;
use crate::device::CudaDevice;
use crate::projection::{POINT_BYTES, Projection};
use crate::search::{MAX_NEIGHBORS, Queries, Sizes, Table, is_selective, search};
use crate::shard::{DeviceRescaling, Shard, n_rows, row_bytes};

/// Exact search on a GPU. The result is bit for bit that of an [`ExactIndex`].
///
/// [`CudaIndex::new`] searches on a given device, [`CudaIndex::auto`] on the device or the CPU, by the expected time.
///
/// Rows are copied to the device at the first search, and again after an update. Rows that do not fit into its memory are
/// copied in shards at each search. Queries that the device cannot answer, and all searches with more than 1024 neighbors
/// or 32,768 columns or without enough free memory on the device, are answered on the CPU. A failure of the device is an error.
pub struct CudaIndex<'a> {
    cpu: ExactIndex<'a>,
    /// `None` until a search with the automatic choice needs it.
    device: OnceLock<Result<CudaDevice, Error>>,
    is_auto: bool,
    /// The total expected time, in microseconds, of the searches so far for which the automatic choice was the CPU.
    micros: AtomicU64,
    /// Why the last search was on the CPU; `None` if it was on the device or there was none.
    last: Mutex<Option<OnCpu>>,
    /// All rows, if they are on the device.
    resident: Mutex<Option<Resident>>,
    max_bytes: usize,
    on_cpu: AtomicUsize,
}

/// Why a search was on the CPU.
#[derive(Debug, Clone, PartialEq)]
enum OnCpu {
    NotFaster { cpu: f64, gpu: f64 },
    TooLarge,
    Unusable(Error),
}

impl fmt::Display for OnCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFaster { cpu, gpu } => {
                write!(
                    f,
                    "the search takes about {cpu:.2} s on the CPU and {gpu:.2} s on a GPU, with the copy of the rows"
                )
            }
            Self::TooLarge => {
                write!(f, "a GPU searches at most {MAX_NEIGHBORS} neighbors in at most {MAX_DIM} columns")
            }
            Self::Unusable(error) => write!(f, "{error}"),
        }
    }
}

/// All rows on the device.
struct Resident {
    map: DeviceRescaling,
    shard: Shard,
    /// `None` unless it answers most queries.
    projection: Option<Projection>,
}

/// The share of the free memory that an index uses.
const MEMORY_SHARE: f64 = 0.9;

impl<'a> CudaIndex<'a> {
    /// Creates an index over the rows of an exact index.
    #[must_use]
    pub fn new(rows: ExactIndex<'a>, device: CudaDevice) -> Self {
        Self { device: OnceLock::from(Ok(device)), is_auto: false, ..Self::auto(rows) }
    }

    /// Creates an index that uses the first device when its expected time, with the copy of the rows, is less than that of the
    /// CPU. The device is opened then.
    #[must_use]
    pub fn auto(rows: ExactIndex<'a>) -> Self {
        Self {
            cpu: rows,
            device: OnceLock::new(),
            is_auto: true,
            micros: AtomicU64::new(0),
            last: Mutex::new(None),
            resident: Mutex::new(None),
            max_bytes: usize::MAX,
            on_cpu: AtomicUsize::new(0),
        }
    }

    /// Limits the memory on the device to this number of bytes; by default it is nine tenths of the free memory.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// The number of queries so far that were answered on the CPU.
    #[must_use]
    pub fn queries_on_cpu(&self) -> usize {
        self.on_cpu.load(Relaxed)
    }

    /// Copies the rows to the device, unless they are there or do not fit.
    ///
    /// # Errors
    /// [`SearchError::Device`] when the device fails, and those of [`NeighborIndex::verify_once`].
    pub fn load(&self) -> Result<(), SearchError> {
        self.verify_once()?;
        let device = match self.device_for(usize::MAX, 1) {
            Ok(device) => device,
            Err(OnCpu::Unusable(error)) => return Err(error.into()),
            Err(_) => return Ok(()),
        };
        match self.on_device(device, Queries::Values(&[]), 1.min(self.len()), None) {
            Ok(_) | Err(Error::OutOfMemory { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The device of a search, or the reason for the CPU.
    fn device_for(&self, queries: usize, k: usize) -> Result<&CudaDevice, OnCpu> {
        if k > MAX_NEIGHBORS || self.dim() > MAX_DIM {
            return Err(OnCpu::TooLarge);
        }
        if self.is_auto {
            let (rows, dim) = (self.rows().id_bound(), self.dim());
            let cpu = cpu_seconds(rows, dim, queries, k);
            let is_resident = self.resident.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            let gpu = gpu_seconds(rows, dim, queries, is_resident, self.device.get().is_some());
            // The time of previous searches on the CPU is added, so that many small searches lead to a copy of the rows.
            let before = 1e-6 * self.micros.load(Relaxed) as f64;
            if gpu >= cpu + before {
                self.micros.fetch_add((1e6 * cpu) as u64, Relaxed);
                return Err(OnCpu::NotFaster { cpu, gpu });
            }
        }
        let device = self.device.get_or_init(|| CudaDevice::open(0)).as_ref();
        let device = device.map_err(|error| OnCpu::Unusable(error.clone()))?;
        device.check_process().map_err(OnCpu::Unusable)?;
        Ok(device)
    }

    fn set_last(&self, last: Option<OnCpu>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    /// Removes the rows from the device.
    fn unload(&mut self) {
        *self.resident.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Searches on the device, with smaller blocks when memory is short. The result has one table per shard.
    fn on_device(
        &self,
        device: &CudaDevice,
        queries: Queries<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Vec<(u32, Table)>, Error> {
        // No work of a thread pool is started under the locks.
        let _lock = device.lock();
        let mut resident = self.resident.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = self.cpu.rows().parts();
        let n = queries.len(rows.dim);
        let mut sizes = Sizes::new(rows.dim, k, n, n_rows(&rows));
        loop {
            match self.with_sizes(device, &mut resident, &rows, &sizes, queries, excluded) {
                Err(error @ Error::OutOfMemory { .. }) => {
                    *resident = None;
                    sizes = sizes.halved().ok_or(error)?;
                }
                result => return result,
            }
        }
    }

    fn with_sizes(
        &self,
        device: &CudaDevice,
        resident: &mut Option<Resident>,
        rows: &RowParts<'_>,
        sizes: &Sizes,
        queries: Queries<'_>,
        excluded: Option<&[u32]>,
    ) -> Result<Vec<(u32, Table)>, Error> {
        let len = n_rows(rows);
        let point = if Projection::is_useful(len, rows.dim) { POINT_BYTES } else { 0 };
        let per_row = row_bytes(rows.dim) + point;
        if resident.is_none() {
            let free = device.free_memory()?;
            let budget = ((MEMORY_SHARE * free as f64) as usize).min(self.max_bytes);
            let per_shard = budget.saturating_sub(sizes.bytes()) / per_row;
            let map = DeviceRescaling::upload(device, rows)?;
            if per_shard < len {
                let shards =
                    shards(len, per_shard, &rows.removed, sizes.k).ok_or(Error::OutOfMemory { free })?;
                let values;
                let queries = match queries {
                    Queries::Rows(ids) => {
                        values = self.gathered(ids);
                        Queries::Values(&values)
                    }
                    queries => queries,
                };
                return shards
                    .into_iter()
                    .map(|ids| {
                        let shard = Shard::upload(device, rows, ids, &map)?;
                        let table = search(device, &map, &shard, None, sizes, queries, excluded)?;
                        Ok((shard.first as u32, table))
                    })
                    .collect();
            }
            let shard = Shard::upload(device, rows, 0..len, &map)?;
            let projection = selective_projection(device, &map, &shard, rows.dim)?;
            *resident = Some(Resident { map, shard, projection });
        }
        let Some(Resident { map, shard, projection }) = resident else {
            unreachable!("the rows were uploaded above")
        };
        Ok(vec![(0, search(device, map, shard, projection.as_ref(), sizes, queries, excluded)?)])
    }

    /// The values of rows, without check points or a thread pool.
    fn gathered(&self, ids: &[u32]) -> Vec<f32> {
        let mut values = Vec::with_capacity(ids.len() * self.dim());
        ids.iter().for_each(|&id| values.extend_from_slice(&self.cpu.rows().row(id)));
        values
    }

    /// Searches on the device and answers the other queries on the CPU. `k` is at most the number of available rows.
    fn search_rows(
        &self,
        queries: Queries<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, SearchError> {
        let n = queries.len(self.dim());
        let device = match self.device_for(n, k) {
            Ok(device) => device,
            // A requested device that cannot be used is an error where the index is created; a forked child uses the CPU.
            Err(reason) => {
                self.set_last(Some(reason));
                return self.search_on_cpu(queries, k, excluded);
            }
        };
        let tables = match self.on_device(device, queries, k, excluded) {
            Ok(tables) => tables,
            Err(error @ (Error::OutOfMemory { .. } | Error::Forked)) => {
                self.set_last(Some(OnCpu::Unusable(error)));
                return self.search_on_cpu(queries, k, excluded);
            }
            Err(error) => return Err(error.into()),
        };
        self.set_last(None);
        let mut failed: Vec<u32> = tables.iter().flat_map(|(_, table)| &table.failed).copied().collect();
        failed.sort_unstable();
        failed.dedup();
        if failed.len() == n {
            return self.search_on_cpu(queries, k, excluded);
        }
        let mut tables: Vec<(u32, Neighbors)> = tables
            .into_iter()
            .map(|(first, mut table)| {
                // Valid entries, which are replaced below.
                for &query in &failed {
                    let cells = query as usize * k..(query as usize + 1) * k;
                    table.ids[cells.clone()].iter_mut().zip(0..).for_each(|(id, i)| *id = i);
                    table.sq_distances[cells].fill(0.0);
                }
                (first, Neighbors::sorted(k, table.ids, table.sq_distances))
            })
            .collect();
        let mut neighbors = match tables.len() {
            1 => tables.remove(0).1,
            _ => Neighbors::merge(&tables, k)?,
        };
        if !failed.is_empty() {
            let some = match queries {
                Queries::Values(values) => {
                    let row = |&i: &u32| &values[i as usize * self.dim()..][..self.dim()];
                    failed.iter().flat_map(row).copied().collect()
                }
                Queries::Rows(ids) => {
                    self.gathered(&failed.iter().map(|&i| ids[i as usize]).collect::<Vec<_>>())
                }
            };
            let excluded: Option<Vec<u32>> =
                excluded.map(|ids| failed.iter().map(|&i| ids[i as usize]).collect());
            let others = self.search_on_cpu(Queries::Values(&some), k, excluded.as_deref())?;
            neighbors.replace(&failed, &others);
        }
        Ok(neighbors)
    }

    fn search_on_cpu(
        &self,
        queries: Queries<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, SearchError> {
        self.on_cpu.fetch_add(queries.len(self.dim()), Relaxed);
        match queries {
            Queries::Values(values) => {
                self.cpu.search_excluding(&Embeddings::borrowed(values, self.dim())?, k, excluded)
            }
            Queries::Rows(ids) => {
                self.cpu.search_excluding(&Embeddings::new(self.gathered(ids), self.dim())?, k, excluded)
            }
        }
    }
}

/// The projection of the rows, if there is memory for it and it answers most queries.
fn selective_projection(
    device: &CudaDevice,
    map: &DeviceRescaling,
    shard: &Shard,
    dim: usize,
) -> Result<Option<Projection>, Error> {
    if !Projection::is_useful(shard.len, dim) {
        return Ok(None);
    }
    let tried = Projection::new(device, map, shard, dim).and_then(|projection| {
        let is_selective = is_selective(device, map, shard, &projection, dim)?;
        Ok(is_selective.then_some(projection))
    });
    match tried {
        Err(Error::OutOfMemory { .. }) => Ok(None),
        result => result,
    }
}

/// The expected time of a search on a device, in seconds.
fn gpu_seconds(rows: usize, dim: usize, queries: usize, is_resident: bool, is_open: bool) -> f64 {
    // A device that reaches a tenth of the speed of a data-center GPU is assumed.
    const OPEN: f64 = 0.5;
    const BYTES_PER_SECOND: f64 = 5e9;
    const TERMS_PER_SECOND: f64 = 2e13;
    const SEARCH: f64 = 5e-3;
    let (rows, dim, queries) = (rows as f64, dim as f64, queries as f64);
    let copied = queries + if is_resident { 0.0 } else { rows };
    let opening = if is_open { 0.0 } else { OPEN };
    opening
        + SEARCH
        + 4.0 * copied * dim / BYTES_PER_SECOND
        + rows * queries * (dim + 16.0) / TERMS_PER_SECOND
}

/// Ranges of at most `per_shard` ids, each with more than `k` rows; `None` if that is not possible.
fn shards(len: usize, per_shard: usize, removed: &[u32], k: usize) -> Option<Vec<Range<usize>>> {
    let count = len.div_ceil(per_shard.max(1));
    let shards: Vec<Range<usize>> = (0..count).map(|i| i * len / count..(i + 1) * len / count).collect();
    let live = |ids: &Range<usize>| {
        let is_inside = |id: &&u32| ids.contains(&(**id as usize));
        ids.len() - removed.iter().filter(is_inside).count()
    };
    (count <= MAX_SHARDS && shards.iter().all(|ids| live(ids) > k)).then_some(shards)
}

/// With more shards, the copies take longer than a search on the CPU.
const MAX_SHARDS: usize = 256;

impl NeighborIndex for CudaIndex<'_> {
    fn rows(&self) -> &dyn RowStorage {
        self.cpu.rows()
    }

    fn describe(&self) -> IndexSummary {
        IndexSummary::Exact
    }

    fn device(&self) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*last, self.device.get()) {
            (Some(reason), _) => Some(format!("cpu: {reason}")),
            (None, Some(Ok(device))) => Some(format!("cuda:{} ({})", device.ordinal(), device.name())),
            (None, Some(Err(error))) => Some(format!("cpu: {error}")),
            (None, None) => Some("auto".to_owned()),
        }
    }

    fn search_excluding(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, SearchError> {
        let available = self.rows().check_search(queries, k, excluded)?;
        if queries.is_empty() {
            return self.cpu.search_excluding(queries, k, excluded);
        }
        self.search_rows(Queries::Values(queries.as_slice()), available, excluded)
    }

    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, SearchError> {
        let ids = self.cpu.insert(rows)?;
        self.unload();
        Ok(ids)
    }

    fn remove(&mut self, ids: &[u32]) -> Result<(), SearchError> {
        self.cpu.remove(ids)?;
        self.unload();
        Ok(())
    }

    fn leave_one_out(&self, ids: &[u32], k: usize) -> Result<Neighbors, SearchError> {
        self.verify_once()?;
        self.rows().check_ids(ids, 1)?;
        let none = Embeddings::new(vec![], self.dim())?;
        let available = self.rows().check_search(&none, k, Some(&[]))?;
        if ids.is_empty() {
            return self.cpu.leave_one_out(ids, k);
        }
        self.search_rows(Queries::Rows(ids), available, Some(ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_expected_to_be_faster_for_large_searches_only() {
        let is_faster = |rows, dim, queries, is_resident| {
            gpu_seconds(rows, dim, queries, is_resident, true) < cpu_seconds(rows, dim, queries, 20)
        };
        assert!(is_faster(1_281_167, 2048, 50_000, false));
        assert!(is_faster(50_000, 512, 10_000, false));
        assert!(!is_faster(1000, 16, 100, true));
        assert!(!is_faster(1_281_167, 2048, 1, false));
    }

    #[test]
    fn without_a_device_the_automatic_choice_is_the_cpu() {
        let x = Embeddings::new((0..60).map(|v| v as f32).collect(), 2).unwrap();
        let index = CudaIndex::auto(ExactIndex::new(&x).unwrap());
        assert_eq!(index.device().as_deref(), Some("auto"));
        assert_eq!(index.search(&x, 3), ExactIndex::new(&x).unwrap().search(&x, 3));
        assert_eq!(index.leave_one_out(&[4], 3), ExactIndex::new(&x).unwrap().leave_one_out(&[4], 3));
        let device = index.device().unwrap();
        assert!(device.starts_with("cpu: the search takes about 0.00 s on the CPU"), "{device}");
    }

    #[test]
    fn shards_cover_all_rows_and_have_more_than_k_each() {
        assert_eq!(shards(10, 4, &[], 2), Some(vec![0..3, 3..6, 6..10]));
        assert_eq!(shards(10, 4, &[], 3), None);
        assert_eq!(shards(10, 4, &[1], 2), None);
        assert_eq!(shards(10, 0, &[], 1), None);
        assert_eq!(shards(100_000, 1, &[], 1), None);
    }
}
