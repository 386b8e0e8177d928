//! Softmax and related functions of rows of logits, in `f64`.

use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::ParallelCheckpoints;
use rayon::prelude::*;

use nuq::log_space::log_sum;

/// Maps each row of logits to one value.
pub(super) fn each_row(logits: &Embeddings<'_>, function: impl Fn(&[f64]) -> f64 + Sync) -> Vec<f64> {
    logits
        .as_slice()
        .par_chunks(logits.dim())
        .with_checkpoints()
        .map_init(Vec::new, |row, logits| {
            row.clear();
            row.extend(logits.iter().map(|&z| f64::from(z)));
            function(row)
        })
        .collect()
}

/// `ln Σ_c exp(z_c)`.
pub(super) fn log_sum_exp(row: &[f64]) -> f64 {
    log_sum(row.iter().copied())
}

/// `p_c = exp(z_c) / Σ_j exp(z_j)`. The largest logit is subtracted first, so that large logits do not overflow.
pub(super) fn softmax(row: &[f64]) -> Vec<f64> {
    let top = largest(row);
    let mut p: Vec<f64> = row.iter().map(|z| (z - top).exp()).collect();
    let total: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= total);
    p
}

/// The largest value of a row.
pub(super) fn largest(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The position of the largest value. If several values are the largest, the first of them.
pub(super) fn argmax(values: &[f64]) -> usize {
    (1..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}

/// `1 − p_c` as the sum of the other probabilities, which avoids cancellation if `p_c` is near one.
pub(super) fn complement(p: &[f64], c: usize) -> f64 {
    p[..c].iter().chain(&p[c + 1..]).sum()
}

/// `−Σ_c p_c ln p_c`.
pub(super) fn entropy(p: &[f64]) -> f64 {
    let best = argmax(p);
    let term = |(c, &p_c): (usize, &f64)| match p_c {
        0.0 => 0.0,
        // ln p is computed as ln(1 − (1 − p)), which is more precise if p is near one.
        _ if c == best => -p_c * (-complement(p, best)).ln_1p(),
        _ => -p_c * p_c.ln(),
    };
    p.iter().enumerate().map(term).sum()
}
