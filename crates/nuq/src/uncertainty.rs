//! The uncertainties of one prediction, from class probabilities and density.
//!
//! ```text
//! U_a = 1 − max_c η_c
//! τ²  = v(η) / n(x)
//! U_e = 2 √(2/π) τ
//! U_t = U_a + U_e
//! ```
//!
//! `η_c` are the class probabilities. `U_a` is the aleatoric, `U_e` the epistemic and `U_t` the total uncertainty; higher values mean
//! less certain. [`Variance`](crate::Variance) defines `v(η)`, and [`Scale`](crate::Scale) defines `n(x)`.

use crate::log_space::log_add;
use crate::params::Variance;
use crate::posterior::Summary;
use crate::smoother::Neighborhood;

/// The prediction for one query of a classifier. Logarithms are natural. The logarithm of a positive quantity is finite,
/// even if the quantity itself overflows or underflows in `f64`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The number of the predicted class. [`Predictions::label`](crate::Predictions::label) gives its label.
    pub class: usize,
    /// `max_c η_c`, the probability of the predicted class.
    pub probability: f64,
    /// `U_a`, the estimated probability of error, which more data would not reduce.
    pub aleatoric: f64,
    /// `ln U_e`; `-inf` if the estimate has no variance. This requires a prior weight of 0, or a network probability of
    /// exactly 1.
    pub log_epistemic: f64,
    /// `ln U_t`, the log of the total uncertainty.
    pub log_total: f64,
    /// `ln p̂(x)`, the log density of the training embeddings at the query.
    pub log_density: f64,
    /// `ln n(x)`, the log of the number of training rows that support the estimate ([`Scale`](crate::Scale)).
    pub log_sample_size: f64,
    /// `ln max_c τ_c`, the log of the largest standard error of a class probability. [`RejectRule`](crate::RejectRule)
    /// uses it. It does not depend on the variance term that `U_e` uses.
    pub log_standard_error: f64,
}

/// `ln(2 √(2/π))`: the mean absolute value of a normal variable is `√(2/π)` standard deviations, and the excess risk is at
/// most twice the error of `η`.
fn log_excess() -> f64 {
    1.5 * std::f64::consts::LN_2 - 0.5 * std::f64::consts::PI.ln()
}

impl Prediction {
    pub(crate) fn new(summary: &Summary, neighborhood: &Neighborhood, variance: Variance) -> Self {
        Self::of(summary, variance, neighborhood.log_density, neighborhood.log_sample_size)
    }

    /// The prediction with other class probabilities, for example those of the network.
    pub(crate) fn with_summary(&self, summary: &Summary, variance: Variance) -> Self {
        Self::of(summary, variance, self.log_density, self.log_sample_size)
    }

    fn of(summary: &Summary, variance: Variance, log_density: f64, log_sample_size: f64) -> Self {
        let log_variance = match variance {
            Variance::Sum => summary.log_variance_sum,
            Variance::Max => summary.log_variance_max,
        };
        let log_epistemic = log_excess() + 0.5 * (log_variance - log_sample_size);
        Self {
            class: summary.class as usize,
            probability: summary.log_top.exp(),
            aleatoric: summary.log_error.exp(),
            log_epistemic,
            log_total: log_add(summary.log_error, log_epistemic),
            log_density,
            log_sample_size,
            log_standard_error: 0.5 * (summary.log_variance_max - log_sample_size),
        }
    }

    /// `U_e`, the uncertainty due to few training data near the query. Infinite if it exceeds the range of `f64`.
    #[must_use]
    pub fn epistemic(&self) -> f64 {
        self.log_epistemic.exp()
    }

    /// `U_t = U_a + U_e`, an upper bound of the expected risk of this prediction.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.log_total.exp()
    }
}
