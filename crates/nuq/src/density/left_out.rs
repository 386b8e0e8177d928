//! Densities of training rows. The density of a row is computed from Gaussians that are fitted without this row.
//!
//! `D_k` is the squared Mahalanobis distance of the row to class `k`, `ρ` the shrinkage, `n_c` the number of rows of class `c`, and
//! `N` the number of all rows. A prime marks values without the row.
//!
//! Without row `x` of class `c` the mean of its class moves away from it, `x − μ_c′ = f (x − μ_c)` with `f = n_c/(n_c − 1)`, and
//! the covariance decreases by `b (x − μ_c)(x − μ_c)ᵀ`. With one covariance for all classes, `b = (1−ρ) f / N`, and by the
//! Sherman-Morrison formula, with `q = D_c` and `t_k = (x − μ_k)ᵀ Σ⁻¹ (x − μ_c)`:
//!
//! ```text
//! D_c′ = f² q / (1 − bq)
//! D_k′ = D_k + b t_k² / (1 − bq)
//! ln det Σ′ = ln det Σ + ln(1 − bq)
//! ```
//!
//! A row of sample weight `s` is left out with all its weight: `n_c` and `N` are sums of sample weights,
//! `f = n_c/(n_c − s)`, and `b` is multiplied by `s`.
//!
//! With one covariance per class, `b = (1−ρ) f / n_c`, and `D_k` of the other classes does not change. With diagonal
//! covariances the formulas for `D_c′` and the determinant hold for each column. The shrinkage, the
//! divisors `N` and `n_c` of the covariances, and the class frequencies remain as in the fit to all rows.

use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::Checkpoint;
use rayon::prelude::*;

use super::centered_rows::ClassRows;
use super::class_covariances::ClassCovariances;
use super::class_gaussians::{ClassGaussians, QUERIES, column, offsets};
use super::lanes::sq_distance;
use crate::log_space::log_add;

/// The mixture at a training row that is left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeftOut {
    /// `ln Σ_k π_k e^(−D_k′/2)`.
    pub(crate) log_mixture: f64,
    /// `ln p̂(x)` without the row.
    pub(crate) log_density: f64,
}

/// Lower bound of `1 − bq`. Without shrinkage, `1 − bq` is zero if the covariance of the other rows is singular. Rounding can also make it
/// zero or negative.
const MIN_REMAINDER: f64 = 1e-6;

