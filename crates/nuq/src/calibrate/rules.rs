//! Values that were chosen on held-out rows and are stored with a model.

use std::collections::BTreeMap;

use super::{IntervalRule, Measure, Predictor, SetRule, Threshold};
use crate::Error;
use crate::error::out_of_range;

/// Thresholds, rules and the temperature that were chosen on held-out rows, as a model stores them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// Thresholds by name.
    pub thresholds: BTreeMap<String, Threshold>,
    /// Rules for the prediction sets of a classifier, by name.
    pub sets: BTreeMap<String, SetRule>,
    /// Rules for the prediction intervals of a regressor, by name.
    pub intervals: BTreeMap<String, IntervalRule>,
    temperature: Option<f64>,
}

impl Rules {
    /// The temperature by which logits of the network are divided; 1 if none was fitted.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.temperature.unwrap_or(1.0)
    }

    /// The fitted temperature.
    #[must_use]
    pub fn fitted_temperature(&self) -> Option<f64> {
        self.temperature
    }

    /// Sets the temperature. If it changes, thresholds and set rules on the network's predictions are removed, because they were
    /// chosen with the former temperature. Thresholds on the density remain, because they do not depend on it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a temperature that is not positive and finite.
    pub fn set_temperature(&mut self, temperature: Option<f64>) -> Result<(), Error> {
        if let Some(value) = temperature.filter(|value| !(*value > 0.0 && value.is_finite())) {
            return Err(out_of_range("temperature", value, "it must be positive and finite"));
        }
        if temperature != self.temperature {
            let is_kept = |predictor: Predictor| predictor == Predictor::Nuq;
            self.thresholds.retain(|_, t| t.measure == Measure::Density || is_kept(t.predictor));
            self.sets.retain(|_, rule| is_kept(rule.predictor));
        }
        self.temperature = temperature;
        Ok(())
    }

    /// Removes everything that depends on the training rows. The temperature does not.
    pub(crate) fn clear(&mut self) {
        *self = Self { temperature: self.temperature, ..Self::default() };
    }

    /// Removes the threshold, sets and intervals of this name. Returns the kinds that existed: `threshold`, `sets`, `intervals`.
    pub fn remove(&mut self, name: &str) -> Vec<&'static str> {
        let removed = [
            ("threshold", self.thresholds.remove(name).is_some()),
            ("sets", self.sets.remove(name).is_some()),
            ("intervals", self.intervals.remove(name).is_some()),
        ];
        removed.into_iter().filter(|(_, was_present)| *was_present).map(|(kind, _)| kind).collect()
    }
}
