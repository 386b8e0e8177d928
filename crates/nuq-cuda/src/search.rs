//! One search over the rows of a shard.
//!
//! Queries are searched in blocks. For each block, the rows are multiplied in passes: first a few rows, evenly spaced, then
//! more of them, then all. A pass lowers the limit of each query, so that few rows of the next pass are candidates. The
//! candidates of the last pass are ranked by their distances in `f64`.
//!
//! With a projection, the passes multiply points with few columns instead of rows; queries for which this excludes too few rows
//! are searched again in all columns.

use nuq_neighbors::cancel::checkpoint;
use nuq_neighbors::progress::Steps;

use crate::Error;
use crate::bound::Bound;
use crate::cublas::Product;
use crate::device::{Buffer, CudaDevice, launch};
use crate::projection::{self, Images, Projection};
use crate::shard::{DeviceRescaling, Shard, prepare, width};

/// The largest number of neighbors that is searched on a device.
pub(crate) const MAX_NEIGHBORS: usize = 1024;
/// Queries per block, and rows per product.
const QUERIES: usize = 8192;
const ROWS: usize = 32768;
/// Blocks of more queries than this are halved if there is too little memory.
const MIN_QUERIES: usize = 128;
/// Queries per thread block of the kernel `select_rows`, its threads, and the products per thread.
const SELECT_QUERIES: u32 = 64;
const SELECT_THREADS: u32 = 256;
const SELECT_PRODUCTS: u32 = 4;
/// Products between two check points.
const PRODUCTS_PER_CHECK: usize = 8;
/// Products of the last pass between two refinements.
const PRODUCTS_PER_REFINEMENT: usize = 2;
/// The last pass reads this many times the rows of the pass before it, at most.
const LAST_RATIO: usize = 24;

/// Sizes of one search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sizes {
    pub(crate) dim: usize,
    pub(crate) k: usize,
    /// Queries per block.
    pub(crate) queries: usize,
    /// Rows per product, a multiple of 4.
    pub(crate) rows: usize,
    /// Entries of a candidate list.
    pub(crate) capacity: usize,
}

impl Sizes {
    /// The sizes for `queries` queries and `rows` rows, if there is enough memory.
    pub(crate) fn new(dim: usize, k: usize, queries: usize, rows: usize) -> Self {
        let capacity = if k <= 32 { 2048 } else { 4096 };
        let rows = ROWS.min(rows.next_multiple_of(4));
        Self { dim, k, queries: QUERIES.min(queries.max(1)), rows, capacity }
    }

    /// Sizes that need about half of the memory, or `None` if the blocks are already small.
    pub(crate) fn halved(self) -> Option<Self> {
        let rows = (self.rows / 2).next_multiple_of(4).max(1024).min(self.rows);
        (self.queries > MIN_QUERIES).then_some(Self { queries: self.queries / 2, rows, ..self })
    }

    /// The memory besides the rows, in bytes.
    pub(crate) fn bytes(self) -> usize {
        let query =
            4 * self.dim + 2 * width(self.dim) + 16 + 16 + 12 * self.capacity + 2 * self.rows + 12 * self.k;
        // cuBLAS has some memory of its own.
        let points = Images::bytes(self.dim) + self.queries * (projection::POINT_BYTES + 8);
        self.queries * query + points + (64 << 20)
    }
}

/// The distances between the rows of each pass. Every row of the first pass has a place in the candidate list.
///
/// The distances are prime, because classes may alternate in the order of the rows.
fn strides(rows: usize, k: usize, capacity: usize) -> Vec<usize> {
    let first = prime(rows.div_ceil(capacity));
    // With this ratio, the expected number of candidates is 0.4 of the capacity.
    let ratio = (2 * capacity / (5 * k)).max(2);
    let mut strides = vec![1];
    let mut stride = prime(ratio.min(LAST_RATIO));
    while stride < first {
        strides.push(stride);
        stride = prime(stride * ratio);
    }
    if first > 1 {
        strides.push(first);
    }
    strides.reverse();
    strides
}

