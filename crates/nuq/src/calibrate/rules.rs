//! Values that were chosen on held-out rows and are stored with a model.

use std::collections::BTreeMap;

use super::{IntervalRule, Measure, Predictor, SetRule, Threshold, check_scores};
use crate::Error;
use crate::error::{check_lengths, out_of_range};

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
    /// For each threshold name, the scores of the rows on which the threshold was chosen, in ascending order.
    held_out: BTreeMap<String, Vec<f64>>,
}

impl Rules {
    /// The scores of the rows on which a threshold was chosen, in ascending order. A score is the value of the
    /// threshold's measure. `None` if the scores are not stored, as in files of earlier versions.
    #[must_use]
    pub fn held_out_scores(&self, threshold: &str) -> Option<&[f64]> {
        let rows = self.thresholds.get(threshold)?.score.rows;
        // A caller may have replaced the threshold in the public map. Scores of the former threshold are ignored if
        // their number differs.
        self.held_out.get(threshold).map(Vec::as_slice).filter(|scores| scores.len() == rows)
    }

    /// Stores a threshold and the scores of the rows on which it was chosen. A [`DriftMonitor`](crate::DriftMonitor)
    /// compares the scores of new rows with them. Returns the former threshold of this name.
    ///
    /// ```
    /// use nuq::calibrate::{Measure, Rules, Target, calibrate};
    /// let scores = [3.0, 1.0, 2.0];
    /// let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.5))?;
    /// let mut rules = Rules::default();
    /// rules.set_threshold("half", threshold, &scores)?;
    /// assert_eq!(rules.held_out_scores("half"), Some(&[1.0, 2.0, 3.0][..]));
    /// # Ok::<(), nuq::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless there is one score for each held-out row by which the threshold was chosen, [`Error::NoRows`] or
    /// [`Error::NanScore`] for unusable scores.
    pub fn set_threshold(
        &mut self,
        name: &str,
        threshold: Threshold,
        scores: &[f64],
    ) -> Result<Option<Threshold>, Error> {
        check_lengths(("scores", scores.len()), ("held-out rows of the threshold", threshold.score.rows))?;
        check_scores(scores, "held-out scores")?;
        let mut sorted = scores.to_vec();
        sorted.sort_by(f64::total_cmp);
        self.held_out.insert(name.to_owned(), sorted);
        Ok(self.thresholds.insert(name.to_owned(), threshold))
    }

    /// Copies the threshold of this name and its scores from other rules. If the other rules have no threshold of this
    /// name, it is removed here.
    pub fn copy_threshold(&mut self, name: &str, from: &Self) {
        self.held_out.remove(name);
        match from.thresholds.get(name) {
            Some(threshold) => self.thresholds.insert(name.to_owned(), *threshold),
            None => self.thresholds.remove(name),
        };
        if let Some(scores) = from.held_out_scores(name) {
            self.held_out.insert(name.to_owned(), scores.to_vec());
        }
    }

    /// Removes the stored scores of the rows on which a threshold was chosen.
    pub fn remove_held_out_scores(&mut self, threshold: &str) {
        self.held_out.remove(threshold);
    }

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
    /// chosen with the former temperature. Thresholds on the density remain, because the density does not depend on the temperature.
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
            self.held_out.retain(|name, _| self.thresholds.contains_key(name));
        }
        self.temperature = temperature;
        Ok(())
    }

    /// Removes everything that depends on the training rows. The temperature does not depend on them and is kept.
    pub(crate) fn clear(&mut self) {
        *self = Self { temperature: self.temperature, ..Self::default() };
    }

    /// Removes the threshold, sets and intervals of this name. Returns the kinds that existed: `threshold`, `sets`, `intervals`.
    pub fn remove(&mut self, name: &str) -> Vec<&'static str> {
        self.held_out.remove(name);
        let removed = [
            ("threshold", self.thresholds.remove(name).is_some()),
            ("sets", self.sets.remove(name).is_some()),
            ("intervals", self.intervals.remove(name).is_some()),
        ];
        removed.into_iter().filter(|(_, was_present)| *was_present).map(|(kind, _)| kind).collect()
    }
}
