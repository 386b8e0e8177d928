//! Projections of the rows of a shard onto their principal axes.
//!
//! If a few axes account for most of the variance, as in the embeddings of most networks, the distances of projections exclude
//! nearly all rows with a fraction of the multiplications (see `kernels/project.cu`). The choice of the axes affects only the
//! speed: the results are correct for any axes. Queries for which the projections exclude too few rows are searched in all columns.

use std::ops::Range;

use nuq_neighbors::SeededRng;
use nuq_neighbors::cancel::checkpoint;

use crate::Error;
use crate::cublas::{Element, Product};
use crate::device::{Buffer, CudaDevice, launch};
use crate::shard::{DeviceRescaling, Shard};

/// The number of axes. The projection of a row is a point with [`WIDTH`] coordinates: the length of the part of the row outside the axes,
/// and one coordinate per axis.
const AXES: usize = WIDTH - 1;
/// The number of halves per point.
pub(crate) const WIDTH: usize = 128;
/// With fewer columns or rows, products of all columns are as fast as projections.
const MIN_DIM: usize = 384;
const MIN_ROWS: usize = 16_384;
/// The number of rows from which the axes are computed, and the number of subspace iterations.
const SAMPLE: usize = 4096;
const ITERATIONS: usize = 3;
/// The number of rows that are projected together. It is limited, because each rescaled value takes 8 bytes.
pub(crate) const ROWS: usize = 2048;
/// The unit roundoff of `f64`.
const U: f64 = f64::EPSILON / 2.0;

/// Points of all rows of a shard.
pub(crate) struct Projection {
    axes: Buffer<f64>,
    pub(crate) halves: Buffer<u16>,
    /// Four numbers per point about its rounding to `halves`; `kernels/prepare.cu` lists them.
    pub(crate) described: Buffer<f32>,
    dim: usize,
    /// A bound on `‖QᵀQ − I‖` of the axes.
    deviation: f64,
}

/// Device memory for the projection of [`ROWS`] rows.
pub(crate) struct Images {
    /// The rescaled rows.
    rescaled: Buffer<f64>,
    /// The products of the rescaled rows with the axes.
    images: Buffer<f64>,
}

impl Images {
    pub(crate) fn new(device: &CudaDevice, dim: usize) -> Result<Self, Error> {
        Ok(Self { rescaled: device.allocate(ROWS * dim)?, images: device.allocate(ROWS * AXES)? })
    }

    /// The memory in bytes.
    pub(crate) fn bytes(dim: usize) -> usize {
        8 * ROWS * (dim + AXES)
    }
}

/// The memory of the point of one row in bytes.
pub(crate) const POINT_BYTES: usize = 2 * WIDTH + 16;

impl Projection {
    /// Whether projections may be faster for rows of this size.
    pub(crate) fn is_useful(rows: usize, dim: usize) -> bool {
        rows >= MIN_ROWS && dim >= MIN_DIM
    }

    /// Computes axes from a sample and projects all rows.
    pub(crate) fn new(
        device: &CudaDevice,
        map: &DeviceRescaling,
        shard: &Shard,
        dim: usize,
    ) -> Result<Self, Error> {
        let (basis, deviation) = axes(device, map, shard, dim)?;
        let points = Self {
            axes: device.upload(&basis)?,
            halves: device.allocate(shard.capacity * WIDTH)?,
            described: device.allocate(4 * shard.capacity)?,
            dim,
            deviation,
        };
        let space = Images::new(device, dim)?;
        for (i, start) in (0..shard.len).step_by(ROWS).enumerate() {
            points.project_rows(device, map, shard, &space, start..shard.len.min(start + ROWS))?;
            if i % 64 == 0 {
                device.synchronize()?;
                checkpoint();
            }
        }
        shard.mark_removed(device, &points.described)?;
        device.synchronize()?;
        Ok(points)
    }

    /// Projects rows of the shard that have new values.
    pub(crate) fn insert(
        &mut self,
        device: &CudaDevice,
        map: &DeviceRescaling,
        shard: &Shard,
        parts: &[Range<usize>],
    ) -> Result<(), Error> {
        let space = Images::new(device, self.dim)?;
        for part in parts {
            for start in part.clone().step_by(ROWS) {
                self.project_rows(device, map, shard, &space, start..part.end.min(start + ROWS))?;
            }
        }
        device.synchronize()
    }

    /// Starts the projection of at most [`ROWS`] rows of the shard.
    fn project_rows(
        &self,
        device: &CudaDevice,
        map: &DeviceRescaling,
        shard: &Shard,
        space: &Images,
        part: Range<usize>,
    ) -> Result<(), Error> {
        let start = part.start;
        let floats = shard.floats.at(start * self.dim);
        let (halves, described) = (self.halves.at(start * WIDTH), self.described.at(4 * start));
        self.project(device, map, space, part.len(), floats, halves, described, (0, 0))
    }

