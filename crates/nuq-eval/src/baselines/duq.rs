//! The last layer of DUQ (van Amersfoort et al. 2020) on frozen embeddings: one kernel around a centroid per class,
//! each in its own projection.
//!
//! ```text
//! K_c(x) = exp(−‖W_c x − e_c‖² / (2 n σ²))
//! ```
//!
//! `W_c` has `n` rows, `e_c` is the centroid, and `σ` is the length scale. The score is `−ln max_c K_c`. It ranks rows in the same order as
//! `1 − max_c K_c`. Far from the data, `1 − max_c K_c` saturates at 1, but the score keeps increasing.
//!
//! The gradient penalty of the paper regularizes the network with respect to its input. Embeddings are fixed here, so there is no
//! penalty.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::{Checkpoint, ParallelCheckpoints};
use rayon::prelude::*;

use super::duq_training::{ClassKernel, train};
use super::parts::{Array, damaged};
use super::scorer::check_columns;
use super::sngp::check_training;
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::{no_spread, out_of_range};
use crate::evaluate::MethodId;
use nuq::moments::mean;
use nuq::{Classes, Label};

/// Parameters of [`Duq::fit`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DuqParams {
    /// Dimension `n` of the projections, at least one.
    pub projection: usize,
    /// Length scale `σ` in [1e-6, 1e6]. Rows are standardized. Therefore their projections have a length of about `√n`
    /// before training.
    pub length_scale: f64,
    /// Momentum of the running mean of the projected rows of a class, which is its centroid; in [0, 1).
    pub momentum: f64,
    /// Number of training steps, at least one.
    pub steps: usize,
    /// Number of rows per step, at least one.
    pub batch: usize,
    /// Learning rate of Adam, in (0, 1].
    pub learning_rate: f64,
    /// Seed of the initial weights and of the order of rows.
    pub seed: u64,
}

impl Default for DuqParams {
    fn default() -> Self {
        Self {
            projection: 64,
            length_scale: 0.5,
            momentum: 0.99,
            steps: 300,
            batch: 512,
            learning_rate: 1e-3,
            seed: 0,
        }
    }
}

/// One kernel around a centroid per class, as the last layer.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::{Batch, Duq, DuqParams, Scorer};
///
/// let train = Embeddings::from_rows(&[[0.0, 0.1], [0.1, 0.0], [0.1, 0.1], [2.0, 2.1], [2.1, 2.0], [2.1, 2.1]])?;
/// let duq = Duq::fit(&train, &["cat", "cat", "cat", "dog", "dog", "dog"], DuqParams::default())?;
/// let queries = Embeddings::from_rows(&[[2.0, 2.0], [40.0, -90.0]])?;
/// assert_eq!(duq.predict(&queries)?[0], "dog");
/// let scores = duq.score(&Batch { embeddings: Some(&queries), ..Batch::default() })?;
/// assert!(scores[1] > scores[0]);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
pub struct Duq {
    standardization: Standardization,
    kernels: Vec<ClassKernel>,
    classes: Classes,
    params: DuqParams,
}

/// Number of rows per block. Shorter blocks are padded with zeros, so that the score of a row does not depend on its batch.
const BLOCK: usize = 64;

/// A shift of each column and one scale for all columns. After both, each column of the training rows has mean zero,
/// and the mean square of all values is one.
pub(super) struct Standardization {
    center: Vec<f64>,
    scale: f64,
}

impl Standardization {
    fn fit(rows: &Embeddings<'_>) -> Result<Self, Error> {
        let center = mean(rows);
        let sq_norm =
            |row: &[f32]| row.iter().zip(&center).map(|(&v, m)| (f64::from(v) - m).powi(2)).sum::<f64>();
        let squares: Vec<f64> =
            rows.as_slice().par_chunks(rows.dim()).with_checkpoints().map(sq_norm).collect();
        let scale = (squares.iter().sum::<f64>() / rows.as_slice().len() as f64).sqrt();
        if scale > 0.0 {
            Ok(Self { center, scale })
        } else {
            Err(no_spread("the projection of DUQ", rows.len()))
        }
    }

