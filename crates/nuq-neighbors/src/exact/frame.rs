//! The frame of reference in which `f32` products are accurate: centered on the training mean, of size one.

use rayon::prelude::*;

use crate::Embeddings;

/// Maps a row $x$ to $b_j = (x_j - m_j)\,c_j$ with $|b_j| \le 1$ on the training rows.
///
/// $m$ is the training mean and $c_j$ the inverse of the column's scale times a power of two shared by all
/// columns. Centering removes the common offset that would cancel in `‖b‖² − 2a·b`; the power of two keeps
/// embeddings of size 1e±30 inside the range of `f32`.
pub(super) struct Frame {
    center: Vec<f32>,
    factors: Vec<f64>,
    rounded_factors: Vec<f32>,
    /// What one unit of squared distance is in this frame, $2^{2e}$.
    unit: f64,
    /// $\tfrac12\|b\|^2$ of each training row.
    half_sq_norms: Vec<f32>,
}

impl Frame {
    /// `None` when the rows, so placed, leave the range of `f32`.
    pub(super) fn around(embeddings: &Embeddings<'_>, scale: Option<&[f64]>) -> Option<Self> {
        let center = mean(embeddings);
        let inverse = |j: usize| scale.map_or(1.0, |s| 1.0 / s[j]);
        let largest = embeddings
            .as_slice()
            .par_chunks(embeddings.dim())
            .map(|row| {
                let offset =
                    |(j, (&x, &m)): (usize, (&f32, &f32))| ((f64::from(x) - f64::from(m)) * inverse(j)).abs();
                row.iter().zip(&center).enumerate().map(offset).fold(0.0, f64::max)
            })
            .reduce(|| 0.0, f64::max);
        let exponent = if largest > 0.0 { -largest.log2().ceil() } else { 0.0 };
        let power = exponent.exp2();
        let factors: Vec<f64> = (0..embeddings.dim()).map(|j| inverse(j) * power).collect();
        let rounded_factors: Vec<f32> = factors.iter().map(|&c| c as f32).collect();
        // In more dimensions than f32 has digits for, no bound on a product is worth anything.
        let few_enough = embeddings.dim() < 1 << 23;
        let spread_fits = embeddings.as_slice().par_iter().all(|v| v.abs() < f32::MAX / 4.0);
        if !few_enough || !spread_fits || !rounded_factors.iter().all(|c| c.is_normal()) {
            return None;
        }
        let mut frame = Self { center, factors, rounded_factors, unit: power * power, half_sq_norms: vec![] };
        frame.half_sq_norms = embeddings
            .as_slice()
            .par_chunks(embeddings.dim())
            .map_init(
                || vec![0f32; embeddings.dim()],
                |placed, row| {
                    frame.place(row, placed);
                    (0.5 * placed.iter().map(|&b| f64::from(b) * f64::from(b)).sum::<f64>()) as f32
                },
            )
            .collect();
        Some(frame)
    }

    /// Writes the coordinates of rows in this frame, each within three roundings of the exact value.
    pub(super) fn place(&self, rows: &[f32], placed: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, which is all that the function asks for.
            return unsafe { self.place_avx2(rows, placed) };
        }
        self.place_any(rows, placed);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn place_avx2(&self, rows: &[f32], placed: &mut [f32]) {
        self.place_any(rows, placed);
    }

    #[inline(always)]
    fn place_any(&self, rows: &[f32], placed: &mut [f32]) {
        let dim = self.center.len();
        for (row, placed) in rows.chunks_exact(dim).zip(placed.chunks_exact_mut(dim)) {
            for (((b, x), m), c) in placed.iter_mut().zip(row).zip(&self.center).zip(&self.rounded_factors) {
                *b = (x - m) * c;
            }
        }
    }

    /// $\|a\|^2$ of a query in this frame, in `f64` from the unrounded coordinates.
    pub(super) fn sq_norm(&self, row: &[f32]) -> f64 {
        let square = |((x, m), c): ((&f32, &f32), &f64)| {
            let a = (f64::from(*x) - f64::from(*m)) * c;
            a * a
        };
        row.iter().zip(&self.center).zip(&self.factors).map(square).sum()
    }

    /// Squared distance in the frame per squared distance outside it.
    pub(super) fn unit(&self) -> f64 {
        self.unit
    }

    /// $\tfrac12\|b\|^2$ of each training row; zero where that underflows.
    pub(super) fn half_sq_norms(&self) -> &[f32] {
        &self.half_sq_norms
    }
}

/// The training mean, rounded to `f32`: any nearby point serves, as long as all rows use the same one.
/// Summed in blocks of fixed size, so that it does not depend on the number of threads.
fn mean(embeddings: &Embeddings<'_>) -> Vec<f32> {
    const ROWS: usize = 4096;
    let dim = embeddings.dim();
    let sums: Vec<Vec<f64>> = embeddings
        .as_slice()
        .par_chunks(ROWS * dim)
        .map(|block| {
            let mut sum = vec![0f64; dim];
            for row in block.chunks_exact(dim) {
                sum.iter_mut().zip(row).for_each(|(s, &x)| *s += f64::from(x));
            }
            sum
        })
        .collect();
    let total = |j: usize| sums.iter().map(|sum| sum[j]).sum::<f64>();
    (0..dim).map(|j| (total(j) / embeddings.len() as f64) as f32).collect()
}
