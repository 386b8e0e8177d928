//! Projection of rescaled rows onto the principal axes of the training rows.
//!
//! A row b becomes the point `(‖b⊥‖, Qᵀb)`: its coordinates on p axes, which are the columns of Q, and the length of the rest
//! `b⊥ = b − QQᵀb`. For two rows a and b with `δ = a − b`,
//!
//! ```text
//! (‖a⊥‖ − ‖b⊥‖)² + ‖Qᵀδ‖² ≤ ‖δ⊥‖² + ‖Qᵀδ‖² = ‖δ‖² + δᵀQ(QᵀQ − I)Qᵀδ ≤ (1 + η(1 + η)) ‖δ‖²
//! ```
//!
//! with `η = ‖QᵀQ − I‖`. Any matrix Q with a small η gives a valid bound: the axes affect only the speed.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};

use super::linear_algebra::{eigenvectors, orthonormal, product};
use super::rescaler::Rescaler;
use crate::cancel::checkpoint;
use crate::{RowStorage, SeededRng, StoredRows};

/// Axes, and the rescaling of rows before the projection.
pub(super) struct Axes {
    /// A row x is rescaled to `(x − center) · factors`, column by column.
    center: Vec<f32>,
    factors: Vec<f64>,
    sq_unit: f64,
    /// The number p of axes.
    count: usize,
    /// Q, one row per column of the embeddings.
    basis: Vec<f64>,
    /// A bound on `‖QᵀQ − I‖`.
    deviation: f64,
}

/// Axes of the rows of a sample, in descending order of their variances, and a projected sample of other rows.
pub(super) struct Spectrum {
    /// The ids of the other rows.
    pub(super) ids: Vec<u32>,
    /// The other rows, rescaled.
    pub(super) sample: Mat<f64>,
    /// The coordinates of these rows on the axes.
    pub(super) projected: Mat<f64>,
    axes: Mat<f64>,
}

/// Rows whose rescaled norm is at most this have distances within the range of `f32`.
pub(super) const MAX_NORM: f64 = 1e15;
/// The number of rows from which the axes are computed, and the number of other rows that are projected.
const SAMPLE: usize = 2048;
/// The largest number of axes that are computed. It is above the largest number that `plan` uses if there are more columns, because the
/// estimates of the last axes are poor then.
pub(super) const MAX_AXES: usize = 136;
/// Iterations of the subspace iteration. Each iteration separates two axes further by the ratio of their variances.
const ITERATIONS: usize = 3;
/// Rows per product.
const ROWS: usize = 128;
/// The largest deviation of recorded axes. With a larger one, bounds would exclude few rows.
const MAX_DEVIATION: f64 = 1e-6;
/// The unit roundoffs of `f32` and `f64`.
pub(super) const F32_ROUNDOFF: f64 = 1.0 / (1u64 << 24) as f64;
const F64_ROUNDOFF: f64 = f64::EPSILON / 2.0;

impl Spectrum {
    /// Subspace iteration on a seeded sample of rows; `None` if it does not converge.
    pub(super) fn of(rows: &StoredRows<'_>, rescaler: &Rescaler) -> Option<Self> {
        let (dim, count) = (rows.dim(), rows.dim().min(MAX_AXES));
        let mut rng = SeededRng::new(0);
        let live = rows.live_ids();
        let chosen = rng.sample(live.len(), 2 * SAMPLE);
        let rescaled = |ids: &[u32]| {
            let mut sample = Mat::zeros(ids.len(), dim);
            for (i, &id) in ids.iter().enumerate() {
                for (j, b) in rescaler.exact(&rows.row(id)).enumerate() {
                    sample[(i, j)] = b;
                }
            }
            sample
        };
        // Axes also fit the noise of the rows from which they are computed. Other rows show how well the axes
        // represent new rows. Both samples are from all parts of the rows, because the rows may be sorted by class.
        let every_second =
            |first| chosen.iter().skip(first).step_by(2).map(|&at| live[at as usize]).collect();
        let (of_axes, ids): (Vec<u32>, Vec<u32>) = (every_second(0), every_second(1));
        let sample = rescaled(&of_axes);
        let mut axes = Mat::<f64>::identity(dim, count);
        if count < dim {
            axes = Mat::from_fn(dim, count, |_, _| rng.normal());
            for _ in 0..ITERATIONS {
                checkpoint();
                let images = product(sample.as_ref(), axes.as_ref());
                axes = orthonormal(product(sample.transpose(), images.as_ref()));
            }
        }
        checkpoint();
        let images = product(sample.as_ref(), axes.as_ref());
        let ascending = eigenvectors(&product(images.transpose(), images.as_ref()))?;
        let axes = product(axes.as_ref(), ascending.reverse_cols());
        // The second sample takes the memory of the first.
        drop((sample, images));
        checkpoint();
        let sample = rescaled(&ids);
        let projected = product(sample.as_ref(), axes.as_ref());
        let is_finite = (0..count).all(|j| axes.col(j).iter().all(|v| v.is_finite()));
        is_finite.then_some(Self { ids, sample, projected, axes })
    }

