//! Maximum softmax probability (Hendrycks and Gimpel 2017): $1 - \max_c p_c$.

use super::softmax::each_row;
use super::{Batch, Input, Scorer};
use crate::Error;

/// $1 - \max_c p_c$.
#[derive(Debug, Clone, Copy)]
pub struct MaxProb;

impl Scorer for MaxProb {
    fn name(&self) -> String {
        "MaxProb".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        Ok(each_row(batch.need_logits(self)?, |row| {
            let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("a row has classes");
            // The others are summed: one minus a probability near one would have no digits left.
            let others: f64 =
                row.iter().enumerate().filter(|(c, _)| *c != best).map(|(_, z)| (z - row[best]).exp()).sum();
            others / (1.0 + others)
        }))
    }
}
