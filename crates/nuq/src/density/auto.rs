//! A combination of kernel density and Gaussians that ranks out-of-distribution rows.
//!
//! The kernel density fits any shape and needs few rows. Gaussians of the classes with one covariance use the directions
//! in which the data vary. Neither is better on all data. So both are computed, and each is compared with its values for
//! left-out training rows:
//!
//! ```text
//! s₁ = −ln Σ_k K(z_k)/K(0)
//! s₂ = −ln Σ_c π_c e^(−D_c/2) − d′ ln ‖x‖
//! ln p̂ = a − Σ_{i=1,2} ln(1 + e^((s_i − m_i)/c_i))
//! ```
//!
//! - `D_c` is the squared Mahalanobis distance to class `c`. `−d′ ln ‖x‖` is the [`RadialCorrection`].
//! - `ln(1 + e^z)` is minus the log of the probability that a logistic variable exceeds `z`, so that the sum is Fisher's
//!   combination of two p-values. It is linear for large `z`, so that it does not saturate. It is nearly zero for typical
//!   rows, so that one estimate cannot hide the tail score of the other.
//! - `m_i` and `c_i` are the [`LogisticTail`]s of the scores of left-out training rows.
//! - `a` makes the median of `ln p̂` over left-out training rows equal to that of the log kernel density, so that magnitudes are
//!   comparable.
//!
//! The fit needs no out-of-distribution rows.

use nuq_neighbors::Embeddings;

use super::{ClassGaussians, Covariance, LogisticTail, RadialCorrection, Shrinkage};
use crate::{Classes, Error};

/// The learned values of the density, without its Gaussians. The module documentation of `density/auto.rs` defines the
/// symbols.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AutoDensity {
    /// `h_p`, the bandwidth of the kernel density.
    pub bandwidth: f64,
    /// The tail of the kernel scores `s₁`.
    pub kernel: LogisticTail,
    /// The tail of the Gaussian scores `s₂`.
    pub gaussians: LogisticTail,
    /// `d′`, the number of columns that are not constant.
    pub columns: usize,
    /// Lower bound of the norm `‖x‖`.
    pub least_length: f64,
    /// `a`.
    pub offset: f64,
}

impl AutoDensity {
    /// Learns tails and offset from left-out rows: their scores `s₁`, their scores `s₂` (`None` for the only row of a class)
    /// and their log kernel densities.
    pub(crate) fn learn(
        bandwidth: f64,
        correction: &RadialCorrection,
        kernel_scores: &[f64],
        gaussian_scores: &[Option<f64>],
        log_kernel_densities: &[f64],
    ) -> Self {
        let known: Vec<f64> = gaussian_scores.iter().flatten().copied().collect();
        let kernel = LogisticTail::of(kernel_scores);
        let gaussians = LogisticTail::of(&known);
        let tail_score =
            |i: usize| Some(kernel.tail_score(kernel_scores[i]) + gaussians.tail_score(gaussian_scores[i]?));
        let mut tail_scores: Vec<f64> = (0..kernel_scores.len()).filter_map(tail_score).collect();
        let offset = median(&mut log_kernel_densities.to_vec()) + median(&mut tail_scores);
        let RadialCorrection { columns, least_length } = *correction;
        Self { bandwidth, kernel, gaussians, columns, least_length, offset }
    }

    /// The tail score of the Gaussians for each query.
    pub(crate) fn gaussian_tail_scores(
        &self,
        gaussians: &ClassGaussians<'_>,
        queries: &Embeddings<'_>,
    ) -> Result<Vec<f64>, Error> {
        let correction = RadialCorrection { columns: self.columns, least_length: self.least_length };
        let tail_score =
            |(log_mixture, row): (f64, &[f32])| self.gaussians.tail_score(correction.score(log_mixture, row));
        Ok(gaussians.log_mixture(queries)?.into_iter().zip(queries.rows()).map(tail_score).collect())
    }

    /// `ln p̂` from the log kernel sum and the tail score of the Gaussians.
    pub(crate) fn log_density(&self, log_sum: f64, gaussian_tail_score: f64) -> f64 {
        self.offset - self.kernel.tail_score(-log_sum) - gaussian_tail_score
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    0.5 * (values[(n - 1) / 2] + values[n / 2])
}

/// Fits the Gaussians with one covariance for all classes. If every class is a single row, all rows are one class.
pub(crate) fn fit_gaussians<'a>(
    rows: &Embeddings<'a>,
    classes: &Classes,
    of_row: &[u32],
) -> Result<ClassGaussians<'a>, Error> {
    let (covariance, shrinkage) = (Covariance::Tied, Shrinkage::LedoitWolf);
    if has_only_singletons(classes) {
        let one = Classes::single(rows.len());
        return ClassGaussians::fit_encoded(rows, &one, &vec![0; rows.len()], covariance, shrinkage);
    }
    ClassGaussians::fit_encoded(rows, classes, of_row, covariance, shrinkage)
}

pub(crate) fn has_only_singletons(classes: &Classes) -> bool {
    classes.counts().iter().all(|&count| count <= 1)
}
