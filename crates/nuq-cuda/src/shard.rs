//! Training rows in the memory of a device.

use std::ops::Range;

use nuq_neighbors::cancel::checkpoint;
use nuq_neighbors::{RowParts, RowValues};

use crate::Error;
use crate::array::{Floats, floats_on};
use crate::device::{Buffer, CudaDevice, launch};

/// The map of rows to the space in which scores are computed (see `bound.rs`): `b_j = (x_j − center_j) · factors_j`.
///
/// Any center and any positive power of two give correct results; they affect only the number of candidates. The center is a trimmed
/// mean of a sample of rows, and the power is computed from a median over the sample, so that single distant rows have little effect.
pub(crate) struct Rescaling {
    pub(crate) center: Vec<f32>,
    /// `power` divided by the scale of each column.
    pub(crate) factors: Vec<f64>,
    /// The power of two in all factors.
    pub(crate) power: f64,
}

/// The number of rows of the sample.
const SAMPLE: usize = 257;
/// The share of the smallest and of the largest values of a column that the trimmed mean leaves out.
const TRIMMED: f64 = 0.05;

impl Rescaling {
    /// The ids of the sample.
    fn sample_ids(len: usize) -> Vec<u32> {
        let count = SAMPLE.min(len);
        (0..count).map(|i| (i * len / count) as u32).collect()
    }

    /// The rescaling for the rows from which `sample` was taken.
    fn of(sample: &[f32], dim: usize, scale: Option<&[f64]>) -> Self {
        let sample: Vec<&[f32]> = sample.chunks_exact(dim).collect();
        let count = sample.len();
        let mut column = vec![0f32; count];
        let center: Vec<f32> = (0..dim)
            .map(|j| {
                column.iter_mut().zip(&sample).for_each(|(value, row)| *value = row[j]);
                column.sort_unstable_by(f32::total_cmp);
                let cut = (TRIMMED * count as f64) as usize;
                let middle = &column[cut..count - cut];
                (middle.iter().map(|&v| f64::from(v)).sum::<f64>() / middle.len() as f64) as f32
            })
            .collect();
        let inverse: Vec<f64> = match scale {
            Some(scale) => scale.iter().map(|s| 1.0 / s).collect(),
            None => vec![1.0; dim],
        };
        let mut sizes: Vec<f64> = sample
            .iter()
            .map(|row| {
                let offsets = row.iter().zip(&center).zip(&inverse);
                offsets.map(|((&x, &m), c)| ((f64::from(x) - f64::from(m)) * c).abs()).fold(0.0, f64::max)
            })
            .collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let size = sizes[count / 2];
        let power = if size > 0.0 { (-size.log2().ceil()).exp2() } else { 1.0 };
        Self { center, factors: inverse.iter().map(|c| c * power).collect(), power }
    }
}

/// The number of ids, including the ids of removed rows.
pub(crate) fn n_rows(rows: &RowParts<'_>) -> usize {
    match &rows.values {
        RowValues::F32(values) => values.len() / rows.dim,
        RowValues::F16(values) => values.len() / rows.dim,
    }
}

/// The values of consecutive ids.
fn block(rows: &RowParts<'_>, ids: Range<usize>) -> Vec<f32> {
    let cells = ids.start * rows.dim..ids.end * rows.dim;
    match &rows.values {
        RowValues::F32(values) => values[cells].to_vec(),
        RowValues::F16(values) => nuq_neighbors::widened(&values[cells]),
    }
}

/// The number of halves per row: a multiple of 16, so that rows are aligned.
pub(crate) fn width(dim: usize) -> usize {
    dim.next_multiple_of(16)
}

/// The memory of one row on a device in bytes.
pub(crate) fn row_bytes(dim: usize) -> usize {
    4 * dim + 2 * width(dim) + 16
}

/// Consecutive rows on a device: in `f32` for distances, in `f16` for products, and four numbers that describe the
/// rounding of each row (see `kernels/prepare.cu`).
pub(crate) struct Shard {
    /// The id of the first row.
    pub(crate) first: usize,
    /// The number of ids.
    pub(crate) len: usize,
    /// The number of ids for which there is memory.
    pub(crate) capacity: usize,
    pub(crate) floats: Floats,
    pub(crate) halves: Buffer<u16>,
    pub(crate) described: Buffer<f32>,
    /// The removed rows, counted from the first row.
    removed: Vec<u32>,
}

/// The number of values per copy. There is a check point for cancellation before each copy.
const COPIED: usize = 1 << 24;

