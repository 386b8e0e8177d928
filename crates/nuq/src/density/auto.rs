//! A combination of kernel density and Gaussians that ranks out-of-distribution rows.
//!
//! The kernel density fits any shape and needs few rows. Gaussians of the classes with one covariance use the directions
//! in which the data vary. Neither is better on all data. So both are computed, and each is compared with its values for
//! left-out training rows:
//!
//! ```text
//! s₁ = −ln Σ_k K(z_k)/K(0)
//! s₂ = −ln Σ_c π_c e^(−D_c/2) − d′ ln ‖x‖
//! ln p̂ = a − max_{i=1,2} ln(1 + e^((s_i − m_i)/c_i))
//! ```
//!
//! - `K` is the kernel, and `z_k = (x − x_k)/h_p` for each neighbor `x_k` of the query `x`, with the bandwidth `h_p` of the kernel density.
//! - `D_c` is the squared Mahalanobis distance to class `c`, and `π_c` is the share of the training rows in this class. `−d′ ln ‖x‖` is the
//!   [`RadialCorrection`], with the number `d′` of columns that vary.
//! - `ln(1 + e^z)` is minus the log of the probability that a logistic variable exceeds `z`. Therefore the maximum is
//!   Tippett's combination of two p-values. The term is linear for large `z`, so it does not saturate.
//! - `m_i` and `c_i` are the center and the scale of the [`LogisticTail`] of the scores `s_i` of left-out training rows.
//! - `a` makes the median of `ln p̂` over left-out training rows equal to the median of the log kernel density.
//! - Gaussians are not used if the kernel density has the higher mean log-likelihood of left-out rows
//!   ([`kernel_log_likelihood`]), for example for rings in the plane, or if the likelihoods cannot be computed. They
//!   are also not used if fewer than [`MIN_COLUMNS`] columns vary: in few dimensions some rows are near the origin,
//!   where `s₂` is very large.
//!
//! The fit needs no out-of-distribution rows.

use std::fmt;

use nuq_neighbors::Embeddings;

use super::{ClassGaussians, Covariance, LogisticTail, RadialCorrection, RowClasses, Shrinkage};
use crate::quantiles::Quantiles;
use crate::row_source::RowSource;
use crate::{Classes, Error};

/// Gaussians are used only if at least this number of columns vary.
pub(crate) const MIN_COLUMNS: usize = 5;

/// The learned values of the density, without its Gaussians. The module documentation of `density/auto.rs` defines the
/// symbols.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AutoDensity {
    /// `h_p`, the bandwidth of the kernel density.
    pub bandwidth: f64,
    /// The tail of the kernel scores `s₁`.
    pub kernel: LogisticTail,
    /// The Gaussian part; `None` if it is not used.
    pub gaussians: Option<AutoGaussians>,
    /// `a`, which makes the median of `ln p̂` equal to the median of the log kernel density.
    pub offset: f64,
    /// The comparison that decides whether Gaussians are used; `None` if the likelihoods cannot be computed, and in
    /// files that were written before the comparison existed.
    pub log_likelihoods: Option<LogLikelihoods>,
}

/// The Gaussian part of [`AutoDensity`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AutoGaussians {
    /// The tail of the Gaussian scores `s₂`.
    pub tail: LogisticTail,
    /// The term `−d′ ln ‖x‖`.
    pub correction: RadialCorrection,
    /// The rule that combines both tail scores.
    pub combination: Combination,
}

/// The rule that combines the two tail scores `ln(1 + e^((s_i − m_i)/c_i))`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combination {
    /// The larger score: minus the logarithm of the smaller p-value (Tippett).
    Max,
    /// The sum of both scores: minus the logarithm of the product of both p-values (Fisher). Only files of earlier
    /// versions use it.
    Sum,
}

/// Mean log-likelihoods of left-out training rows in the space of all columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogLikelihoods {
    /// The mean under the kernel density, at the bandwidth with the largest mean.
    pub kernel: f64,
    /// The mean under the class Gaussians with one covariance.
    pub gaussians: f64,
}

/// The scores of left-out training rows under the Gaussians; `None` for the only row of a class.
pub(crate) struct GaussianScores {
    pub(crate) correction: RadialCorrection,
    pub(crate) scores: Vec<Option<f64>>,
}

impl Combination {
    fn of(self, kernel: f64, gaussians: f64) -> f64 {
        match self {
            Combination::Max => kernel.max(gaussians),
            Combination::Sum => kernel + gaussians,
        }
    }
}