    /// The standardized rows as the columns of a matrix with `columns` columns. Surplus columns are zero.
    pub(super) fn apply<'r>(&self, rows: impl Iterator<Item = &'r [f32]>, columns: usize) -> Mat<f64> {
        let mut standardized: Mat<f64> = Mat::zeros(self.center.len(), columns);
        for (column, row) in standardized.col_iter_mut().zip(rows) {
            let values = row.iter().zip(&self.center).map(|(&v, m)| (f64::from(v) - m) / self.scale);
            column.iter_mut().zip(values).for_each(|(x, v)| *x = v);
        }
        standardized
    }

    /// The number of columns of the embeddings.
    pub(super) fn dim(&self) -> usize {
        self.center.len()
    }
}

impl Duq {
    /// Trains the layer on rows of at least two classes.
    ///
    /// # Errors
    /// No rows, a single class, unequal numbers of rows and labels, rows that are all equal, or parameters out of their range.
    pub fn fit<'l, L>(rows: &Embeddings<'_>, labels: &'l [L], params: DuqParams) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        params.check()?;
        let (classes, class_of_row) = check_training("DUQ", rows, labels)?;
        let standardization = Standardization::fit(rows)?;
        let kernels = train(rows, &class_of_row, classes.len(), &standardization, &params);
        Ok(Self { standardization, kernels, classes, params })
    }

    pub(super) fn from_parts(parts: &mut BaselineParts) -> Result<Self, Error> {
        let params = DuqParams {
            projection: parts.count("projection")?,
            length_scale: parts.number("length_scale")?,
            momentum: parts.number("momentum")?,
            steps: parts.count("steps")?,
            batch: parts.count("batch")?,
            learning_rate: parts.number("learning_rate")?,
            seed: parts.integer("seed")?,
        };
        params.check()?;
        let (classes, n) = (parts.classes()?, params.projection);
        let (center, scale) = (parts.vector("center")?, parts.scalar("scale")?);
        if scale <= 0.0 {
            return Err(damaged("scale", "it is not positive"));
        }
        let d = center.len();
        let weights = parts.finite_of_shape("weights", &[classes.len(), n, d])?;
        let centroids = parts.finite_of_shape("centroids", &[classes.len(), n])?;
        let kernel = |(weights, centroid): (&[f64], &[f64])| ClassKernel {
            weights: Mat::from_fn(n, d, |i, j| weights[i * d + j]),
            centroid: centroid.to_vec(),
        };
        let kernels = weights.chunks_exact(n * d).zip(centroids.chunks_exact(n)).map(kernel).collect();
        Ok(Self { standardization: Standardization { center, scale }, kernels, classes, params })
    }

    /// The label of the nearest centroid of each row.
    ///
    /// # Errors
    /// Rows with another number of columns than the training rows.
    pub fn predict(&self, rows: &Embeddings<'_>) -> Result<Vec<&Label>, Error> {
        self.map_exponents(rows, |exponents| {
            let nearest = (0..exponents.len()).min_by(|&a, &b| exponents[a].total_cmp(&exponents[b]));
            self.classes.label(nearest.unwrap_or(0))
        })
    }

    /// Maps the values `−ln K_c` of all classes to one value per row.
    fn map_exponents<T: Send>(
        &self,
        rows: &Embeddings<'_>,
        function: impl Fn(&[f64]) -> T + Sync,
    ) -> Result<Vec<T>, Error> {
        check_columns(rows, self.standardization.dim())?;
        let width = self.params.width();
        let here = Checkpoint::current();
        let map_block = |block: &[f32]| {
            let x = self.standardization.apply(block.chunks_exact(rows.dim()), BLOCK);
            let mut exponents: Mat<f64> = Mat::zeros(self.kernels.len(), BLOCK);
            for (c, kernel) in self.kernels.iter().enumerate() {
                here.check();
                let mut projected: Mat<f64> = Mat::zeros(kernel.centroid.len(), BLOCK);
                matmul(&mut projected, Accum::Replace, &kernel.weights, &x, 1.0, Par::Seq);
                for (i, column) in projected.col_iter().enumerate() {
                    let squares = column.iter().zip(&kernel.centroid).map(|(p, e)| (p - e).powi(2));
                    exponents[(c, i)] = squares.sum::<f64>() / width;
                }
            }
            let columns = exponents.col_iter().take(block.len() / rows.dim());
            columns.map(|column| function(&column.iter().copied().collect::<Vec<f64>>())).collect::<Vec<T>>()
        };
        Ok(rows.as_slice().par_chunks(BLOCK * rows.dim()).flat_map_iter(map_block).collect())
    }
}

