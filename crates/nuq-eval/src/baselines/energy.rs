//! Energy (Liu et al. 2020): $-T \ln \sum_c e^{z_c / T}$.

use super::softmax::{each_row, largest};
use super::{Batch, Input, Scorer};
use crate::Error;
use crate::error::out_of_range;

/// $-T \ln \sum_c e^{z_c / T}$.
#[derive(Debug, Clone, Copy)]
pub struct Energy {
    temperature: f64,
}

impl Energy {
    /// At a temperature $T > 0$.
    pub fn new(temperature: f64) -> Result<Self, Error> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(out_of_range("temperature", temperature, "it must be positive and finite"));
        }
        Ok(Self { temperature })
    }

    /// The energy of a row of logits.
    fn of(self, row: &[f64]) -> f64 {
        // The largest is taken out first: divided by a small temperature it may be no number any more.
        let top = largest(row);
        let sum: f64 = row.iter().map(|z| ((z - top) / self.temperature).exp()).sum();
        -(top + self.temperature * sum.ln())
    }
}

impl Default for Energy {
    fn default() -> Self {
        Self { temperature: 1.0 }
    }
}

impl Scorer for Energy {
    fn name(&self) -> String {
        "Energy".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        Ok(each_row(batch.need_logits(self)?, |row| self.of(row)))
    }
}
