//! Exact search on a GPU, with the interface of all indexes.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use nuq_neighbors::device::cpu_seconds;
use nuq_neighbors::progress::Steps;
use nuq_neighbors::{
    Embeddings, Error as SearchError, ExactIndex, IndexParts, IndexSummary, NeighborIndex, Neighbors,
    Progress, RowParts, RowStorage, RowValues,
};

use crate::Error;
use crate::array::{Floats, floats_on, is_on_any};
use crate::bound::MAX_DIM;
use crate::choice::{OnCpu, gpu_seconds};
use crate::device::CudaDevice;
use crate::projection::{POINT_BYTES, Projection};
use crate::queries::Queries;
use crate::resident::Resident;
use crate::search::{MAX_NEIGHBORS, ShardNeighbors, search};
use crate::shard::{DeviceRescaling, Shard, is_on, n_rows, row_bytes};
use crate::sizes::Sizes;

/// Exact search on a GPU. The result is bit for bit equal to the result of an [`ExactIndex`].
///
/// [`CudaIndex::new`] searches on a given device. [`CudaIndex::auto`] searches on the first device or on the CPU, whichever is
/// expected to be faster.
///
/// Rows are copied to the device at the first search, and updates change them there. If inserted rows do not fit into the memory that
/// is allocated for the rows, the next search copies all rows again and allocates memory for a sixteenth more rows. Rows and queries
/// that are already in the memory of the device ([`CudaDevice::import`]) are not copied. Rows that do not fit into the memory of the
/// device are copied in shards at each search.
///
/// Some searches are answered on the CPU: queries that the device cannot answer, for example because too many rows are equally near, and
/// all searches with more than 1024 neighbors, with more than 32,768 columns, without enough free memory on the device, or in a process
/// that was forked after the device was opened. A failure of the device is an error.
pub struct CudaIndex<'a> {
    cpu: ExactIndex<'a>,
    /// The device, or why it cannot be used. With the automatic choice, it is opened at the first search that uses it.
    device: OnceLock<Result<CudaDevice, Error>>,
    is_auto: bool,
    /// The total expected time, in microseconds, of the searches so far for which the automatic choice was the CPU.
    micros: AtomicU64,
    /// Why the last search was started on the CPU; `None` if it was started on the device, or if there was no search yet.
    last: Mutex<Option<OnCpu>>,
    /// All rows, if they are on the device.
    resident: Mutex<Option<Resident>>,
    /// Whether rows were inserted. Then memory is reserved for further rows.
    is_growing: bool,
    /// A limit of the bytes that the index may use on the device.
    max_bytes: usize,
    /// The number of queries that were answered on the CPU.
    on_cpu: AtomicUsize,
}

/// The share of the free memory that an index uses.
const MEMORY_SHARE: f64 = 0.9;
/// After an insertion, memory is reserved for one further row per this number of rows.
const SPARE: usize = 16;

/// The queries of a search: rows of a user, or rows of the index by their ids.
#[derive(Clone, Copy)]
enum Source<'s> {
    Rows(&'s Embeddings<'s>),
    Ids(&'s [u32]),
}

impl Source<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Ids(ids) => ids.len(),
        }
    }

    /// The queries in the memory of a device, if they are there.
    fn floats_on(&self, device: &CudaDevice) -> Option<Floats> {
        match self {
            Self::Rows(rows) => floats_on(device, rows.values()),
            Self::Ids(_) => None,
        }
    }
}

impl<'a> CudaIndex<'a> {
    /// Creates an index over the rows of an exact index.
    #[must_use]
    pub fn new(rows: ExactIndex<'a>, device: CudaDevice) -> Self {
        Self { device: OnceLock::from(Ok(device)), is_auto: false, ..Self::auto(rows) }
    }

    /// Creates an index that uses the first device for searches that are expected to take less time there, including the copy of
    /// the rows, than on the CPU. The device is opened at the first such search.
    #[must_use]
    pub fn auto(rows: ExactIndex<'a>) -> Self {
        Self {
            cpu: rows,
            device: OnceLock::new(),
            is_auto: true,
            micros: AtomicU64::new(0),
            last: Mutex::new(None),
            resident: Mutex::new(None),
            is_growing: false,
            max_bytes: usize::MAX,
            on_cpu: AtomicUsize::new(0),
        }
    }

