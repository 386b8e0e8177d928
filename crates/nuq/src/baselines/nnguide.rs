//! NNGuide (Park, Jung and Teoh 2023): the energy, guided by how like the surest training rows a row is.
//!
//! With $E_i = \ln \sum_c e^{z_{ic}}$ of the training rows and $\cos_i$ their cosine with $x$:
//!
//! $$s(x) = -E(x) \cdot \frac1k \sum_{i \in \mathrm{top}\,k} E_i \cos_i(x)$$
//!
//! where the $k$ training rows with the largest $E_i \cos_i$ count.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::scorer::{check_classes, check_columns};
use super::softmax::{each_row, log_sum_exp};
use super::{Batch, Input, Scorer};
use crate::Error;

/// The guided energy.
pub struct NnGuide {
    /// Training rows of length $E_i$.
    bank: Embeddings<'static>,
    classes: usize,
    k: usize,
}

/// Queries and training rows that are multiplied at a time.
const QUERIES: usize = 256;
const ROWS: usize = 4096;

impl NnGuide {
    /// Fits it to training rows and their logits.
    pub fn fit(rows: &Embeddings<'_>, logits: &Embeddings<'_>, k: usize) -> Result<Self, Error> {
        if logits.len() != rows.len() {
            let (got, expected) = (logits.len(), rows.len());
            return Err(Error::NotPaired { what: "rows of logits", got, beside: "embeddings", expected });
        }
        if rows.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        if k == 0 {
            return Err(nuq_neighbors::Error::ZeroNeighbors.into());
        }
        let energies = each_row(logits, log_sum_exp);
        let mut values = rows.l2_normalized().as_slice().to_vec();
        for (row, energy) in values.chunks_mut(rows.dim()).zip(energies) {
            row.iter_mut().for_each(|v| *v = (f64::from(*v) * energy) as f32);
        }
        let bank = Embeddings::new(values, rows.dim())?;
        Ok(Self { bank, classes: logits.dim(), k: k.min(rows.len()) })
    }

    /// The mean of the `k` largest products of each query of a block with the bank.
    fn guidance(&self, block: &[f32]) -> Vec<f64> {
        let d = self.bank.dim();
        let queries = MatRef::from_column_major_slice(block, d, block.len() / d);
        let mut best: Vec<Vec<f32>> = vec![Vec::with_capacity(2 * ROWS); queries.ncols()];
        let mut products: Mat<f32> = Mat::zeros(ROWS, queries.ncols());
        for rows in self.bank.as_slice().chunks(ROWS * d) {
            let count = rows.len() / d;
            let rows = MatRef::from_column_major_slice(rows, d, count);
            let mut found = products.as_mut().subrows_mut(0, count);
            matmul(found.as_mut(), Accum::Replace, rows.transpose(), queries, 1.0, Par::Seq);
            for (best, column) in best.iter_mut().zip(found.as_ref().col_iter()) {
                best.extend(column.iter());
                if best.len() > self.k {
                    best.select_nth_unstable_by(self.k - 1, |a, b| b.total_cmp(a));
                    best.truncate(self.k);
                }
            }
        }
        let mean = |mut best: Vec<f32>| {
            // In order, so that the sum does not depend on how they were found.
            best.sort_by(f32::total_cmp);
            best.iter().map(|&v| f64::from(v)).sum::<f64>() / self.k as f64
        };
        best.into_iter().map(mean).collect()
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
        let guidance: Vec<f64> = blocks.flat_map_iter(|block| self.guidance(block)).collect();
        let energies = each_row(logits, log_sum_exp);
        Ok(energies.iter().zip(guidance).map(|(energy, guide)| -energy * guide).collect())
    }

    fn bytes(&self) -> u64 {
        4 * self.bank.as_slice().len() as u64
    }
}
