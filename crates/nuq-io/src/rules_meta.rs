//! Rules for prediction sets and intervals in the section `model` of a model file.

use nuq::calibrate::{IntervalRule, Predictor, SetLimits, SetRule, SetScore};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::threshold_meta::{finite_or_null, infinity_if_null, is_nuq, is_zero};
use crate::word;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SetMeta(#[serde(with = "SetFields")] pub(crate) SetRule);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct IntervalMeta(#[serde(with = "IntervalFields")] pub(crate) IntervalRule);

#[derive(Serialize, Deserialize)]
#[serde(remote = "SetRule")]
struct SetFields {
    coverage: f64,
    #[serde(with = "word")]
    score: SetScore,
    /// A number, or a list with one number for each class. `null` is an infinite limit: the class is in every set.
    #[serde(serialize_with = "write_limits", deserialize_with = "read_limits")]
    limits: SetLimits,
    rows: usize,
    /// Absent for `nuq`.
    #[serde(default, with = "word", skip_serializing_if = "is_nuq")]
    predictor: Predictor,
    /// Absent for held-out rows.
    #[serde(default, skip_serializing_if = "is_zero")]
    training_rows: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "IntervalRule")]
struct IntervalFields {
    coverage: f64,
    /// `null` if intervals are infinite.
    #[serde(serialize_with = "finite_or_null", deserialize_with = "infinity_if_null")]
    factor: f64,
    rows: usize,
    /// Absent for held-out rows.
    #[serde(default, skip_serializing_if = "is_zero")]
    training_rows: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LimitsMeta {
    ByClass(Vec<Option<f64>>),
    All(Option<f64>),
}

fn write_limits<S: Serializer>(limits: &SetLimits, serializer: S) -> Result<S::Ok, S::Error> {
    let finite = |limit: &f64| Some(*limit).filter(|limit| limit.is_finite());
    match limits {
        SetLimits::All(limit) => LimitsMeta::All(finite(limit)),
        SetLimits::ByClass(limits) => LimitsMeta::ByClass(limits.iter().map(finite).collect()),
    }
    .serialize(serializer)
}

fn read_limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SetLimits, D::Error> {
    let infinite = |limit: Option<f64>| limit.unwrap_or(f64::INFINITY);
    Ok(match LimitsMeta::deserialize(deserializer)? {
        LimitsMeta::All(limit) => SetLimits::All(infinite(limit)),
        LimitsMeta::ByClass(limits) => SetLimits::ByClass(limits.into_iter().map(infinite).collect()),
    })
}