    /// Creates an index that searches on the CPU. `problem` is the reason.
    pub(crate) fn without_device(rows: ExactIndex<'a>, problem: Error) -> Self {
        Self { device: OnceLock::from(Err(problem)), ..Self::auto(rows) }
    }

    /// Limits the memory on the device to this number of bytes. In any case, the rows and the memory of the
    /// first search take at most nine tenths of the free memory.
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

    /// Copies the rows to the device, unless they are there, do not fit, or have more columns than a search on a device supports.
    ///
    /// # Errors
    /// [`SearchError::Device`] when the device fails or cannot be used, and the errors of [`NeighborIndex::verify_once`].
    pub fn load(&self) -> Result<(), SearchError> {
        self.verify_once()?;
        let device = match self.device_for(usize::MAX, true, 1) {
            Ok(device) => device,
            Err(OnCpu::Unusable(error)) => return Err(error.into()),
            Err(_) => return Ok(()),
        };
        match self.on_device(device, Source::Ids(&[]), 1.min(self.len()), None) {
            Ok(_) | Err(Error::OutOfMemory { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The device of a search, or the reason for the CPU. `are_on_device` tells whether the queries are in the memory of a device.
    fn device_for(&self, queries: usize, are_on_device: bool, k: usize) -> Result<&CudaDevice, OnCpu> {
        if k > MAX_NEIGHBORS || self.dim() > MAX_DIM {
            return Err(OnCpu::TooLarge);
        }
        match self.device.get() {
            Some(Err(problem)) => return Err(OnCpu::Unusable(problem.clone())),
            // In a forked process, locks below may be locked by threads that this process does not have.
            Some(Ok(device)) => device.check_process().map_err(OnCpu::Unusable)?,
            None => {}
        }
        if self.is_auto {
            let (rows, dim) = (self.rows().id_bound(), self.dim());
            let cpu = cpu_seconds(rows, dim, queries, k);
            let is_resident = self.resident.lock().unwrap_or_else(PoisonError::into_inner).is_some()
                || matches!(&self.rows().parts().values, RowValues::F32(values) if is_on_any(values));
            let copied = if is_resident { 0 } else { rows } + if are_on_device { 0 } else { queries };
            let gpu = gpu_seconds(rows, dim, queries, copied, self.device.get().is_some());
            // Before the device is opened and has the rows, the time of previous searches on the CPU is added, so that many small
            // searches lead to a copy of the rows. Afterwards each search is where it is expected to be faster.
            let is_ready = is_resident && self.device.get().is_some();
            let before = if is_ready { 0.0 } else { 1e-6 * self.micros.load(Relaxed) as f64 };
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

    /// Changes the rows on the device. If this is not possible, they are copied again at the next search.
    fn update(
        &mut self,
        change: impl FnOnce(&mut Resident, &CudaDevice, &RowParts<'_>) -> Result<bool, Error>,
    ) {
        let resident = self.resident.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(Ok(device)) = self.device.get() else { return };
        let Some(rows) = resident else { return };
        let _lock = device.lock();
        let is_changed = device.check_process().and_then(|()| change(rows, device, &self.cpu.rows().parts()));
        if !is_changed.unwrap_or(false) {
            *resident = None;
        }
    }

    /// Searches on the device, with smaller blocks if there is not enough memory. The result has one entry per shard: the id of the
    /// first row of the shard, and the neighbors in the shard.
    fn on_device(
        &self,
        device: &CudaDevice,
        source: Source<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Vec<(u32, ShardNeighbors)>, Error> {
        let floats = source.floats_on(device);
        let queries = match (source, &floats) {
            (Source::Rows(rows), Some(floats)) => Queries::Device { floats, len: rows.len() },
            (Source::Rows(rows), None) => Queries::Values(rows.as_slice()),
            (Source::Ids(ids), _) => Queries::Gathered { floats: None, ids },
        };
        // While the locks are held, no work of a thread pool is started: a thread that waits for such work may begin another search,
        // which would wait for the same locks.
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

    /// Copies the rows to the device, unless they are there, and searches with blocks of these sizes.
    fn with_sizes(
        &self,
        device: &CudaDevice,
        resident: &mut Option<Resident>,
        rows: &RowParts<'_>,
        sizes: &Sizes,
        queries: Queries<'_>,
        excluded: Option<&[u32]>,
    ) -> Result<Vec<(u32, ShardNeighbors)>, Error> {
        let len = n_rows(rows);
        let point_bytes = if Projection::is_useful(len, rows.dim) { POINT_BYTES } else { 0 };
        if resident.is_none() {
            let free = device.free_memory()?;
            let budget = ((MEMORY_SHARE * free as f64) as usize).min(self.max_bytes);
            // Bytes per row that need not be allocated, because the values in `f32` are already on the device.
            let shared_bytes = if is_on(device, rows) && !self.is_growing { 4 * rows.dim } else { 0 };
            let per_row = row_bytes(rows.dim) + point_bytes - shared_bytes;
            let per_shard = budget.saturating_sub(sizes.bytes()) / per_row;
            let map = DeviceRescaling::upload(device, rows)?;
            if per_shard < len {
                if queries.len(rows.dim) == 0 {
                    // The shards would be copied for no query.
                    return Ok(vec![]);
                }
                let shards = shards(len, per_shard, &rows.removed, sizes.k)
                    .ok_or(Error::OutOfMemory { free: Some(free) })?;
                let values;
                let queries = match queries {
                    Queries::Gathered { floats: None, ids } => {
                        values = self.gathered(ids);
                        Queries::Values(&values)
                    }
                    queries => queries,
                };
                let (steps, n, count) = (Steps::current(), queries.len(rows.dim), shards.len());
                let done = |searched: usize| n * searched / count;
                return shards
                    .into_iter()
                    .enumerate()
                    .map(|(i, ids)| {
                        let shard = Shard::upload(device, rows, ids, 0, &map)?;
                        // The searches of single shards report no steps. After each shard, an equal share of the queries is counted.
                        let search = || search(device, &map, &shard, None, sizes, queries, excluded);
                        let found = Progress::new().observe(search)?;
                        steps.add(done(i + 1) - done(i));
                        Ok((shard.first as u32, found))
                    })
                    .collect();
            }
            let spare = if self.is_growing { (len / SPARE).min(per_shard - len) } else { 0 };
            *resident = Some(Resident::upload(device, map, rows, spare)?);
        }
        let Some(Resident { map, shard, projection }) = resident else {
            unreachable!("the rows were uploaded above")
        };
        Ok(vec![(0, search(device, map, shard, projection.as_ref(), sizes, queries, excluded)?)])
    }

    /// The values of rows, read without check points and without a thread pool, because the caller may hold locks.
    fn gathered(&self, ids: &[u32]) -> Vec<f32> {
        let mut values = Vec::with_capacity(ids.len() * self.dim());
        ids.iter().for_each(|&id| values.extend_from_slice(&self.cpu.rows().row(id)));
        values
    }

    /// Searches on the device. Queries that the device cannot answer are answered on the CPU. `k` is at most the number of available rows.
    fn search_rows(
        &self,
        source: Source<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, SearchError> {
        let n = source.len();
        let are_on_device = match source {
            Source::Rows(rows) => is_on_any(rows.values()),
            Source::Ids(_) => true,
        };
        let device = match self.device_for(n, are_on_device, k) {
            Ok(device) => device,
            // No error is returned here. If a requested device cannot be used, the creation of the index returns the error already.
            // Later the device can only become unusable in a forked child process, which then searches on the CPU.
            Err(reason) => {
                self.set_last(Some(reason));
                return self.search_on_cpu(source, k, excluded);
            }
        };
        if let (Source::Rows(rows), None) = (source, source.floats_on(device)) {
            rows.load()?;
        }
        let results = match self.on_device(device, source, k, excluded) {
            Ok(results) => results,
            Err(error @ (Error::OutOfMemory { .. } | Error::Forked)) => {
                self.set_last(Some(OnCpu::Unusable(error)));
                return self.search_on_cpu(source, k, excluded);
            }
            Err(error) => return Err(error.into()),
        };
        self.set_last(None);
        let mut failed: Vec<u32> = results.iter().flat_map(|(_, found)| &found.failed).copied().collect();
        failed.sort_unstable();
        failed.dedup();
        if failed.len() == n {
            return self.search_on_cpu(source, k, excluded);
        }
        let mut results: Vec<(u32, Neighbors)> = results
            .into_iter()
            .map(|(first, mut found)| {
                // Failed queries get valid entries here, which are replaced below.
                for &query in &failed {
                    let cells = query as usize * k..(query as usize + 1) * k;
                    found.ids[cells.clone()].iter_mut().zip(0..).for_each(|(id, i)| *id = i);
                    found.sq_distances[cells].fill(0.0);
                }
                (first, Neighbors::sorted(k, found.ids, found.sq_distances))
            })
            .collect();
        let mut neighbors = match results.len() {
            1 => results.remove(0).1,
            _ => Neighbors::merge(&results, k)?,
        };
        if !failed.is_empty() {
            let some = match (source, source.floats_on(device)) {
                (Source::Rows(_), Some(floats)) => {
                    let _lock = device.lock();
                    device.gathered(&floats, &failed, self.dim())?
                }
                (Source::Rows(rows), None) => {
                    failed.iter().flat_map(|&i| rows.row(i as usize)).copied().collect()
                }
                (Source::Ids(ids), _) => {
                    self.gathered(&failed.iter().map(|&i| ids[i as usize]).collect::<Vec<_>>())
                }
            };
            let some = Embeddings::new(some, self.dim())?;
            let excluded: Option<Vec<u32>> =
                excluded.map(|ids| failed.iter().map(|&i| ids[i as usize]).collect());
            let others = self.search_on_cpu(Source::Rows(&some), k, excluded.as_deref())?;
            neighbors.replace(&failed, &others);
        }
        Ok(neighbors)
    }

    fn search_on_cpu(
        &self,
        source: Source<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, SearchError> {
        self.on_cpu.fetch_add(source.len(), Relaxed);
        match source {
            Source::Rows(rows) => {
                rows.load()?;
                self.cpu.search_excluding(rows, k, excluded)
            }
            Source::Ids(ids) => self.cpu.search_excluding(&self.cpu.rows().rows_with_ids(ids)?, k, excluded),
        }
    }
}

/// Divides the ids into as few ranges of about equal length as possible, with at most `per_shard` ids each. `None` if there would be more
/// than [`MAX_SHARDS`] ranges, or a range with at most `k` rows that are not removed.
fn shards(len: usize, per_shard: usize, removed: &[u32], k: usize) -> Option<Vec<Range<usize>>> {
    let count = len.div_ceil(per_shard.max(1));
    if count > MAX_SHARDS {
        return None;
    }
    let shards: Vec<Range<usize>> = (0..count).map(|i| i * len / count..(i + 1) * len / count).collect();
    let live = |ids: &Range<usize>| {
        let is_inside = |id: &&u32| ids.contains(&(**id as usize));
        ids.len() - removed.iter().filter(is_inside).count()
    };
    shards.iter().all(|ids| live(ids) > k).then_some(shards)
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

    fn parts(&self) -> IndexParts<'_> {
        self.cpu.parts()
    }

    fn record_order(&mut self) {
        self.cpu.record_order();
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
        self.search_rows(Source::Rows(queries), available, excluded)
    }

    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, SearchError> {
        let ids = self.cpu.insert(rows)?;
        self.is_growing = true;
        self.update(|resident, device, rows| resident.insert(device, rows, &ids));
        Ok(ids)
    }

    fn remove(&mut self, ids: &[u32]) -> Result<(), SearchError> {
        self.cpu.remove(ids)?;
        self.update(|resident, device, _| resident.remove(device, ids).map(|()| true));
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
        let neighbors = self.search_rows(Source::Ids(ids), available, Some(ids))?;
        self.rows().verify_unchanged()?;
        Ok(neighbors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_automatic_choice_for_a_small_search_is_the_cpu() {
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
        // Ranges are not allocated for more shards than the maximum.
        assert_eq!(shards(1 << 62, 0, &[], 1), None);
    }
}
