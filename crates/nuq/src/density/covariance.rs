//! Covariances that are always positive definite, and the maps that turn them into plain distances.
//!
//! A covariance is shrunk towards a multiple of the identity with the same trace,
//! $\Sigma = (1-\rho) S + \rho\, t I$ with $t = \operatorname{tr} S / d$. With fewer points than dimensions,
//! $n < d$, $S = X^\top X / n$ has rank below $n$ and everything is done with the $n \times n$ matrix
//! $M = aI + bXX^\top$, where $a = \rho t$ and $b = (1-\rho)/n$. With $\alpha = M^{-1} X u$:
//!
//! $$u^\top \Sigma^{-1} u = \frac{1}{a} \lVert u - b X^\top \alpha \rVert^2 + b \lVert \alpha \rVert^2, \qquad
//! \ln\det\Sigma = (d - n) \ln a + \ln\det M$$
//!
//! Woodbury's formula says the same as a difference of large numbers; this sum of squares does not cancel, and
//! an error in $\alpha$ enters only squared, because $\alpha$ minimizes it.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor;
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, Mat, MatRef, Par};
use rayon::prelude::*;

use nuq_neighbors::{UnknownChoice, choices, normalized};

use crate::Error;

/// The shape of the class covariances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Covariance {
    /// One full matrix per class.
    #[default]
    Full,
    /// One full matrix for all classes, of the rows around their class means.
    Tied,
    /// One variance per class and column.
    Diagonal,
}

choices!(Covariance, "covariance", { Full => "full", Tied => "tied", Diagonal => "diagonal" });

/// How much of a covariance is replaced by a multiple of the identity.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Shrinkage {
    /// The amount that Ledoit and Wolf (2004) show to be asymptotically best, at least 1e-6 so that the result
    /// is positive definite even where a column is constant.
    #[default]
    LedoitWolf,
    /// A given amount in [0, 1].
    Fixed(f64),
}

impl Shrinkage {
    /// The words that are accepted besides a number.
    pub const NAMES: &'static [&'static str] = &["ledoit_wolf"];
}

/// The word `ledoit_wolf` (`auto` is accepted too), or a number.
impl std::str::FromStr for Shrinkage {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        match (normalized(word).as_str(), word.trim().parse()) {
            ("ledoit_wolf" | "auto", _) => Ok(Shrinkage::LedoitWolf),
            (_, Ok(amount)) => Ok(Shrinkage::Fixed(amount)),
            _ => Err(UnknownChoice::new("shrinkage", word, Self::NAMES.to_vec()).or_number()),
        }
    }
}

impl std::fmt::Display for Shrinkage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Shrinkage::LedoitWolf => f.pad("ledoit_wolf"),
            Shrinkage::Fixed(amount) => amount.fmt(f),
        }
    }
}

const LEAST_SHRINKAGE: f64 = 1e-6;
/// Rows brought to `f64` at a time.
const CHUNK: usize = 1024;
/// Rows and columns of a covariance that one task accumulates.
const TILE: usize = 128;

/// Training rows around their mean, in `f64`, a chunk at a time.
pub(super) trait CenteredRows: Sync {
    fn len(&self) -> usize;
    fn dim(&self) -> usize;
    /// Writes row `i` minus its mean.
    fn write(&self, i: usize, row: &mut [f64]);

    /// Rows `first..last` as the columns of a matrix.
    fn columns(&self, first: usize, last: usize) -> Mat<f64> {
        let mut rows = Mat::zeros(self.dim(), last - first);
        for (i, column) in (first..last).zip(rows.col_iter_mut()) {
            let column = column.try_as_col_major_mut().expect("a fresh matrix has contiguous columns");
            self.write(i, column.as_slice_mut());
        }
        rows
    }
}

/// A covariance as the linear map $u \mapsto v$ with $\lVert v \rVert^2 = u^\top \Sigma^{-1} u$.
pub(super) struct Whitener {
    map: Map,
    log_det: f64,
    /// $\rho$.
    shrinkage: f64,
}

enum Map {
    Diagonal { variances: Vec<f64> },
    Full { factor: Mat<f64> },
    Span { factor: Mat<f64>, a: f64, b: f64 },
}

impl Whitener {
    /// A multiple of the identity: for a class without spread of its own.
    pub(super) fn isotropic(dim: usize, variance: f64) -> Self {
        Self::diagonal_of(vec![variance; dim], 1.0)
    }

    fn diagonal_of(variances: Vec<f64>, shrinkage: f64) -> Self {
        let log_det = variances.iter().map(|v| v.ln()).sum();
        Self { map: Map::Diagonal { variances }, log_det, shrinkage }
    }

