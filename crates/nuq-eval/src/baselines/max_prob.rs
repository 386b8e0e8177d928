//! Maximum softmax probability (Hendrycks and Gimpel 2017): `1 − max_c p_c`.

use super::softmax::{argmax, complement, each_row, softmax};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::evaluate::MethodId;

/// One minus the largest softmax probability, `1 − max_c p_c`.
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
        Ok(each_row(batch.need_logits(self)?, |row| complement(&softmax(row), argmax(row))))
    }

    fn parts(&self) -> Option<BaselineParts> {
        Some(BaselineParts::new(MethodId::MaxProb))
    }
}
