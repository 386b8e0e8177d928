//! Temperature scaling (Guo et al. 2017): the divisor of logits that minimizes the held-out negative log-likelihood.

use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::ParallelCheckpoints;
use rayon::prelude::*;

use super::softmax::softmax;
use crate::Error;
use crate::error::length_mismatch;

/// The temperature `T` in [0.01, 100] that minimizes `−(1/n) Σ_i ln softmax(z_i / T)_{y_i}` on held-out logits and
/// their classes. Logits are divided by `T`. The result is 0.01 if the true class of every row has the largest logit,
/// and 100 if it has the smallest logit in every row. The result is 1 if the logits of each row are equal, because no
/// temperature then changes the probabilities.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::temperature;
/// // The predicted class is correct for three of four rows. With the best T its odds are 3, so exp(4 / T) = 3.
/// let logits = Embeddings::from_rows(&[[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 0.0]])?;
/// let t = temperature(&logits, &[0, 0, 0, 1])?;
/// assert!((t - 4.0 / 3f64.ln()).abs() < 1e-6);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// No rows, unequal numbers of rows and classes, or a class that is not below the number of logits per row.
pub fn temperature(logits: &Embeddings<'_>, classes: &[u32]) -> Result<f64, Error> {
    if logits.is_empty() {
        return Err(nuq::Error::NoRows { what: "held-out logits" }.into());
    }
    if classes.len() != logits.len() {
        let (got, expected) = (classes.len(), logits.len());
        return Err(length_mismatch("classes", got, "rows of logits", expected));
    }
    if let Some(&class) = classes.iter().find(|class| **class as usize >= logits.dim()) {
        let range = "it must be below the number of logits";
        return Err(crate::error::out_of_range("class", f64::from(class), range));
    }
    if logits.rows().all(|row| row.iter().all(|z| *z == row[0])) {
        return Ok(1.0);
    }
    // The loss is convex in 1/T: bisection on its derivative converges to the minimum.
    let (mut low, mut high) = (1e-2f64.ln(), 1e2f64.ln());
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        // Far from the minimum, a derivative of zero is due to underflow: all predictions are correct, and a lower temperature is
        // better. At the minimum itself, either half may be kept.
        *(if derivative(logits, classes, (-middle).exp()) <= 0.0 { &mut high } else { &mut low }) = middle;
    }
    Ok((0.5 * (low + high)).exp())
}

/// The derivative of the summed loss with respect to `b = 1/T`: `Σ_i Σ_c p_ic (z_ic − z_{i y_i})`. This form has no
/// cancellation if the probability of the true class is near one.
fn derivative(logits: &Embeddings<'_>, classes: &[u32], b: f64) -> f64 {
    let row_term = |(row, &class): (&[f32], &u32)| {
        let scaled: Vec<f64> = row.iter().map(|&z| b * f64::from(z)).collect();
        let true_logit = f64::from(row[class as usize]);
        softmax(&scaled).iter().zip(row).map(|(p, &z)| p * (f64::from(z) - true_logit)).sum()
    };
    // Summed in order, so that the result does not depend on the number of threads.
    let terms: Vec<f64> =
        logits.as_slice().par_chunks(logits.dim()).with_checkpoints().zip(classes).map(row_term).collect();
    terms.iter().sum()
}
