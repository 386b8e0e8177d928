//! Margin between the two likeliest classes: $1 - (p_{(1)} - p_{(2)})$.

use super::softmax::{each_row, first_largest, largest, others, softmax};
use super::{Batch, Input, Scorer};
use crate::Error;

/// $1 - (p_{(1)} - p_{(2)})$.
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
            let best = first_largest(&p);
            let sure = others(&p, best);
            p.swap_remove(best);
            sure + largest(&p).max(0.0)
        }))
    }
}