impl Shard {
    /// Copies rows to a device and prepares them, with memory for `spare` more rows. Rows that are on the device already are not
    /// copied if there are no spare rows.
    pub(crate) fn upload(
        device: &CudaDevice,
        rows: &RowParts<'_>,
        ids: Range<usize>,
        spare: usize,
        map: &DeviceRescaling,
    ) -> Result<Self, Error> {
        let (dim, len) = (rows.dim, ids.len());
        let capacity = len + spare;
        let shared = floats_of(device, rows).filter(|_| spare == 0).map(|all| all.skip(ids.start * dim));
        let is_shared = shared.is_some();
        let floats = match shared {
            Some(floats) => floats,
            None => Floats::new(device.allocate(capacity * dim)?),
        };
        let halves = device.allocate(capacity * width(dim))?;
        let described = device.allocate(4 * capacity)?;
        let removed: Vec<u32> = rows
            .removed
            .iter()
            .filter(|&&id| ids.contains(&(id as usize)))
            .map(|&id| id - ids.start as u32)
            .collect();
        let mut shard = Self { first: ids.start, len, capacity, floats, halves, described, removed };
        let per_copy = (COPIED / dim).max(1);
        for start in (0..len).step_by(per_copy) {
            checkpoint();
            let part = start..len.min(start + per_copy);
            if !is_shared {
                shard.write(device, rows, part.clone())?;
            }
            shard.prepare(device, map, dim, part)?;
        }
        mark_removed(device, &shard.removed, &shard.described)?;
        device.synchronize()?;
        Ok(shard)
    }

    /// Copies consecutive rows to their places. The shard is the only owner of its memory.
    fn write(&mut self, device: &CudaDevice, rows: &RowParts<'_>, part: Range<usize>) -> Result<(), Error> {
        let ids = self.first + part.start..self.first + part.end;
        let at = part.start * rows.dim;
        let floats = self.floats.exclusive().expect("the shard owns memory to which it writes");
        match &rows.values {
            RowValues::F32(values) => {
                device.write(&values[ids.start * rows.dim..ids.end * rows.dim], floats, at)
            }
            RowValues::F16(_) => device.write(&block(rows, ids), floats, at),
        }
    }

    /// Starts the kernel that rounds consecutive rows to halves.
    fn prepare(
        &self,
        device: &CudaDevice,
        map: &DeviceRescaling,
        dim: usize,
        part: Range<usize>,
    ) -> Result<(), Error> {
        let (start, n) = (part.start, part.len());
        prepare(
            device,
            map,
            dim,
            n,
            self.floats.at(start * dim),
            self.halves.at(start * width(dim)),
            self.described.at(4 * start),
            0,
        )
    }

    /// Copies rows with new values, and returns their ids as ranges. `None` if there is no memory for them, or if the memory has
    /// other owners. Only for a shard that has all rows of the index.
    pub(crate) fn insert(
        &mut self,
        device: &CudaDevice,
        map: &DeviceRescaling,
        rows: &RowParts<'_>,
        ids: &[u32],
    ) -> Result<Option<Vec<Range<usize>>>, Error> {
        let len = n_rows(rows);
        if len > self.capacity || self.floats.exclusive().is_none() {
            return Ok(None);
        }
        let parts = ranges(ids);
        for part in &parts {
            self.write(device, rows, part.clone())?;
            self.prepare(device, map, rows.dim, part.clone())?;
        }
        self.len = len;
        self.removed.retain(|id| rows.removed.binary_search(id).is_ok());
        device.synchronize()?;
        Ok(Some(parts))
    }

    /// Marks rows as removed. Only for a shard that has all rows of the index.
    pub(crate) fn remove(&mut self, device: &CudaDevice, ids: &[u32]) -> Result<(), Error> {
        self.removed.extend(ids);
        mark_removed(device, ids, &self.described)
    }

    /// Marks the removed rows in `described`, which has the four numbers of all rows.
    pub(crate) fn mark_removed(&self, device: &CudaDevice, described: &Buffer<f32>) -> Result<(), Error> {
        mark_removed(device, &self.removed, described)
    }
}

/// The rows in the memory of this device, if they are there.
fn floats_of(device: &CudaDevice, rows: &RowParts<'_>) -> Option<Floats> {
    match &rows.values {
        RowValues::F32(values) => floats_on(device, values),
        RowValues::F16(_) => None,
    }
}

/// Whether the rows are in the memory of this device already.
pub(crate) fn is_on(device: &CudaDevice, rows: &RowParts<'_>) -> bool {
    floats_of(device, rows).is_some()
}

/// Ascending ids as ranges of consecutive ids.
fn ranges(ids: &[u32]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for id in ids.iter().map(|&id| id as usize) {
        match ranges.last_mut() {
            Some(last) if last.end == id => last.end += 1,
            _ => ranges.push(id..id + 1),
        }
    }
    ranges
}

