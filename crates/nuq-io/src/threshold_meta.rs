//! A threshold as the model file holds it.

use nuq::calibrate::{Measure, Promise, Threshold};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ThresholdMeta {
    measure: MeasureMeta,
    /// `null` where everything is accepted.
    value: Option<f64>,
    promise: PromiseMeta,
    rows: usize,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MeasureMeta {
    Aleatoric,
    Epistemic,
    Total,
    Density,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum PromiseMeta {
    Accepts { share: f64, low: f64, high: f64 },
    ErrsAtMost { risk: f64, delta: f64, accepted: usize, errors: usize },
}

impl From<&Threshold> for ThresholdMeta {
    fn from(threshold: &Threshold) -> Self {
        Self {
            measure: match threshold.measure {
                Measure::Aleatoric => MeasureMeta::Aleatoric,
                Measure::Epistemic => MeasureMeta::Epistemic,
                Measure::Total => MeasureMeta::Total,
                Measure::Density => MeasureMeta::Density,
            },
            value: (threshold.value < f64::INFINITY).then_some(threshold.value.max(f64::MIN)),
            promise: match threshold.promise {
                Promise::Accepts { share, low, high } => PromiseMeta::Accepts { share, low, high },
                Promise::ErrsAtMost { risk, delta, accepted, errors } => {
                    PromiseMeta::ErrsAtMost { risk, delta, accepted, errors }
                }
            },
            rows: threshold.rows,
        }
    }
}

impl From<&ThresholdMeta> for Threshold {
    fn from(meta: &ThresholdMeta) -> Self {
        Self {
            measure: match meta.measure {
                MeasureMeta::Aleatoric => Measure::Aleatoric,
                MeasureMeta::Epistemic => Measure::Epistemic,
                MeasureMeta::Total => Measure::Total,
                MeasureMeta::Density => Measure::Density,
            },
            value: meta.value.unwrap_or(f64::INFINITY),
            promise: match meta.promise {
                PromiseMeta::Accepts { share, low, high } => Promise::Accepts { share, low, high },
                PromiseMeta::ErrsAtMost { risk, delta, accepted, errors } => {
                    Promise::ErrsAtMost { risk, delta, accepted, errors }
                }
            },
            rows: meta.rows,
        }
    }
}
