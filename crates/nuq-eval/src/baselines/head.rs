//! The last linear layer of a network, `z = W x + b`, given or estimated.
//!
//! Logits are a linear function of the embeddings that enter the layer. A least-squares fit of logits to embeddings therefore
//! recovers the layer, up to rounding.

use faer::linalg::matmul::matmul;
use faer::prelude::Solve;
use faer::{Accum, Mat, Par, Side};
use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::{ParallelCheckpoints, checkpoint};
use rayon::prelude::*;

use super::scorer::check_columns;
use crate::Error;
use crate::error::{length_mismatch, no_spread, out_of_range};
use nuq::moments::{mean, scatter_around};

/// Weights `W` and biases `b` of the last layer.
#[derive(Debug, Clone)]
pub struct Head {
    /// One column per class.
    weights: Mat<f64>,
    bias: Vec<f64>,
}

/// Number of rows that are converted to `f64` at once.
const CHUNK: usize = 1024;
/// Ridge that is added to the variance of each column, relative to that variance, because columns may have different units.
const RIDGE: f64 = 1e-10;
/// Smallest ridge, relative to the mean variance of the columns. It is needed for constant columns: their variance is zero
/// or a rounding error.
const MIN_RIDGE: f64 = 1e-20;
/// Largest accepted residual, relative to the spread of the logits. It is large enough for the rounding errors of `f16`
/// arrays.
const TOLERANCE: f64 = 0.05;

impl Head {
    /// Takes known weights (one row per class, with one value per embedding column) and one bias per class.
    ///
    /// # Errors
    /// The number of biases is not the number of rows of weights, or a bias is not finite.
    pub fn new(weights: &Embeddings<'_>, bias: &[f64]) -> Result<Self, Error> {
        if bias.len() != weights.len() {
            let (got, expected) = (bias.len(), weights.len());
            return Err(length_mismatch("biases", got, "rows of weights", expected));
        }
        if let Some(&value) = bias.iter().find(|value| !value.is_finite()) {
            return Err(out_of_range("bias", value, "it must be finite"));
        }
        let transposed = Mat::from_fn(weights.dim(), weights.len(), |j, c| f64::from(weights.row(c)[j]));
        Ok(Self { weights: transposed, bias: bias.to_vec() })
    }

    /// Takes finite weights, one column per class, and finite biases.
    pub(super) fn from_arrays(weights: Mat<f64>, bias: Vec<f64>) -> Result<Self, Error> {
        if bias.len() != weights.ncols() {
            return Err(length_mismatch("biases", bias.len(), "columns of weights", weights.ncols()));
        }
        Ok(Self { weights, bias })
    }

    /// Estimates the layer that maps these embeddings to these logits.
    ///
    /// ```
    /// use nuq::Embeddings;
    /// use nuq_eval::baselines::Head;
    /// // z = (x₀ + 1, 2 x₁)
    /// let x = Embeddings::from_rows(&[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])?;
    /// let z = Embeddings::from_rows(&[[1.0, 0.0], [2.0, 0.0], [1.0, 2.0], [2.0, 2.0]])?;
    /// let logits = Head::fit(&x, &z)?.logits(&Embeddings::from_rows(&[[3.0, 5.0]])?)?;
    /// assert!((logits.row(0)[0] - 4.0).abs() < 1e-5 && (logits.row(0)[1] - 10.0).abs() < 1e-5);
    /// # Ok::<(), nuq_eval::Error>(())
    /// ```
    ///
    /// # Errors
    /// Unequal numbers of rows, fewer rows than embedding columns plus one, or logits that are not a linear function of the
    /// embeddings.
    pub fn fit(embeddings: &Embeddings<'_>, logits: &Embeddings<'_>) -> Result<Self, Error> {
        if embeddings.len() != logits.len() {
            let (got, expected) = (logits.len(), embeddings.len());
            return Err(length_mismatch("rows of logits", got, "embeddings", expected));
        }
        if embeddings.len() <= embeddings.dim() {
            return Err(Error::FewRows {
                what: "the last layer of the network",
                got: embeddings.len(),
                needed: embeddings.dim() + 1,
            });
        }
        let (mean_x, mean_z) = (mean(embeddings), mean(logits));
        let (d, classes) = (embeddings.dim(), logits.dim());
        let mut moments = scatter_around(embeddings, &mean_x);
        let min_ridge =
            (MIN_RIDGE * (0..d).map(|j| moments[(j, j)]).sum::<f64>() / d as f64).max(f64::MIN_POSITIVE);
        (0..d).for_each(|j| moments[(j, j)] += min_ridge.max(RIDGE * moments[(j, j)]));
        let mut cross: Mat<f64> = Mat::zeros(d, classes);
        for first in (0..embeddings.len()).step_by(CHUNK) {
            checkpoint();
            let last = embeddings.len().min(first + CHUNK);
            let x = centered(embeddings, &mean_x, first, last);
            let z = centered(logits, &mean_z, first, last);
            matmul(&mut cross, Accum::Add, &x, z.transpose(), 1.0 / embeddings.len() as f64, Par::Seq);
        }
        let factor =
            moments.llt(Side::Lower).map_err(|_| no_spread("the last linear layer", embeddings.len()))?;
        let weights = factor.solve(&cross);
        let bias = (0..classes)
            .map(|c| mean_z[c] - (0..d).map(|j| weights[(j, c)] * mean_x[j]).sum::<f64>())
            .collect();
        let head = Self { weights, bias };
        head.check(embeddings, logits, &mean_z)?;
        Ok(head)
    }

