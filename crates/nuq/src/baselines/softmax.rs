//! Rows of logits as probabilities, in `f64`.

use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use crate::log_space::log_sum;

/// Reads a number off each row of logits.
pub(super) fn each_row(logits: &Embeddings<'_>, read: impl Fn(&[f64]) -> f64 + Sync) -> Vec<f64> {
    logits
        .as_slice()
        .par_chunks(logits.dim())
        .map_init(Vec::new, |row, logits| {
            row.clear();
            row.extend(logits.iter().map(|&z| f64::from(z)));
            read(row)
        })
        .collect()
}

/// $\ln \sum_c e^{z_c}$.
pub(super) fn log_sum_exp(row: &[f64]) -> f64 {
    log_sum(row.iter().copied())
}

/// $p_c = e^{z_c} / \sum_j e^{z_j}$ of each class.
pub(super) fn softmax(row: &[f64]) -> impl Iterator<Item = f64> + '_ {
    let log_total = log_sum_exp(row);
    row.iter().map(move |z| (z - log_total).exp())
}

/// The largest logit.
pub(super) fn largest(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
