//! A threshold on one of the uncertainties: what it compares, where it lies and what it promises.

use std::fmt;

use super::check_scores;
use super::selective_risk::{selective_risk, smallest_risk};
use super::{beta_quantile, binomial_interval};
use nuq_neighbors::choices;

use crate::error::out_of_range;
use crate::{Decision, Error, Estimate, Prediction};

/// What a threshold is compared with; higher is less certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// `U_a`, the estimated probability of error of a classifier; `σ²`, the aleatoric variance of a regressor.
    Aleatoric,
    /// `ln U_e`.
    Epistemic,
    /// `ln U_t`.
    Total,
    /// `−ln p̂`, the negative log density.
    Density,
}

impl Measure {
    /// The measure of one prediction.
    pub fn of(self, prediction: &Prediction) -> f64 {
        match self {
            Measure::Aleatoric => prediction.aleatoric,
            Measure::Epistemic => prediction.log_epistemic,
            Measure::Total => prediction.log_total,
            Measure::Density => -prediction.log_density,
        }
    }

    /// The measure of one estimate of a regressor.
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

/// What a threshold is to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// Accept at least this share of rows like the held-out ones.
    Coverage(f64),
    /// Of what is accepted, at most this share is wrong, with probability `1 - delta` over held-out sets.
    Risk {
        /// The share of errors.
        risk: f64,
        /// How often the promise may fail.
        delta: f64,
    },
    /// Reject at most this share of rows like the held-out ones.
    FalseAlarm(f64),
}

/// What held-out rows show of a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Promise {
    /// The share of rows like the held-out ones that is accepted: on average over held-out sets, and the middle 95 % of what it
    /// is for one of them.
    Accepts {
        /// On average.
        share: f64,
        /// The lower end for the threshold at hand.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// Errors among accepted held-out rows.
    ErrsAtMost {
        /// The promised share.
        risk: f64,
        /// How often the promise may fail.
        delta: f64,
        /// Held-out rows that are accepted.
        accepted: usize,
        /// Errors among them.
        errors: usize,
    },
}

/// Where to stop trusting: a value of its own, to be changed without a refit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// What is compared.
    pub measure: Measure,
    /// Accept where the measure is at most this.
    pub value: f64,
    /// What it promises.
    pub promise: Promise,
    /// The held-out rows it was chosen on.
    pub rows: usize,
}

impl Threshold {
    /// What to do with a prediction.
    pub fn decide(&self, prediction: &Prediction) -> Decision {
        self.decide_score(self.measure.of(prediction))
    }

    /// What to do with an estimate of a regressor.
    pub fn decide_estimate(&self, estimate: &Estimate) -> Decision {
        self.decide_score(self.measure.of_estimate(estimate))
    }

    /// What to do with a score of its own measure.
    pub fn decide_score(&self, score: f64) -> Decision {
        if score <= self.value { Decision::Accept } else { Decision::Reject }
    }
}

/// The statement, in words.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| {
            let text = format!("{:.2}", 100.0 * share);
            text.trim_end_matches('0').trim_end_matches('.').to_owned() + " %"
        };
        match self.promise {
            Promise::Accepts { share, low, high } => write!(
                f,
                "accepts a new row like the {} held-out ones with a probability of at least {} (with 95 % confidence, this threshold \
                 accepts {} to {} of them)",
                self.rows,
                percent(share),
                percent(low),
                percent(high)
            ),
            Promise::ErrsAtMost { risk, delta, accepted, errors } => {
                let (low, high) = binomial_interval(accepted, self.rows);
                write!(
                    f,
                    "of what it accepts at most {} is wrong, with {} confidence (of {} held-out rows it accepts {accepted}, {errors} of \
                     them wrong; rows like them are accepted {} to {} of the time)",
                    percent(risk),
                    percent(1.0 - delta),
                    self.rows,
                    percent(low),
                    percent(high)
                )
            }
        }
    }
}

