//! Thresholds, rules for prediction sets and intervals, and the temperature in the section `model` of a model file.

use std::collections::BTreeMap;

use nuq::calibrate::{IntervalRule, Predictor, Rules, SetLimits, SetRule, SetScore};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::threshold_meta::{ThresholdMeta, finite_or_null, infinity_if_null, is_nuq, is_zero};
use crate::word;

/// Everything that was calibrated: thresholds, rules and the temperature.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RulesMeta {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    thresholds: BTreeMap<String, ThresholdMeta>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sets: BTreeMap<String, SetMeta>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    intervals: BTreeMap<String, IntervalMeta>,
    /// Absent if no temperature was fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    /// The names of the thresholds whose held-out scores are stored. The section `held_out_scores` contains the scores in the order of
    /// these names. Files of earlier programs have neither the names nor the section.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held_out_scores: Vec<String>,
}

impl RulesMeta {
    pub(crate) fn of(rules: &Rules) -> Self {
        Self {
            thresholds: named(&rules.thresholds, |&threshold| ThresholdMeta(threshold)),
            sets: named(&rules.sets, |rule| SetMeta(rule.clone())),
            intervals: named(&rules.intervals, |&rule| IntervalMeta(rule)),
            temperature: rules.fitted_temperature(),
            held_out_scores: scored(rules).map(|(name, _)| name.to_owned()).collect(),
        }
    }

    /// The rules, with the values of section `held_out_scores`; `None` if a value is out of range, if a name of `held_out_scores` is not
    /// the name of a threshold, or if the number of scores is not the sum of `rows` over the thresholds whose scores are stored.
    pub(crate) fn rules(&self, mut scores: &[f64]) -> Option<Rules> {
        let mut rules = Rules::default();
        rules.set_temperature(self.temperature).ok()?;
        rules.thresholds = named(&self.thresholds, |threshold| threshold.0);
        rules.sets = named(&self.sets, |rule| rule.0.clone());
        rules.intervals = named(&self.intervals, |rule| rule.0);
        for name in &self.held_out_scores {
            let threshold = *rules.thresholds.get(name)?;
            let (own, others) = scores.split_at_checked(threshold.score.rows)?;
            rules.set_threshold(name, threshold, own).ok()?;
            scores = others;
        }
        scores.is_empty().then_some(rules)
    }

    pub(crate) fn has_held_out_scores(&self) -> bool {
        !self.held_out_scores.is_empty()
    }
}

/// The thresholds with stored scores of held-out rows, by name, and these scores.
fn scored(rules: &Rules) -> impl Iterator<Item = (&str, &[f64])> {
    rules.thresholds.keys().filter_map(|name| Some((name.as_str(), rules.held_out_scores(name)?)))
}

/// The values of section `held_out_scores`.
pub(crate) fn held_out_scores(rules: &Rules) -> Vec<f64> {
    scored(rules).flat_map(|(_, scores)| scores).copied().collect()
}

/// Converts the values of a map by name.
fn named<A, B>(map: &BTreeMap<String, A>, convert: impl Fn(&A) -> B) -> BTreeMap<String, B> {
    map.iter().map(|(name, value)| (name.clone(), convert(value))).collect()
}

/// Rules as bytes, for programs that store them apart from a model: the length of a JSON text (u64), the text, and the scores of
/// held-out rows, in the format of a model file.
///
/// ```
/// let rules = nuq::calibrate::Rules::default();
/// assert_eq!(nuq_io::rules_from_bytes(&nuq_io::rules_to_bytes(&rules)), Some(rules));
/// ```
#[must_use]
pub fn rules_to_bytes(rules: &Rules) -> Vec<u8> {
    let json = serde_json::to_vec(&RulesMeta::of(rules)).expect("the metadata has string keys only");
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&json);
    held_out_scores(rules).iter().for_each(|score| bytes.extend_from_slice(&score.to_le_bytes()));
    bytes
}

/// Reads what [`rules_to_bytes`] wrote; `None` for other bytes.
#[must_use]
pub fn rules_from_bytes(bytes: &[u8]) -> Option<Rules> {
    let (length, bytes) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (json, scores) = bytes.split_at_checked(length)?;
    let (scores, rest) = scores.as_chunks::<8>();
    let scores: Vec<f64> = scores.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    let meta: RulesMeta = serde_json::from_slice(json).ok()?;
    meta.rules(&scores).filter(|_| rest.is_empty())
}

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
    /// Absent for the predictor `nuq`.
    #[serde(default, with = "word", skip_serializing_if = "is_nuq")]
    predictor: Predictor,
    /// Absent if the rule was calibrated on held-out rows.
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
    /// Absent if the rule was calibrated on held-out rows.
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
    // Infinite limits are written as in `finite_or_null`. A calibration never gives a limit of -∞, but a caller can set the fields of a
    // rule. A class with this limit is in no set. If the limit were written as `null`, the class would be in every set.
    let finite = |limit: &f64| (*limit < f64::INFINITY).then_some(limit.max(f64::MIN));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_is_in_no_set_is_read_as_such() {
        let rule = SetRule {
            coverage: 0.9,
            score: SetScore::Lac,
            limits: SetLimits::ByClass(vec![f64::NEG_INFINITY, 0.25, f64::INFINITY]),
            rows: 30,
            predictor: Predictor::Nuq,
            training_rows: 0,
        };
        let mut rules = Rules::default();
        rules.sets.insert("main".to_owned(), rule);
        let read = rules_from_bytes(&rules_to_bytes(&rules)).unwrap();
        let expected = SetLimits::ByClass(vec![f64::MIN, 0.25, f64::INFINITY]);
        assert_eq!(read.sets["main"].limits, expected);
    }
}
