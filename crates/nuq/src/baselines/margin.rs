//! Margin between the two likeliest classes: $1 - (p_{(1)} - p_{(2)})$.

use super::softmax::{each_row, softmax};
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
            let (mut first, mut second) = (0.0, 0.0);
            for p in softmax(row) {
                if p > first {
                    (first, second) = (p, first);
                } else if p > second {
                    second = p;
                }
            }
            1.0 - (first - second)
        }))
    }
}