/// The smallest prime that is at least `n`, or 1.
fn prime(n: usize) -> usize {
    let is_prime = |n: usize| (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    (n.max(1)..).find(|&n| is_prime(n)).unwrap_or(n)
}

/// The queries of a search.
#[derive(Clone, Copy)]
pub(crate) enum Queries<'q> {
    /// Values on the host, row-major.
    Values(&'q [f32]),
    /// Ids of rows of the shard.
    Rows(&'q [u32]),
}

/// How often a search is repeated for queries with too many candidates. Each repetition starts with the limits of the previous search.
const REPETITIONS: usize = 2;

impl Queries<'_> {
    pub(crate) fn len(&self, dim: usize) -> usize {
        match self {
            Self::Values(values) => values.len() / dim,
            Self::Rows(ids) => ids.len(),
        }
    }
}

/// Neighbors of all queries: k ids and squared distances each, and the queries without a result.
pub(crate) struct Table {
    pub(crate) ids: Vec<u32>,
    pub(crate) sq_distances: Vec<f64>,
    /// Queries whose candidates do not fit into their list, for example because too many rows are equally near, and
    /// queries that are too far from the rows. Their entries of the table are not valid.
    pub(crate) failed: Vec<u32>,
}

/// Device memory for one block of queries.
struct Workspace {
    /// The queries of this block and of the next one.
    queries: [Buffer<f32>; 2],
    halves: Buffer<u16>,
    described: Buffer<f32>,
    excluded: Buffer<u32>,
    limits: Buffer<f32>,
    counts: Buffer<u32>,
    failed: Buffer<u32>,
    ids: Buffer<u32>,
    bounds: Buffer<f32>,
    tile: Buffer<u16>,
    nearest_ids: Buffer<u32>,
    nearest: Buffer<f64>,
    points: Option<QueryPoints>,
}

/// Projections of the queries of a block.
struct QueryPoints {
    halves: Buffer<u16>,
    described: Buffer<f32>,
    sq_norms: Buffer<f64>,
    images: Images,
}

impl QueryPoints {
    fn new(device: &CudaDevice, sizes: &Sizes) -> Result<Self, Error> {
        Ok(Self {
            halves: device.allocate(sizes.queries * projection::WIDTH)?,
            described: device.allocate(4 * sizes.queries)?,
            sq_norms: device.allocate(sizes.queries)?,
            images: Images::new(device, sizes.dim)?,
        })
    }
}

impl Workspace {
    fn new(device: &CudaDevice, sizes: &Sizes, has_points: bool) -> Result<Self, Error> {
        let Sizes { dim, k, queries, rows, capacity } = *sizes;
        Ok(Self {
            queries: [device.allocate(queries * dim)?, device.allocate(queries * dim)?],
            halves: device.allocate(queries * width(dim))?,
            described: device.allocate(4 * queries)?,
            excluded: device.allocate(queries)?,
            limits: device.allocate(queries)?,
            counts: device.allocate(queries)?,
            failed: device.allocate(queries)?,
            ids: device.allocate(queries * capacity)?,
            bounds: device.allocate(2 * queries * capacity)?,
            tile: device.allocate(queries * rows)?,
            nearest_ids: device.allocate(queries * k)?,
            nearest: device.allocate(queries * k)?,
            points: has_points.then(|| QueryPoints::new(device, sizes)).transpose()?,
        })
    }
}

/// Searches the rows of a shard. Ids of the table are counted from the first row of the shard.
///
/// `excluded` holds one id of the whole index per query. The caller holds the lock of the device.
pub(crate) fn search(
    device: &CudaDevice,
    map: &DeviceRescaling,
    shard: &Shard,
    projection: Option<&Projection>,
    sizes: &Sizes,
    queries: Queries<'_>,
    excluded: Option<&[u32]>,
) -> Result<Table, Error> {
    let searcher = Searcher { device, map, shard, projection, sizes };
    let mut space = Workspace::new(device, sizes, projection.is_some())?;
    let first = if projection.is_some() { Method::Points } else { Method::Columns };
    let (mut table, mut limits) = searcher.search(&mut space, queries, excluded, first)?;
    let mut is_columns = projection.is_none();
    for _ in 0..REPETITIONS + usize::from(!is_columns) {
        if table.failed.is_empty() {
            break;
        }
        let method = if is_columns { Method::Repeated(&limits) } else { Method::Columns };
        is_columns = true;
        let at = |&i: &u32| i as usize;
        let some_excluded: Option<Vec<u32>> =
            excluded.map(|ids| table.failed.iter().map(|i| ids[at(i)]).collect());
        let (values, rows): (Vec<f32>, Vec<u32>);
        let some = match queries {
            Queries::Values(all) => {
                let row = |i: &u32| &all[at(i) * sizes.dim..][..sizes.dim];
                values = table.failed.iter().flat_map(row).copied().collect();
                Queries::Values(&values)
            }
            Queries::Rows(ids) => {
                rows = table.failed.iter().map(|i| ids[at(i)]).collect();
                Queries::Rows(&rows)
            }
        };
        let (repeated, lower) = searcher.search(&mut space, some, some_excluded.as_deref(), method)?;
        let k = sizes.k;
        for (i, &query) in table.failed.iter().enumerate() {
            let cells = query as usize * k..(query as usize + 1) * k;
            table.ids[cells.clone()].copy_from_slice(&repeated.ids[i * k..(i + 1) * k]);
            table.sq_distances[cells].copy_from_slice(&repeated.sq_distances[i * k..(i + 1) * k]);
        }
        table.failed = repeated.failed.iter().map(|&i| table.failed[i as usize]).collect();
        limits = lower;
    }
    Ok(table)
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
    let (table, _) = searcher.search(&mut space, Queries::Rows(&ids), Some(&ids), Method::Points)?;
    Ok(table.failed.len() <= TRIED / 8)
}

/// The number of rows that test a projection.
const TRIED: usize = 256;

/// The values that the passes multiply.
#[derive(Clone, Copy)]
enum Method<'l> {
    /// Projections onto principal axes.
    Points,
    /// All columns.
    Columns,
    /// All columns, with limits of an earlier search, one per query: only the last pass is needed.
    Repeated(&'l [f32]),
}

/// The rows that are searched.
struct Searcher<'s> {
    device: &'s CudaDevice,
    map: &'s DeviceRescaling,
    shard: &'s Shard,
    projection: Option<&'s Projection>,
    sizes: &'s Sizes,
}