    /// The number of computed axes.
    pub(super) fn count(&self) -> usize {
        self.axes.ncols()
    }

    /// The first `count` axes.
    pub(super) fn axes(&self, count: usize, rescaler: &Rescaler) -> Axes {
        let first = self.axes.subcols(0, count);
        let basis = (0..first.nrows()).flat_map(|i| (0..count).map(move |j| first[(i, j)])).collect();
        Axes::new(basis, rescaler)
    }
}

impl Axes {
    /// The axes with the given coordinates, in row-major order with one row per column of the embeddings.
    pub(super) fn new(basis: Vec<f64>, rescaler: &Rescaler) -> Self {
        let (center, factors) = rescaler.map();
        let (dim, count) = (center.len(), basis.len() / center.len());
        let axes = MatRef::from_row_major_slice(&basis, dim, count);
        let gram = product(axes.transpose(), axes);
        let squares = (0..count).flat_map(|i| (0..count).map(move |j| (i, j)));
        let norm = squares.map(|(i, j)| (gram[(i, j)] - f64::from(i == j)).powi(2)).sum::<f64>().sqrt();
        // The second term bounds the rounding of the products in the Gram matrix.
        let deviation = norm + 2.0 * dim as f64 * count as f64 * F64_ROUNDOFF;
        Self {
            center: center.to_vec(),
            factors: factors.to_vec(),
            sq_unit: rescaler.sq_unit(),
            count,
            basis,
            deviation,
        }
    }

    /// Whether the axes are orthonormal, up to rounding. This is false if a coordinate is not finite.
    pub(super) fn are_orthonormal(&self) -> bool {
        self.deviation <= MAX_DEVIATION
    }

    /// The coordinates of the axes, as in [`new`](Self::new).
    pub(super) fn basis(&self) -> &[f64] {
        &self.basis
    }

    /// The number of coordinates of a point: one per axis, and the length of the rest unless the axes span the space.
    pub(super) fn width(&self) -> usize {
        self.count + usize::from(self.count < self.center.len())
    }

    /// The rescaled squared distance per unit of original squared distance.
    pub(super) fn sq_unit(&self) -> f64 {
        self.sq_unit
    }

    /// A bound on the ratio of the distance of two points to the rescaled distance of their rows, computed in `f64`.
    pub(super) fn stretch(&self) -> f64 {
        self.deviation * (1.0 + self.deviation) + self.rounding()
    }

    /// Whether the axes span the space. The rescaled distance of two rows is then at most the distance of their points times
    /// [`contraction`](Self::contraction).
    pub(super) fn span_the_space(&self) -> bool {
        self.count == self.center.len() && self.deviation <= 0.5
    }

    /// A bound on the ratio of the rescaled distance of two rows, computed in `f64`, to the distance of their points,
    /// if the axes span the space.
    ///
    /// `QQᵀ` has the eigenvalues of `QᵀQ`, so `‖δ‖² − ‖Qᵀδ‖² = δᵀ(I − QQᵀ)δ ≤ η ‖δ‖²`, and `1 / √(1 − η) ≤ 1 + η` for
    /// `η ≤ ½`.
    pub(super) fn contraction(&self) -> f64 {
        (1.0 + self.deviation) * self.rounding()
    }

