//! Rescaling of rows so that `f32` products are accurate: centered on the training mean, coordinates at most one.

use rayon::prelude::*;

use crate::{RowStorage, StoredRows};

/// Maps a row x to `b_j = (x_j − m_j) c_j` with `|b_j| ≤ 1` on the rows of the fit; inserted rows may be larger.
///
/// m is the training mean, and `c_j = p / s_j` with a power of two p for all columns and the scale `s_j` of column j (1
/// without a scale). Centering removes the common offset, which would cause cancellation in `‖b‖² − 2 a·b` with a rescaled
/// query a. The power of two keeps embeddings of magnitude 1e±30 inside the range of `f32`.
pub(super) struct Rescaler {
    center: Vec<f32>,
    factors: Vec<f64>,
    rounded_factors: Vec<f32>,
    sq_unit: f64,
    half_sq_norms: Vec<f32>,
}

/// Limit of ½‖b‖² of inserted rows; the rescaler is fitted again for rows beyond it.
const MAX_HALF_SQ_NORM: f32 = 1e6;
/// From this number of dimensions on, the error bound of an `f32` product `a·b` is at least `‖a‖ ‖b‖` and excludes no row.
const MAX_DIM: usize = 1 << 23;

impl Rescaler {
    /// Computes center, factors and norms from the stored rows; `None` when factors or rescaled rows are outside the range of
    /// `f32`, or with too many dimensions.
    pub(super) fn fit(rows: &StoredRows<'_>) -> Option<Self> {
        let (dim, center) = (rows.dim(), mean(rows));
        let inverse = |j: usize| rows.scale().map_or(1.0, |s| 1.0 / s[j]);
        let largest = rows
            .par_blocks()
            .map(|block| {
                let offset =
                    |(j, (&x, &m)): (usize, (&f32, &f32))| ((f64::from(x) - f64::from(m)) * inverse(j)).abs();
                let largest_offset =
                    |row: &[f32]| row.iter().zip(&center).enumerate().map(offset).fold(0.0, f64::max);
                block.chunks_exact(dim).map(largest_offset).fold(0.0, f64::max)
            })
            .reduce(|| 0.0, f64::max);
        let exponent = if largest > 0.0 { -largest.log2().ceil() } else { 0.0 };
        let power = exponent.exp2();
        let factors: Vec<f64> = (0..dim).map(|j| inverse(j) * power).collect();
        let rounded_factors: Vec<f32> = factors.iter().map(|&c| c as f32).collect();
        if dim >= MAX_DIM || !rounded_factors.iter().all(|c| c.is_normal()) {
            return None;
        }
        let mut rescaler =
            Self { center, factors, rounded_factors, sq_unit: power * power, half_sq_norms: vec![] };
        let blocks =
            rows.par_blocks().map(|block| rescaler.half_sq_norms_of(&block)).collect::<Option<Vec<_>>>();
        rescaler.half_sq_norms = blocks?.concat();
        Some(rescaler)
    }

    /// Adds the norms of inserted rows; `ids` holds reused ids first, then new ones. Returns false when a norm is too
    /// large; then nothing is changed.
    pub(super) fn insert(&mut self, ids: &[u32], rows: &[f32]) -> bool {
        let Some(norms) = self.half_sq_norms_of(rows) else { return false };
        if norms.iter().any(|&norm| norm > MAX_HALF_SQ_NORM) {
            return false;
        }
        for (&id, norm) in ids.iter().zip(norms) {
            match self.half_sq_norms.get_mut(id as usize) {
                Some(stored) => *stored = norm,
                None => self.half_sq_norms.push(norm),
            }
        }
        true
    }

    /// Sets the norm of a row to infinity, which marks the row as removed.
    pub(super) fn remove(&mut self, id: u32) {
        self.half_sq_norms[id as usize] = f32::INFINITY;
    }

    /// ½‖b‖² of each row; `None` when a coordinate or a norm is so large that differences could overflow.
    fn half_sq_norms_of(&self, rows: &[f32]) -> Option<Vec<f32>> {
        let mut rescaled = vec![0f32; self.center.len()];
        rows.chunks_exact(self.center.len())
            .map(|row| {
                self.rescale(row, &mut rescaled);
                let norm = (0.5 * rescaled.iter().map(|&b| f64::from(b) * f64::from(b)).sum::<f64>()) as f32;
                let fits = row.iter().all(|v| v.abs() < f32::MAX / 4.0) && norm.is_finite();
                fits.then_some(norm)
            })
            .collect()
    }

    /// Writes the rescaled coordinates of rows; each has at most three rounding errors.
    pub(super) fn rescale(&self, rows: &[f32], rescaled: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor supports AVX2, the only requirement of the function.
            return unsafe { self.rescale_avx2(rows, rescaled) };
        }
        self.rescale_any(rows, rescaled);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn rescale_avx2(&self, rows: &[f32], rescaled: &mut [f32]) {
        self.rescale_any(rows, rescaled);
    }

    #[inline(always)]
    fn rescale_any(&self, rows: &[f32], rescaled: &mut [f32]) {
        let dim = self.center.len();
        for (row, rescaled) in rows.chunks_exact(dim).zip(rescaled.chunks_exact_mut(dim)) {
            for (((b, x), m), c) in rescaled.iter_mut().zip(row).zip(&self.center).zip(&self.rounded_factors)
            {
                *b = (x - m) * c;
            }
        }
    }

    /// ‖a‖² of a rescaled query, in `f64` without intermediate rounding to `f32`.
    pub(super) fn sq_norm(&self, row: &[f32]) -> f64 {
        self.exact(row).map(|a| a * a).sum()
    }

    /// The rescaled coordinates of a row in `f64`.
    pub(super) fn exact(&self, row: &[f32]) -> impl Iterator<Item = f64> {
        let columns = row.iter().zip(&self.center).zip(&self.factors);
        columns.map(|((x, m), c)| (f64::from(*x) - f64::from(*m)) * c)
    }

    /// The center m and the factors c.
    pub(super) fn map(&self) -> (&[f32], &[f64]) {
        (&self.center, &self.factors)
    }

    /// The factor from squared distances of the index (coordinates divided by their scale) to rescaled squared distances: the
    /// square of the power of two.
    pub(super) fn sq_unit(&self) -> f64 {
        self.sq_unit
    }

    /// ½‖b‖² of each training row; zero after underflow, infinite for removed rows.
    pub(super) fn half_sq_norms(&self) -> &[f32] {
        &self.half_sq_norms
    }
}

/// The training mean, rounded to `f32`. Any nearby point is suitable as long as all rows use the same one. The sums use
/// blocks of fixed size, so that they do not depend on the number of threads.
fn mean(rows: &StoredRows<'_>) -> Vec<f32> {
    let dim = rows.dim();
    let sums: Vec<Vec<f64>> = rows
        .par_blocks()
        .map(|block| {
            let mut sum = vec![0f64; dim];
            for row in block.chunks_exact(dim) {
                sum.iter_mut().zip(row).for_each(|(s, &x)| *s += f64::from(x));
            }
            sum
        })
        .collect();
    let total = |j: usize| sums.iter().map(|sum| sum[j]).sum::<f64>();
    (0..dim).map(|j| (total(j) / rows.id_bound() as f64) as f32).collect()
}
