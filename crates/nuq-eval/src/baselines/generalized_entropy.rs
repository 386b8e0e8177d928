//! GEN, generalized entropy (Liu, Lochman and Zach 2023): `Σ_c p_c^γ (1 − p_c)^γ` over the `M` most probable classes. A small
//! exponent `γ` amplifies small deviations from a one-hot prediction.

use super::softmax::{complement, each_row, softmax};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::out_of_range;
use crate::evaluate::MethodId;

/// Generalized entropy, `Σ_c p_c^γ (1 − p_c)^γ` over the `M` most probable classes. The defaults `γ = 0.1` and
/// `M = 100` are those of the authors.
#[derive(Debug, Clone, Copy)]
pub struct Gen {
    gamma: f64,
    top: usize,
}

impl Gen {
    /// Creates the score with the exponent `γ` in (0, 1), summed over the `top` (`M ≥ 1`) most probable classes.
    ///
    /// # Errors
    /// A parameter is out of its range.
    pub fn new(gamma: f64, top: usize) -> Result<Self, Error> {
        if !(gamma > 0.0 && gamma < 1.0) {
            return Err(out_of_range("gamma", gamma, "it must lie strictly between 0 and 1"));
        }
        if top == 0 {
            return Err(out_of_range("top", 0.0, "it must be at least one"));
        }
        Ok(Self { gamma, top })
    }

    pub(super) fn from_parts(parts: &BaselineParts) -> Result<Self, Error> {
        Self::new(parts.number("gamma")?, parts.count("top")?)
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
            // 1 − p of the most probable class is computed as the sum of the other probabilities, because the power
            // amplifies rounding errors.
            let first = p[0].powf(self.gamma) * complement(&p, 0).powf(self.gamma);
            let rest = p.iter().take(self.top).skip(1);
            first + rest.map(|p| (p * (1.0 - p)).powf(self.gamma)).sum::<f64>()
        }))
    }

    fn parts(&self) -> Option<BaselineParts> {
        Some(BaselineParts::new(MethodId::Gen).param("gamma", self.gamma).param("top", self.top))
    }
}
