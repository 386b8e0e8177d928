//! Shrunk covariances as maps that turn Mahalanobis into Euclidean distances. They are positive definite, unless a fixed
//! shrinkage is too small.
//!
//! The matrix `X` has one row `√s_i (x_i − μ)` for each of the `n` training rows `x_i`, with the sample weight `s_i`. In divisors, `n` is
//! the sum `Σ_i s_i`.
//!
//! A covariance is shrunk towards a multiple of the identity with the same trace, `Σ = (1−ρ) S + ρ t I` with `t = tr S / d`.
//! With fewer rows than dimensions, `n < d`, `S = XᵀX / n` has rank below `n`, and the computation uses the `n × n` matrix
//! `M = aI + bXXᵀ` with `a = ρt` and `b = (1−ρ)/n`. With `α = M⁻¹ X u` for a vector `u`:
//!
//! ```text
//! uᵀ Σ⁻¹ u = (1/a) ‖u − b Xᵀα‖² + b ‖α‖²
//! ln det Σ = (d − n) ln a + ln det M
//! ```
//!
//! Woodbury's formula computes the same value as a difference of large numbers and loses digits by cancellation. The sum of
//! squares has no cancellation, and an error in `α` enters only squared, because `α` minimizes the sum.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor;
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, Mat, MatRef, Par};
use nuq_neighbors::cancel::checkpoint;

use super::Shrinkage;
use super::centered_rows::{CenteredRows, scatter};

/// Lower bound of Ledoit and Wolf's shrinkage.
const MIN_SHRINKAGE: f64 = 1e-6;

/// A covariance `Σ` as a linear map `u ↦ v` with `‖v‖² = uᵀ Σ⁻¹ u`.
pub(super) struct Whitener {
    map: Map,
    log_det: f64,
    /// `ρ`.
    shrinkage: f64,
}

enum Map {
    Diagonal {
        variances: Vec<f64>,
    },
    Full {
        factor: Mat<f64>,
    },
    /// A covariance of fewer rows than columns, with the factor of `M`.
    Span {
        factor: Mat<f64>,
        a: f64,
        b: f64,
    },
}

/// Why stored values are not those of a covariance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The form is not one of those that [`GaussianParts`](super::GaussianParts) describes, or it is form 2 and
    /// there are at least as many rows as columns.
    UnknownForm,
    TooFewValues,
    NotPositiveDefinite,
}

impl Whitener {
    /// A multiple of the identity, for a class without variance of its own.
    pub(super) fn isotropic(dim: usize, variance: f64) -> Self {
        Self::diagonal_of(vec![variance; dim], 1.0)
    }

    fn diagonal_of(variances: Vec<f64>, shrinkage: f64) -> Self {
        let log_det = variances.iter().map(|v| v.ln()).sum();
        Self { map: Map::Diagonal { variances }, log_det, shrinkage }
    }

    /// One variance per column. `None` if a variance is zero because the shrinkage is fixed at zero.
    pub(super) fn diagonal(rows: &dyn CenteredRows, shrinkage: Shrinkage) -> Option<Self> {
        let (n, d) = (rows.total(), rows.dim());
        let (mut second, mut fourth, mut row) = (vec![0.0; d], vec![0.0; d], vec![0.0; d]);
        for i in 0..rows.len() {
            checkpoint();
            rows.write(i, &mut row);
            for ((second, fourth), x) in second.iter_mut().zip(&mut fourth).zip(&row) {
                *second += x * x / n;
                *fourth += x.powi(4) / (n * rows.weight(i));
            }
        }
        let target = second.iter().sum::<f64>() / d as f64;
        let noise: f64 = fourth.iter().zip(&second).map(|(f, s)| (f - s * s) / n).sum();
        let signal: f64 = second.iter().map(|s| (s - target).powi(2)).sum();
        let rho = amount(shrinkage, noise, signal);
        let variances: Vec<f64> = second.iter().map(|s| (1.0 - rho) * s + rho * target).collect();
        variances.iter().all(|&v| v > 0.0).then(|| Self::diagonal_of(variances, rho))
    }

