//! Maximum logit (Hendrycks et al. 2022): `−max_c z_c`.

use super::softmax::{each_row, largest};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::evaluate::MethodId;

/// The negative of the largest logit, `−max_c z_c`.
#[derive(Debug, Clone, Copy)]
pub struct MaxLogit;

impl Scorer for MaxLogit {
    fn name(&self) -> String {
        "MaxLogit".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        Ok(each_row(batch.need_logits(self)?, |row| -largest(row)))
    }

    fn parts(&self) -> Option<BaselineParts> {
        Some(BaselineParts::new(MethodId::MaxLogit))
    }
}
