//! The last layer of a network, $z = W x + b$, given or found from what it did.
//!
//! Logits are a linear function of the embeddings that the head was fed, so a least-squares fit of the one to the other gives
//! the head back, up to rounding.

use faer::linalg::matmul::matmul;
use faer::prelude::Solve;
use faer::{Accum, Mat, Par, Side};
use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::scorer::check_columns;
use crate::Error;
use crate::error::{length_mismatch, out_of_range};
use nuq::moments::{mean, scatter_around};

/// $W$ and $b$ of the last layer.
#[derive(Debug, Clone)]
pub struct Head {
    /// A column per class.
    weights: Mat<f64>,
    bias: Vec<f64>,
}

/// Rows brought to `f64` at a time.
const CHUNK: usize = 1024;
/// Added to the second moment of each column, relative to it: columns may be in different units.
const RIDGE: f64 = 1e-10;
/// The least that is added, relative to the mean of all: dead units have none but rounding errors.
const DEAD: f64 = 1e-20;
/// What a head may leave unexplained, relative to the spread of the logits: the rounding of `f16` arrays, and no more.
const TOLERANCE: f64 = 0.05;

impl Head {
    /// A head that is known: `weights` holds a row per class, one number per embedding column in each.
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

    /// The head that turned these embeddings into these logits; more rows than columns are needed. Logits that no head
    /// explains are refused.
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
    pub fn fit(embeddings: &Embeddings<'_>, logits: &Embeddings<'_>) -> Result<Self, Error> {
        if embeddings.len() != logits.len() {
            let (got, expected) = (logits.len(), embeddings.len());
            return Err(length_mismatch("rows of logits", got, "embeddings", expected));
        }
        if embeddings.len() <= embeddings.dim() {
            return Err(Error::FewRows {
                what: "a head",
                got: embeddings.len(),
                needed: embeddings.dim() + 1,
            });
        }
        let (mean_x, mean_z) = (mean(embeddings), mean(logits));
        let (d, classes) = (embeddings.dim(), logits.dim());
        let mut moments = scatter_around(embeddings, &mean_x);
        let dead = (DEAD * (0..d).map(|j| moments[(j, j)]).sum::<f64>() / d as f64).max(f64::MIN_POSITIVE);
        (0..d).for_each(|j| moments[(j, j)] += dead.max(RIDGE * moments[(j, j)]));
        let mut cross: Mat<f64> = Mat::zeros(d, classes);
        for first in (0..embeddings.len()).step_by(CHUNK) {
            let last = embeddings.len().min(first + CHUNK);
            let x = centered(embeddings, &mean_x, first, last);
            let z = centered(logits, &mean_z, first, last);
            matmul(&mut cross, Accum::Add, &x, z.transpose(), 1.0 / embeddings.len() as f64, Par::Seq);
        }
        let factor = moments.llt(Side::Lower).map_err(|_| nuq::Error::NoSpread { rows: embeddings.len() })?;
        let weights = factor.solve(&cross);
        let bias = (0..classes)
            .map(|c| mean_z[c] - (0..d).map(|j| weights[(j, c)] * mean_x[j]).sum::<f64>())
            .collect();
        let head = Self { weights, bias };
        head.check(embeddings, logits, &mean_z)?;
        Ok(head)
    }

    /// Compares its logits with those it was fitted to.
    fn check(&self, embeddings: &Embeddings<'_>, logits: &Embeddings<'_>, mean: &[f64]) -> Result<(), Error> {
        let (mut left, mut spread) = (0.0, 0.0);
        for (found, given) in self.logits(embeddings)?.rows().zip(logits.rows()) {
            for ((f, g), m) in found.iter().zip(given).zip(mean) {
                left += f64::from(f - g).powi(2);
                spread += (f64::from(*g) - m).powi(2);
            }
        }
        let difference = (left / spread.max(f64::MIN_POSITIVE)).sqrt();
        if difference > TOLERANCE { Err(Error::LogitsNotLinear { difference }) } else { Ok(()) }
    }

    /// The logits of each row.
    pub fn logits(&self, rows: &Embeddings<'_>) -> Result<Embeddings<'static>, Error> {
        let round = |logits: &[f64], values: &mut Vec<f32>| values.extend(logits.iter().map(|z| *z as f32));
        Ok(Embeddings::new(self.each_row(rows, f64::INFINITY, round)?, self.classes())?)
    }

    /// Lets `write` add something for the logits of each row, before they are rounded to `f32`; coordinates beyond `limit` are
    /// clipped.
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
        Ok(firsts.into_par_iter().flat_map_iter(block).collect())
    }

    /// A number read off the logits of each row, with coordinates clipped at `limit`.
    pub(super) fn read(
        &self,
        rows: &Embeddings<'_>,
        limit: f64,
        read: impl Fn(&[f64]) -> f64 + Sync,
    ) -> Result<Vec<f64>, Error> {
        self.each_row(rows, limit, |logits, values| values.push(read(logits)))
    }

    /// Columns of the embeddings that it takes.
    pub(super) fn dim(&self) -> usize {
        self.weights.nrows()
    }

    /// Logits that it gives.
    pub(super) fn classes(&self) -> usize {
        self.weights.ncols()
    }

    /// $W$, a column per class.
    pub(super) fn weights(&self) -> &Mat<f64> {
        &self.weights
    }

    /// $b$.
    pub(super) fn bias(&self) -> &[f64] {
        &self.bias
    }

    pub(super) fn bytes(&self) -> u64 {
        8 * (self.weights.nrows() * self.weights.ncols() + self.bias.len()) as u64
    }
}

/// Rows `first..last` less a center, as the columns of a matrix.
pub(super) fn centered(rows: &Embeddings<'_>, center: &[f64], first: usize, last: usize) -> Mat<f64> {
    columns(rows, first, last, |row, column| {
        for ((x, &v), c) in column.iter_mut().zip(row).zip(center) {
            *x = f64::from(v) - c;
        }
    })
}

/// What `write` makes of rows `first..last`, as the columns of a matrix.
fn columns(rows: &Embeddings<'_>, first: usize, last: usize, write: impl Fn(&[f32], &mut [f64])) -> Mat<f64> {
    let mut matrix: Mat<f64> = Mat::zeros(rows.dim(), last - first);
    for (i, column) in (first..last).zip(matrix.col_iter_mut()) {
        let column = column.try_as_col_major_mut().expect("a fresh matrix has contiguous columns");
        write(rows.row(i), column.as_slice_mut());
    }
    matrix
}
