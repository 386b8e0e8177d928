//! One search over the rows of a shard.
//!
//! Queries are searched in blocks. For each block, the rows are multiplied with the queries in passes: first a few rows, evenly
//! spaced, then more of them, then all. The product gives the score of a row, which orders the rows like their distances (see
//! `bound.rs`). The limit of a query is a score that at least k rows do not exceed: rows with larger scores are not
//! among the nearest. Each pass lowers the limits, so only few rows of the next pass are candidates. The candidates of the last
//! pass are ranked by their distances in `f64`.
//!
//! With a projection, the passes multiply the projections of rows and queries, which are points with few columns. Queries for which
//! this excludes too few rows are searched again in all columns.

use nuq_neighbors::Progress;
use nuq_neighbors::cancel::checkpoint;
use nuq_neighbors::progress::Steps;

use crate::Error;
use crate::block::Block;
use crate::device::CudaDevice;
use crate::projection::Projection;
use crate::queries::{Chosen, Queries};
use crate::shard::{DeviceRescaling, Shard};
use crate::sizes::Sizes;
use crate::workspace::Workspace;

/// The largest number of neighbors per query in a search on a device.
pub(crate) const MAX_NEIGHBORS: usize = 1024;
/// How often a search is repeated for queries with too many candidates. Each repetition starts with the limits of the previous search.
const REPETITIONS: usize = 2;
/// The number of rows with which a projection is tested.
const TRIED: usize = 256;

/// Neighbors of all queries: k ids and squared distances each, and the queries without a result.
pub(crate) struct ShardNeighbors {
    pub(crate) ids: Vec<u32>,
    pub(crate) sq_distances: Vec<f64>,
    /// Queries whose candidates do not fit into their list, for example because too many rows are equally near, and
    /// queries that are too far from the rows. Their ids and distances are not valid.
    pub(crate) failed: Vec<u32>,
}

/// Searches the rows of a shard. The ids of the neighbors are counted from the first row of the shard.
///
/// `excluded` has one id per query: the row that cannot be a neighbor of this query. These ids are those of the whole index, not
/// of the shard. The caller holds the lock of the device.
pub(crate) fn search(
    device: &CudaDevice,
    map: &DeviceRescaling,
    shard: &Shard,
    projection: Option<&Projection>,
    sizes: &Sizes,
    queries: Queries<'_>,
    excluded: Option<&[u32]>,
) -> Result<ShardNeighbors, Error> {
    let searcher = Searcher { device, map, shard, projection, sizes };
    let mut space = Workspace::new(device, sizes, projection.is_some())?;
    let first = if projection.is_some() { Method::Points } else { Method::Columns };
    let (mut found, mut limits) = searcher.search(&mut space, queries, excluded, first)?;
    let mut has_searched_columns = projection.is_none();
    for _ in 0..REPETITIONS + usize::from(!has_searched_columns) {
        if found.failed.is_empty() {
            break;
        }
        let method = if has_searched_columns { Method::Repeated(&limits) } else { Method::Columns };
        has_searched_columns = true;
        let some_excluded: Option<Vec<u32>> =
            excluded.map(|ids| found.failed.iter().map(|&i| ids[i as usize]).collect());
        let mut chosen = Chosen::default();
        let some = queries.choose(&found.failed, sizes.dim, &mut chosen);
        let (repeated, lower) = searcher.search(&mut space, some, some_excluded.as_deref(), method)?;
        let k = sizes.k;
        for (i, &query) in found.failed.iter().enumerate() {
            let cells = query as usize * k..(query as usize + 1) * k;
            found.ids[cells.clone()].copy_from_slice(&repeated.ids[i * k..(i + 1) * k]);
            found.sq_distances[cells].copy_from_slice(&repeated.sq_distances[i * k..(i + 1) * k]);
        }
        found.failed = repeated.failed.iter().map(|&i| found.failed[i as usize]).collect();
        limits = lower;
    }
    Ok(found)
}

/// Whether the projection answers most queries, measured on some rows.
pub(crate) fn is_selective(
    device: &CudaDevice,
    map: &DeviceRescaling,
    shard: &Shard,
    projection: &Projection,
    dim: usize,
) -> Result<bool, Error> {
    let ids: Vec<u32> = (0..TRIED).map(|i| (i * shard.len / TRIED) as u32).collect();
    let sizes = Sizes::new(dim, 20.min(shard.len - 1), TRIED, shard.len);
    let searcher = Searcher { device, map, shard, projection: Some(projection), sizes: &sizes };
    let mut space = Workspace::new(device, &sizes, true)?;
    let rows = Queries::Gathered { floats: None, ids: &ids };
    // This trial is not part of the user's search, so its queries are not counted as steps.
    let search = || searcher.search(&mut space, rows, Some(&ids), Method::Points);
    let (found, _) = Progress::new().observe(search)?;
    Ok(found.failed.len() <= TRIED / 8)
}

