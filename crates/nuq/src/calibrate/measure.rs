//! The uncertainty measures to which thresholds apply.

use nuq_neighbors::choices;

use crate::{Estimate, Prediction};

/// The value that is compared with a threshold; higher means less certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// `U_a`, the estimated probability of error of a classifier; `σ²`, the aleatoric variance of a regressor.
    Aleatoric,
    /// `ln U_e`, the logarithm of the epistemic uncertainty.
    Epistemic,
    /// `ln U_t`, the logarithm of the total uncertainty.
    Total,
    /// `−ln p̂`, the negative log density.
    Density,
}

impl Measure {
    /// The value of this measure for a prediction of a classifier.
    #[must_use]
    pub fn of(self, prediction: &Prediction) -> f64 {
        match self {
            Measure::Aleatoric => prediction.aleatoric,
            Measure::Epistemic => prediction.log_epistemic,
            Measure::Total => prediction.log_total,
            Measure::Density => -prediction.log_density,
        }
    }

    /// The value of this measure for an estimate of a regressor.
    #[must_use]
    pub fn of_estimate(self, estimate: &Estimate) -> f64 {
        match self {
            Measure::Aleatoric => estimate.aleatoric(),
            Measure::Epistemic => estimate.log_epistemic,
            Measure::Total => estimate.log_total,
            Measure::Density => -estimate.log_density,
        }
    }
}

choices!(Measure, "measure", {
    Aleatoric => "aleatoric",
    Epistemic => "epistemic",
    Total => "total",
    Density => "density",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aleatoric_measure_of_a_regressor_is_the_variance() {
        let estimate = Estimate {
            mean: 0.0,
            log_aleatoric: 4f64.ln(),
            log_epistemic: 1.0,
            log_total: 2.0,
            log_density: 3.0,
        };
        assert!((Measure::Aleatoric.of_estimate(&estimate) - 4.0).abs() < 1e-15);
        assert_eq!(Measure::Density.of_estimate(&estimate), -3.0);
    }
}
