//! Rows of logits as probabilities, in `f64`.

use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use nuq::log_space::log_sum;

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

/// $p_c = e^{z_c} / \sum_j e^{z_j}$ of each class, relative to the largest: each is as exact as its logits, however large they are.
pub(super) fn softmax(row: &[f64]) -> Vec<f64> {
    let top = largest(row);
    let mut p: Vec<f64> = row.iter().map(|z| (z - top).exp()).collect();
    let total: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= total);
    p
}

/// The largest logit.
pub(super) fn largest(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The place of the largest value, the first of several.
pub(super) fn first_largest(values: &[f64]) -> usize {
    (1..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}

/// $1 - p_c$ as the sum of the others: one minus a probability near one would have no digits left.
pub(super) fn others(p: &[f64], c: usize) -> f64 {
    p[..c].iter().chain(&p[c + 1..]).sum()
}

/// $-\sum_c p_c \ln p_c$.
pub(super) fn entropy(p: &[f64]) -> f64 {
    let best = first_largest(p);
    let term = |(c, &p_c): (usize, &f64)| match p_c {
        0.0 => 0.0,
        // Near one, what it lacks has the digits of its logarithm.
        _ if c == best => -p_c * (-others(p, best)).ln_1p(),
        _ => -p_c * p_c.ln(),
    };
    p.iter().enumerate().map(term).sum()
}