    /// The full covariance, computed in the space of the rows or of the columns, whichever has fewer dimensions. `None`
    /// if it is singular because a fixed shrinkage is too small.
    pub(super) fn full(rows: &dyn CenteredRows, shrinkage: Shrinkage) -> Option<Self> {
        if rows.len() < rows.dim() { Self::span(rows, shrinkage) } else { Self::dense(rows, shrinkage) }
    }

    fn dense(rows: &dyn CenteredRows, shrinkage: Shrinkage) -> Option<Self> {
        let (n, d) = (rows.total(), rows.dim());
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
        cholesky(&mut sigma)?;
        Some(Self::full_of(sigma, rho))
    }

    fn span(rows: &dyn CenteredRows, shrinkage: Shrinkage) -> Option<Self> {
        let (n, d) = (rows.len(), rows.dim());
        let x = rows.columns(0, n);
        let mut gram: Mat<f64> = Mat::zeros(n, n);
        matmul(&mut gram, Accum::Replace, x.transpose(), &x, 1.0, Par::Seq);
        let (count, dim) = (rows.total(), d as f64);
        let target = (0..n).map(|i| gram[(i, i)]).sum::<f64>() / (count * dim);
        let sq_norm = sq_norm_of_lower(gram.as_ref()) / (count * count);
        let fourth = (0..n).map(|i| gram[(i, i)].powi(2) / rows.weight(i)).sum::<f64>() / count;
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
        cholesky(&mut gram)?;
        Some(Self::span_of(gram, (a, b), d, rho))
    }

    fn full_of(factor: Mat<f64>, shrinkage: f64) -> Self {
        let log_det = log_det(&factor);
        Self { map: Map::Full { factor }, log_det, shrinkage }
    }

    fn span_of(factor: Mat<f64>, (a, b): (f64, f64), dim: usize, shrinkage: f64) -> Self {
        let log_det = log_det(&factor) + (dim - factor.nrows()) as f64 * a.ln();
        Self { map: Map::Span { factor, a, b }, log_det, shrinkage }
    }

    /// Whether [`whiten`](Self::whiten) reads the rows.
    pub(super) fn needs_rows(&self) -> bool {
        matches!(self.map, Map::Span { .. })
    }

    /// Appends the values of the map and returns its form, as [`GaussianParts`](super::GaussianParts) describes them.
    pub(super) fn write(&self, values: &mut Vec<f64>) -> u32 {
        match &self.map {
            Map::Diagonal { variances } => {
                values.extend(variances);
                0
            }
            Map::Full { factor } => {
                values.extend(lower_triangle(factor));
                1
            }
            Map::Span { factor, a, b } => {
                values.extend([*a, *b]);
                values.extend(lower_triangle(factor));
                2
            }
        }
    }

    /// The number of values that [`write`](Self::write) appends.
    pub(super) fn n_written(&self) -> usize {
        let triangle = |factor: &Mat<f64>| factor.nrows() * (factor.nrows() + 1) / 2;
        match &self.map {
            Map::Diagonal { variances } => variances.len(),
            Map::Full { factor } => triangle(factor),
            Map::Span { factor, .. } => 2 + triangle(factor),
        }
    }

    /// Takes the values that [`write`](Self::write) appended, for a covariance of `n` rows.
    pub(super) fn read(
        form: u32,
        values: &mut &[f64],
        (dim, n): (usize, usize),
        shrinkage: f64,
    ) -> Result<Self, Unreadable> {
        match form {
            0 => {
                let variances = values.split_off(..dim).ok_or(Unreadable::TooFewValues)?;
                if !variances.iter().all(|v| *v > 0.0) {
                    return Err(Unreadable::NotPositiveDefinite);
                }
                Ok(Self::diagonal_of(variances.to_vec(), shrinkage))
            }
            1 => Ok(Self::full_of(take_triangle(values, dim)?, shrinkage)),
            2 if n < dim => {
                let Some(&[a, b]) = values.split_off(..2) else { return Err(Unreadable::TooFewValues) };
                let factor = take_triangle(values, n)?;
                if !(a > 0.0 && b >= 0.0) {
                    return Err(Unreadable::NotPositiveDefinite);
                }
                Ok(Self::span_of(factor, (a, b), dim, shrinkage))
            }
            _ => Err(Unreadable::UnknownForm),
        }
    }

