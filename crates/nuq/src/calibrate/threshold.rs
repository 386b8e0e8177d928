//! Thresholds on an uncertainty measure of a NUQ model.

use std::fmt;

use super::measure::Measure;
use super::predictor::Predictor;
use super::score_threshold::{Guarantee, ScoreThreshold, Target};
use crate::{Decision, Error, Estimate, Prediction};

/// A threshold on an uncertainty measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The compared measure.
    pub measure: Measure,
    /// The predictor whose uncertainty is compared. The density does not depend on it: a threshold on
    /// [`Measure::Density`] with a guarantee of coverage has [`Predictor::Nuq`].
    pub predictor: Predictor,
    /// The threshold on the values of the measure.
    pub score: ScoreThreshold,
}

impl Threshold {
    /// Records that `training_rows` of the calibration rows were training rows of the model. The value does not change. The text that
    /// [`Display`](fmt::Display) writes mentions these rows.
    #[must_use]
    pub fn on_training_rows(self, training_rows: usize) -> Self {
        Self { score: self.score.on_training_rows(training_rows), ..self }
    }

    /// Records that the threshold was chosen on the errors and uncertainties of `predictor`. The value does not change.
    /// Without this call, the threshold records the NUQ model. A threshold on the density with a guarantee of coverage always records
    /// the NUQ model.
    #[must_use]
    pub fn of_predictor(mut self, predictor: Predictor) -> Self {
        if let Guarantee::Risk { predictor: of_errors, .. } = &mut self.score.guarantee {
            *of_errors = predictor;
        }
        let is_risk = matches!(self.score.guarantee, Guarantee::Risk { .. });
        if is_risk || self.measure != Measure::Density {
            self.predictor = predictor;
        }
        self
    }

    /// Whether the guarantee applies to predictions of `predictor`.
    #[must_use]
    pub fn applies_to(&self, predictor: Predictor) -> bool {
        match self.score.guarantee {
            Guarantee::Risk { predictor: of_errors, .. } => of_errors == predictor,
            Guarantee::Coverage { .. } => self.measure == Measure::Density || self.predictor == predictor,
        }
    }

    /// The decision for a prediction of a classifier. The prediction must come from the predictor of the threshold.
    #[must_use]
    pub fn decide(&self, prediction: &Prediction) -> Decision {
        self.score.decide(self.measure.of(prediction))
    }

    /// The decision for an estimate of a regressor.
    #[must_use]
    pub fn decide_estimate(&self, estimate: &Estimate) -> Decision {
        self.score.decide(self.measure.of_estimate(estimate))
    }
}

/// Writes the guarantee in words.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.score.fmt(f)
    }
}

/// Chooses a threshold on held-out values of a measure, as [`ScoreThreshold::calibrate`] does. `is_error` marks wrong held-out
/// predictions; only a target risk needs it.
///
/// ```
/// use nuq::calibrate::{Measure, Target, calibrate};
/// let scores: Vec<f64> = (1..=99).map(f64::from).collect();
/// let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.9))?;
/// assert_eq!(threshold.score.value, 90.0); // the 90th smallest of 99 scores: ⌈100 · 0.9⌉ = 90
/// # Ok::<(), nuq::Error>(())
/// ```
///
/// # Errors
/// The errors of [`ScoreThreshold::calibrate`].
pub fn calibrate(
    measure: Measure,
    scores: &[f64],
    is_error: Option<&[bool]>,
    target: Target,
) -> Result<Threshold, Error> {
    let predictor = Predictor::default();
    let score = ScoreThreshold::calibrate(scores, is_error, predictor, target);
    let score = score.map_err(|error| match error {
        Error::EqualScores { value, .. } => Error::EqualScores { measure: Some(measure), value },
        other => other,
    })?;
    Ok(Threshold { measure, predictor, score })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_equal_scores_names_the_measure() {
        let error = calibrate(Measure::Epistemic, &[2.0; 9], None, Target::FalseAlarm(0.5)).unwrap_err();
        assert_eq!(error, Error::EqualScores { measure: Some(Measure::Epistemic), value: 2.0 });
        assert!(error.to_string().contains("for example density"), "{error}");
    }

    #[test]
    fn only_coverage_thresholds_on_the_density_apply_to_every_predictor() {
        let scores: Vec<f64> = (0..99).map(f64::from).collect();
        let coverage = |measure| {
            let threshold = calibrate(measure, &scores, None, Target::Coverage(0.9)).unwrap();
            threshold.of_predictor(Predictor::Network)
        };
        assert!(!coverage(Measure::Total).applies_to(Predictor::Nuq));
        assert!(coverage(Measure::Density).applies_to(Predictor::Nuq));
        let target = Target::Risk { risk: 0.1, delta: 0.1 };
        let risk = calibrate(Measure::Density, &scores, Some(&[false; 99]), target).unwrap();
        let risk = risk.of_predictor(Predictor::Network);
        assert!(risk.applies_to(Predictor::Network) && !risk.applies_to(Predictor::Nuq));
        assert!(risk.to_string().contains("predictions of the network"), "{risk}");
    }
}
