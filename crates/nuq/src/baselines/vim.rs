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
use super::softmax::{each_row, largest, log_sum_exp};
use super::{Batch, Input, Scorer};
use crate::Error;
use crate::density::scatter_around;

/// Virtual-logit matching.
pub struct Vim {
    origin: Vec<f64>,
    /// $R$, a column per direction.
    residual: Mat<f64>,
    alpha: f64,
}

/// Rows that one task takes.
const ROWS: usize = 256;

impl Vim {
    /// Fits it to training rows and the head; `principal` directions are left out of the residual, by default what the authors
    /// take: 1000 of 2048 or more, 512 of 768 or more, and half of fewer.
    pub fn fit(rows: &Embeddings<'_>, head: &Head, principal: Option<usize>) -> Result<Self, Error> {
        if rows.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        let d = rows.dim();
        let principal = principal.unwrap_or(match d {
            2048.. => 1000,
            768.. => 512,
            _ => d / 2,
        });
        if principal >= d {
            let range = "it must be below the number of columns";
            return Err(crate::error::out_of_range("principal directions", principal as f64, range));
        }
        let no_spread = Error::NoSpread { rows: rows.len() };
        let inverse = head.weights().thin_svd().map_err(|_| no_spread.clone())?.pseudoinverse();
        // W is stored transposed, so its pseudoinverse is too: o = -(Wᵀ)⁺ᵀ b.
        let origin: Vec<f64> = (0..d)
            .map(|j| -(0..head.bias().len()).map(|c| inverse[(c, j)] * head.bias()[c]).sum::<f64>())
            .collect();
        let moments = scatter_around(rows, &origin);
        // Eigenvalues ascend: the residual comes first.
        let eigen = moments.self_adjoint_eigen(Side::Lower).map_err(|_| no_spread)?;
        let residual = eigen.U().subcols(0, d - principal).to_owned();
        let mut vim = Self { origin, residual, alpha: 1.0 };
        let lengths: f64 = vim.lengths(rows).iter().sum();
        let logits: f64 = each_row(&head.logits(rows)?, largest).iter().sum();
        vim.alpha = if lengths > 0.0 { logits / lengths } else { 0.0 };
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

impl Scorer for Vim {
    fn name(&self) -> String {
        "ViM".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings, Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let (rows, logits) = batch.need_both(self)?;
        if rows.dim() != self.origin.len() {
            let (got, expected) = (rows.dim(), self.origin.len());
            return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
        }
        let sure = each_row(logits, log_sum_exp);
        Ok(self.lengths(rows).iter().zip(sure).map(|(length, sure)| self.alpha * length - sure).collect())
    }

    fn bytes(&self) -> u64 {
        8 * (self.residual.nrows() * self.residual.ncols() + self.origin.len()) as u64
    }
}