impl AutoDensity {
    /// Learns tails and offset from left-out rows with sample weights: their log kernel sums, their log kernel densities, and
    /// their Gaussian scores if Gaussians are used.
    pub(crate) fn learn(
        bandwidth: f64,
        weights: &[f64],
        log_sums: &[f64],
        log_kernel_densities: &[f64],
        gaussians: Option<&GaussianScores>,
        log_likelihoods: Option<LogLikelihoods>,
    ) -> Self {
        let weighted = |i: usize, value: Option<f64>| Some((value?, weights[i]));
        let kernel_scores: Vec<(f64, f64)> =
            log_sums.iter().zip(weights).map(|(log_sum, &weight)| (-log_sum, weight)).collect();
        let learn_gaussians = |of: &GaussianScores| AutoGaussians {
            tail: LogisticTail::of(
                &of.scores
                    .iter()
                    .enumerate()
                    .filter_map(|(i, score)| weighted(i, *score))
                    .collect::<Vec<_>>(),
            ),
            correction: of.correction,
            combination: Combination::Max,
        };
        let mut learned = Self {
            bandwidth,
            kernel: LogisticTail::of(&kernel_scores),
            gaussians: gaussians.map(learn_gaussians),
            offset: 0.0,
            log_likelihoods,
        };
        let tail_scores = learned.left_out_tail_scores(gaussians, log_sums.len());
        let left_out = log_sums.iter().zip(tail_scores).enumerate().filter_map(|(i, (&log_sum, score))| {
            weighted(i, score.map(|tail_score| learned.log_density(log_sum, tail_score)))
        });
        let of_kernel = Quantiles::of(log_kernel_densities.iter().copied().zip(weights.iter().copied()));
        learned.offset = of_kernel.median() - Quantiles::of(left_out).median();
        learned
    }

    /// The tail scores of left-out rows under the Gaussians, or zeros if no Gaussians are used. `None` for the only row
    /// of a class.
    pub(crate) fn left_out_tail_scores(
        &self,
        gaussians: Option<&GaussianScores>,
        rows: usize,
    ) -> Vec<Option<f64>> {
        match (&self.gaussians, gaussians) {
            (Some(part), Some(of)) => {
                of.scores.iter().map(|score| score.map(|score| part.tail.tail_score(score))).collect()
            }
            _ => vec![Some(0.0); rows],
        }
    }

    /// `ln p̂` from the log kernel sum and the tail score of the Gaussians. The tail score is ignored if Gaussians are
    /// not used.
    pub(crate) fn log_density(&self, log_sum: f64, gaussian_tail_score: f64) -> f64 {
        let kernel = self.kernel.tail_score(-log_sum);
        let tail_score =
            self.gaussians.map_or(kernel, |part| part.combination.of(kernel, gaussian_tail_score));
        self.offset - tail_score
    }
}

/// Writes the parts that are used, and the likelihoods that were compared.
impl fmt::Display for AutoDensity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.gaussians {
            Some(_) => "kernel density and tied Gaussians",
            None => "kernel density",
        })?;
        match self.log_likelihoods {
            Some(LogLikelihoods { kernel, gaussians }) if self.gaussians.is_none() && gaussians >= kernel => {
                write!(f, " (fewer than {MIN_COLUMNS} columns vary)")
            }
            Some(LogLikelihoods { kernel, gaussians }) => {
                write!(f, " (left-out log-likelihood {kernel:.1} and {gaussians:.1})")
            }
            None => Ok(()),
        }
    }
}

impl AutoGaussians {
    /// The tail score of each query.
    pub(crate) fn tail_scores(
        &self,
        gaussians: &ClassGaussians<'_>,
        queries: &Embeddings<'_>,
    ) -> Result<Vec<f64>, Error> {
        let tail_score =
            |(log_mixture, row): (f64, &[f32])| self.tail.tail_score(self.correction.score(log_mixture, row));
        Ok(gaussians.log_mixture(queries)?.into_iter().zip(queries.rows()).map(tail_score).collect())
    }
}

/// Fits the Gaussians with one covariance for all classes. If every class has a single row, all rows are
/// treated as one class.
pub(crate) fn fit_gaussians<'a>(
    rows: &RowSource<'a>,
    classes: RowClasses<'_>,
) -> Result<ClassGaussians<'a>, Error> {
    let (covariance, shrinkage) = (Covariance::Tied, Shrinkage::LedoitWolf);
    if has_only_singletons(classes.classes) {
        let (one, class_of_row) = (Classes::single(rows.len()), vec![0; rows.len()]);
        let classes = RowClasses { classes: &one, class_of_row: &class_of_row, ..classes };
        return ClassGaussians::fit_encoded(rows, classes, covariance, shrinkage);
    }
    ClassGaussians::fit_encoded(rows, classes, covariance, shrinkage)
}

pub(crate) fn has_only_singletons(classes: &Classes) -> bool {
    classes.counts().iter().all(|&count| count <= 1)
}
