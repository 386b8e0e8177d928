//! fDBD, fast decision-boundary distance (Liu and Qin 2024): the mean distance to the decision boundaries between the predicted class
//! and all other classes, relative to the distance from the mean of the training rows.
//!
//! With `C` classes, the logits `z_c`, the weights `w_c` of class `c` in the last layer, the predicted class `p` (the
//! first one if several classes have the largest logit) and the mean `μ` of the training rows:
//!
//! ```text
//! s(x) = −1 / ((C − 1) ‖x − μ‖) · Σ_{c ≠ p} |z_p − z_c| / ‖w_p − w_c‖
//! ```

use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::ParallelCheckpoints;
use rayon::prelude::*;

use super::head::Head;
use super::parts::damaged;
use super::scorer::{check_classes, check_columns};
use super::softmax::argmax;
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::evaluate::MethodId;
use nuq::moments::mean;

/// The negative of the relative distance to the decision boundaries.
pub struct Fdbd {
    mean: Vec<f64>,
    /// `‖w_a − w_b‖` at `a * classes + b`.
    weight_distances: Vec<f64>,
    classes: usize,
}

impl Fdbd {
    /// Fits the score to training rows and the last layer.
    ///
    /// # Errors
    /// No rows, or rows with another number of columns than the last layer.
    pub fn fit(rows: &Embeddings<'_>, head: &Head) -> Result<Self, Error> {
        if rows.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        check_columns(rows, head.dim())?;
        let (weights, classes) = (head.weights(), head.classes());
        let distance = |a: usize, b: usize| (weights.col(a) - weights.col(b)).norm_l2();
        let weight_distances =
            (0..classes * classes).map(|at| distance(at / classes, at % classes)).collect();
        Ok(Self { mean: mean(rows), weight_distances, classes })
    }

    pub(super) fn from_parts(parts: &mut BaselineParts) -> Result<Self, Error> {
        let (mean, distances) = (parts.vector("mean")?, parts.matrix("weight_distances")?);
        let classes = distances.nrows();
        if distances.ncols() != classes {
            return Err(damaged("weight_distances", "it is not a square matrix"));
        }
        let weight_distances =
            (0..classes * classes).map(|at| distances[(at / classes, at % classes)]).collect();
        Ok(Self { mean, weight_distances, classes })
    }

    fn score_row(&self, row: &[f32], logits: &[f32]) -> f64 {
        let sq: f64 = row.iter().zip(&self.mean).map(|(&x, m)| (f64::from(x) - m).powi(2)).sum();
        let logits: Vec<f64> = logits.iter().map(|&z| f64::from(z)).collect();
        let best = argmax(&logits);
        let boundary = |c: usize| {
            let distance = self.weight_distances[best * self.classes + c];
            // Classes with equal weights have no boundary. Their distance counts as 0.
            if distance > 0.0 { (logits[best] - logits[c]) / distance } else { 0.0 }
        };
        let sum: f64 = (0..self.classes).filter(|&c| c != best).map(boundary).sum();
        let mean = sum / (self.classes.max(2) - 1) as f64;
        // A row on all decision boundaries is the least certain one, also at the mean of the training rows, where the equation is 0/0.
        // Other rows at the mean have the score −∞.
        if mean > 0.0 { -mean / sq.sqrt() } else { 0.0 }
    }
}

impl Scorer for Fdbd {
    fn name(&self) -> String {
        "fDBD".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings, Input::Logits]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let (rows, logits) = batch.need_both(self)?;
        check_columns(rows, self.mean.len())?;
        check_classes(logits, self.classes)?;
        let score = |i: usize| self.score_row(rows.row(i), logits.row(i));
        Ok((0..rows.len()).into_par_iter().with_checkpoints().map(score).collect())
    }

    fn bytes(&self) -> u64 {
        8 * (self.mean.len() + self.weight_distances.len()) as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let parts = BaselineParts::new(MethodId::Fdbd).array("mean", self.mean.clone());
        Some(parts.table("weight_distances", self.weight_distances.clone(), self.classes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_at_the_mean_is_uncertain_if_it_is_on_all_decision_boundaries() {
        let weights = Embeddings::from_rows(&[[1.0, 0.0], [0.0, 1.0]]).unwrap();
        let head = Head::new(&weights, &[0.0; 2]).unwrap();
        let fdbd = Fdbd::fit(&Embeddings::from_rows(&[[1.0, 0.0], [-1.0, 0.0]]).unwrap(), &head).unwrap();
        assert_eq!(fdbd.score_row(&[0.0, 0.0], &[3.0, 3.0]), 0.0);
        assert_eq!(fdbd.score_row(&[0.0, 0.0], &[3.0, 2.0]), f64::NEG_INFINITY);
        assert_eq!(fdbd.score_row(&[2.0, 0.0], &[3.0, 3.0]), 0.0);
    }
}