    /// A bound on the ratio of the exact rescaled distance of two rows to the distance computed in `f64`, and on the
    /// inverse of this ratio.
    pub(super) fn rounding(&self) -> f64 {
        1.0 + (self.center.len() as f64 + 32.0) * 2.0 * f64::EPSILON
    }

    /// Writes the point of each row, and a bound on the distance between this point and the point without rounding
    /// errors. For rows longer than [`MAX_NORM`] the bound is infinite and the point is zero.
    pub(super) fn project(&self, rows: &[f32], points: &mut [f32], errors: &mut [f32]) {
        let (dim, p, width) = (self.center.len(), self.count, self.width());
        let mut rescaled = vec![0f64; ROWS.min(errors.len()) * dim];
        let mut images = vec![0f64; ROWS.min(errors.len()) * p];
        let basis = MatRef::from_row_major_slice(&self.basis, dim, p);
        let rest = width - p;
        let chunks = rows.chunks(ROWS * dim).zip(points.chunks_mut(ROWS * width));
        for ((rows, points), errors) in chunks.zip(errors.chunks_mut(ROWS)) {
            let n = errors.len();
            for (row, rescaled) in rows.chunks_exact(dim).zip(rescaled.chunks_exact_mut(dim)) {
                let columns = row.iter().zip(&self.center).zip(&self.factors);
                for (b, ((x, m), c)) in rescaled.iter_mut().zip(columns) {
                    *b = (f64::from(*x) - f64::from(*m)) * c;
                }
            }
            let product = MatMut::from_row_major_slice_mut(&mut images[..n * p], n, p);
            let factor = MatRef::from_row_major_slice(&rescaled[..n * dim], n, dim);
            matmul(product, Accum::Replace, factor, basis, 1.0, Par::Seq);
            let each = rescaled.chunks_exact(dim).zip(images.chunks_exact(p));
            for (((rescaled, image), point), error) in
                each.zip(points.chunks_exact_mut(width)).zip(errors.iter_mut())
            {
                let square = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>();
                let (whole, inside) = (square(rescaled), square(image));
                if whole.is_nan() || whole > MAX_NORM * MAX_NORM {
                    point.fill(0.0);
                    *error = f32::INFINITY;
                    continue;
                }
                let outside = (whole - inside).max(0.0);
                point[rest..].iter_mut().zip(image).for_each(|(y, &v)| *y = v as f32);
                if rest > 0 {
                    point[0] = outside.sqrt() as f32;
                }
                *error = self.point_error(whole, outside);
            }
        }
    }

    /// A bound on the rounding error of a point with the squared norm `whole`, whose rest has the squared length `outside`.
    ///
    /// `‖b⊥‖² = ‖b‖² − ‖Qᵀb‖² + (Qᵀb)ᵀ(QᵀQ − I)Qᵀb` is computed with an error of at most e, its square root with an
    /// error of at most √e and of at most `e / √outside`. Rounding to `f32` with the unit roundoff u adds `u ‖b‖`, and 2⁻¹⁵⁰ per
    /// coordinate after underflow.
    fn point_error(&self, whole: f64, outside: f64) -> f32 {
        let (dim, p) = (self.center.len() as f64, self.count as f64);
        let norm = whole.sqrt();
        let e = ((4.0 * dim + 32.0) * F64_ROUNDOFF * (1.0 + p.sqrt()) + 2.0 * self.deviation) * whole;
        let rest = if self.width() == self.count { 0.0 } else { e.sqrt().min(e / outside.sqrt()) };
        let product = (dim + 8.0) * (p.sqrt() + 1.0) * 2.0 * F64_ROUNDOFF * norm;
        let rounding = 1.01 * F32_ROUNDOFF * norm * (1.0 + self.deviation) + (p + 1.0) * 1e-45;
        ((1.01 * (rest + product) + rounding) as f32).next_up()
    }
}
