//! Energy (Liu et al. 2020): `−T ln Σ_c exp(z_c / T)`.

use super::softmax::{each_row, largest};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::out_of_range;
use crate::evaluate::MethodId;

/// Energy of the logits, `−T ln Σ_c exp(z_c / T)`; `T = 1` by default.
#[derive(Debug, Clone, Copy)]
pub struct Energy {
    temperature: f64,
}

impl Energy {
    /// The energy at temperature `T > 0`.
    ///
    /// # Errors
    /// The temperature is not positive and finite.
    pub fn new(temperature: f64) -> Result<Self, Error> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(out_of_range("temperature", temperature, "it must be positive and finite"));
        }
        Ok(Self { temperature })
    }

    pub(super) fn from_parts(parts: &BaselineParts) -> Result<Self, Error> {
        Self::new(parts.number("temperature")?)
    }

    /// The energy of a row of logits.
    fn energy(self, row: &[f64]) -> f64 {
        // Subtract the largest logit before the division, because the quotient may overflow at a small temperature.
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
        Ok(each_row(batch.need_logits(self)?, |row| self.energy(row)))
    }

    fn parts(&self) -> Option<BaselineParts> {
        Some(BaselineParts::new(MethodId::Energy).param("temperature", self.temperature))
    }
}
