//! Device memory for one block of queries.

use crate::Error;
use crate::device::{Buffer, CudaDevice};
use crate::projection::{self, Images};
use crate::shard::width;
use crate::sizes::Sizes;

/// Device memory for one block of queries, its candidates and its neighbors.
pub(crate) struct Workspace {
    /// Buffers for the queries of this block and of the next one. Queries that lie in one piece in device memory are read from there,
    /// without these buffers.
    pub(crate) queries: [Buffer<f32>; 2],
    /// The queries of this block, rescaled and rounded to `f16`.
    pub(crate) halves: Buffer<u16>,
    /// Four numbers per query about its rounding to `halves`, see `kernels/prepare.cu`.
    pub(crate) described: Buffer<f32>,
    /// For each query, the row of the shard that cannot be its neighbor; `u32::MAX` if this row is not in the shard.
    pub(crate) excluded: Buffer<u32>,
    /// The limit of each query: at least k rows have a score of at most the limit.
    pub(crate) limits: Buffer<f32>,
    /// The number of rows that were appended to the candidate list of each query.
    pub(crate) counts: Buffer<u32>,
    /// One flag per query: whether the query has no valid result.
    pub(crate) failed: Buffer<u32>,
    /// The rows in the candidate list of each query.
    pub(crate) ids: Buffer<u32>,
    /// A lower and an upper bound of the score of each candidate.
    pub(crate) bounds: Buffer<f32>,
    /// The products of the queries with the rows of one matrix product.
    pub(crate) tile: Buffer<u16>,
    /// The k nearest rows of each query.
    pub(crate) nearest_ids: Buffer<u32>,
    /// The squared distances of `nearest_ids`.
    pub(crate) nearest: Buffer<f64>,
    /// `None` if the search uses no projection.
    pub(crate) points: Option<QueryPoints>,
}

/// Projections of the queries of a block.
pub(crate) struct QueryPoints {
    pub(crate) halves: Buffer<u16>,
    /// Four numbers per projection about its rounding to `halves`; `kernels/prepare.cu` lists them.
    pub(crate) described: Buffer<f32>,
    /// The squared norm of each projection.
    pub(crate) sq_norms: Buffer<f64>,
    /// Memory for the computation of the projections.
    pub(crate) images: Images,
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
    pub(crate) fn new(device: &CudaDevice, sizes: &Sizes, has_points: bool) -> Result<Self, Error> {
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
