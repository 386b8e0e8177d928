//! NNGuide (Park, Jung and Teoh 2023): the energy, weighted by the similarity to confident training rows.
//!
//! `E = ln Σ_c exp(z_c)` is the negative energy. `cos_i(x)` is the cosine between `x` and training row `i`.
//!
//! ```text
//! s(x) = −E(x) · (1/k) Σ_i E_i cos_i(x)
//! ```
//!
//! `E_i` is E of training row `i`. The sum is over the k training rows `i` with the largest `E_i cos_i(x)`.
//!
//! The products `E_i cos_i(x)` are computed in `f32`, in blocks. A bound on the rounding error shows which products may be among the k
//! largest. These are computed again in `f64`. Scores therefore do not depend on which rows are scored together.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::{Checkpoint, checkpoint};
use rayon::prelude::*;

use super::parts::damaged;
use super::scorer::{check_classes, check_columns};
use super::softmax::{each_row, log_sum_exp};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::length_mismatch;
use crate::evaluate::MethodId;

/// Energy weighted by the similarity to confident training rows.
pub struct NnGuide {
    /// Training rows, scaled to length `E_i`.
    bank: Embeddings<'static>,
    classes: usize,
    k: usize,
    /// If two `f32` products are in another order than their exact values, the two `f32` products differ by at most this bound.
    margin: f32,
}

/// Number of queries per block of products.
const QUERIES: usize = 256;
/// Number of training rows per block of products.
const ROWS: usize = 4096;

impl NnGuide {
    /// Fits the score to training rows and their logits, with `k` neighbors.
    ///
    /// # Errors
    /// No rows, unequal numbers of rows and logits, or `k` is zero.
    pub fn fit(rows: &Embeddings<'_>, logits: &Embeddings<'_>, k: usize) -> Result<Self, Error> {
        if logits.len() != rows.len() {
            let (got, expected) = (logits.len(), rows.len());
            return Err(length_mismatch("rows of logits", got, "embeddings", expected));
        }
        if rows.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        if k == 0 {
            return Err(nuq_neighbors::Error::ZeroNeighbors.into());
        }
        let log_sums = each_row(logits, log_sum_exp);
        let dim = rows.dim();
        let mut values = Vec::with_capacity(rows.as_slice().len());
        // Rows are normalized in blocks, because the normalized rows together would be a second copy of the bank.
        for (block, log_sums) in rows.as_slice().chunks(ROWS * dim).zip(log_sums.chunks(ROWS)) {
            let directions = Embeddings::borrowed(block, dim)?.l2_normalized();
            for (row, &log_sum) in directions.rows().zip(log_sums) {
                values.extend(row.iter().map(|&v| (f64::from(v) * log_sum) as f32));
            }
        }
        let bank = Embeddings::new(values, dim)?;
        let margin = margin(&bank);
        Ok(Self { bank, classes: logits.dim(), k: k.min(rows.len()), margin })
    }

    pub(super) fn from_parts(parts: &mut BaselineParts) -> Result<Self, Error> {
        let (values, dim) = parts.rows("bank")?;
        let bank = Embeddings::new(values, dim).map_err(|error| damaged("bank", error.to_string()))?;
        let k = parts.count("n_neighbors")?;
        if k == 0 || k > bank.len() {
            return Err(damaged(
                "params",
                format!(
                    "`n_neighbors` is {k}; it must be from 1 to {}, the number of training rows",
                    bank.len()
                ),
            ));
        }
        let margin = margin(&bank);
        Ok(Self { bank, classes: parts.positive("classes")?, k, margin })
    }

    /// The mean of the `k` largest products of each query in `block` with the rows of the bank.
    fn guidance(&self, block: &[f32]) -> Vec<f64> {
        let d = self.bank.dim();
        let queries = MatRef::from_column_major_slice(block, d, block.len() / d);
        let mut lists = vec![Candidates::default(); queries.ncols()];
        let mut products: Mat<f32> = Mat::zeros(ROWS, queries.ncols());
        for (i, rows) in self.bank.as_slice().chunks(ROWS * d).enumerate() {
            checkpoint();
            let rows = MatRef::from_column_major_slice(rows, d, rows.len() / d);
            let mut product_block = products.as_mut().subrows_mut(0, rows.ncols());
            matmul(product_block.as_mut(), Accum::Replace, rows.transpose(), queries, 1.0, Par::Seq);
            for (list, column) in lists.iter_mut().zip(product_block.as_ref().col_iter()) {
                for (product, id) in column.iter().zip((i * ROWS) as u32..) {
                    list.insert(*product, id, self.k, self.margin);
                }
            }
        }
        lists.into_iter().zip(block.chunks_exact(d)).map(|(list, query)| self.mean(list, query)).collect()
    }