    /// `ln det Σ`.
    pub(super) fn log_det(&self) -> f64 {
        self.log_det
    }

    /// `ρ`.
    pub(super) fn shrinkage(&self) -> f64 {
        self.shrinkage
    }

    /// Whether `Σ` is diagonal.
    pub(super) fn is_diagonal(&self) -> bool {
        matches!(self.map, Map::Diagonal { .. })
    }

    /// The number of stored `f64` values.
    pub(super) fn n_values(&self) -> usize {
        match &self.map {
            Map::Diagonal { variances } => variances.len(),
            Map::Full { factor } | Map::Span { factor, .. } => factor.nrows() * factor.ncols(),
        }
    }

    /// The images of the columns of `u`. `rows` are the rows from which the covariance was computed.
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

/// The shrinkage `ρ`: the given value, or the ratio of noise to signal of the entries of the covariance.
fn amount(shrinkage: Shrinkage, noise: f64, signal: f64) -> f64 {
    match shrinkage {
        Shrinkage::Fixed(amount) => amount,
        Shrinkage::LedoitWolf if signal <= 0.0 => 1.0,
        Shrinkage::LedoitWolf => (noise / signal).clamp(MIN_SHRINKAGE, 1.0),
    }
}

/// `‖S‖_F²` of a symmetric matrix whose lower triangle is stored.
fn sq_norm_of_lower(s: MatRef<'_, f64>) -> f64 {
    (0..s.ncols())
        .map(|j| {
            let below: f64 = (j + 1..s.nrows()).map(|i| s[(i, j)].powi(2)).sum();
            s[(j, j)].powi(2) + 2.0 * below
        })
        .sum()
}

/// The lower triangle of a square matrix, column by column.
fn lower_triangle(matrix: &Mat<f64>) -> impl Iterator<Item = f64> {
    let n = matrix.nrows();
    (0..n).flat_map(move |j| (j..n).map(move |i| matrix[(i, j)]))
}

/// Takes the lower triangle of a Cholesky factor of `n` columns. The values of its diagonal must be positive.
fn take_triangle(values: &mut &[f64], n: usize) -> Result<Mat<f64>, Unreadable> {
    let len = n.checked_mul(n + 1).map(|twice| twice / 2);
    let taken = len.and_then(|len| values.split_off(..len)).ok_or(Unreadable::TooFewValues)?;
    let mut taken = taken.iter();
    let mut factor = Mat::zeros(n, n);
    for j in 0..n {
        for (i, value) in (j..n).zip(&mut taken) {
            factor[(i, j)] = *value;
        }
    }
    match (0..n).all(|j| factor[(j, j)] > 0.0) {
        true => Ok(factor),
        false => Err(Unreadable::NotPositiveDefinite),
    }
}

/// The log determinant of the matrix with this Cholesky factor.
fn log_det(factor: &Mat<f64>) -> f64 {
    2.0 * (0..factor.nrows()).map(|j| factor[(j, j)].ln()).sum::<f64>()
}

/// Replaces the lower triangle by its Cholesky factor. `None` if the matrix is not positive definite.
fn cholesky(matrix: &mut Mat<f64>) -> Option<()> {
    let d = matrix.nrows();
    let largest = (0..d).map(|j| matrix[(j, j)]).fold(0.0, f64::max);
    let mut memory =
        MemBuffer::new(factor::cholesky_in_place_scratch::<f64>(d, Par::Seq, Default::default()));
    let stack = MemStack::new(&mut memory);
    factor::cholesky_in_place(matrix.as_mut(), Default::default(), Par::Seq, stack, Default::default())
        .ok()?;
    // A pivot at the level of rounding errors counts as zero.
    let floor = (d as f64 * f64::EPSILON * largest).sqrt();
    (0..d).all(|j| matrix[(j, j)] > floor).then_some(())
}
