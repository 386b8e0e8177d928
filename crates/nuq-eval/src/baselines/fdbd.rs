//! fDBD, fast decision-boundary distance (Liu and Qin 2024): the mean distance to the boundaries with all other classes, relative
//! to the distance from the mean of the training rows.
//!
//! With the predicted class $p$, the first of those with the largest logit, and $\mu$ the mean of the training rows:
//!
//! $$s(x) = -\frac{1}{(C - 1) \lVert x - \mu \rVert} \sum_{c \ne p} \frac{|z_p - z_c|}{\lVert w_p - w_c \rVert}$$

use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::head::Head;
use super::scorer::{check_classes, check_columns};
use super::softmax::first_largest;
use super::{Batch, Input, Scorer};
use crate::Error;
use nuq::moments::mean;

/// Minus the relative distance to the decision boundaries.
pub struct Fdbd {
    mean: Vec<f64>,
    /// $\lVert w_a - w_b \rVert$ at `a * classes + b`.
    between: Vec<f64>,
    classes: usize,
}

impl Fdbd {
    /// Fits it to training rows and the head.
    pub fn fit(rows: &Embeddings<'_>, head: &Head) -> Result<Self, Error> {
        if rows.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        check_columns(rows, head.dim())?;
        let (weights, classes) = (head.weights(), head.classes());
        let distance = |a: usize, b: usize| (weights.col(a) - weights.col(b)).norm_l2();
        let between = (0..classes * classes).map(|at| distance(at / classes, at % classes)).collect();
        Ok(Self { mean: mean(rows), between, classes })
    }

    fn of(&self, row: &[f32], logits: &[f32]) -> f64 {
        let sq: f64 = row.iter().zip(&self.mean).map(|(&x, m)| (f64::from(x) - m).powi(2)).sum();
        let logits: Vec<f64> = logits.iter().map(|&z| f64::from(z)).collect();
        let best = first_largest(&logits);
        let boundary = |c: usize| {
            let apart = self.between[best * self.classes + c];
            // Classes with the same weights have no boundary.
            if apart > 0.0 { (logits[best] - logits[c]) / apart } else { 0.0 }
        };
        let sum: f64 = (0..self.classes).filter(|&c| c != best).map(boundary).sum();
        let mean = sum / (self.classes.max(2) - 1) as f64;
        if sq > 0.0 { -mean / sq.sqrt() } else { f64::NEG_INFINITY }
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
        let of = |i: usize| self.of(rows.row(i), logits.row(i));
        Ok((0..rows.len()).into_par_iter().map(of).collect())
    }

    fn bytes(&self) -> u64 {
        8 * (self.mean.len() + self.between.len()) as u64
    }
}
