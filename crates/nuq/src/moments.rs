//! Mean and second moments of embeddings in `f64`, for densities and baselines.

use faer::Mat;
use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::checkpoint;

use crate::density::scatter_of_all;

/// The mean of all rows; zeros without rows.
#[must_use]
pub fn mean(rows: &Embeddings<'_>) -> Vec<f64> {
    let mut sum = vec![0.0; rows.dim()];
    for row in rows.rows() {
        checkpoint();
        sum.iter_mut().zip(row).for_each(|(s, &v)| *s += f64::from(v));
    }
    sum.iter_mut().for_each(|s| *s /= rows.len().max(1) as f64);
    sum
}

/// `(1/n) Σ_i (x_i − o)(x_i − o)ᵀ` around a center `o`; only the lower triangle is filled.
#[must_use]
pub fn scatter_around(rows: &Embeddings<'_>, center: &[f64]) -> Mat<f64> {
    scatter_of_all(rows, center)
}
