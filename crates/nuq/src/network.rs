//! Class probabilities of the network whose embeddings the model uses.
//!
//! For the uncertainty of the network's own prediction, `π(x) = softmax(logits/T)` with the temperature `T` replaces the class
//! probabilities `η` of the model in `U_a`, in the variance term `v` and in the label (`uncertainty.rs` explains these symbols).
//! `n(x)` is still computed by the model. In `√(2/π)`, π is the number 3.14…:
//!
//! ```text
//! U_a = 1 − max_c π_c,   U_e = 2 √(2/π) √(v(π)/n(x)),   U_t = U_a + U_e
//! ```

use crate::error::{check_lengths, out_of_range};
use crate::log_space::{log_complement, log_sum};
use crate::posterior::Summary;
use crate::{Error, Probabilities};

/// The class probabilities of a network for each query, in the order of the model's classes.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkProbabilities {
    log_values: Vec<f64>,
    classes: usize,
}

/// Largest deviation of the sum of given probabilities from one: the rounding error of half precision.
const SUM_TOLERANCE: f64 = 1e-2;
/// Largest absolute value of `max_c z_c / T` from which `ln Σ_c exp(z_c / T)` is subtracted directly: its rounding error is then at most
/// 1e-7. Beyond it, the largest logit is subtracted before the division.
const MAX_SCALED_LOGIT: f64 = 1e9;

impl NetworkProbabilities {
    /// The softmax of `logits` divided by `temperature`. `logits` is a row-major matrix with one column per class.
    ///
    /// # Errors
    /// A number of values that is not a multiple of `classes`, `classes = 0`, logits that are not finite, or a temperature that
    /// is not positive and finite.
    pub fn from_logits(logits: &[f32], classes: usize, temperature: f64) -> Result<Self, Error> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(out_of_range("temperature", temperature, "it must be positive and finite"));
        }
        let mut log_values = values(logits, classes)?;
        for row in log_values.chunks_mut(classes) {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let is_large = (largest / temperature).abs() > MAX_SCALED_LOGIT;
            // The softmax does not depend on a common offset of the logits.
            let offset = if is_large { largest } else { 0.0 };
            row.iter_mut().for_each(|value| *value = (*value - offset) / temperature);
            normalize(row);
        }
        Ok(Self { log_values, classes })
    }

    /// Given probabilities, a row-major matrix with one column per class. Rows are divided by their sums.
    ///
    /// # Errors
    /// A number of values that is not a multiple of `classes`, `classes = 0`, values that are negative or not finite, or a row whose
    /// sum differs from one by more than 0.01.
    pub fn from_probabilities(probabilities: &[f32], classes: usize) -> Result<Self, Error> {
        let mut log_values = values(probabilities, classes)?;
        for (row, log_row) in log_values.chunks_mut(classes).enumerate() {
            let sum: f64 = log_row.iter().sum();
            if log_row.iter().any(|&p| p < 0.0) || (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(Error::BadProbabilities { row, sum });
            }
            log_row.iter_mut().for_each(|p| *p = p.ln());
            normalize(log_row);
        }
        Ok(Self { log_values, classes })
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.log_values.len() / self.classes
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.log_values.is_empty()
    }

    /// The probabilities of each class.
    #[must_use]
    pub fn probabilities(&self) -> Probabilities {
        Probabilities::new(self.log_values.iter().map(|log| log.exp()).collect(), self.classes)
    }

    /// Checks the numbers of rows and classes.
    pub(crate) fn check(&self, rows: usize, classes: usize) -> Result<(), Error> {
        check_lengths(("columns of network outputs", self.classes), ("classes", classes))?;
        check_lengths(("rows of network outputs", self.len()), ("queries", rows))
    }

    /// The summary of one row that the uncertainties use.
    pub(crate) fn summarize(&self, i: usize) -> Summary {
        let row = &self.log_values[i * self.classes..][..self.classes];
        let class = (0..row.len()).reduce(|best, c| if row[c] > row[best] { c } else { best });
        let class = class.expect("a model has at least one class");
        let others = || row.iter().enumerate().filter(|&(c, _)| c != class).map(|(_, &log)| log);
        let log_error = log_sum(others());
        let top_variance = row[class] + log_error;
        // A class other than the predicted one has π ≤ 1/2, so 1 − π loses no digits.
        let variances = || others().map(|log| log + log_complement(log));
        Summary {
            class: class as u32,
            log_top: row[class],
            log_error,
            log_variance_sum: log_sum(variances().chain([top_variance])),
            log_variance_max: variances().fold(top_variance, f64::max),
        }
    }
}

