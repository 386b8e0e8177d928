//! Random Fourier features (Rahimi and Recht 2007): `φ(x) = √(2/D) cos(W (x − μ) / ℓ + b)` with `D` features, the length scale `ℓ`,
//! normal `W` and uniform `b`. Then `φ(x)ᵀ φ(y) ≈ exp(−‖x − y‖² / 2ℓ²)`.
//!
//! Subtracting the mean `μ` of the training rows does not change the kernel, and keeps the arguments of the cosine small.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use nuq_neighbors::cancel::ParallelCheckpoints;
use nuq_neighbors::{Embeddings, SeededRng, sq_distance};
use rayon::prelude::*;

use crate::Error;
use nuq::moments::mean;

/// The feature map `φ`.
pub(super) struct RandomFeatures {
    center: Vec<f64>,
    /// `W / ℓ`, one row per feature.
    frequencies: Mat<f64>,
    phases: Vec<f64>,
}

/// Number of rows per block. Shorter blocks are padded with zeros: matrix products of another shape may round differently, and
/// the features of a row would depend on the size of its batch.
pub(super) const BLOCK: usize = 64;
/// Number of training rows whose pairwise distances determine the length scale.
const SCALE_ROWS: usize = 500;

impl RandomFeatures {
    /// Draws `count` features with the given length scale.
    pub(super) fn draw(rows: &Embeddings<'_>, count: usize, length_scale: f64, seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let frequencies = Mat::from_fn(count, rows.dim(), |_, _| rng.normal() / length_scale);
        let phases = (0..count).map(|_| std::f64::consts::TAU * rng.uniform()).collect();
        Self { center: mean(rows), frequencies, phases }
    }

    /// Takes `μ`, `W / ℓ` and `b`. There is one row of `W` and one value of `b` per feature.
    pub(super) fn from_arrays(center: Vec<f64>, frequencies: Mat<f64>, phases: Vec<f64>) -> Self {
        Self { center, frequencies, phases }
    }

    /// The features of up to [`BLOCK`] rows, given in row-major order. The result has one column per row. Surplus columns are the features of the center.
    pub(super) fn transform_block(&self, block: &[f32]) -> Mat<f64> {
        let d = self.dim();
        let mut x: Mat<f64> = Mat::zeros(d, BLOCK);
        for (column, row) in x.col_iter_mut().zip(block.chunks_exact(d)) {
            let centered = row.iter().zip(&self.center).map(|(&v, m)| f64::from(v) - m);
            column.iter_mut().zip(centered).for_each(|(x, v)| *x = v);
        }
        let mut phi: Mat<f64> = Mat::zeros(self.len(), BLOCK);
        matmul(&mut phi, Accum::Replace, &self.frequencies, &x, 1.0, Par::Seq);
        let amplitude = (2.0 / self.len() as f64).sqrt();
        for column in phi.col_iter_mut() {
            column.iter_mut().zip(&self.phases).for_each(|(p, b)| *p = amplitude * (*p + b).cos());
        }
        phi
    }

    /// The features of all rows, row-major.
    pub(super) fn transform(&self, rows: &Embeddings<'_>) -> Vec<f64> {
        let mut values = vec![0.0; rows.len() * self.len()];
        let blocks = values.par_chunks_mut(BLOCK * self.len()).with_checkpoints();
        blocks.zip(rows.as_slice().par_chunks(BLOCK * self.dim())).for_each(|(values, block)| {
            let phi = self.transform_block(block);
            for (row, column) in values.chunks_exact_mut(self.len()).zip(phi.col_iter()) {
                row.iter_mut().zip(column.iter()).for_each(|(value, phi)| *value = *phi);
            }
        });
        values
    }

    /// The number of columns of the rows.
    pub(super) fn dim(&self) -> usize {
        self.center.len()
    }

    /// The number of features, `D`.
    pub(super) fn len(&self) -> usize {
        self.phases.len()
    }

    /// `W / ℓ`, `b` and `μ`.
    pub(super) fn parts(&self) -> (&Mat<f64>, &[f64], &[f64]) {
        (&self.frequencies, &self.phases, &self.center)
    }

    pub(super) fn bytes(&self) -> u64 {
        8 * (self.frequencies.nrows() * self.frequencies.ncols() + self.center.len() + self.phases.len())
            as u64
    }
}

/// The median pairwise distance of a seeded sample of rows, without pairs of equal rows.
pub(super) fn median_distance(rows: &Embeddings<'_>, seed: u64) -> Result<f64, Error> {
    let sample = rows.gather(&SeededRng::new(seed).sample(rows.len(), SCALE_ROWS));
    let mut sq_distances: Vec<f64> = (1..sample.len())
        .into_par_iter()
        .flat_map_iter(|i| (0..i).map(move |j| (i, j)))
        .map(|(i, j)| sq_distance(sample.row(i), sample.row(j)))
        .filter(|sq| *sq > 0.0)
        .collect();
    if sq_distances.is_empty() {
        let remedy = "set length_scale to a number";
        return Err(nuq::Error::NoSpread { what: "length_scale", rows: rows.len(), remedy }.into());
    }
    let middle = sq_distances.len() / 2;
    Ok(sq_distances.select_nth_unstable_by(middle, f64::total_cmp).1.sqrt())
}

#[cfg(test)]
mod tests {
    use nuq_testkit::data::normal;

    use super::*;

    #[test]
    fn products_of_features_approximate_the_kernel() {
        let x = normal(40, 6, 1);
        let features = RandomFeatures::draw(&x, 20_000, 2.5, 3);
        let phi = features.transform(&x);
        let product = |i: usize, j: usize| -> f64 {
            phi[i * 20_000..][..20_000].iter().zip(&phi[j * 20_000..]).map(|(a, b)| a * b).sum()
        };
        for (i, j) in [(0, 0), (1, 2), (3, 30), (17, 39)] {
            let kernel = (-sq_distance(x.row(i), x.row(j)) / (2.0 * 2.5 * 2.5)).exp();
            // Six standard errors.
            assert!(
                (product(i, j) - kernel).abs() < 6.0 / 20_000f64.sqrt(),
                "{} and {kernel}",
                product(i, j)
            );
        }
    }

    #[test]
    fn the_length_scale_is_the_median_of_nonzero_distances() {
        let x = Embeddings::new(vec![0.0, 0.0, 0.0, 0.0, 3.0, 5.0], 1).unwrap();
        // The distances are 3 (four times), 5 (four times) and 2.
        assert_eq!(median_distance(&x, 0), Ok(3.0));
        let same = Embeddings::new(vec![0.5; 8], 2).unwrap();
        assert!(matches!(median_distance(&same, 0), Err(Error::Model(nuq::Error::NoSpread { rows: 4, .. }))));
    }
}