    /// One variance per column. `None` when it is singular for lack of shrinkage.
    pub(super) fn diagonal(rows: &dyn CenteredRows, shrinkage: Shrinkage) -> Option<Self> {
        let (n, d) = (rows.len() as f64, rows.dim());
        let (mut second, mut fourth, mut row) = (vec![0.0; d], vec![0.0; d], vec![0.0; d]);
        for i in 0..rows.len() {
            rows.write(i, &mut row);
            for ((second, fourth), x) in second.iter_mut().zip(&mut fourth).zip(&row) {
                *second += x * x / n;
                *fourth += x.powi(4) / n;
            }
        }
        let target = second.iter().sum::<f64>() / d as f64;
        let noise: f64 = fourth.iter().zip(&second).map(|(f, s)| (f - s * s) / n).sum();
        let signal: f64 = second.iter().map(|s| (s - target).powi(2)).sum();
        let rho = amount(shrinkage, noise, signal);
        let variances: Vec<f64> = second.iter().map(|s| (1.0 - rho) * s + rho * target).collect();
        variances.iter().all(|&v| v > 0.0).then(|| Self::diagonal_of(variances, rho))
    }

    /// The full covariance, in whichever space is smaller. `None` when it is singular for lack of shrinkage.
    pub(super) fn full(rows: &dyn CenteredRows, shrinkage: Shrinkage) -> Option<Self> {
        if rows.len() < rows.dim() { Self::span(rows, shrinkage) } else { Self::dense(rows, shrinkage) }
    }

    fn dense(rows: &dyn CenteredRows, shrinkage: Shrinkage) -> Option<Self> {
        let (n, d) = (rows.len() as f64, rows.dim());
        let (mut sigma, fourth) = scatter(rows);
        let target = (0..d).map(|j| sigma[(j, j)]).sum::<f64>() / d as f64;
        let sq_norm = sq_norm_of_lower(sigma.as_ref());
        let rho = amount(shrinkage, (fourth - sq_norm) / n, sq_norm - d as f64 * target * target);
        for j in 0..d {
            for i in j..d {
                sigma[(i, j)] *= 1.0 - rho;
            }
            sigma[(j, j)] += rho * target;
        }
        let log_det = cholesky(&mut sigma)?;
        Some(Self { map: Map::Full { factor: sigma }, log_det, shrinkage: rho })
    }

    fn span(rows: &dyn CenteredRows, shrinkage: Shrinkage) -> Option<Self> {
        let (n, d) = (rows.len(), rows.dim());
        let x = rows.columns(0, n);
        let mut gram: Mat<f64> = Mat::zeros(n, n);
        matmul(&mut gram, Accum::Replace, x.transpose(), &x, 1.0, Par::Seq);
        let (count, dim) = (n as f64, d as f64);
        let target = (0..n).map(|i| gram[(i, i)]).sum::<f64>() / (count * dim);
        let sq_norm = sq_norm_of_lower(gram.as_ref()) / (count * count);
        let fourth = (0..n).map(|i| gram[(i, i)].powi(2)).sum::<f64>() / count;
        let rho = amount(shrinkage, (fourth - sq_norm) / count, sq_norm - dim * target * target);
        let (a, b) = (rho * target, (1.0 - rho) / count);
        if a <= 0.0 {
            return None;
        }
        for j in 0..n {
            for i in j..n {
                gram[(i, j)] *= b;
            }
            gram[(j, j)] += a;
        }
        let log_det = cholesky(&mut gram)? + (d - n) as f64 * a.ln();
        Some(Self { map: Map::Span { factor: gram, a, b }, log_det, shrinkage: rho })
    }

    /// $\ln\det\Sigma$.
    pub(super) fn log_det(&self) -> f64 {
        self.log_det
    }

    /// $\rho$, how much of the covariance the identity replaced.
    pub(super) fn shrinkage(&self) -> f64 {
        self.shrinkage
    }

    /// Numbers that it holds.
    pub(super) fn n_values(&self) -> usize {
        match &self.map {
            Map::Diagonal { variances } => variances.len(),
            Map::Full { factor } | Map::Span { factor, .. } => factor.nrows() * factor.ncols(),
        }
    }

