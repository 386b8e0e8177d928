//! GEN, the generalized entropy (Liu, Lochman and Zach 2023): $\sum_{c \le M} p_{(c)}^\gamma (1 - p_{(c)})^\gamma$ over the $M$ likeliest
//! classes, with a small $\gamma$ that makes much of small departures from certainty.

use super::softmax::{each_row, others, softmax};
use super::{Batch, Input, Scorer};
use crate::Error;
use crate::error::out_of_range;

/// $\sum_{c \le M} p_{(c)}^\gamma (1 - p_{(c)})^\gamma$; the authors' $\gamma = 0.1$ and $M = 100$ by default.
#[derive(Debug, Clone, Copy)]
pub struct Gen {
    gamma: f64,
    top: usize,
}

impl Gen {
    /// With an exponent in (0, 1) and so many of the likeliest classes.
    pub fn new(gamma: f64, top: usize) -> Result<Self, Error> {
        if !(gamma > 0.0 && gamma < 1.0) {
            return Err(out_of_range("gamma", gamma, "it must lie strictly between 0 and 1"));
        }
        if top == 0 {
            return Err(out_of_range("number of classes", 0.0, "at least one is needed"));
        }
        Ok(Self { gamma, top })
    }
}

impl Default for Gen {
    fn default() -> Self {
        Self { gamma: 0.1, top: 100 }
    }
}

impl Scorer for Gen {
    fn name(&self) -> String {
        "GEN".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        Ok(each_row(batch.need_logits(self)?, |row| {
            let mut p = softmax(row);
            p.sort_by(|a, b| b.total_cmp(a));
            // A small power makes much of what the likeliest class lacks, which one minus its chance would round away.
            let first = p[0].powf(self.gamma) * others(&p, 0).powf(self.gamma);
            let rest = p.iter().take(self.top).skip(1);
            first + rest.map(|p| (p * (1.0 - p)).powf(self.gamma)).sum::<f64>()
        }))
    }
}
