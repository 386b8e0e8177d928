//! Temperature scaling (Guo et al. 2017): the one number that makes held-out probabilities most likely.

use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::softmax::softmax;
use crate::Error;
use crate::error::length_mismatch;

/// The $T > 0$ that minimizes $-\frac1n \sum_i \ln \mathrm{softmax}(z_i / T)_{y_i}$ on held-out logits and their classes: divide
/// logits by it. It lies in [0.01, 100]; at an end where every row is right (or wrong), and sharper (or flatter) is always
/// better. Where all logits of each row are equal, no temperature changes anything, and it is 1.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::temperature;
/// // Sure of itself by e⁴, and right three times of four: e^(4/T) = 3.
/// let logits = Embeddings::from_rows(&[[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 0.0]])?;
/// let t = temperature(&logits, &[0, 0, 0, 1])?;
/// assert!((t - 4.0 / 3f64.ln()).abs() < 1e-6);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
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
    // The loss is convex in 1/T, so bisection on its slope finds the minimum.
    let (mut low, mut high) = (1e-2f64.ln(), 1e2f64.ln());
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        // A slope of zero is one too small for a number: rows are right by so much that sharper is better.
        *(if slope(logits, classes, (-middle).exp()) <= 0.0 { &mut high } else { &mut low }) = middle;
    }
    Ok((0.5 * (low + high)).exp())
}

/// The derivative of the loss with respect to $b = 1/T$: $\sum_i \sum_c p_{ic} (z_{ic} - z_{i y_i})$, of which no row that is surely
/// right loses its share to rounding.
fn slope(logits: &Embeddings<'_>, classes: &[u32], b: f64) -> f64 {
    let of_row = |(row, &class): (&[f32], &u32)| {
        let scaled: Vec<f64> = row.iter().map(|&z| b * f64::from(z)).collect();
        let truth = f64::from(row[class as usize]);
        softmax(&scaled).iter().zip(row).map(|(p, &z)| p * (f64::from(z) - truth)).sum()
    };
    // Summed in order, so that it does not depend on the number of threads.
    let terms: Vec<f64> = logits.as_slice().par_chunks(logits.dim()).zip(classes).map(of_row).collect();
    terms.iter().sum()
}
