//! Training rows in the memory of a device.

use nuq_neighbors::cancel::checkpoint;
use nuq_neighbors::{RowParts, RowValues};

use crate::Error;
use crate::device::{Buffer, CudaDevice, launch};

/// The map of rows to the space of scores: `b_j = (x_j − center_j) · factors_j`.
///
/// Any center and any positive power of two give correct results; they affect only the number of candidates. Both come
/// from a sample, by ranks, so that single distant rows have no effect.
pub(crate) struct Rescaling {
    pub(crate) center: Vec<f32>,
    pub(crate) factors: Vec<f64>,
    /// The power of two in all factors.
    pub(crate) power: f64,
}

/// Rows of the sample.
const SAMPLE: usize = 257;
/// The share of a column's values at each end that the mean leaves out.
const TRIMMED: f64 = 0.05;

impl Rescaling {
    pub(crate) fn of(rows: &RowParts<'_>) -> Self {
        let (dim, len) = (rows.dim, n_rows(rows));
        let count = SAMPLE.min(len);
        let sample: Vec<Vec<f32>> =
            (0..count).map(|i| block(rows, i * len / count..i * len / count + 1)).collect();
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
        let inverse: Vec<f64> = match &rows.scale {
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

/// The number of ids.
pub(crate) fn n_rows(rows: &RowParts<'_>) -> usize {
    match &rows.values {
        RowValues::F32(values) => values.len() / rows.dim,
        RowValues::F16(values) => values.len() / rows.dim,
    }
}

/// The values of consecutive ids.
fn block(rows: &RowParts<'_>, ids: std::ops::Range<usize>) -> Vec<f32> {
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
    pub(crate) floats: Buffer<f32>,
    pub(crate) halves: Buffer<u16>,
    pub(crate) described: Buffer<f32>,
    /// The removed rows, counted from the first row.
    removed: Vec<u32>,
}

/// The number of values per copy. There is a check point for cancellation before each copy.
const COPIED: usize = 1 << 24;

impl Shard {
    /// Copies rows to a device and prepares them.
    pub(crate) fn upload(
        device: &CudaDevice,
        rows: &RowParts<'_>,
        ids: std::ops::Range<usize>,
        map: &DeviceRescaling,
    ) -> Result<Self, Error> {
        let (dim, width, len) = (rows.dim, width(rows.dim), ids.len());
        let mut floats = device.allocate::<f32>(len * dim)?;
        let halves = device.allocate::<u16>(len * width)?;
        let described = device.allocate::<f32>(4 * len)?;
        let per_copy = (COPIED / dim).max(1);
        for start in (0..len).step_by(per_copy) {
            checkpoint();
            let n = per_copy.min(len - start);
            let from = ids.start + start;
            match &rows.values {
                RowValues::F32(values) => {
                    device.write(&values[from * dim..(from + n) * dim], &mut floats, start * dim)?;
                }
                RowValues::F16(_) => device.write(&block(rows, from..from + n), &mut floats, start * dim)?,
            }
            prepare(
                device,
                map,
                dim,
                n,
                floats.at(start * dim),
                halves.at(start * width),
                described.at(4 * start),
                0,
            )?;
        }
        let removed: Vec<u32> = rows
            .removed
            .iter()
            .filter(|&&id| ids.contains(&(id as usize)))
            .map(|&id| id - ids.start as u32)
            .collect();
        let shard = Self { first: ids.start, len, floats, halves, described, removed };
        shard.mark_removed(device, &shard.described)?;
        device.synchronize()?;
        Ok(shard)
    }

    /// Marks removed rows in descriptions of all rows.
    pub(crate) fn mark_removed(&self, device: &CudaDevice, described: &Buffer<f32>) -> Result<(), Error> {
        if self.removed.is_empty() {
            return Ok(());
        }
        let buffer = device.upload(&self.removed)?;
        let count = self.removed.len() as u32;
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
        let Rescaling { center, factors, power } = Rescaling::of(rows);
        let scale = rows.scale.as_ref().map(|scale| device.upload(scale)).transpose()?;
        Ok(Self { center: device.upload(&center)?, factors: device.upload(&factors)?, scale, power })
    }

    /// The rescaled squared distance per unit of squared distance.
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

/// Starts the kernel that rounds rows to halves. `failed` is an address or zero.
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
    use nuq_neighbors::SharedSlice;

    #[test]
    fn a_distant_row_does_not_change_the_rescaling_much() {
        let mut values: Vec<f32> = (0..2000).map(|i| (i % 7) as f32 + 1000.0).collect();
        values[1] = 1e30;
        let rows = RowParts {
            dim: 2,
            values: RowValues::F32(SharedSlice::from(values)),
            removed: vec![],
            scale: None,
        };
        let Rescaling { center, factors, .. } = Rescaling::of(&rows);
        assert!(center.iter().all(|m| (1000.0..1007.0).contains(m)), "{center:?}");
        assert!(factors.iter().all(|c| (0.1..=1.0).contains(c) && c.log2().fract() == 0.0), "{factors:?}");
    }

    #[test]
    fn equal_rows_have_a_valid_rescaling() {
        let values = RowValues::F32(SharedSlice::from(vec![2.5f32; 6]));
        let rows = RowParts { dim: 3, values, removed: vec![], scale: Some(vec![2.0, 4.0, 8.0]) };
        let Rescaling { center, factors, .. } = Rescaling::of(&rows);
        assert_eq!((center, factors), (vec![2.5; 3], vec![0.5, 0.25, 0.125]));
    }
}
