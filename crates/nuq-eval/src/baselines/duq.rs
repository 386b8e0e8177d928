//! DUQ's last layer (van Amersfoort et al. 2020) on frozen embeddings: a kernel around a centroid for each class, in a space of
//! its own.
//!
//! $$K_c(x) = \exp\left(-\frac{\lVert W_c x - e_c \rVert^2}{2 n \sigma^2}\right)$$
//!
//! with $W_c$ a matrix of $n$ rows and $e_c$ the centroid. The score is $-\ln \max_c K_c$: it ranks rows as $1 - \max_c K_c$ does, which
//! would be one for all rows that are far away.
//!
//! The paper adds a penalty on the slope of $\sum_c K_c$ in the picture, so that the network does not map different pictures to the
//! same features. There is no network to be trained here, features are what they are, and there is no penalty.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::duq_training::{ClassKernel, train};
use super::scorer::check_columns;
use super::sngp::check_training;
use super::{Batch, Input, Scorer};
use crate::Error;
use crate::error::out_of_range;
use nuq::moments::mean;
use nuq::{Classes, Label};

/// How the layer is trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DuqParams {
    /// The dimension $n$ of the classes' spaces.
    pub projection: usize,
    /// The length scale $\sigma$, in units in which rows are projected to a length of about $\sqrt n$ before training.
    pub length_scale: f64,
    /// How much of a centroid is kept in a step.
    pub momentum: f64,
    /// The steps of training.
    pub steps: usize,
    /// Rows of a step.
    pub batch: usize,
    /// Adam's learning rate.
    pub learning_rate: f64,
    /// The seed of the first weights and of the order of rows.
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

/// A kernel around a centroid for each class.
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
    frame: RowFrame,
    kernels: Vec<ClassKernel>,
    /// $2 n \sigma^2$.
    width: f64,
    classes: Classes,
}

/// Rows that are projected at a time; fewer are filled up with zeros, so that a row's score does not depend on the others'.
const BLOCK: usize = 64;

/// Where rows are measured from, and in which unit: such that training rows have a mean square of one in each column.
pub(super) struct RowFrame {
    center: Vec<f64>,
    unit: f64,
}

impl RowFrame {
    fn around(rows: &Embeddings<'_>) -> Result<Self, Error> {
        let center = mean(rows);
        let of_row =
            |row: &[f32]| row.iter().zip(&center).map(|(&v, m)| (f64::from(v) - m).powi(2)).sum::<f64>();
        let squares: Vec<f64> = rows.as_slice().par_chunks(rows.dim()).map(of_row).collect();
        let unit = (squares.iter().sum::<f64>() / rows.as_slice().len() as f64).sqrt();
        if unit > 0.0 {
            Ok(Self { center, unit })
        } else {
            Err(nuq::Error::NoSpread { rows: rows.len() }.into())
        }
    }

    /// Rows in the frame, as the columns of a matrix that has at least so many.
    pub(super) fn place<'r>(&self, rows: impl Iterator<Item = &'r [f32]>, columns: usize) -> Mat<f64> {
        let mut placed: Mat<f64> = Mat::zeros(self.center.len(), columns);
        for (column, row) in placed.col_iter_mut().zip(rows) {
            let values = row.iter().zip(&self.center).map(|(&v, m)| (f64::from(v) - m) / self.unit);
            column.iter_mut().zip(values).for_each(|(x, v)| *x = v);
        }
        placed
    }

    /// Columns of the rows.
    pub(super) fn dim(&self) -> usize {
        self.center.len()
    }
}

