//! ReAct (Sun, Guo and Li 2021): the energy of clipped activations, `−ln Σ_c exp(z_c)` with `z = W min(x, t) + b`. `W` and `b` are
//! the last layer of the network. Activations are the coordinates of the embeddings. The limit `t` is a quantile of the training
//! activations.

use nuq_neighbors::Embeddings;

use super::head::Head;
use super::scorer::check_columns;
use super::softmax::log_sum_exp;
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::out_of_range;
use crate::evaluate::MethodId;

/// Energy of clipped rows.
pub struct React {
    head: Head,
    limit: f64,
    quantile: f64,
}

impl React {
    /// Sets the limit to a quantile of all activations of the training rows, with linear interpolation. The authors use 0.9.
    ///
    /// # Errors
    /// No rows, rows with another number of columns than the last layer, or a quantile outside (0, 1].
    pub fn fit(rows: &Embeddings<'_>, head: &Head, quantile: f64) -> Result<Self, Error> {
        if rows.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        check_columns(rows, head.dim())?;
        check_quantile(quantile)?;
        let mut values = rows.as_slice().to_vec();
        let at = quantile * (values.len() - 1) as f64;
        let (_, below, rest) = values.select_nth_unstable_by(at as usize, f32::total_cmp);
        let below = f64::from(*below);
        let above = rest.iter().copied().min_by(f32::total_cmp).map_or(below, f64::from);
        Ok(Self { head: head.clone(), limit: below + at.fract() * (above - below), quantile })
    }

    pub(super) fn from_parts(parts: &mut BaselineParts) -> Result<Self, Error> {
        let quantile = parts.number("quantile")?;
        check_quantile(quantile)?;
        let weights = parts.matrix("weights")?;
        let bias = parts.finite_of_shape("bias", &[weights.ncols()])?;
        let head = Head::from_arrays(weights, bias)?;
        Ok(Self { head, limit: parts.scalar("limit")?, quantile })
    }
}

fn check_quantile(quantile: f64) -> Result<(), Error> {
    if quantile > 0.0 && quantile <= 1.0 {
        return Ok(());
    }
    Err(out_of_range("quantile", quantile, "it must lie in (0, 1]"))
}

impl Scorer for React {
    fn name(&self) -> String {
        "ReAct".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let rows = batch.need_embeddings(self)?;
        self.head.map_logits(rows, self.limit, |logits| -log_sum_exp(logits))
    }

    fn bytes(&self) -> u64 {
        self.head.bytes()
    }

    fn parts(&self) -> Option<BaselineParts> {
        let parts = BaselineParts::new(MethodId::React).param("quantile", self.quantile);
        let parts = parts.array("weights", self.head.weights()).array("bias", self.head.bias().to_vec());
        Some(parts.array("limit", self.limit))
    }
}