impl ClassGaussians<'_> {
    /// The mixture at each training row, fitted without this row. `None` for the only row of a class. `classes` and
    /// `weights` are the class numbers and the sample weights of `rows`.
    pub(crate) fn left_out(
        &self,
        rows: &Embeddings<'_>,
        classes: &[u32],
        weights: &[f64],
    ) -> Vec<Option<LeftOut>> {
        let (width, sizes, here) = (self.means.len(), self.class_sizes(), Checkpoint::current());
        let blocks = rows.as_slice().par_chunks(QUERIES * rows.dim()).zip(classes.par_chunks(QUERIES));
        blocks
            .zip(weights.par_chunks(QUERIES))
            .flat_map_iter(|((block, classes), weights)| {
                let sq = here.enter(|| self.sq_distances(block));
                let of = |(i, &class): (usize, &u32)| {
                    here.check();
                    let row = &block[i * rows.dim()..][..rows.dim()];
                    self.left_out_row((row, weights[i]), &sq[i * width..][..width], class as usize, &sizes)
                };
                classes.iter().enumerate().map(of).collect::<Vec<_>>()
            })
            .collect()
    }

    /// The mixture at one row of class `own` with its sample weight. `sq` are the squared distances of the row to the
    /// classes. `sizes` are the sums of the sample weights of the classes.
    fn left_out_row(
        &self,
        (row, weight): (&[f32], f64),
        sq: &[f64],
        own: usize,
        sizes: &[f64],
    ) -> Option<LeftOut> {
        let n = sizes[own];
        if n - weight <= 0.0 {
            return None;
        }
        let f = n / (n - weight);
        let row_weights = self.weights.as_deref();
        let (sq, own_log_det_change, other_log_det_change) = match &self.covariances {
            ClassCovariances::Tied { whitener, whitened_means, .. } => {
                let between = |k: usize| sq_distance(column(whitened_means, k), column(whitened_means, own));
                let b = (1.0 - whitener.shrinkage()) * weight * f / sizes.iter().sum::<f64>();
                let q = sq[own];
                let rest = (1.0 - b * q).max(MIN_REMAINDER);
                let without = |(k, &d): (usize, &f64)| match k == own {
                    true => f * f * q / rest,
                    false => d + b / rest * (0.5 * (d + q - between(k))).powi(2),
                };
                (sq.iter().enumerate().map(without).collect::<Vec<f64>>(), rest.ln(), rest.ln())
            }
            ClassCovariances::Separate { whiteners, members } => {
                let (whitener, mean) = (&whiteners[own], &self.means[own]);
                let class_rows =
                    ClassRows { rows: &self.rows, ids: &members[own], mean, weights: row_weights };
                let whitened = whitener.whiten(offsets(row, mean), &class_rows);
                let b = (1.0 - whitener.shrinkage()) * weight * f / n;
                let remainder = |sq: f64| (1.0 - b * sq).max(MIN_REMAINDER);
                let (own_sq, log_det_change) = if whitener.is_diagonal() {
                    let squares = || whitened.col(0).iter().map(|u| u * u);
                    let own_sq: f64 = squares().map(|sq| f * f * sq / remainder(sq)).sum();
                    (own_sq, squares().map(|sq| remainder(sq).ln()).sum())
                } else {
                    let rest = remainder(sq[own]);
                    (f * f * sq[own] / rest, rest.ln())
                };
                let mut without = sq.to_vec();
                without[own] = own_sq;
                (without, log_det_change, 0.0)
            }
        };
        let change = |class: usize| if class == own { own_log_det_change } else { other_log_det_change };
        let log_density = (0..sq.len())
            .map(|class| self.log_constant(class) - 0.5 * (sq[class] + change(class)))
            .fold(f64::NEG_INFINITY, log_add);
        Some(LeftOut { log_mixture: self.mixed(sq.iter().copied()), log_density })
    }

    /// The sum of the sample weights of each class.
    fn class_sizes(&self) -> Vec<f64> {
        let weight = |row: u32| self.weights.as_ref().map_or(1.0, |weights| weights[row as usize]);
        match &self.covariances {
            ClassCovariances::Separate { members, .. } => {
                members.iter().map(|ids| ids.iter().map(|&id| weight(id)).sum()).collect()
            }
            ClassCovariances::Tied { class_of_row, .. } => {
                let mut sizes = vec![0.0; self.means.len()];
                (0..).zip(class_of_row).for_each(|(row, &class)| sizes[class as usize] += weight(row));
                sizes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::RowClasses;
    use crate::{Covariance, Shrinkage};

    const ROWS: [[f32; 2]; 7] =
        [[0.0, 0.3], [1.0, -0.2], [0.4, 1.1], [4.0, 4.2], [5.1, 4.0], [4.6, 5.3], [9.0, -3.0]];
    const CLASSES: [u32; 7] = [0, 0, 0, 1, 1, 1, 2];

    /// `(x − μ)ᵀ Σ⁻¹ (x − μ)` in the plane.
    fn sq_distance(x: [f64; 2], mean: [f64; 2], [a, b, c]: [f64; 3]) -> f64 {
        let (u, v) = (x[0] - mean[0], x[1] - mean[1]);
        (c * u * u - 2.0 * b * u * v + a * v * v) / (a * c - b * b)
    }

    /// Class means, and the scatter around them, of the rows for which `is_used` is true. The divisor of the scatter is
    /// the weight of all rows.
    fn fit(weights: &[f64; 7], is_used: impl Fn(usize) -> bool) -> (Vec<[f64; 2]>, [f64; 3]) {
        let total: f64 = weights.iter().sum();
        let at = |i: usize| ROWS[i].map(f64::from);
        let mut means = vec![];
        let mut scatter = [0.0; 3];
        for class in 0..3 {
            let ids: Vec<usize> = (0..7).filter(|&i| CLASSES[i] == class && is_used(i)).collect();
            let n = ids.iter().map(|&i| weights[i]).sum::<f64>();
            let mean = [0, 1].map(|j| ids.iter().map(|&i| weights[i] * at(i)[j]).sum::<f64>() / n);
            for &i in &ids {
                let (u, v) = (at(i)[0] - mean[0], at(i)[1] - mean[1]);
                let terms = [u * u, u * v, v * v];
                terms.iter().zip(&mut scatter).for_each(|(term, sum)| *sum += weights[i] * term / total);
            }
            means.push(mean);
        }
        (means, scatter)
    }

    fn check_left_out(weights: [f64; 7]) {
        let rows = Embeddings::from_rows(&ROWS).unwrap();
        let (rho, total) = (0.2, weights.iter().sum::<f64>());
        let (classes, class_of_row) = crate::Classes::encode(&CLASSES);
        let classes = RowClasses { classes: &classes, class_of_row: &class_of_row, weights: Some(&weights) };
        let model =
            ClassGaussians::fit_encoded(&(&rows).into(), classes, Covariance::Tied, Shrinkage::Fixed(rho))
                .unwrap();
        let left_out = model.left_out(&rows, &CLASSES, &weights);
        // The multiple of the identity is computed from all rows.
        let (_, all) = fit(&weights, |_| true);
        let target = 0.5 * (all[0] + all[2]);
        for i in 0..6 {
            let (means, scatter) = fit(&weights, |other| other != i);
            let sigma = [
                (1.0 - rho) * scatter[0] + rho * target,
                (1.0 - rho) * scatter[1],
                (1.0 - rho) * scatter[2] + rho * target,
            ];
            let density: f64 = (0..3)
                .map(|c| {
                    let of_class = (0..7).filter(|&i| CLASSES[i] == c).map(|i| weights[i]).sum::<f64>();
                    let sq = sq_distance(ROWS[i].map(f64::from), means[c as usize], sigma);
                    of_class / total * (-0.5 * sq).exp()
                })
                .sum();
            let [mixture, log_density] = left_out[i].map(|of| [of.log_mixture, of.log_density]).unwrap();
            assert!((mixture - density.ln()).abs() < 1e-10, "row {i}");
            let det = sigma[0] * sigma[2] - sigma[1] * sigma[1];
            let log_peak = -(2.0 * std::f64::consts::PI).ln() - 0.5 * det.ln();
            assert!((log_density - density.ln() - log_peak).abs() < 1e-10, "row {i}");
        }
        assert!(left_out[6].is_none(), "the only row of its class");
    }

    #[test]
    fn left_out_values_equal_a_fit_to_the_other_rows() {
        check_left_out([1.0; 7]);
    }

    #[test]
    fn a_row_is_left_out_with_its_sample_weight() {
        check_left_out([1.0, 0.5, 4.0, 2.0, 0.1, 1.0, 3.0]);
    }

    /// The log density of row `i` from a fit without this row, with one covariance per class. The divisor is the number
    /// of all rows of the class. `diagonal` sets the covariances of different columns to zero.
    fn separate_without(i: usize, rho: f64, diagonal: bool) -> f64 {
        let at = |i: usize| ROWS[i].map(f64::from);
        let mut density = 0.0;
        for class in 0..2u32 {
            let ids = || (0..6).filter(move |&j| CLASSES[j] == class);
            let moments = |left_out: Option<usize>| {
                let used: Vec<usize> = ids().filter(|&j| Some(j) != left_out).collect();
                let mean = [0, 1].map(|c| used.iter().map(|&j| at(j)[c]).sum::<f64>() / used.len() as f64);
                let mut scatter = [0.0; 3];
                for &j in &used {
                    let (u, v) = (at(j)[0] - mean[0], at(j)[1] - mean[1]);
                    [u * u, u * v, v * v].iter().zip(&mut scatter).for_each(|(t, s)| *s += t / 3.0);
                }
                (mean, scatter)
            };
            let (_, all) = moments(None);
            let target = 0.5 * (all[0] + all[2]);
            let (mean, scatter) = moments(Some(i));
            let sigma = [
                (1.0 - rho) * scatter[0] + rho * target,
                if diagonal { 0.0 } else { (1.0 - rho) * scatter[1] },
                (1.0 - rho) * scatter[2] + rho * target,
            ];
            let det = sigma[0] * sigma[2] - sigma[1] * sigma[1];
            density += 0.5 * (-0.5 * sq_distance(at(i), mean, sigma)).exp()
                / (2.0 * std::f64::consts::PI * det.sqrt());
        }
        density.ln()
    }

    #[test]
    fn left_out_values_of_separate_covariances_equal_a_fit_to_the_other_rows() {
        let rows = Embeddings::from_rows(&ROWS[..6]).unwrap();
        let rho = 0.2;
        for covariance in [Covariance::Full, Covariance::Diagonal] {
            let model = ClassGaussians::fit(&rows, &CLASSES[..6], covariance, Shrinkage::Fixed(rho)).unwrap();
            for (i, of) in model.left_out(&rows, &CLASSES[..6], &[1.0; 6]).iter().enumerate() {
                let want = separate_without(i, rho, covariance == Covariance::Diagonal);
                assert!((of.unwrap().log_density - want).abs() < 1e-10, "{covariance} row {i}");
            }
        }
    }
}
