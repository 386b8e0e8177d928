//! Log mixtures of training rows, each left out of the Gaussians that it is evaluated with.
//!
//! For one covariance of all classes. Without row `x` of class `c` the mean of its class moves away from it,
//! `x − μ_c′ = f (x − μ_c)` with `f = n_c/(n_c − 1)`, and the covariance loses `b (x − μ_c)(x − μ_c)ᵀ` with
//! `b = (1−ρ) f / N`. By the Sherman-Morrison formula, with `q = D_c` and `t_k = (x − μ_k)ᵀ Σ⁻¹ (x − μ_c)`:
//!
//! ```text
//! D_c′ = f² q / (1 − bq)
//! D_k′ = D_k + b t_k² / (1 − bq)
//! ```

use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::Checkpoint;
use rayon::prelude::*;

use super::class_covariances::ClassCovariances;
use super::class_gaussians::{ClassGaussians, QUERIES};

impl ClassGaussians<'_> {
    /// [`log_mixture`](Self::log_mixture) of training rows, each without itself; shrinkage and class frequencies are those
    /// of all rows. `None` for the only row of a class. `classes` holds the class number of each of `rows`.
    pub(crate) fn left_out_log_mixture(&self, rows: &Embeddings<'_>, classes: &[u32]) -> Vec<Option<f64>> {
        let ClassCovariances::Tied { whitener, whitened_means, of_row } = &self.covariances else {
            unreachable!("called for tied covariances only")
        };
        let mut counts = vec![0usize; self.means.len()];
        of_row.iter().for_each(|&class| counts[class as usize] += 1);
        let total = of_row.len() as f64;
        let between = |k: usize, c: usize| (whitened_means.col(k) - whitened_means.col(c)).squared_norm_l2();
        let left_out = |sq: &[f64], own: usize| {
            let n = counts[own] as f64;
            if n < 2.0 {
                return None;
            }
            let (f, q) = (n / (n - 1.0), sq[own]);
            let b = (1.0 - whitener.shrinkage()) * f / total;
            let rest = (1.0 - b * q).max(1e-6);
            let without = |(k, &d): (usize, &f64)| match k == own {
                true => f * f * q / rest,
                false => d + b / rest * (0.5 * (d + q - between(k, own))).powi(2),
            };
            Some(self.mixed(sq.iter().enumerate().map(without)))
        };
        let (width, here) = (self.means.len(), Checkpoint::current());
        let blocks = rows.as_slice().par_chunks(QUERIES * rows.dim()).zip(classes.par_chunks(QUERIES));
        blocks
            .flat_map_iter(|(block, classes)| {
                let sq = here.enter(|| self.sq_distances(block));
                let of = |(i, &class): (usize, &u32)| {
                    here.check();
                    left_out(&sq[i * width..][..width], class as usize)
                };
                classes.iter().enumerate().map(of).collect::<Vec<_>>()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Covariance, Shrinkage};

    const ROWS: [[f32; 2]; 7] =
        [[0.0, 0.3], [1.0, -0.2], [0.4, 1.1], [4.0, 4.2], [5.1, 4.0], [4.6, 5.3], [9.0, -3.0]];
    const CLASSES: [u32; 7] = [0, 0, 0, 1, 1, 1, 2];

    /// `(x − μ)ᵀ Σ⁻¹ (x − μ)` in the plane.
    fn sq_distance(x: [f64; 2], mean: [f64; 2], [a, b, c]: [f64; 3]) -> f64 {
        let (u, v) = (x[0] - mean[0], x[1] - mean[1]);
        (c * u * u - 2.0 * b * u * v + a * v * v) / (a * c - b * b)
    }

    /// Class means and the scatter around them, of the rows for which `is_used` holds; the divisor is seven.
    fn fit(is_used: impl Fn(usize) -> bool) -> (Vec<[f64; 2]>, [f64; 3]) {
        let at = |i: usize| ROWS[i].map(f64::from);
        let mut means = vec![];
        let mut scatter = [0.0; 3];
        for class in 0..3 {
            let ids: Vec<usize> = (0..7).filter(|&i| CLASSES[i] == class && is_used(i)).collect();
            let n = ids.len() as f64;
            let mean = [0, 1].map(|j| ids.iter().map(|&i| at(i)[j]).sum::<f64>() / n);
            for &i in &ids {
                let (u, v) = (at(i)[0] - mean[0], at(i)[1] - mean[1]);
                [u * u, u * v, v * v].iter().zip(&mut scatter).for_each(|(term, sum)| *sum += term / 7.0);
            }
            means.push(mean);
        }
        (means, scatter)
    }

    #[test]
    fn left_out_values_equal_a_fit_to_the_other_rows() {
        let rows = Embeddings::from_rows(&ROWS).unwrap();
        let rho = 0.2;
        let model = ClassGaussians::fit(&rows, &CLASSES, Covariance::Tied, Shrinkage::Fixed(rho)).unwrap();
        let left_out = model.left_out_log_mixture(&rows, &CLASSES);
        // The multiple of the identity is computed from all rows.
        let (_, all) = fit(|_| true);
        let target = 0.5 * (all[0] + all[2]);
        for i in 0..6 {
            let (means, scatter) = fit(|other| other != i);
            let sigma = [
                (1.0 - rho) * scatter[0] + rho * target,
                (1.0 - rho) * scatter[1],
                (1.0 - rho) * scatter[2] + rho * target,
            ];
            let density: f64 = (0..3)
                .map(|c| {
                    let weight = [3.0, 3.0, 1.0][c] / 7.0;
                    weight * (-0.5 * sq_distance(ROWS[i].map(f64::from), means[c], sigma)).exp()
                })
                .sum();
            assert!((left_out[i].unwrap() - density.ln()).abs() < 1e-10, "row {i}");
        }
        assert_eq!(left_out[6], None, "the only row of its class");
    }
}