    /// Starts the projection of at most [`ROWS`] rows. `sq_norms` and `failed` are addresses for queries, zero for rows.
    #[expect(clippy::too_many_arguments, reason = "device addresses of one kernel")]
    pub(crate) fn project(
        &self,
        device: &CudaDevice,
        map: &DeviceRescaling,
        space: &Images,
        n: usize,
        floats: u64,
        halves: u64,
        described: u64,
        (sq_norms, failed): (u64, u64),
    ) -> Result<(), Error> {
        map.rescale(device, self.dim, n, floats, &space.rescaled)?;
        let product = Product {
            element: Element::F64,
            is_transposed: true,
            m: AXES,
            n,
            k: self.dim,
            a: (self.axes.address, self.dim),
            b: (space.rescaled.address, self.dim),
            c: (space.images.address, AXES),
        };
        // SAFETY: the buffers have space for `ROWS` rows and all axes.
        unsafe { device.multiply(&product) }?;
        let (d, p) = (self.dim as f64, AXES as f64);
        let square_error = (4.0 * d + 32.0) * U * (1.0 + p.sqrt()) + 2.0 * self.deviation;
        let product_error = (d + 8.0) * (p.sqrt() + 1.0) * 2.0 * U;
        launch!(
            device,
            prepare_points,
            (n as u32, 1, 1),
            256,
            0,
            space.rescaled.address,
            space.images.address,
            self.dim as u32,
            AXES as u32,
            WIDTH as u32,
            square_error,
            product_error,
            halves,
            described,
            sq_norms,
            failed,
        )
    }

    /// A bound on the ratio of the squared distance of two points to the squared distance of their rows. The bound includes the rounding of
    /// distances in `f64`.
    pub(crate) fn stretch(&self) -> f64 {
        let rounding = (self.dim as f64 + 32.0) * 4.0 * f64::EPSILON;
        1.0 + self.deviation * (1.0 + self.deviation) + rounding
    }
}

/// Computes axes from a sample of rows by subspace iteration. Returns the axes, column-major, and a bound on their deviation from
/// orthonormality.
fn axes(
    device: &CudaDevice,
    map: &DeviceRescaling,
    shard: &Shard,
    dim: usize,
) -> Result<(Vec<f64>, f64), Error> {
    let n = SAMPLE.min(shard.len);
    let ids: Vec<u32> = (0..n).map(|i| (i * shard.len / n) as u32).collect();
    let (ids, floats) = (device.upload(&ids)?, device.allocate::<f32>(n * dim)?);
    device.gather(&shard.floats, &ids, n, dim, &floats)?;
    let sample = device.allocate::<f64>(n * dim)?;
    map.rescale(device, dim, n, floats.address, &sample)?;
    let images = device.allocate::<f64>(n * AXES)?;
    let mut rng = SeededRng::new(0);
    let mut basis: Vec<f64> = (0..dim * AXES).map(|_| rng.normal()).collect();
    let mut buffer = device.allocate::<f64>(dim * AXES)?;
    for iteration in 0..ITERATIONS {
        checkpoint();
        orthonormalize(&mut basis, dim);
        device.write(&basis, &mut buffer, 0)?;
        let to_images = Product {
            element: Element::F64,
            is_transposed: true,
            m: n,
            n: AXES,
            k: dim,
            a: (sample.address, dim),
            b: (buffer.address, dim),
            c: (images.address, n),
        };
        let to_axes =
            Product { is_transposed: false, m: dim, k: n, b: to_images.c, c: to_images.b, ..to_images };
        // SAFETY: the buffers have the sizes of the products.
        unsafe {
            device.multiply(&to_images)?;
            device.multiply(&to_axes)?;
        }
        device.read(&buffer, &mut basis)?;
        if iteration + 1 == ITERATIONS {
            orthonormalize(&mut basis, dim);
            orthonormalize(&mut basis, dim);
        }
    }
    let deviation = deviation(&basis, dim);
    Ok((basis, deviation))
}

/// Gram-Schmidt orthonormalization of the columns of a matrix. A column that depends linearly on earlier ones becomes zero.
fn orthonormalize(columns: &mut [f64], dim: usize) {
    for i in 0..columns.len() / dim {
        let (before, rest) = columns.split_at_mut(i * dim);
        let column = &mut rest[..dim];
        let size = dot(column, column).sqrt();
        for other in before.chunks_exact(dim) {
            let product = dot(other, column);
            column.iter_mut().zip(other).for_each(|(c, o)| *c -= product * o);
        }
        let norm = dot(column, column).sqrt();
        let factor = if norm > 1e-10 * size && norm.is_finite() { 1.0 / norm } else { 0.0 };
        column.iter_mut().for_each(|c| *c *= factor);
    }
}

/// A bound on `‖QᵀQ − I‖`. A column of zeros counts as no deviation, because it does not lengthen a projection.
fn deviation(columns: &[f64], dim: usize) -> f64 {
    let mut sum = 0.0;
    for (i, a) in columns.chunks_exact(dim).enumerate() {
        for (j, b) in columns[..(i + 1) * dim].chunks_exact(dim).enumerate() {
            let product = dot(a, b);
            let error = if i != j || product == 0.0 { product } else { product - 1.0 };
            sum += error * error * if i == j { 1.0 } else { 2.0 };
        }
    }
    sum.sqrt() + 2.0 * dim as f64 * (columns.len() / dim) as f64 * U
}

/// The inner product, in eight independent sums.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_chunks, a_rest) = a.as_chunks::<8>();
    let (b_chunks, b_rest) = b.as_chunks::<8>();
    let mut sums = [0f64; 8];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orthonormalized_columns_have_a_small_deviation() {
        let (dim, count) = (50, 7);
        let mut rng = SeededRng::new(1);
        let mut columns: Vec<f64> = (0..dim * count).map(|_| rng.normal()).collect();
        // A column that depends on others.
        for j in 0..dim {
            columns[3 * dim + j] = columns[j] + 2.0 * columns[dim + j];
        }
        orthonormalize(&mut columns, dim);
        orthonormalize(&mut columns, dim);
        assert!(columns[3 * dim..4 * dim].iter().all(|&c| c == 0.0));
        assert!(deviation(&columns, dim) < 1e-12, "{}", deviation(&columns, dim));
        columns[0] += 0.1;
        assert!(deviation(&columns, dim) > 1e-3);
    }
}