/// The values that the passes multiply.
#[derive(Clone, Copy)]
pub(crate) enum Method<'l> {
    /// Projections onto principal axes.
    Points,
    /// All columns.
    Columns,
    /// All columns, with limits of an earlier search, one per query: only the last pass is needed.
    Repeated(&'l [f32]),
}

/// A shard and its projection on a device, and the sizes of a search.
#[derive(Clone, Copy)]
pub(crate) struct Searcher<'s> {
    pub(crate) device: &'s CudaDevice,
    pub(crate) map: &'s DeviceRescaling,
    pub(crate) shard: &'s Shard,
    pub(crate) projection: Option<&'s Projection>,
    pub(crate) sizes: &'s Sizes,
}

impl Searcher<'_> {
    /// Searches all queries. Also returns the limits of the queries that failed.
    fn search(
        &self,
        space: &mut Workspace,
        queries: Queries<'_>,
        excluded: Option<&[u32]>,
        method: Method<'_>,
    ) -> Result<(ShardNeighbors, Vec<f32>), Error> {
        let Self { device, sizes, .. } = *self;
        let n = queries.len(sizes.dim);
        let (mut ids, mut sq_distances) = (vec![0u32; n * sizes.k], vec![0f64; n * sizes.k]);
        let (mut failed, mut last_limits) = (Vec::new(), Vec::new());
        let (mut flags, mut block_limits) = (vec![0u32; sizes.queries], vec![0f32; sizes.queries]);
        let infinite = vec![f32::INFINITY; sizes.queries];
        let steps = Steps::current();
        let values_of = |values: &'_ [f32], start: usize| {
            start * sizes.dim..values.len().min((start + sizes.queries) * sizes.dim)
        };
        if let Queries::Values(values) = queries {
            device.write(&values[values_of(values, 0)], &mut space.queries[0], 0)?;
        }
        for (i, start) in (0..n).step_by(sizes.queries).enumerate() {
            checkpoint();
            let count = sizes.queries.min(n - start);
            let address = match queries {
                Queries::Values(_) => space.queries[i % 2].address,
                Queries::Device { floats, .. } => floats.at(start * sizes.dim),
                Queries::Gathered { floats, ids } => {
                    // Until the excluded rows are written below, their buffer is used for the ids of the queries.
                    device.write(&ids[start..start + count], &mut space.excluded, 0)?;
                    let floats = floats.unwrap_or(&self.shard.floats);
                    device.gather(floats, &space.excluded, count, sizes.dim, &space.queries[i % 2])?;
                    space.queries[i % 2].address
                }
            };
            let block = Block { searcher: self, count, queries: address, has_excluded: excluded.is_some() };
            if let Some(excluded) = excluded {
                let local: Vec<u32> =
                    excluded[start..start + count].iter().map(|&id| self.shard.local_id(id)).collect();
                device.write(&local, &mut space.excluded, 0)?;
            }
            let first_limits = match method {
                Method::Repeated(limits) => &limits[start..start + count],
                _ => &infinite[..count],
            };
            device.write(first_limits, &mut space.limits, 0)?;
            block.search(space, method)?;
            if let Queries::Values(values) = queries
                && start + count < n
            {
                let next = &values[values_of(values, start + count)];
                device.write_ahead(next, &mut space.queries[(i + 1) % 2])?;
            }
            device.read(&space.failed, &mut flags[..count])?;
            let cells = start * sizes.k..(start + count) * sizes.k;
            device.read(&space.nearest_ids, &mut ids[cells.clone()])?;
            device.read(&space.nearest, &mut sq_distances[cells])?;
            let of_block: Vec<usize> = (0..count).filter(|&i| flags[i] != 0).collect();
            if !of_block.is_empty() {
                device.read(&space.limits, &mut block_limits[..count])?;
                last_limits.extend(of_block.iter().map(|&i| block_limits[i]));
                failed.extend(of_block.iter().map(|&i| (start + i) as u32));
            }
            // Failed queries are not counted yet, because they are searched again.
            steps.add(count - of_block.len());
        }
        Ok((ShardNeighbors { ids, sq_distances, failed }, last_limits))
    }
}

impl Shard {
    /// The number of a row in the shard; `u32::MAX` if the row is not in the shard.
    fn local_id(&self, id: u32) -> u32 {
        (id as usize).checked_sub(self.first).filter(|&id| id < self.len).map_or(u32::MAX, |id| id as u32)
    }
}