/// Marks rows as removed in `described`, which has the four numbers of all rows.
pub(crate) fn mark_removed(device: &CudaDevice, ids: &[u32], described: &Buffer<f32>) -> Result<(), Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let (buffer, count) = (device.upload(ids)?, ids.len() as u32);
    launch!(
        device,
        remove_rows,
        (count.div_ceil(256), 1, 1),
        256,
        0,
        buffer.address,
        count,
        described.address
    )
}

/// A rescaling on a device, with the scale of the columns.
pub(crate) struct DeviceRescaling {
    center: Buffer<f32>,
    factors: Buffer<f64>,
    scale: Option<Buffer<f64>>,
    power: f64,
}

impl DeviceRescaling {
    pub(crate) fn upload(device: &CudaDevice, rows: &RowParts<'_>) -> Result<Self, Error> {
        let ids = Rescaling::sample_ids(n_rows(rows));
        let sample = match floats_of(device, rows) {
            Some(floats) => device.gathered(&floats, &ids, rows.dim)?,
            None => ids.iter().flat_map(|&id| block(rows, id as usize..id as usize + 1)).collect(),
        };
        let Rescaling { center, factors, power } = Rescaling::of(&sample, rows.dim, rows.scale.as_deref());
        let scale = rows.scale.as_ref().map(|scale| device.upload(scale)).transpose()?;
        Ok(Self { center: device.upload(&center)?, factors: device.upload(&factors)?, scale, power })
    }

    /// The ratio of rescaled squared distances to squared distances.
    pub(crate) fn sq_unit(&self) -> f64 {
        self.power * self.power
    }

    /// Starts the kernel that writes rescaled rows in `f64`.
    pub(crate) fn rescale(
        &self,
        device: &CudaDevice,
        dim: usize,
        n: usize,
        floats: u64,
        rescaled: &Buffer<f64>,
    ) -> Result<(), Error> {
        launch!(
            device,
            rescale,
            (n as u32, 1, 1),
            256,
            0,
            floats,
            self.center.address,
            self.factors.address,
            dim as u32,
            rescaled.address,
        )
    }

    /// The device address of the scale, or zero.
    pub(crate) fn scale_address(&self) -> u64 {
        self.scale.as_ref().map_or(0, |scale| scale.address)
    }
}

/// Starts the kernel that rounds rows or queries to halves. For queries, `failed` is the device address of one flag per query, which is
/// set if the norm of the rescaled query is too large; for rows, it is zero.
#[expect(clippy::too_many_arguments, reason = "device addresses of one kernel")]
pub(crate) fn prepare(
    device: &CudaDevice,
    map: &DeviceRescaling,
    dim: usize,
    n: usize,
    floats: u64,
    halves: u64,
    described: u64,
    failed: u64,
) -> Result<(), Error> {
    let threads = (dim as u32).next_multiple_of(32).min(256);
    launch!(
        device,
        prepare,
        (n as u32, 1, 1),
        threads,
        0,
        floats,
        map.center.address,
        map.factors.address,
        dim as u32,
        width(dim) as u32,
        halves,
        described,
        failed,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distant_row_does_not_change_the_rescaling_much() {
        let mut values: Vec<f32> = (0..2 * SAMPLE).map(|i| (i % 7) as f32 + 1000.0).collect();
        values[1] = 1e30;
        let Rescaling { center, factors, .. } = Rescaling::of(&values, 2, None);
        assert!(center.iter().all(|m| (1000.0..1007.0).contains(m)), "{center:?}");
        assert!(factors.iter().all(|c| (0.1..=1.0).contains(c) && c.log2().fract() == 0.0), "{factors:?}");
    }

    #[test]
    fn equal_rows_have_a_valid_rescaling() {
        let Rescaling { center, factors, .. } = Rescaling::of(&[2.5f32; 6], 3, Some(&[2.0, 4.0, 8.0]));
        assert_eq!((center, factors), (vec![2.5; 3], vec![0.5, 0.25, 0.125]));
    }

    #[test]
    fn samples_are_spread_over_all_rows() {
        assert_eq!(Rescaling::sample_ids(3), [0, 1, 2]);
        let ids = Rescaling::sample_ids(1000);
        assert!(ids.len() == SAMPLE && ids[0] == 0 && ids[SAMPLE - 1] < 1000 && ids.is_sorted());
    }

    #[test]
    fn consecutive_ids_are_one_range() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), [1..4, 7..8, 9..11]);
        assert!(ranges(&[]).is_empty());
    }
}
