//! All rows of an index on a device, and their updates in place.

use nuq_neighbors::RowParts;

use crate::Error;
use crate::device::CudaDevice;
use crate::projection::Projection;
use crate::search::is_selective;
use crate::shard::{DeviceRescaling, Shard, mark_removed, n_rows};

/// All rows on the device.
pub(crate) struct Resident {
    pub(crate) map: DeviceRescaling,
    pub(crate) shard: Shard,
    /// Projections of the rows; `None` if there are too few rows or columns, if there is no memory for projections, or if, in
    /// a trial with some of the rows as queries, more than an eighth of the searches cannot be answered with projections.
    pub(crate) projection: Option<Projection>,
}

impl Resident {
    /// Copies all rows to a device, with memory for `spare` more rows.
    pub(crate) fn upload(
        device: &CudaDevice,
        map: DeviceRescaling,
        rows: &RowParts<'_>,
        spare: usize,
    ) -> Result<Self, Error> {
        let shard = Shard::upload(device, rows, 0..n_rows(rows), spare, &map)?;
        let projection = selective_projection(device, &map, &shard, rows.dim)?;
        Ok(Self { map, shard, projection })
    }

    /// Copies inserted rows; false if they do not fit into the allocated memory, or if this memory has other owners.
    pub(crate) fn insert(
        &mut self,
        device: &CudaDevice,
        rows: &RowParts<'_>,
        ids: &[u32],
    ) -> Result<bool, Error> {
        let Some(parts) = self.shard.insert(device, &self.map, rows, ids)? else { return Ok(false) };
        match &mut self.projection {
            Some(projection) => projection.insert(device, &self.map, &self.shard, &parts).map(|()| true),
            None => Ok(true),
        }
    }

    /// Marks rows as removed.
    pub(crate) fn remove(&mut self, device: &CudaDevice, ids: &[u32]) -> Result<(), Error> {
        self.shard.remove(device, ids)?;
        if let Some(projection) = &self.projection {
            mark_removed(device, ids, &projection.described)?;
        }
        device.synchronize()
    }
}

/// The projection of the rows, if there are enough rows and columns, if there is memory for it, and if it answers most
/// queries.
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