    /// The mean of the `k` largest products of a query, from its candidates.
    fn mean(&self, mut list: Candidates, query: &[f32]) -> f64 {
        list.prune(self.k, self.margin);
        let product = |id: u32| -> f64 {
            let row = self.bank.row(id as usize).iter().zip(query);
            row.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let mut exact: Vec<f64> = list.rows.iter().map(|(_, id)| product(*id)).collect();
        exact.sort_by(|a, b| b.total_cmp(a));
        exact[..self.k].iter().sum::<f64>() / self.k as f64
    }
}

/// A bound on twice the error of an `f32` product of a row of the bank with a query of length one. The error is at most `γ_d L`
/// with `γ_d = d u / (1 − d u)`, `u = 2⁻²⁴` and the length L of the longest row of the bank. The factor is 2.01 instead of 2
/// because lengths are rounded. The smallest normal number is added for products that underflow.
fn margin(bank: &Embeddings<'_>) -> f32 {
    let sq_length = |row: &[f32]| row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    let longest = bank.rows().map(sq_length).fold(0.0, f64::max).sqrt();
    let du = bank.dim() as f64 * f64::from(f32::EPSILON) / 2.0;
    (2.01 * du / (1.0 - du) * longest) as f32 + f32::MIN_POSITIVE
}

/// Training rows that may be among the `k` with the largest products.
#[derive(Clone)]
struct Candidates {
    /// Products with row numbers.
    rows: Vec<(f32, u32)>,
    /// Smallest product that is a candidate.
    floor: f32,
    /// The list is pruned when its number of rows exceeds this number and `2 k`.
    limit: usize,
}

impl Default for Candidates {
    fn default() -> Self {
        Self { rows: Vec::new(), floor: f32::NEG_INFINITY, limit: 64 }
    }
}

impl Candidates {
    fn insert(&mut self, product: f32, id: u32, k: usize, margin: f32) {
        if product >= self.floor {
            self.rows.push((product, id));
            if self.rows.len() > self.limit.max(2 * k) {
                self.prune(k, margin);
                // If many near-equal products remain after pruning, a higher limit avoids that each insertion prunes again.
                self.limit = self.limit.max(2 * self.rows.len());
            }
        }
    }

    /// Drops rows that cannot be among the `k` largest, whatever the rounding errors are.
    fn prune(&mut self, k: usize, margin: f32) {
        if self.rows.len() > k {
            let kth = self.rows.select_nth_unstable_by(k - 1, |a, b| b.0.total_cmp(&a.0)).1.0;
            self.floor = kth - margin;
            let floor = self.floor;
            self.rows.retain(|(product, _)| *product >= floor);
        }
    }
}

impl Scorer for NnGuide {
    fn name(&self) -> String {
        "NNGuide".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings, Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let (rows, logits) = batch.need_both(self)?;
        check_columns(rows, self.bank.dim())?;
        check_classes(logits, self.classes)?;
        let directions = rows.l2_normalized();
        let blocks = directions.as_slice().par_chunks(QUERIES * rows.dim());
        let here = Checkpoint::current();
        let guidance: Vec<f64> = blocks.flat_map_iter(|block| here.enter(|| self.guidance(block))).collect();
        let log_sums = each_row(logits, log_sum_exp);
        Ok(log_sums.iter().zip(guidance).map(|(log_sum, guidance)| -log_sum * guidance).collect())
    }

    fn bytes(&self) -> u64 {
        4 * self.bank.as_slice().len() as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let parts = BaselineParts::new(MethodId::NnGuide).param("n_neighbors", self.k);
        let parts = parts.table("bank", self.bank.as_slice().to_vec(), self.bank.dim());
        Some(parts.array("classes", self.classes as u32))
    }
}