impl Searcher<'_> {
    /// Searches all queries and returns the limits of those that failed.
    fn search(
        &self,
        space: &mut Workspace,
        queries: Queries<'_>,
        excluded: Option<&[u32]>,
        method: Method<'_>,
    ) -> Result<(Table, Vec<f32>), Error> {
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
            let block = Block { searcher: self, count, buffer: i % 2, has_excluded: excluded.is_some() };
            if let Queries::Rows(ids) = queries {
                device.write(&ids[start..start + count], &mut space.excluded, 0)?;
                block.gather(space)?;
            }
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
            // Queries that are searched again are counted then.
            steps.add(count - of_block.len());
        }
        Ok((Table { ids, sq_distances, failed }, last_limits))
    }
}

impl Shard {
    /// The number of a row in the shard, or one that no row has.
    fn local_id(&self, id: u32) -> u32 {
        (id as usize).checked_sub(self.first).filter(|&id| id < self.len).map_or(u32::MAX, |id| id as u32)
    }
}

/// Rows and queries in `f16`, and the descriptions of their rounding.
struct Factors<'f> {
    rows: &'f Buffer<u16>,
    described: &'f Buffer<f32>,
    queries: &'f Buffer<u16>,
    described_queries: &'f Buffer<f32>,
    width: usize,
}

