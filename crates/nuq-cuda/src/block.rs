//! The kernels of a search, for one block of queries. `search.rs` explains passes, scores and limits.

use cudarc::driver::DeviceRepr;
use nuq_neighbors::cancel::checkpoint;

use crate::Error;
use crate::bound::Bound;
use crate::cublas::{Element, Product};
use crate::device::{Buffer, launch};
use crate::projection::{self, Projection};
use crate::search::{Method, Searcher};
use crate::shard::{prepare, width};
use crate::sizes::{Sizes, strides};
use crate::workspace::{QueryPoints, Workspace};

/// Sizes of the kernel `select_rows`: queries per thread block, threads per thread block, and products per thread.
const SELECT_QUERIES: u32 = 64;
const SELECT_THREADS: u32 = 256;
const SELECT_PRODUCTS: u32 = 4;
/// Number of matrix products between two check points for cancellation.
const PRODUCTS_PER_CHECK: usize = 8;
/// Number of matrix products between two refinements (see [`Block::refine`]), in passes after the first one.
const PRODUCTS_PER_REFINEMENT: usize = 2;

/// Rows and queries, or their projections, in `f16`, and for each of them the four numbers that describe its rounding (see
/// `kernels/prepare.cu`).
struct Factors<'f> {
    rows: &'f Buffer<u16>,
    described: &'f Buffer<f32>,
    queries: &'f Buffer<u16>,
    described_queries: &'f Buffer<f32>,
    width: usize,
}

/// One block of queries.
pub(crate) struct Block<'b> {
    pub(crate) searcher: &'b Searcher<'b>,
    pub(crate) count: usize,
    /// The device address of the first query.
    pub(crate) queries: u64,
    /// Whether `excluded` of the [`Workspace`] has, for each query, the id of a row that is not searched.
    pub(crate) has_excluded: bool,
}

/// The arguments that the kernels for distances share: `Search` in `kernels/rank.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct SearchArguments {
    rows: u64,
    queries: u64,
    scale: u64,
    counts: u64,
    ids: u64,
    failed: u64,
    dim: u32,
    k: u32,
    capacity: u32,
}

// SAFETY: the layout is equal to the layout of the kernels' structure: six addresses and three integers of 32 bits.
unsafe impl DeviceRepr for SearchArguments {}

impl Block<'_> {
    /// Starts the search of all queries of the block.
    pub(crate) fn search(&self, space: &Workspace, method: Method<'_>) -> Result<(), Error> {
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
                    self.queries,
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
            // Passes that multiply points (projections) reduce the limits of the scores of points. These are no limits of the scores of rows. So after the last of these passes, the kernel `tighten` below replaces the refinement: it reduces the candidates by
            // distances of rows.
            if points.is_none() || pass + 1 < strides.len() {
                self.refine(space, 0)?;
            }
        }
        let arguments = SearchArguments {
            rows: shard.floats.at(0),
            queries: self.queries,
            scale: map.scale_address(),
            counts: space.counts.address,
            ids: space.ids.address,
            failed: space.failed.address,
            dim: dim as u32,
            k: k as u32,
            capacity: capacity as u32,
        };
        if let Some((projection, points)) = points {
            launch!(
                device,
                tighten,
                (count, 1, 1),
                256,
                0,
                arguments,
                map.sq_unit(),
                projection.stretch(),
                points.sq_norms.address,
                space.limits.address,
                space.bounds.address,
            )?;
        }
        launch!(
            device,
            rank_candidates,
            (count, 1, 1),
            256,
            (12 * capacity) as u32,
            arguments,
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
                self.queries + 4 * (start * sizes.dim) as u64,
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

    /// Multiplies every `stride`-th row with the queries, and selects candidates. In the first pass all of these rows are candidates.
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
                element: Element::F16,
                is_transposed: true,
                m: n,
                n: self.count,
                k: width,
                a: (factors.rows.at(start * stride * width), stride * width),
                b: (factors.queries.address, width),
                c: (space.tile.address, per_product),
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
