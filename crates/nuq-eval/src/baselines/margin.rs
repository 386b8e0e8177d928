//! Margin between the two most probable classes: `1 − (p₁ − p₂)` with the probabilities in descending order.

use super::softmax::{argmax, complement, each_row, largest, softmax};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::evaluate::MethodId;

/// One minus the difference of the two largest softmax probabilities.
#[derive(Debug, Clone, Copy)]
pub struct Margin;

impl Scorer for Margin {
    fn name(&self) -> String {
        "Margin".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        Ok(each_row(batch.need_logits(self)?, |row| {
            let mut p = softmax(row);
            let best = argmax(&p);
            let complement = complement(&p, best);
            p.swap_remove(best);
            complement + largest(&p).max(0.0)
        }))
    }

    fn parts(&self) -> Option<BaselineParts> {
        Some(BaselineParts::new(MethodId::Margin))
    }
}
