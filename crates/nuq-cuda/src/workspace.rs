//! Device memory for one block of queries.

use crate::Error;
use crate::device::{Buffer, CudaDevice};
use crate::projection::{self, Images};
use crate::shard::width;
use crate::sizes::Sizes;

/// Device memory for one block of queries, its candidates and its neighbors.
pub(crate) struct Workspace {
    /// Buffers for the queries of this block and of the next one. They are not used for consecutive queries that are already on the device.
    pub(crate) queries: [Buffer<f32>; 2],
    pub(crate) halves: Buffer<u16>,
    pub(crate) described: Buffer<f32>,
    pub(crate) excluded: Buffer<u32>,
    pub(crate) limits: Buffer<f32>,
    pub(crate) counts: Buffer<u32>,
    pub(crate) failed: Buffer<u32>,
    pub(crate) ids: Buffer<u32>,
    pub(crate) bounds: Buffer<f32>,
    pub(crate) tile: Buffer<u16>,
    pub(crate) nearest_ids: Buffer<u32>,
    pub(crate) nearest: Buffer<f64>,
    pub(crate) points: Option<QueryPoints>,
}

/// Projections of the queries of a block.
pub(crate) struct QueryPoints {
    pub(crate) halves: Buffer<u16>,
    pub(crate) described: Buffer<f32>,
    pub(crate) sq_norms: Buffer<f64>,
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