impl Duq {
    /// Trains the layer on rows of at least two classes.
    pub fn fit<'l, L>(rows: &Embeddings<'_>, labels: &'l [L], params: DuqParams) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        params.check()?;
        let (classes, of_row) = check_training("DUQ", rows, labels)?;
        let frame = RowFrame::around(rows)?;
        let kernels = train(rows, &of_row, classes.len(), &frame, &params);
        Ok(Self { frame, kernels, width: params.width(), classes })
    }

    /// The label of the nearest centroid of each row.
    pub fn predict(&self, rows: &Embeddings<'_>) -> Result<Vec<&Label>, Error> {
        self.each_row(rows, |exponents| {
            let nearest = (0..exponents.len()).min_by(|&a, &b| exponents[a].total_cmp(&exponents[b]));
            self.classes.label(nearest.unwrap_or(0))
        })
    }

    /// What `read` finds in $-\ln K_c$ of each row.
    fn each_row<T: Send>(
        &self,
        rows: &Embeddings<'_>,
        read: impl Fn(&[f64]) -> T + Sync,
    ) -> Result<Vec<T>, Error> {
        check_columns(rows, self.frame.dim())?;
        let of_block = |block: &[f32]| {
            let x = self.frame.place(block.chunks_exact(rows.dim()), BLOCK);
            let mut exponents: Mat<f64> = Mat::zeros(self.kernels.len(), BLOCK);
            for (c, kernel) in self.kernels.iter().enumerate() {
                let mut apart: Mat<f64> = Mat::zeros(kernel.centroid.len(), BLOCK);
                matmul(&mut apart, Accum::Replace, &kernel.weights, &x, 1.0, Par::Seq);
                for (i, column) in apart.col_iter().enumerate() {
                    let squares = column.iter().zip(&kernel.centroid).map(|(p, e)| (p - e).powi(2));
                    exponents[(c, i)] = squares.sum::<f64>() / self.width;
                }
            }
            let columns = exponents.col_iter().take(block.len() / rows.dim());
            columns.map(|column| read(&column.iter().copied().collect::<Vec<f64>>())).collect::<Vec<T>>()
        };
        Ok(rows.as_slice().par_chunks(BLOCK * rows.dim()).flat_map_iter(of_block).collect())
    }
}

impl DuqParams {
    /// $2 n \sigma^2$.
    pub(super) fn width(&self) -> f64 {
        2.0 * self.projection as f64 * self.length_scale.powi(2)
    }

    fn check(&self) -> Result<(), Error> {
        let counts = [("projection", self.projection), ("steps", self.steps), ("batch", self.batch)];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(out_of_range(name, 0.0, "it must be at least one"));
        }
        if !(1e-6..=1e6).contains(&self.length_scale) {
            return Err(out_of_range("length scale", self.length_scale, "it must lie in [1e-6, 1e6]"));
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(out_of_range("momentum", self.momentum, "it must lie in [0, 1)"));
        }
        if !(self.learning_rate > 0.0 && self.learning_rate <= 1.0) {
            return Err(out_of_range("learning rate", self.learning_rate, "it must lie in (0, 1]"));
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
        self.each_row(rows, |exponents| exponents.iter().copied().fold(f64::INFINITY, f64::min))
    }

    fn bytes(&self) -> u64 {
        let numbers: usize =
            self.kernels.iter().map(|kernel| kernel.centroid.len() * (self.frame.dim() + 1)).sum();
        8 * (numbers + self.frame.dim()) as u64
    }
}

#[cfg(test)]
mod tests {
    use nuq_testkit::data::{clusters, to_rows};
    use nuq_testkit::rivals::duq_exponent;

    use super::*;

    #[test]
    fn scores_are_their_equation() {
        let (x, y) = clusters(90, 5, 3, 2.0, 1);
        let params = DuqParams { projection: 7, steps: 40, length_scale: 0.3, ..DuqParams::default() };
        let duq = Duq::fit(&x, &y, params).unwrap();
        let queries =
            Embeddings::new([x.row(3), &[9.0; 5], &[-1e3, 0.5, 0.0, 2.0, 1e3]].concat(), 5).unwrap();
        let scores = duq.score(&Batch { embeddings: Some(&queries), ..Batch::default() }).unwrap();
        for (q, ours) in to_rows(&queries).iter().zip(scores) {
            let placed: Vec<f64> =
                q.iter().zip(&duq.frame.center).map(|(v, m)| (v - m) / duq.frame.unit).collect();
            let exponent = |kernel: &ClassKernel| {
                let rows = kernel.weights.row_iter().map(|row| row.iter().copied().collect());
                duq_exponent(&rows.collect::<Vec<Vec<f64>>>(), &kernel.centroid, 0.3, &placed)
            };
            let theirs = duq.kernels.iter().map(exponent).fold(f64::INFINITY, f64::min);
            assert!((ours - theirs).abs() < 1e-10 * theirs, "{ours} and {theirs}");
        }
    }
}
