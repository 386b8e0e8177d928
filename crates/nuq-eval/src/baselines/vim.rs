//! ViM, virtual-logit matching (Wang et al. 2022): the distance of a row from the principal subspace of the training
//! rows, minus the log-sum-exp of the logits.
//!
//! The last layer is `z = W x + b`; `z_i` are the logits of training row `x_i`.
//! `o = −W⁺ b` is the point at which all logits are zero, in the least-squares sense. `R` are the principal directions
//! of the training rows `x_i − o`, except the first `D`.
//!
//! ```text
//! s(x) = α ‖Rᵀ (x − o)‖ − ln Σ_c exp(z_c),    α = Σ_i max_c z_ic / Σ_i ‖Rᵀ (x_i − o)‖
//! ```

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par, Side};
use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::{ParallelCheckpoints, checkpoint};
use rayon::prelude::*;

use super::head::{Head, centered};
use super::parts::damaged;
use super::scorer::{check_classes, check_columns};
use super::softmax::{each_row, largest, log_sum_exp};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::{no_spread, out_of_range};
use crate::evaluate::MethodId;
use nuq::moments::scatter_around;

/// Virtual-logit matching score.
pub struct Vim {
    origin: Vec<f64>,
    classes: usize,
    /// `R`, one column per direction.
    residual: Mat<f64>,
    alpha: f64,
    /// The number of principal directions; `None` for the default.
    principal: Option<usize>,
}

/// Number of rows per parallel task.
const ROWS: usize = 256;
/// Residuals below this, relative to the length of the rows, are rounding errors.
const ROUNDING: f64 = 1e-10;

impl Vim {
    /// Fits the score to training rows and the last layer. `principal` is the number of directions that are not part of the
    /// residual. The default is that of the authors: 1000 for at least 2048 columns, 512 for at least 768 columns, and half of
    /// the columns otherwise.
    ///
    /// # Errors
    /// No rows, rows with another number of columns than the last layer, `principal` not below the number of columns, training
    /// rows without a residual, for which `α` is not defined, or a matrix decomposition that does not converge.
    pub fn fit(rows: &Embeddings<'_>, head: &Head, principal: Option<usize>) -> Result<Self, Error> {
        if rows.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        check_columns(rows, head.dim())?;
        let (d, given) = (rows.dim(), principal);
        let principal = given.unwrap_or(match d {
            2048.. => 1000,
            768.. => 512,
            _ => d / 2,
        });
        if principal >= d {
            let range = "it must be below the number of columns";
            return Err(out_of_range("principal", principal as f64, range));
        }
        let no_spread = no_spread("the principal subspace of ViM", rows.len());
        let origin = origin(head).ok_or_else(|| no_spread.clone())?;
        let moments = scatter_around(rows, &origin);
        checkpoint();
        // Eigenvalues are in ascending order, so the residual directions come first.
        let eigen = moments.self_adjoint_eigen(Side::Lower).map_err(|_| no_spread)?;
        let residual = eigen.U().subcols(0, d - principal).to_owned();
        // The trace is the mean squared distance of the rows from the origin.
        let typical_length = (0..d).map(|j| moments[(j, j)]).sum::<f64>().sqrt();
        let mut vim = Self { origin, classes: head.classes(), residual, alpha: 1.0, principal: given };
        let lengths: f64 = vim.residual_lengths(rows).iter().sum();
        if lengths <= ROUNDING * typical_length * rows.len() as f64 {
            let range = "the rows vary in at most this many directions: use fewer directions, or more rows";
            return Err(out_of_range("principal", principal as f64, range));
        }
        vim.alpha = head.map_logits(rows, f64::INFINITY, largest)?.iter().sum::<f64>() / lengths;
        Ok(vim)
    }

    pub(super) fn from_parts(parts: &mut BaselineParts) -> Result<Self, Error> {
        let principal = parts.optional("principal", BaselineParts::count)?;
        let (origin, residual) = (parts.vector("origin")?, parts.matrix("residual")?);
        if residual.nrows() != origin.len() || residual.ncols() > origin.len() {
            return Err(damaged("residual", "its shape does not match the length of the origin"));
        }
        let (alpha, classes) = (parts.scalar("alpha")?, parts.positive("classes")?);
        Ok(Self { origin, classes, residual, alpha, principal })
    }

    /// `‖Rᵀ (x − o)‖` of each row.
    fn residual_lengths(&self, rows: &Embeddings<'_>) -> Vec<f64> {
        let block = |first: usize| {
            let x = centered(rows, &self.origin, first, rows.len().min(first + ROWS));
            let mut projected: Mat<f64> = Mat::zeros(self.residual.ncols(), x.ncols());
            matmul(&mut projected, Accum::Replace, self.residual.transpose(), &x, 1.0, Par::Seq);
            projected.col_iter().map(|column| column.norm_l2()).collect::<Vec<f64>>()
        };
        let firsts: Vec<usize> = (0..rows.len()).step_by(ROWS).collect();
        firsts.into_par_iter().with_checkpoints().flat_map_iter(block).collect()
    }
}

/// `o = −W⁺ b`; `None` if the singular value decomposition does not converge.
///
/// Singular values of the size of `f32` rounding errors count as zero. Otherwise the biases along their directions
/// would dominate `o`.
fn origin(head: &Head) -> Option<Vec<f64>> {
    // W is stored transposed: Wᵀ = U S Vᵀ, and W⁺ b = U S⁻¹ Vᵀ b.
    let svd = head.weights().thin_svd().ok()?;
    let values = svd.S().column_vector();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let rounding = head.dim().max(head.classes()) as f64 * f64::from(f32::EPSILON) * largest;
    let mut origin = vec![0.0; head.dim()];
    for (i, &value) in values.iter().enumerate().filter(|(_, value)| **value > rounding) {
        let component: f64 = svd.V().col(i).iter().zip(head.bias()).map(|(v, b)| v * b).sum();
        origin.iter_mut().zip(svd.U().col(i).iter()).for_each(|(o, u)| *o -= component / value * u);
    }
    Some(origin)
}

impl Scorer for Vim {
    fn name(&self) -> String {
        "ViM".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings, Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let (rows, logits) = batch.need_both(self)?;
        check_columns(rows, self.origin.len())?;
        check_classes(logits, self.classes)?;
        let log_sums = each_row(logits, log_sum_exp);
        let lengths = self.residual_lengths(rows);
        Ok(lengths.iter().zip(log_sums).map(|(length, log_sum)| self.alpha * length - log_sum).collect())
    }

    fn bytes(&self) -> u64 {
        8 * (self.residual.nrows() * self.residual.ncols() + self.origin.len()) as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let parts = BaselineParts::new(MethodId::Vim).param("principal", self.principal);
        let parts = parts.array("origin", self.origin.clone()).array("residual", &self.residual);
        Some(parts.array("alpha", self.alpha).array("classes", self.classes as u32))
    }
}
