//! Entropy of the softmax probabilities: `−Σ_c p_c ln p_c`.

use super::softmax::{each_row, entropy, softmax};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::evaluate::MethodId;

/// Entropy of the softmax probabilities, `−Σ_c p_c ln p_c`.
#[derive(Debug, Clone, Copy)]
pub struct Entropy;

impl Scorer for Entropy {
    fn name(&self) -> String {
        "Entropy".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        Ok(each_row(batch.need_logits(self)?, |row| entropy(&softmax(row))))
    }

    fn parts(&self) -> Option<BaselineParts> {
        Some(BaselineParts::new(MethodId::Entropy))
    }
}
