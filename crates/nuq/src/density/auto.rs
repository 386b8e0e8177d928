//! A density for telling what is unlike the training data, put together from two that err in different places.
//!
//! The kernel density knows any shape and works with few rows; Gaussians of the classes with one covariance know which
//! directions matter. Neither wins everywhere, so both are asked, each by how alarmed it is compared with left-out training rows:
//!
//! $$s_1 = -\ln \sum_k K(z_k)/K(0), \qquad
//! s_2 = -\ln \sum_c \pi_c e^{-D_c/2} - d' \ln \lVert x \rVert, \qquad
//! \ln \hat p = a - \sum_{i=1,2} \ln\bigl(1 + e^{(s_i - m_i)/c_i}\bigr)$$
//!
//! - $D_c$ is the squared Mahalanobis distance to class $c$, $d'$ the number of columns that are not constant.
//! - **Why the length of the row:** with many columns a Gaussian is densest where no row is, near the middle: a row shrunk
//!   towards it would look more usual than any training row. Relative to $dx / \lVert x \rVert^{d}$, the measure that does not care
//!   about scale, the Gaussian is densest where rows are. Of a correct model the slope is $d$ by Stein's identity.
//! - **Why $\ln(1 + e^z)$:** it is minus the log of the chance that a logistic variable exceeds $z$, so the sum is Fisher's
//!   combination of two p-values. It is linear far away, so that it never saturates, and nearly zero for what is usual, so
//!   that one estimate cannot talk the other out of an alarm.
//! - $m_i$, $c_i$ put the logistic law through the 80 and 98 % quantiles of left-out training rows: they are about the tail,
//!   and a few odd rows do not move them. $a$ gives the kernel density's median, so that magnitudes stay what they were.
//!
//! No row from outside the training data is needed for any of it.

use nuq_neighbors::Embeddings;

use super::{ClassGaussians, Covariance, Shrinkage};
use crate::{Classes, Error};

/// Where usual scores end: the logistic law through two quantiles of left-out training rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// $m$, the law's center.
    pub center: f64,
    /// $c$, its scale.
    pub scale: f64,
}

impl Tail {
    fn of(scores: &[f64]) -> Self {
        let mut sorted = scores.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
        // The logistic law has its 80 and 98 % quantiles at ln 4 and ln 49.
        let (low, high) = (4f64.ln(), 49f64.ln());
        let scale = (at(0.98) - at(0.8)) / (high - low);
        let scale = if scale > 0.0 { scale } else { deviation(scores).max(1.0) };
        Self { center: at(0.8) - low * scale, scale }
    }

    /// $\ln(1 + e^{(s - m)/c})$.
    pub(crate) fn alarm(&self, score: f64) -> f64 {
        let z = (score - self.center) / self.scale;
        z.max(0.0) + (-z.abs()).exp().ln_1p()
    }
}

fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
}

/// What the density learned from the training rows, its Gaussians aside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AutoDensity {
    /// $h_p$ of the kernel density.
    pub bandwidth: f64,
    /// The tail of $s_1$.
    pub kernel: Tail,
    /// The tail of $s_2$.
    pub gaussians: Tail,
    /// $d'$.
    pub columns: usize,
    /// Rows shorter than this count as so long.
    pub least_length: f64,
    /// $a$.
    pub offset: f64,
}

/// Rows this much shorter than the median row count as no shorter.
const LEAST_LENGTH: f64 = 1e-3;

/// How many columns vary, and below which length rows are not told apart.
pub(crate) struct Shell {
    pub(crate) columns: usize,
    pub(crate) least_length: f64,
}

impl Shell {
    pub(crate) fn of(rows: &Embeddings<'_>) -> Self {
        let first = rows.row(0);
        let mut varies = vec![false; rows.dim()];
        for row in rows.rows() {
            varies.iter_mut().zip(row.iter().zip(first)).for_each(|(varies, (a, b))| *varies |= a != b);
        }
        let mut lengths: Vec<f64> = rows.rows().map(length).collect();
        lengths.sort_by(f64::total_cmp);
        let least_length = (LEAST_LENGTH * lengths[lengths.len() / 2]).max(f64::MIN_POSITIVE);
        Self { columns: varies.iter().filter(|varies| **varies).count(), least_length }
    }

