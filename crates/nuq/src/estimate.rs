//! Mean and uncertainties of one query of a regressor.
//!
//! ```text
//! aleatoric σ²,   epistemic τ² = σ² / n(x),   total σ² + τ²
//! ```
//!
//! [`Scale`](crate::Scale) defines `n(x)`.

use crate::log_space::log_add;
use crate::smoother::Neighborhood;

/// The estimate for one query of a regressor. Uncertainties are variances, in squared units of the target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// `ŷ`, the weighted mean of the neighbors' targets and, with the weight of the prior, of the mean of all targets.
    pub mean: f64,
    /// `ln σ²`, the log of the aleatoric variance: the variance of targets near the query.
    pub log_aleatoric: f64,
    /// `ln τ²`, the log of the epistemic variance: the variance of the estimated mean.
    pub log_epistemic: f64,
    /// `ln(σ² + τ²)`.
    pub log_total: f64,
    /// `ln p̂(x)`, the log density of the training embeddings at the query.
    pub log_density: f64,
}

impl Estimate {
    pub(crate) fn new((mean, log_aleatoric): (f64, f64), neighborhood: &Neighborhood) -> Self {
        let log_epistemic = log_aleatoric - neighborhood.log_sample_size;
        let log_total = log_add(log_aleatoric, log_epistemic);
        Self { mean, log_aleatoric, log_epistemic, log_total, log_density: neighborhood.log_density }
    }

    /// `σ²`. It is finite, because targets are below 1e150 in magnitude.
    #[must_use]
    pub fn aleatoric(&self) -> f64 {
        self.log_aleatoric.exp()
    }

    /// `τ²`. Infinite if it exceeds the range of `f64`.
    #[must_use]
    pub fn epistemic(&self) -> f64 {
        self.log_epistemic.exp()
    }

    /// `σ² + τ²`. Infinite if it exceeds the range of `f64`.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.log_total.exp()
    }
}
