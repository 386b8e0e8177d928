//! Thresholds in the metadata of a file.

use nuq::calibrate::{Guarantee, Measure, Predictor, ScoreThreshold, Threshold};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::word;

/// A threshold of a model.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ThresholdMeta(#[serde(with = "ThresholdFields")] pub(crate) Threshold);

/// A threshold of a baseline.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ScoreThresholdMeta(#[serde(with = "ScoreThresholdFields")] pub(crate) ScoreThreshold);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Threshold")]
struct ThresholdFields {
    #[serde(with = "word")]
    measure: Measure,
    /// Absent for the predictor `nuq`.
    #[serde(default, with = "word", skip_serializing_if = "is_nuq")]
    predictor: Predictor,
    #[serde(flatten, with = "ScoreThresholdFields")]
    score: ScoreThreshold,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ScoreThreshold")]
struct ScoreThresholdFields {
    /// `null` if everything is accepted.
    #[serde(serialize_with = "finite_or_null", deserialize_with = "infinity_if_null")]
    value: f64,
    /// Version 1 calls this field `promise`.
    #[serde(with = "GuaranteeFields", alias = "promise")]
    guarantee: Guarantee,
    rows: usize,
    /// Absent if the threshold was calibrated on held-out rows.
    #[serde(default, skip_serializing_if = "is_zero")]
    training_rows: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Guarantee", tag = "kind")]
enum GuaranteeFields {
    /// Version 1 calls this kind `accepts`.
    #[serde(rename = "coverage", alias = "accepts")]
    Coverage {
        share: f64,
        low: f64,
        high: f64,
        /// Files of earlier programs do not have this field; 0 means that the number is unknown.
        #[serde(default)]
        accepted: usize,
    },
    /// Version 1 calls this kind `errs_at_most`.
    #[serde(rename = "risk", alias = "errs_at_most")]
    Risk {
        risk: f64,
        delta: f64,
        accepted: usize,
        errors: usize,
        /// Absent for the predictor `nuq`. In files, this field still has its former name `errors_of`.
        #[serde(rename = "errors_of", default, with = "word", skip_serializing_if = "is_nuq")]
        predictor: Predictor,
    },
}

pub(crate) fn is_nuq(predictor: &Predictor) -> bool {
    *predictor == Predictor::Nuq
}

pub(crate) fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// JSON cannot represent infinity: +∞ is written as `null`, and -∞ as the most negative finite number.
pub(crate) fn finite_or_null<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    (*value < f64::INFINITY).then_some(value.max(f64::MIN)).serialize(serializer)
}

/// Converts a regressor's threshold of format version 1, which compared the logarithm of the aleatoric variance.
pub(crate) fn upgrade_regressor_threshold(threshold: &mut Threshold) {
    if threshold.measure == Measure::Aleatoric {
        threshold.score.value = threshold.score.value.exp();
    }
}

pub(crate) fn infinity_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}
