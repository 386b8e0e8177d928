//! Entropy of the softmax: $-\sum_c p_c \ln p_c$.

use super::softmax::{each_row, log_sum_exp};
use super::{Batch, Input, Scorer};
use crate::Error;

/// $-\sum_c p_c \ln p_c$.
#[derive(Debug, Clone, Copy)]
pub struct Entropy;

/// The entropy of a row of logits.
pub(super) fn entropy(row: &[f64]) -> f64 {
    let log_total = log_sum_exp(row);
    row.iter().map(|z| (log_total - z) * (z - log_total).exp()).sum()
}

impl Scorer for Entropy {
    fn name(&self) -> String {
        "Entropy".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        Ok(each_row(batch.need_logits(self)?, entropy))
    }
}
