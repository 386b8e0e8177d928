//! Training rows minus a mean, and sums over such centered rows, in `f64`.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::{ParallelCheckpoints, checkpoint};
use rayon::prelude::*;

use super::lanes::sq_norm;
use crate::row_source::RowSource;

/// Number of rows that are converted to `f64` at a time.
const CHUNK: usize = 1024;
/// Number of rows, and of columns, of the tile of a scatter matrix that one task accumulates.
const TILE: usize = 128;

/// Training rows minus a mean.
pub(super) trait CenteredRows: Sync {
    fn len(&self) -> usize;
    fn dim(&self) -> usize;
    /// The sample weight `s` of row `i`.
    fn weight(&self, i: usize) -> f64;
    /// Writes row `i` minus its mean, times `√s`.
    fn write(&self, i: usize, row: &mut [f64]);

    /// The sum of the sample weights, `n`.
    fn total(&self) -> f64 {
        (0..self.len()).map(|i| self.weight(i)).sum()
    }

    /// Rows `first..last` minus their means, times `√s`, as the columns of a matrix.
    fn columns(&self, first: usize, last: usize) -> Mat<f64> {
        let mut rows = Mat::zeros(self.dim(), last - first);
        for (i, column) in (first..last).zip(rows.col_iter_mut()) {
            checkpoint();
            let column = column.try_as_col_major_mut().expect("a fresh matrix has contiguous columns");
            self.write(i, column.as_slice_mut());
        }
        rows
    }
}

/// The rows of one class minus the mean of the class.
pub(super) struct ClassRows<'r> {
    pub(super) rows: &'r RowSource<'r>,
    pub(super) ids: &'r [u32],
    pub(super) mean: &'r [f64],
    /// The sample weight of each of `rows`; `None` if all are 1.
    pub(super) weights: Option<&'r [f64]>,
}

impl CenteredRows for ClassRows<'_> {
    fn len(&self) -> usize {
        self.ids.len()
    }
    fn dim(&self) -> usize {
        self.rows.dim()
    }
    fn weight(&self, i: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[self.ids[i] as usize])
    }
    fn write(&self, i: usize, row: &mut [f64]) {
        write_centered(self.rows.row(self.ids[i] as usize), self.mean, self.weight(i), row);
    }
}

/// All rows, each minus the mean of its class.
pub(super) struct AllRows<'r> {
    pub(super) rows: &'r RowSource<'r>,
    pub(super) class_of_row: &'r [u32],
    pub(super) means: &'r [Vec<f64>],
    /// The sample weight of each row; `None` if all are 1.
    pub(super) weights: Option<&'r [f64]>,
}

impl CenteredRows for AllRows<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }
    fn dim(&self) -> usize {
        self.rows.dim()
    }
    fn weight(&self, i: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[i])
    }
    fn write(&self, i: usize, row: &mut [f64]) {
        write_centered(self.rows.row(i), &self.means[self.class_of_row[i] as usize], self.weight(i), row);
    }
}

/// Writes `√s (x − μ)` for a row `x` of sample weight `s`.
pub(super) fn write_centered(row: &[f32], mean: &[f64], weight: f64, centered: &mut [f64]) {
    let factor = weight.sqrt();
    for ((c, x), m) in centered.iter_mut().zip(row).zip(mean) {
        *c = factor * (f64::from(*x) - m);
    }
}

/// The weighted mean of the rows with these ids. If all rows are equal, the mean is exactly that row.
pub(super) fn mean(rows: &RowSource<'_>, ids: &[u32], weights: Option<&[f64]>) -> Vec<f64> {
    let first = rows.row(ids[0] as usize);
    let (mut mean, mut total) = (vec![0.0; rows.dim()], 0.0);
    for ids in ids.chunks(CHUNK) {
        checkpoint();
        for &id in ids {
            let weight = weights.map_or(1.0, |weights| weights[id as usize]);
            total += weight;
            let row = rows.row(id as usize).iter().zip(first);
            mean.iter_mut().zip(row).for_each(|(m, (x, f))| *m += weight * (f64::from(*x) - f64::from(*f)));
        }
    }
    mean.iter_mut().zip(first).for_each(|(m, f)| *m = *m / total + f64::from(*f));
    mean
}

/// `Σ_i s_i ‖x_i‖²` of centered rows.
pub(super) fn sq_sum(rows: &dyn CenteredRows) -> f64 {
    let mut row = vec![0.0; rows.dim()];
    (0..rows.len())
        .map(|i| {
            checkpoint();
            rows.write(i, &mut row);
            sq_norm(&row)
        })
        .sum()
}

/// Whether every row equals its mean.
pub(super) fn are_zero(rows: &dyn CenteredRows) -> bool {
    let mut row = vec![0.0; rows.dim()];
    (0..rows.len()).all(|i| {
        checkpoint();
        rows.write(i, &mut row);
        row.iter().all(|&x| x == 0.0)
    })
}

/// The lower triangle of `S = (1/n) Σ_i s_i x_i x_iᵀ`, and `(1/n) Σ_i s_i ‖x_i‖⁴`, `n = Σ_i s_i`.
///
/// Tiles are computed in parallel. In each tile, chunks of rows are added in order, so that the sums do not depend on
/// the number of threads.
pub(super) fn scatter(rows: &dyn CenteredRows) -> (Mat<f64>, f64) {
    let (n, d, total) = (rows.len(), rows.dim(), rows.total());
    let corners = (0..d).step_by(TILE).flat_map(|j| (j..d).step_by(TILE).map(move |i| (i, j)));
    let mut tiles: Vec<(usize, usize, Mat<f64>)> =
        corners.map(|(i, j)| (i, j, Mat::zeros(TILE.min(d - i), TILE.min(d - j)))).collect();
    let mut fourth = 0.0;
    let mut values = vec![0.0; CHUNK.min(n) * d];
    for first in (0..n).step_by(CHUNK) {
        let count = CHUNK.min(n - first);
        let values = &mut values[..count * d];
        let sq_norms: Vec<f64> = values
            .par_chunks_exact_mut(d)
            .enumerate()
            .map(|(i, row)| {
                rows.write(first + i, row);
                sq_norm(row)
            })
            .collect();
        let squares = sq_norms.iter().enumerate().map(|(i, sq)| sq * sq / rows.weight(first + i));
        fourth += squares.sum::<f64>() / total;
        let chunk = MatRef::from_column_major_slice(values, d, count);
        tiles.par_iter_mut().with_checkpoints().for_each(|(i, j, tile)| {
            let (left, right) = (chunk.subrows(*i, tile.nrows()), chunk.subrows(*j, tile.ncols()));
            matmul(tile, Accum::Add, left, right.transpose(), 1.0 / total, Par::Seq);
        });
    }
    let mut lower = Mat::zeros(d, d);
    for (i, j, tile) in &tiles {
        lower.submatrix_mut(*i, *j, tile.nrows(), tile.ncols()).copy_from(tile);
    }
    (lower, fourth)
}

/// The scatter of all rows around a center; see [`scatter_around`](crate::moments::scatter_around).
pub(crate) fn scatter_of_all(embeddings: &Embeddings<'_>, center: &[f64]) -> Mat<f64> {
    let ids: Vec<u32> = (0..embeddings.len() as u32).collect();
    scatter(&ClassRows { rows: &embeddings.into(), ids: &ids, mean: center, weights: None }).0
}