    /// $s_2$ from the log of the mixture.
    pub(crate) fn score(&self, log_mixture: f64, row: &[f32]) -> f64 {
        -log_mixture - self.columns as f64 * length(row).max(self.least_length).ln()
    }
}

fn length(row: &[f32]) -> f64 {
    row.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt()
}

impl AutoDensity {
    /// Learns tails and offset from left-out rows: for each its $s_1$, its $s_2$ where it has one, and the log of its
    /// kernel density.
    pub(crate) fn learn(
        bandwidth: f64,
        shell: &Shell,
        kernel_scores: &[f64],
        gaussian_scores: &[Option<f64>],
        log_kernel_densities: &[f64],
    ) -> Self {
        let known: Vec<f64> = gaussian_scores.iter().flatten().copied().collect();
        let kernel = Tail::of(kernel_scores);
        let gaussians = Tail::of(&known);
        let alarm = |i: usize| Some(kernel.alarm(kernel_scores[i]) + gaussians.alarm(gaussian_scores[i]?));
        let mut alarms: Vec<f64> = (0..kernel_scores.len()).filter_map(alarm).collect();
        let offset = median(&mut log_kernel_densities.to_vec()) + median(&mut alarms);
        let Shell { columns, least_length } = *shell;
        Self { bandwidth, kernel, gaussians, columns, least_length, offset }
    }

    /// How alarmed the Gaussians are by each query.
    pub(crate) fn gaussian_alarms(
        &self,
        gaussians: &ClassGaussians<'_>,
        queries: &Embeddings<'_>,
    ) -> Result<Vec<f64>, Error> {
        let shell = Shell { columns: self.columns, least_length: self.least_length };
        let alarm = |(log_mixture, row): (f64, &[f32])| self.gaussians.alarm(shell.score(log_mixture, row));
        Ok(gaussians.log_mixture(queries)?.into_iter().zip(queries.rows()).map(alarm).collect())
    }

    /// $\ln \hat p$ from the log of the kernel sum and the Gaussians' alarm.
    pub(crate) fn log_density(&self, log_sum: f64, gaussian_alarm: f64) -> f64 {
        self.offset - self.kernel.alarm(-log_sum) - gaussian_alarm
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    0.5 * (values[(n - 1) / 2] + values[n / 2])
}

/// The Gaussians: one covariance for all classes. Where every class is a single row, all rows are one class.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_goes_through_its_quantiles_and_never_saturates() {
        // The logistic law itself: quantiles ln(p / (1 - p)).
        let scores: Vec<f64> =
            (1..=9999).map(|i| (f64::from(i) / 1e4).ln() - (1.0 - f64::from(i) / 1e4).ln()).collect();
        let tail = Tail::of(&scores);
        assert!(tail.center.abs() < 1e-2 && (tail.scale - 1.0).abs() < 1e-2, "{tail:?}");
        let tail = Tail { center: 1.0, scale: 2.0 };
        assert!((tail.alarm(1.0) - 2f64.ln()).abs() < 1e-15);
        assert!((tail.alarm(2001.0) - 1000.0).abs() < 1e-9);
        assert!(tail.alarm(1e300) > tail.alarm(1e299));
        assert!(tail.alarm(-1e6) >= 0.0 && tail.alarm(-1e6) < 1e-300);
    }

    #[test]
    fn equal_scores_have_a_tail_too() {
        assert_eq!(Tail::of(&[3.0; 5]).scale, 1.0);
    }

    #[test]
    fn constant_columns_do_not_count_and_short_rows_are_alike() {
        let rows = Embeddings::from_rows(&[[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]]).unwrap();
        let shell = Shell::of(&rows);
        assert_eq!(shell.columns, 1);
        assert!((shell.least_length - 1e-3 * 53f64.sqrt()).abs() < 1e-12);
        assert_eq!(shell.score(0.0, &[0.0, 0.0]), shell.score(0.0, &[1e-9, 0.0]));
    }
}