/// Chooses a threshold on held-out scores. `is_error` tells which held-out predictions are wrong; only a target risk needs it.
///
/// ```
/// use nuq::calibrate::{Measure, Target, calibrate};
/// let scores: Vec<f64> = (1..=99).map(f64::from).collect();
/// let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.9))?;
/// assert_eq!(threshold.value, 90.0); // ⌈100 · 0.9⌉ of 99
/// # Ok::<(), nuq::Error>(())
/// ```
pub fn calibrate(
    measure: Measure,
    scores: &[f64],
    is_error: Option<&[bool]>,
    target: Target,
) -> Result<Threshold, Error> {
    check_scores(scores, "held-out scores")?;
    let rows = scores.len();
    let (value, promise) = match target {
        Target::Coverage(share) => accepting(scores, share, "coverage")?,
        Target::FalseAlarm(share) => accepting(scores, 1.0 - share, "false-alarm rate")?,
        Target::Risk { risk, delta } => {
            let is_error = is_error.ok_or(Error::NoRows { what: "labels of held-out rows" })?;
            let found = selective_risk(scores, is_error, risk, delta)?;
            let found = found.ok_or_else(|| cannot_certify(scores, is_error, risk, delta))?;
            let (accepted, errors) = (found.accepted, found.errors);
            (found.value, Promise::ErrsAtMost { risk, delta, accepted, errors })
        }
    };
    Ok(Threshold { measure, value, promise, rows })
}

fn cannot_certify(scores: &[f64], is_error: &[bool], risk: f64, delta: f64) -> Error {
    let errors = is_error.iter().filter(|wrong| **wrong).count();
    let smallest = smallest_risk(scores, is_error, delta);
    Error::CannotCertify { risk, delta, rows: scores.len(), errors, smallest }
}

/// The smallest held-out score that keeps the promised share.
fn accepting(scores: &[f64], share: f64, name: &'static str) -> Result<(f64, Promise), Error> {
    if !(share > 0.0 && share < 1.0) {
        let given = if name == "coverage" { share } else { 1.0 - share };
        return Err(out_of_range(name, given, "it must lie strictly between 0 and 1"));
    }
    let n = scores.len();
    // The product is exact to a few units in the last place; that much must not ask for one row more.
    let rank = ((n + 1) as f64 * share * (1.0 - 4.0 * f64::EPSILON)).ceil() as usize;
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(&value) = sorted.get(rank.max(1) - 1) else {
        // Too few rows to leave any out: accept all.
        return Ok((f64::INFINITY, Promise::Accepts { share: 1.0, low: 1.0, high: 1.0 }));
    };
    let (a, b) = (rank as f64, (n + 1 - rank) as f64);
    let promise =
        Promise::Accepts { share, low: beta_quantile(0.025, a, b), high: beta_quantile(0.975, a, b) };
    Ok((value, promise))
}

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

    #[test]
    fn ranks_are_those_of_conformal_prediction() {
        let scores: Vec<f64> = (1..=19).map(f64::from).collect();
        let value = |target| calibrate(Measure::Density, &scores, None, target).unwrap().value;
        assert_eq!(value(Target::Coverage(0.5)), 10.0);
        assert_eq!(value(Target::FalseAlarm(0.05)), 19.0);
        assert_eq!(value(Target::FalseAlarm(0.1)), 18.0);
        // Nineteen rows cannot promise fewer than one false alarm in twenty but by accepting all.
        assert_eq!(value(Target::FalseAlarm(0.04)), f64::INFINITY);
    }

    #[test]
    fn statements_read_well() {
        let scores: Vec<f64> = (0..999).map(f64::from).collect();
        let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.9)).unwrap();
        assert_eq!(
            threshold.to_string(),
            "accepts a new row like the 999 held-out ones with a probability of at least 90 % (with 95 % confidence, this threshold \
             accepts 88.07 % to 91.78 % of them)"
        );
        let wrong: Vec<bool> = (0..999).map(|i| i >= 900).collect();
        let target = Target::Risk { risk: 0.05, delta: 0.1 };
        let threshold = calibrate(Measure::Total, &scores, Some(&wrong), target).unwrap();
        assert!(
            threshold
                .to_string()
                .starts_with("of what it accepts at most 5 % is wrong, with 90 % confidence (of 999")
        );
    }

    #[test]
    fn targets_that_cannot_be_are_refused() {
        let error = |target| {
            calibrate(Measure::Total, &[1.0, 2.0], Some(&[true, true]), target).unwrap_err().to_string()
        };
        assert_eq!(error(Target::Coverage(1.0)), "coverage is 1.0: it must lie strictly between 0 and 1");
        assert_eq!(
            error(Target::FalseAlarm(0.0)),
            "false-alarm rate is 0.0: it must lie strictly between 0 and 1"
        );
        assert!(error(Target::Risk { risk: 0.1, delta: 0.1 }).contains("2 of 2"));
    }
}