impl DuqParams {
    /// `2 n σ²`.
    pub(super) fn width(&self) -> f64 {
        2.0 * self.projection as f64 * self.length_scale.powi(2)
    }

    fn check(&self) -> Result<(), Error> {
        let counts = [("projection", self.projection), ("steps", self.steps), ("batch", self.batch)];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(out_of_range(name, 0.0, "it must be at least one"));
        }
        if !(1e-6..=1e6).contains(&self.length_scale) {
            return Err(out_of_range("length_scale", self.length_scale, "it must lie in [1e-6, 1e6]"));
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(out_of_range("momentum", self.momentum, "it must lie in [0, 1)"));
        }
        if !(self.learning_rate > 0.0 && self.learning_rate <= 1.0) {
            return Err(out_of_range("learning_rate", self.learning_rate, "it must lie in (0, 1]"));
        }
        Ok(())
    }
}

impl Scorer for Duq {
    fn name(&self) -> String {
        "DUQ".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let rows = batch.need_embeddings(self)?;
        self.map_exponents(rows, |exponents| exponents.iter().copied().fold(f64::INFINITY, f64::min))
    }

    fn bytes(&self) -> u64 {
        let numbers: usize =
            self.kernels.iter().map(|kernel| kernel.centroid.len() * (self.standardization.dim() + 1)).sum();
        8 * (numbers + self.standardization.dim()) as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let DuqParams { projection, length_scale, momentum, steps, batch, learning_rate, seed } = self.params;
        let parts = BaselineParts::new(MethodId::Duq).labels(&self.classes);
        let parts = parts.param("projection", projection).param("length_scale", length_scale);
        let parts = parts.param("momentum", momentum).param("steps", steps).param("batch", batch);
        let parts = parts.param("learning_rate", learning_rate).param("seed", seed);
        let weights = |kernel: &ClassKernel| {
            kernel.weights.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<f64>>()).collect()
        };
        let weights: Vec<Vec<f64>> = self.kernels.iter().map(weights).collect();
        let centroids = self.kernels.iter().flat_map(|kernel| kernel.centroid.iter().copied()).collect();
        let shape = vec![self.kernels.len(), projection, self.standardization.dim()];
        let parts = parts.array("weights", Array { shape, values: weights.concat().into() });
        let parts = parts.table::<f64>("centroids", centroids, projection);
        let Standardization { center, scale } = &self.standardization;
        Some(parts.array("center", center.clone()).array("scale", *scale))
    }
}

#[cfg(test)]
mod tests {
    use nuq_testkit::baselines::duq_exponent;
    use nuq_testkit::data::{clusters, to_rows};

    use super::*;

    #[test]
    fn scores_equal_their_equation() {
        let (x, y) = clusters(90, 5, 3, 2.0, 1);
        let params = DuqParams { projection: 7, steps: 40, length_scale: 0.3, ..DuqParams::default() };
        let duq = Duq::fit(&x, &y, params).unwrap();
        let queries =
            Embeddings::new([x.row(3), &[9.0; 5], &[-1e3, 0.5, 0.0, 2.0, 1e3]].concat(), 5).unwrap();
        let scores = duq.score(&Batch { embeddings: Some(&queries), ..Batch::default() }).unwrap();
        for (q, ours) in to_rows(&queries).iter().zip(scores) {
            let Standardization { center, scale } = &duq.standardization;
            let standardized: Vec<f64> = q.iter().zip(center).map(|(v, m)| (v - m) / scale).collect();
            let exponent = |kernel: &ClassKernel| {
                let rows = kernel.weights.row_iter().map(|row| row.iter().copied().collect());
                duq_exponent(&rows.collect::<Vec<Vec<f64>>>(), &kernel.centroid, 0.3, &standardized)
            };
            let expected = duq.kernels.iter().map(exponent).fold(f64::INFINITY, f64::min);
            assert!((ours - expected).abs() < 1e-10 * expected, "{ours}, expected {expected}");
        }
    }
}