    /// The images of the columns of `u`. `rows` are those the whitener was made of.
    pub(super) fn whiten(&self, mut u: Mat<f64>, rows: &dyn CenteredRows) -> Mat<f64> {
        match &self.map {
            Map::Diagonal { variances } => {
                for column in u.col_iter_mut() {
                    column.iter_mut().zip(variances).for_each(|(u, v)| *u /= v.sqrt());
                }
                u
            }
            Map::Full { factor } => {
                solve_lower_triangular_in_place(factor.as_ref(), u.as_mut(), Par::Seq);
                u
            }
            Map::Span { factor, a, b } => {
                let x = rows.columns(0, rows.len());
                let (d, n, columns) = (x.nrows(), x.ncols(), u.ncols());
                let mut v: Mat<f64> = Mat::zeros(d + n, columns);
                let (mut residual, mut alpha) = v.as_mut().split_at_row_mut(d);
                matmul(alpha.as_mut(), Accum::Replace, x.transpose(), &u, 1.0, Par::Seq);
                solve_lower_triangular_in_place(factor.as_ref(), alpha.as_mut(), Par::Seq);
                solve_upper_triangular_in_place(factor.transpose(), alpha.as_mut(), Par::Seq);
                residual.copy_from(&u);
                matmul(residual.as_mut(), Accum::Add, &x, alpha.as_ref(), -b, Par::Seq);
                residual *= faer::Scale(1.0 / a.sqrt());
                alpha *= faer::Scale(b.sqrt());
                v
            }
        }
    }
}

/// The shrinkage $\rho$: given, or noise over signal of the covariance's entries.
fn amount(shrinkage: Shrinkage, noise: f64, signal: f64) -> f64 {
    match shrinkage {
        Shrinkage::Fixed(amount) => amount,
        Shrinkage::LedoitWolf if signal <= 0.0 => 1.0,
        Shrinkage::LedoitWolf => (noise / signal).clamp(LEAST_SHRINKAGE, 1.0),
    }
}

/// The lower triangle of $S = \frac1n \sum_i x_i x_i^\top$, and $\frac1n \sum_i \lVert x_i \rVert^4$.
///
/// Tiles in parallel, chunks of rows in order: the sums do not depend on the number of threads.
pub(super) fn scatter(rows: &dyn CenteredRows) -> (Mat<f64>, f64) {
    let (n, d) = (rows.len(), rows.dim());
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
                row.iter().map(|x| x * x).sum()
            })
            .collect();
        fourth += sq_norms.iter().map(|sq| sq * sq).sum::<f64>() / n as f64;
        let chunk = MatRef::from_column_major_slice(values, d, count);
        tiles.par_iter_mut().for_each(|(i, j, tile)| {
            let (across, down) = (chunk.subrows(*i, tile.nrows()), chunk.subrows(*j, tile.ncols()));
            matmul(tile, Accum::Add, across, down.transpose(), 1.0 / n as f64, Par::Seq);
        });
    }
    let mut lower = Mat::zeros(d, d);
    for (i, j, tile) in &tiles {
        lower.submatrix_mut(*i, *j, tile.nrows(), tile.ncols()).copy_from(tile);
    }
    (lower, fourth)
}

/// $\lVert S \rVert_F^2$ of a symmetric matrix of which the lower triangle is stored.
fn sq_norm_of_lower(s: MatRef<'_, f64>) -> f64 {
    (0..s.ncols())
        .map(|j| {
            let below: f64 = (j + 1..s.nrows()).map(|i| s[(i, j)].powi(2)).sum();
            s[(j, j)].powi(2) + 2.0 * below
        })
        .sum()
}

/// Replaces the lower triangle by its Cholesky factor and returns the log determinant of the matrix; `None`
/// when it is not positive definite.
fn cholesky(matrix: &mut Mat<f64>) -> Option<f64> {
    let d = matrix.nrows();
    let largest = (0..d).map(|j| matrix[(j, j)]).fold(0.0, f64::max);
    let mut memory =
        MemBuffer::new(factor::cholesky_in_place_scratch::<f64>(d, Par::Seq, Default::default()));
    let stack = MemStack::new(&mut memory);
    factor::cholesky_in_place(matrix.as_mut(), Default::default(), Par::Seq, stack, Default::default())
        .ok()?;
    // A pivot at rounding level is a zero that rounding made positive.
    let floor = (d as f64 * f64::EPSILON * largest).sqrt();
    let pivots = || (0..d).map(|j| matrix[(j, j)]);
    pivots().all(|p| p > floor).then(|| 2.0 * pivots().map(f64::ln).sum::<f64>())
}

pub(crate) fn check_shrinkage(shrinkage: Shrinkage) -> Result<(), Error> {
    match shrinkage {
        Shrinkage::Fixed(amount) if !(0.0..=1.0).contains(&amount) => {
            Err(crate::error::out_of_range("shrinkage", amount, "it must lie in [0, 1]"))
        }
        _ => Ok(()),
    }
}