/// One block of queries.
struct Block<'b> {
    searcher: &'b Searcher<'b>,
    count: usize,
    /// The buffer of its queries.
    buffer: usize,
    has_excluded: bool,
}

impl Block<'_> {
    /// Copies rows of the shard as queries; their ids are in `excluded`.
    fn gather(&self, space: &Workspace) -> Result<(), Error> {
        let Searcher { device, shard, sizes, .. } = *self.searcher;
        launch!(
            device,
            gather,
            (self.count as u32, 1, 1),
            256,
            0,
            shard.floats.address,
            space.excluded.address,
            sizes.dim as u32,
            space.queries[self.buffer].address,
        )
    }

    /// Starts a search.
    fn search(&self, space: &Workspace, method: Method<'_>) -> Result<(), Error> {
        let Searcher { device, map, shard, projection, sizes } = *self.searcher;
        let Sizes { dim, k, capacity, .. } = *sizes;
        let count = self.count as u32;
        let strides = match method {
            Method::Repeated(_) => vec![1],
            _ => strides(shard.len, k, capacity),
        };
        let points = projection.zip(space.points.as_ref()).filter(|_| matches!(method, Method::Points));
        let factors = match points {
            Some((projection, points)) => self.project(space, projection, points)?,
            None => {
                prepare(
                    device,
                    map,
                    dim,
                    self.count,
                    space.queries[self.buffer].address,
                    space.halves.address,
                    space.described.address,
                    space.failed.address,
                )?;
                Factors {
                    rows: &shard.halves,
                    described: &shard.described,
                    queries: &space.halves,
                    described_queries: &space.described,
                    width: width(dim),
                }
            }
        };
        for (pass, &stride) in strides.iter().enumerate() {
            let is_first = pass == 0 && !matches!(method, Method::Repeated(_));
            self.pass(space, &factors, stride, is_first)?;
            // The limits by points are not those by distances.
            if points.is_none() || pass + 1 < strides.len() {
                self.refine(space, 0)?;
            }
        }
        if let Some((projection, points)) = points {
            launch!(
                device,
                tighten,
                (count, 1, 1),
                256,
                0,
                shard.floats.address,
                space.queries[self.buffer].address,
                map.scale_address(),
                dim as u32,
                k as u32,
                capacity as u32,
                map.sq_unit(),
                projection.stretch(),
                points.sq_norms.address,
                space.limits.address,
                space.counts.address,
                space.ids.address,
                space.bounds.address,
                space.failed.address,
            )?;
        }
        launch!(
            device,
            rank_candidates,
            (count, 1, 1),
            256,
            (12 * capacity) as u32,
            shard.floats.address,
            space.queries[self.buffer].address,
            map.scale_address(),
            dim as u32,
            k as u32,
            capacity as u32,
            space.counts.address,
            space.ids.address,
            space.failed.address,
            space.nearest_ids.address,
            space.nearest.address,
        )
    }

    /// Starts the projection of the queries.
    fn project<'f>(
        &self,
        space: &Workspace,
        projection: &'f Projection,
        points: &'f QueryPoints,
    ) -> Result<Factors<'f>, Error> {
        let Searcher { device, map, sizes, .. } = *self.searcher;
        for start in (0..self.count).step_by(projection::ROWS) {
            projection.project(
                device,
                map,
                &points.images,
                projection::ROWS.min(self.count - start),
                space.queries[self.buffer].at(start * sizes.dim),
                points.halves.at(start * projection::WIDTH),
                points.described.at(4 * start),
                (points.sq_norms.at(start), space.failed.at(start)),
            )?;
        }
        Ok(Factors {
            rows: &projection.halves,
            described: &projection.described,
            queries: &points.halves,
            described_queries: &points.described,
            width: projection::WIDTH,
        })
    }

    /// Multiplies every `stride`-th row. In the first pass all of them are candidates.
    fn pass(
        &self,
        space: &Workspace,
        factors: &Factors<'_>,
        stride: usize,
        is_first: bool,
    ) -> Result<(), Error> {
        let Searcher { device, shard, sizes, .. } = *self.searcher;
        let (width, per_product) = (factors.width, sizes.rows);
        let bound = Bound::new(width);
        let len = shard.len.div_ceil(stride);
        let count = self.count as u32;
        let entries = if is_first { len as u32 } else { 0 };
        launch!(
            device,
            start_pass,
            (count.div_ceil(256), 1, 1),
            256,
            0,
            count,
            entries,
            space.counts.address
        )?;
        for (i, start) in (0..len).step_by(per_product).enumerate() {
            if i % PRODUCTS_PER_CHECK == PRODUCTS_PER_CHECK - 1 {
                device.synchronize()?;
                checkpoint();
            }
            let n = per_product.min(len - start);
            let product = Product {
                rows: factors.rows.at(start * stride * width),
                n_rows: n,
                row_step: stride * width,
                queries: factors.queries.address,
                n_queries: self.count,
                width,
                tile: space.tile.address,
                line: per_product,
            };
            // SAFETY: the shard has the rows, and the workspace has space for the queries and products of a block.
            unsafe { device.multiply(&product) }?;
            launch!(
                device,
                select_rows,
                ((n as u32).div_ceil(SELECT_THREADS * SELECT_PRODUCTS), count.div_ceil(SELECT_QUERIES), 1),
                SELECT_THREADS,
                0,
                space.tile.address,
                per_product as u32,
                factors.described.address,
                (start * stride) as u32,
                stride as u32,
                n as u32,
                factors.described_queries.address,
                space.limits.address,
                if self.has_excluded { space.excluded.address } else { 0 },
                count,
                bound.gamma,
                bound.distance,
                bound.square,
                sizes.capacity as u32,
                u32::from(is_first),
                start as u32,
                space.counts.address,
                space.ids.address,
                space.bounds.address,
            )?;
            if !is_first && i % PRODUCTS_PER_REFINEMENT == PRODUCTS_PER_REFINEMENT - 1 {
                self.refine(space, sizes.capacity / 2)?;
            }
        }
        Ok(())
    }

    /// Lowers the limits of the queries that have more than `threshold` candidates.
    fn refine(&self, space: &Workspace, threshold: usize) -> Result<(), Error> {
        let Searcher { device, sizes, .. } = *self.searcher;
        launch!(
            device,
            refine,
            (self.count as u32, 1, 1),
            256,
            0,
            sizes.k as u32,
            threshold as u32,
            sizes.capacity as u32,
            space.counts.address,
            space.ids.address,
            space.bounds.address,
            space.limits.address,
            space.failed.address,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_end_with_all_rows_and_expect_lists_that_fit() {
        for (rows, k) in [
            (1, 1),
            (2048, 20),
            (2049, 20),
            (50_000, 20),
            (1_281_167, 20),
            (1_281_167, 1024),
            (4_000_000_000, 1),
        ] {
            let capacity = Sizes::new(8, k, 1, rows).capacity;
            let strides = strides(rows, k, capacity);
            assert_eq!(strides.last(), Some(&1), "{rows} rows");
            assert!(rows.div_ceil(strides[0]) <= capacity, "{rows} rows: {strides:?}");
            for pair in strides.windows(2) {
                assert!(
                    pair[0] > pair[1] && pair[0].div_ceil(pair[1]) * k <= capacity,
                    "{rows} rows: {strides:?}"
                );
            }
        }
    }

    #[test]
    fn halved_blocks_end_at_a_minimum() {
        let mut sizes = Sizes::new(2048, 20, 50_000, 1_281_167);
        assert_eq!((sizes.queries, sizes.rows, sizes.capacity), (8192, 32768, 2048));
        while let Some(half) = sizes.halved() {
            assert!(half.bytes() < sizes.bytes() && half.rows % 4 == 0);
            sizes = half;
        }
        assert!(sizes.queries <= MIN_QUERIES && sizes.bytes() < 120 << 20);
    }
}