/// The values as `f64`, after a check of their number and of finiteness.
fn values(values: &[f32], classes: usize) -> Result<Vec<f64>, Error> {
    if classes == 0 {
        return Err(nuq_neighbors::Error::ZeroColumns.into());
    }
    if !values.len().is_multiple_of(classes) {
        return Err(nuq_neighbors::Error::PartialRow { len: values.len(), dim: classes }.into());
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => {
            let (row, column, value) = (at / classes, at % classes, f64::from(values[at]));
            Err(nuq_neighbors::Error::NotFinite { row, column, value }.into())
        }
        None => Ok(values.iter().map(|&value| f64::from(value)).collect()),
    }
}

/// Subtracts `ln Σ e^v`.
fn normalize(log_row: &mut [f64]) {
    let log_total = log_sum(log_row.iter().copied());
    log_row.iter_mut().for_each(|value| *value -= log_total);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_softmax_matches_a_manual_calculation() {
        let network = NetworkProbabilities::from_logits(&[0.0, 3f32.ln(), 0.0], 3, 1.0).unwrap();
        let s = network.summarize(0);
        assert_eq!(s.class, 1);
        assert!((s.log_top.exp() - 0.6).abs() < 1e-7 && (s.log_error.exp() - 0.4).abs() < 1e-7);
        assert!((s.log_variance_sum.exp() - (0.24 + 2.0 * 0.16)).abs() < 1e-7);
        assert!((s.log_variance_max.exp() - 0.24).abs() < 1e-7);
    }

    #[test]
    fn certain_predictions_keep_their_order() {
        let network = NetworkProbabilities::from_logits(&[900.0, 0.0, 800.0, 0.0], 2, 1.0).unwrap();
        assert_eq!(network.summarize(0).log_error, -900.0);
        assert_eq!(network.summarize(1).log_error, -800.0);
    }

    #[test]
    fn invalid_outputs_are_errors() {
        use NetworkProbabilities as N;
        assert!(matches!(
            N::from_logits(&[0.0, 0.0, 0.0, f32::INFINITY], 2, 1.0),
            Err(Error::Neighbors(nuq_neighbors::Error::NotFinite { row: 1, column: 1, .. }))
        ));
        assert!(matches!(
            N::from_logits(&[0.0; 5], 2, 1.0),
            Err(Error::Neighbors(nuq_neighbors::Error::PartialRow { len: 5, dim: 2 }))
        ));
        assert!(matches!(N::from_logits(&[0.0; 4], 2, 0.0), Err(Error::OutOfRange { .. })));
        assert!(matches!(
            N::from_probabilities(&[0.5, 0.5, 0.5, 0.2], 2),
            Err(Error::BadProbabilities { row: 1, .. })
        ));
        assert!(matches!(
            N::from_probabilities(&[-0.5, 1.5], 2),
            Err(Error::BadProbabilities { row: 0, .. })
        ));
    }

    #[test]
    fn the_limit_of_low_temperatures_is_uniform_on_the_largest_logits() {
        for temperature in [1e-20, 1e-300, f64::from_bits(1)] {
            let logits = [10.0, 0.0, -3.0, -2.0, 5.0, 5.0];
            let network = NetworkProbabilities::from_logits(&logits, 2, temperature).unwrap();
            let probabilities = network.probabilities();
            assert_eq!((probabilities.row(0), probabilities.row(1)), (&[1.0, 0.0][..], &[0.0, 1.0][..]));
            assert!(probabilities.row(2).iter().all(|p| (p - 0.5).abs() < 1e-15), "{probabilities:?}");
            assert_eq!(network.summarize(1).class, 1);
        }
    }

    #[test]
    fn a_temperature_divides_the_logits() {
        let hot = NetworkProbabilities::from_logits(&[2.0, 0.0], 2, 2.0).unwrap();
        assert_eq!(hot, NetworkProbabilities::from_logits(&[1.0, 0.0], 2, 1.0).unwrap());
    }
}
