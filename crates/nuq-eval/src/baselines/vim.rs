//! ViM, virtual-logit matching (Wang et al. 2022): how far a row lies outside the space in which training rows vary, weighed
//! against what the logits say.
//!
//! With the origin $o = -W^{+} b$ at which all logits vanish, and $R$ the directions of the training rows $x_i - o$ beyond the
//! first $D$ principal ones:
//!
//! $$s(x) = \alpha \lVert R^\top (x - o) \rVert - \ln \sum_c e^{z_c}, \qquad
//! \alpha = \frac{\sum_i \max_c z_{ic}}{\sum_i \lVert R^\top (x_i - o) \rVert}$$

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par, Side};
use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::head::{Head, centered};
use super::scorer::{check_classes, check_columns};
use super::softmax::{each_row, largest, log_sum_exp};
use super::{Batch, Input, Scorer};
use crate::Error;
use crate::error::out_of_range;
use nuq::moments::scatter_around;

/// Virtual-logit matching.
pub struct Vim {
    origin: Vec<f64>,
    classes: usize,
    /// $R$, a column per direction.
    residual: Mat<f64>,
    alpha: f64,
}

/// Rows that one task takes.
const ROWS: usize = 256;
/// Residuals so much shorter than the rows are what rounding leaves of none.
const ROUNDING: f64 = 1e-10;

impl Vim {
    /// Fits it to training rows and the head; `principal` directions are left out of the residual, by default what the authors
    /// take: 1000 of 2048 or more, 512 of 768 or more, and half of fewer. Training rows must vary in more directions than
    /// those: of rows without a residual nobody knows how much one should count.
    pub fn fit(rows: &Embeddings<'_>, head: &Head, principal: Option<usize>) -> Result<Self, Error> {
        if rows.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        check_columns(rows, head.dim())?;
        let d = rows.dim();
        let principal = principal.unwrap_or(match d {
            2048.. => 1000,
            768.. => 512,
            _ => d / 2,
        });
        if principal >= d {
            let range = "it must be below the number of columns";
            return Err(out_of_range("principal directions", principal as f64, range));
        }
        let no_spread = Error::from(nuq::Error::NoSpread { rows: rows.len() });
        let origin = origin(head).ok_or_else(|| no_spread.clone())?;
        let moments = scatter_around(rows, &origin);
        // Eigenvalues ascend: the residual comes first.
        let eigen = moments.self_adjoint_eigen(Side::Lower).map_err(|_| no_spread)?;
        let residual = eigen.U().subcols(0, d - principal).to_owned();
        // The trace: the mean squared length of rows from the origin.
        let size = (0..d).map(|j| moments[(j, j)]).sum::<f64>().sqrt();
        let mut vim = Self { origin, classes: head.classes(), residual, alpha: 1.0 };
        let lengths: f64 = vim.lengths(rows).iter().sum();
        if lengths <= ROUNDING * size * rows.len() as f64 {
            let range = "training rows vary in no more than that: give fewer, or more rows";
            return Err(out_of_range("principal directions", principal as f64, range));
        }
        vim.alpha = head.read(rows, f64::INFINITY, largest)?.iter().sum::<f64>() / lengths;
        Ok(vim)
    }

    /// $\lVert R^\top (x - o) \rVert$ of each row.
    fn lengths(&self, rows: &Embeddings<'_>) -> Vec<f64> {
        let block = |first: usize| {
            let x = centered(rows, &self.origin, first, rows.len().min(first + ROWS));
            let mut inside: Mat<f64> = Mat::zeros(self.residual.ncols(), x.ncols());
            matmul(&mut inside, Accum::Replace, self.residual.transpose(), &x, 1.0, Par::Seq);
            inside.col_iter().map(|column| column.norm_l2()).collect::<Vec<f64>>()
        };
        let firsts: Vec<usize> = (0..rows.len()).step_by(ROWS).collect();
        firsts.into_par_iter().flat_map_iter(block).collect()
    }
}

/// $o = -W^{+} b$; `None` where the singular values are not found.
///
/// Directions that `f32` weights leave to rounding are none: the biases along them would put the origin anywhere.
fn origin(head: &Head) -> Option<Vec<f64>> {
    // W is stored transposed: Wᵀ = U S Vᵀ, and W⁺ b = U S⁻¹ Vᵀ b.
    let svd = head.weights().thin_svd().ok()?;
    let values = svd.S().column_vector();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let rounding = head.dim().max(head.classes()) as f64 * f64::from(f32::EPSILON) * largest;
    let mut origin = vec![0.0; head.dim()];
    for (i, &value) in values.iter().enumerate().filter(|(_, value)| **value > rounding) {
        let along: f64 = svd.V().col(i).iter().zip(head.bias()).map(|(v, b)| v * b).sum();
        origin.iter_mut().zip(svd.U().col(i).iter()).for_each(|(o, u)| *o -= along / value * u);
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
        let sure = each_row(logits, log_sum_exp);
        Ok(self.lengths(rows).iter().zip(sure).map(|(length, sure)| self.alpha * length - sure).collect())
    }

    fn bytes(&self) -> u64 {
        8 * (self.residual.nrows() * self.residual.ncols() + self.origin.len()) as u64
    }
}
