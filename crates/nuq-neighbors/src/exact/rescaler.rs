//! The rescaler of reference in which `f32` products are accurate: centered on the training mean, of size one.

use rayon::prelude::*;

use crate::rows::Rows;

/// Maps a row $x$ to $b_j = (x_j - m_j)\,c_j$ with $|b_j| \le 1$ on the training rows.
///
/// $m$ is the training mean and $c_j$ the inverse of the column's scale times a power of two shared by all
/// columns. Centering removes the common offset that would cancel in `‖b‖² − 2a·b`; the power of two keeps
/// embeddings of size 1e±30 inside the range of `f32`.
pub(super) struct Rescaler {
    center: Vec<f32>,
    factors: Vec<f64>,
    rounded_factors: Vec<f32>,
    /// What one unit of squared distance is in this rescaler, $2^{2e}$.
    unit: f64,
    /// $\tfrac12\|b\|^2$ of each training row.
    half_sq_norms: Vec<f32>,
}

/// Rows added later may lie this far outside the rescaler (in half squared length); for others it is made anew.
const LONGEST_ROW: f32 = 1e6;

impl Rescaler {
    /// `None` when the rows, so rescaled, leave the range of `f32`.
    pub(super) fn around(rows: &Rows<'_>, scale: Option<&[f64]>) -> Option<Self> {
        let (dim, center) = (rows.dim(), mean(rows));
        let inverse = |j: usize| scale.map_or(1.0, |s| 1.0 / s[j]);
        let largest = rows
            .par_blocks()
            .map(|block| {
                let offset =
                    |(j, (&x, &m)): (usize, (&f32, &f32))| ((f64::from(x) - f64::from(m)) * inverse(j)).abs();
                let of_row =
                    |row: &[f32]| row.iter().zip(&center).enumerate().map(offset).fold(0.0, f64::max);
                block.chunks_exact(dim).map(of_row).fold(0.0, f64::max)
            })
            .reduce(|| 0.0, f64::max);
        let exponent = if largest > 0.0 { -largest.log2().ceil() } else { 0.0 };
        let power = exponent.exp2();
        let factors: Vec<f64> = (0..dim).map(|j| inverse(j) * power).collect();
        let rounded_factors: Vec<f32> = factors.iter().map(|&c| c as f32).collect();
        // In more dimensions than f32 has digits for, no bound on a product is worth anything.
        let few_enough = dim < 1 << 23;
        if !few_enough || !rounded_factors.iter().all(|c| c.is_normal()) {
            return None;
        }
        let mut rescaler =
            Self { center, factors, rounded_factors, unit: power * power, half_sq_norms: vec![] };
        let blocks =
            rows.par_blocks().map(|block| rescaler.half_sq_norms_of(&block)).collect::<Option<Vec<_>>>();
        rescaler.half_sq_norms = blocks?.concat();
        Some(rescaler)
    }

    /// Takes new rows in, over those of the given ids first; says whether they fit.
    pub(super) fn insert(&mut self, ids: &[u32], rows: &[f32]) -> bool {
        let Some(norms) = self.half_sq_norms_of(rows) else { return false };
        if norms.iter().any(|&norm| norm > LONGEST_ROW) {
            return false;
        }
        for (&id, norm) in ids.iter().zip(norms) {
            match self.half_sq_norms.get_mut(id as usize) {
                Some(place) => *place = norm,
                None => self.half_sq_norms.push(norm),
            }
        }
        true
    }

    /// Marks a row as gone.
    pub(super) fn remove(&mut self, id: u32) {
        self.half_sq_norms[id as usize] = f32::INFINITY;
    }

    /// `None` when a coordinate or a norm is beyond the range in which differences stay finite.
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

    /// Writes the coordinates of rows in this rescaler, each within three roundings of the exact value.
    pub(super) fn rescale(&self, rows: &[f32], rescaled: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, which is all that the function asks for.
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

    /// $\|a\|^2$ of a query in this rescaler, in `f64` from the unrounded coordinates.
    pub(super) fn sq_norm(&self, row: &[f32]) -> f64 {
        let square = |((x, m), c): ((&f32, &f32), &f64)| {
            let a = (f64::from(*x) - f64::from(*m)) * c;
            a * a
        };
        row.iter().zip(&self.center).zip(&self.factors).map(square).sum()
    }

    /// Squared distance in the rescaler per squared distance outside it.
    pub(super) fn unit(&self) -> f64 {
        self.unit
    }

    /// $\tfrac12\|b\|^2$ of each training row; zero where that underflows, infinite where the row is gone.
    pub(super) fn half_sq_norms(&self) -> &[f32] {
        &self.half_sq_norms
    }
}

/// The training mean, rounded to `f32`: any nearby point serves, as long as all rows use the same one.
/// Summed in blocks of fixed size, so that it does not depend on the number of threads.
fn mean(rows: &Rows<'_>) -> Vec<f32> {
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
    (0..dim).map(|j| (total(j) / rows.ids() as f64) as f32).collect()
}