    /// Rejects a layer whose logits differ from the given ones by more than the tolerance.
    fn check(&self, embeddings: &Embeddings<'_>, logits: &Embeddings<'_>, mean: &[f64]) -> Result<(), Error> {
        let (mut residual, mut spread) = (0.0, 0.0);
        for (fitted, given) in self.logits(embeddings)?.rows().zip(logits.rows()) {
            for ((f, g), m) in fitted.iter().zip(given).zip(mean) {
                residual += f64::from(f - g).powi(2);
                spread += (f64::from(*g) - m).powi(2);
            }
        }
        let difference = (residual / spread.max(f64::MIN_POSITIVE)).sqrt();
        if difference > TOLERANCE { Err(Error::LogitsNotLinear { difference }) } else { Ok(()) }
    }

    /// The logits of each row.
    ///
    /// # Errors
    /// Rows with another number of columns than the layer, or logits that overflow `f32`.
    pub fn logits(&self, rows: &Embeddings<'_>) -> Result<Embeddings<'static>, Error> {
        let round = |logits: &[f64], values: &mut Vec<f32>| values.extend(logits.iter().map(|z| *z as f32));
        Ok(Embeddings::new(self.each_row(rows, f64::INFINITY, round)?, self.classes())?)
    }

    /// Calls `write` with the `f64` logits of each row, and collects the values that it appends. Coordinates of the
    /// embeddings above `limit` are first replaced by `limit`.
    fn each_row<T: Send>(
        &self,
        rows: &Embeddings<'_>,
        limit: f64,
        write: impl Fn(&[f64], &mut Vec<T>) + Sync,
    ) -> Result<Vec<T>, Error> {
        check_columns(rows, self.dim())?;
        let block = |first: usize| {
            let count = CHUNK.min(rows.len() - first);
            let x = columns(rows, first, first + count, |row, column| {
                column.iter_mut().zip(row).for_each(|(x, &v)| *x = f64::from(v).min(limit));
            });
            let mut z: Mat<f64> = Mat::zeros(self.classes(), count);
            matmul(&mut z, Accum::Replace, self.weights.transpose(), &x, 1.0, Par::Seq);
            let (mut logits, mut values) = (Vec::new(), Vec::new());
            for column in z.col_iter() {
                logits.clear();
                logits.extend(column.iter().zip(&self.bias).map(|(z, b)| z + b));
                write(&logits, &mut values);
            }
            values
        };
        let firsts: Vec<usize> = (0..rows.len()).step_by(CHUNK).collect();
        Ok(firsts.into_par_iter().with_checkpoints().flat_map_iter(block).collect())
    }

    /// Maps the logits of each row to one value. Coordinates of the
    /// embeddings above `limit` are first replaced by `limit`.
    pub(super) fn map_logits(
        &self,
        rows: &Embeddings<'_>,
        limit: f64,
        function: impl Fn(&[f64]) -> f64 + Sync,
    ) -> Result<Vec<f64>, Error> {
        self.each_row(rows, limit, |logits, values| values.push(function(logits)))
    }

    /// The number of embedding columns.
    pub(super) fn dim(&self) -> usize {
        self.weights.nrows()
    }

    /// The number of classes.
    pub(super) fn classes(&self) -> usize {
        self.weights.ncols()
    }

    /// `Wᵀ`, one column per class.
    pub(super) fn weights(&self) -> &Mat<f64> {
        &self.weights
    }

    /// `b`.
    pub(super) fn bias(&self) -> &[f64] {
        &self.bias
    }

    pub(super) fn bytes(&self) -> u64 {
        8 * (self.weights.nrows() * self.weights.ncols() + self.bias.len()) as u64
    }
}

/// Rows `first..last` minus a center, as the columns of a matrix.
pub(super) fn centered(rows: &Embeddings<'_>, center: &[f64], first: usize, last: usize) -> Mat<f64> {
    columns(rows, first, last, |row, column| {
        for ((x, &v), c) in column.iter_mut().zip(row).zip(center) {
            *x = f64::from(v) - c;
        }
    })
}

/// Rows `first..last` as the columns of a matrix, each filled by `write`.
fn columns(rows: &Embeddings<'_>, first: usize, last: usize, write: impl Fn(&[f32], &mut [f64])) -> Mat<f64> {
    let mut matrix: Mat<f64> = Mat::zeros(rows.dim(), last - first);
    for (i, column) in (first..last).zip(matrix.col_iter_mut()) {
        let column = column.try_as_col_major_mut().expect("a new matrix has contiguous columns");
        write(rows.row(i), column.as_slice_mut());
    }
    matrix
}
