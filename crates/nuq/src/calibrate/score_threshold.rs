//! Thresholds on a score, chosen for a target on held-out rows.

use std::fmt;

use super::check_scores;
use super::predictor::Predictor;
use super::rank::{self, coverage_rank, percent};
use super::selective_risk::{selective_risk, smallest_risk, sufficient_rows};
use super::training_rows::{kind_of_rows, write_sentence};
use super::{beta_quantile, binomial_interval, check_share};
use crate::{Decision, Error};

/// The target of a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// Accept at least this share of rows of the same distribution as the held-out rows.
    Coverage(f64),
    /// Among accepted predictions, at most the share `risk` is wrong, with probability `1 − delta` over held-out sets.
    Risk {
        /// The largest share of errors, in `(0, 1)`.
        risk: f64,
        /// The probability that the guarantee may fail, in `(0, 1)`.
        delta: f64,
    },
    /// Reject at most this share of rows of the same distribution as the held-out rows.
    FalseAlarm(f64),
}

impl Target {
    /// Checks that all shares lie strictly between 0 and 1. [`ScoreThreshold::calibrate`] checks this too; with this
    /// method a caller checks it before it reads held-out rows.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for the first share outside this range.
    pub fn check(&self) -> Result<(), Error> {
        let shares = match *self {
            Target::Coverage(share) => [("coverage", share)].to_vec(),
            Target::FalseAlarm(share) => [("false_alarm", share)].to_vec(),
            Target::Risk { risk, delta } => [("risk", risk), ("delta", delta)].to_vec(),
        };
        shares.into_iter().try_for_each(|(name, share)| check_share(name, share))
    }
}

/// The finite-sample guarantee of a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Guarantee {
    /// The share of accepted rows, for rows of the same distribution as the held-out rows.
    Coverage {
        /// Lower bound of the mean share over held-out sets. It equals the target, even if there are too few held-out
        /// rows and every row is accepted.
        share: f64,
        /// Lower end of the central 95 % interval of the share for this threshold.
        low: f64,
        /// Upper end of that interval.
        high: f64,
        /// The number of accepted held-out rows, with all ties at the threshold; 0 if it is unknown, as in files of earlier versions.
        accepted: usize,
    },
    /// The share of errors among accepted predictions.
    Risk {
        /// Upper bound of the share.
        risk: f64,
        /// The probability that the bound may fail, over held-out sets.
        delta: f64,
        /// The number of accepted held-out rows.
        accepted: usize,
        /// The number of errors among them.
        errors: usize,
        /// The predictor whose errors are bounded.
        predictor: Predictor,
    },
}

/// A threshold on a score: on a measure of a NUQ model as a part of [`Threshold`](super::Threshold), or on the score of another
/// method. It is separate from the fitted model: changing it needs no refit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreThreshold {
    /// Rows are accepted if their score is at most this value.
    pub value: f64,
    /// The guarantee of the threshold.
    pub guarantee: Guarantee,
    /// The number of rows on which the threshold was chosen.
    pub rows: usize,
    /// The number of training rows among [`rows`](Self::rows); 0 for held-out rows. See
    /// [`relevant_training_rows`](super::relevant_training_rows).
    pub training_rows: usize,
}

impl ScoreThreshold {
    /// Chooses a threshold on held-out scores; a higher score means less certain. `is_error` marks wrong held-out
    /// predictions of `predictor`; only a target risk needs it.
    ///
    /// ```
    /// use nuq::calibrate::{Predictor, ScoreThreshold, Target};
    /// let scores: Vec<f64> = (1..=99).map(f64::from).collect();
    /// let threshold = ScoreThreshold::calibrate(&scores, None, Predictor::Network, Target::Coverage(0.9))?;
    /// assert_eq!(threshold.value, 90.0); // the 90th smallest of 99 scores: ⌈100 · 0.9⌉ = 90
    /// # Ok::<(), nuq::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoRows`], [`Error::NanScore`] or [`Error::EqualScores`] for unusable scores, [`Error::OutOfRange`] for
    /// a target outside its range, [`Error::CannotCertify`] for a risk that the held-out rows cannot certify. For a target risk also
    /// [`Error::NoRows`] without `is_error`, and [`Error::LengthMismatch`] for another number of flags than scores.
    pub fn calibrate(
        scores: &[f64],
        is_error: Option<&[bool]>,
        predictor: Predictor,
        target: Target,
    ) -> Result<Self, Error> {
        target.check()?;
        check_scores(scores, "held-out scores")?;
        let rows = scores.len();
        let (value, guarantee) = match target {
            Target::Coverage(share) => for_coverage(scores, share),
            Target::FalseAlarm(share) => for_coverage(scores, 1.0 - share),
            Target::Risk { risk, delta } => {
                let is_error = is_error.ok_or(Error::NoRows { what: "labels of held-out rows" })?;
                let region = selective_risk(scores, is_error, risk, delta)?;
                let region = region.ok_or_else(|| cannot_certify(scores, is_error, risk, delta))?;
                let (accepted, errors) = (region.accepted, region.errors);
                (region.value, Guarantee::Risk { risk, delta, accepted, errors, predictor })
            }
        };
        // A finite threshold cannot separate rows of equal scores.
        if rows > 1 && value < f64::INFINITY && scores.iter().all(|score| *score == scores[0]) {
            return Err(Error::EqualScores { measure: None, value: scores[0] });
        }
        Ok(Self { value, guarantee, rows, training_rows: 0 })
    }

    /// Records that `training_rows` of the calibration rows were training rows of the model. The value does not change. The text that
    /// [`Display`](fmt::Display) writes mentions these rows.
    #[must_use]
    pub fn on_training_rows(self, training_rows: usize) -> Self {
        Self { training_rows, ..self }
    }

    /// The decision for a row with this score.
    #[must_use]
    pub fn decide(&self, score: f64) -> Decision {
        if score <= self.value { Decision::Accept } else { Decision::Reject }
    }
}

/// Writes the guarantee in words.
impl fmt::Display for ScoreThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.rows;
        let kind = kind_of_rows(self.training_rows, n);
        write_sentence(f, self.training_rows, n)?;
        match self.guarantee {
            Guarantee::Coverage { share, .. } if self.value == f64::INFINITY => {
                let (target, needed) = (coverage_words(share), rank::sufficient_rows(share));
                match needed {
                    Some(needed) if n < needed => write!(
                        f,
                        "Every row is accepted: with {n} {kind} no finite threshold guarantees {target}; at least {needed} \
                         held-out rows are needed."
                    ),
                    Some(_) => write!(
                        f,
                        "Every row is accepted: the compared value is infinite for too many of the {n} {kind}. Use another measure or \
                         method."
                    ),
                    None => write!(f, "Every row is accepted: {n} {kind} are too few for the target."),
                }
            }
            Guarantee::Coverage { share, low, high, accepted } => {
                write!(
                    f,
                    "A new row of the same distribution as the {n} {kind} is accepted with {}. With 95 % confidence, this \
                     threshold accepts {} to {} of such rows.",
                    coverage_words(share),
                    percent(low),
                    percent(high)
                )?;
                if accepted <= coverage_rank(n, share) {
                    return Ok(());
                }
                write!(
                    f,
                    " It accepts {} of the {kind}, because several of them have exactly the value of the threshold.",
                    percent(accepted as f64 / n as f64)
                )
            }
            Guarantee::Risk { risk, delta, accepted, errors, predictor } => {
                let predictor = match predictor {
                    Predictor::Network => "the network",
                    Predictor::Nuq => "NUQ",
                };
                let (confidence, risk) = (percent(1.0 - delta), percent(risk));
                if self.value == f64::INFINITY {
                    return write!(
                        f,
                        "With {confidence} confidence, at most {risk} of all predictions of {predictor} are wrong, and every row is \
                         accepted. Of the predictions of the {n} {kind}, {errors} are wrong."
                    );
                }
                let (low, high) = binomial_interval(accepted, n);
                write!(
                    f,
                    "With {confidence} confidence, at most {risk} of the accepted predictions of {predictor} are wrong. Of the {n} \
                     {kind}, {accepted} are accepted, and {errors} of these have a wrong prediction. With 95 % confidence, this \
                     threshold accepts {} to {} of new rows of the same distribution.",
                    percent(low),
                    percent(high)
                )
            }
        }
    }
}

fn coverage_words(share: f64) -> String {
    format!("a probability of at least {} (at most {} false alarms)", percent(share), percent(1.0 - share))
}

fn cannot_certify(scores: &[f64], is_error: &[bool], risk: f64, delta: f64) -> Error {
    let errors = is_error.iter().filter(|wrong| **wrong).count();
    let smallest = smallest_risk(scores, is_error, delta);
    let sufficient_rows = sufficient_rows(scores.len(), errors, risk, delta);
    Error::CannotCertify { risk, delta, rows: scores.len(), errors, smallest, sufficient_rows }
}

/// The smallest held-out score whose threshold has the required coverage.
fn for_coverage(scores: &[f64], share: f64) -> (f64, Guarantee) {
    let n = scores.len();
    let rank = coverage_rank(n, share);
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(&value) = sorted.get(rank - 1) else {
        // With too few rows only the threshold that accepts everything has the guarantee.
        return (f64::INFINITY, Guarantee::Coverage { share, low: 1.0, high: 1.0, accepted: n });
    };
    let (a, b) = (rank as f64, (n + 1 - rank) as f64);
    let accepted = sorted.partition_point(|score| *score <= value);
    let low = beta_quantile(0.025, a, b);
    // Rows tied at the threshold are accepted too. The upper end is then computed from the number of all accepted rows.
    let high = if accepted > rank { binomial_interval(accepted, n).1 } else { beta_quantile(0.975, a, b) };
    (value, Guarantee::Coverage { share, low, high, accepted })
}

#[cfg(test)]
mod tests {
    use super::super::relevant_training_rows;
    use super::*;

    fn calibrate(scores: &[f64], is_error: Option<&[bool]>, target: Target) -> Result<ScoreThreshold, Error> {
        ScoreThreshold::calibrate(scores, is_error, Predictor::Nuq, target)
    }

    #[test]
    fn ranks_are_those_of_conformal_prediction() {
        let scores: Vec<f64> = (1..=19).map(f64::from).collect();
        let value = |target| calibrate(&scores, None, target).unwrap().value;
        assert_eq!(value(Target::Coverage(0.5)), 10.0);
        assert_eq!(value(Target::FalseAlarm(0.05)), 19.0);
        assert_eq!(value(Target::FalseAlarm(0.1)), 18.0);
        // With 19 rows, a false-alarm rate below 1/20 requires accepting everything.
        assert_eq!(value(Target::FalseAlarm(0.04)), f64::INFINITY);
    }

    #[test]
    fn the_guarantee_is_stated_in_words() {
        let scores: Vec<f64> = (0..999).map(f64::from).collect();
        let threshold = calibrate(&scores, None, Target::Coverage(0.9)).unwrap();
        assert_eq!(
            threshold.to_string(),
            "A new row of the same distribution as the 999 held-out rows is accepted with a probability of at least 90 % (at most \
             10 % false alarms). With 95 % confidence, this threshold accepts 88.07 % to 91.78 % of such rows."
        );
        let wrong: Vec<bool> = (0..999).map(|i| i >= 900).collect();
        let target = Target::Risk { risk: 0.05, delta: 0.1 };
        let threshold = calibrate(&scores, Some(&wrong), target).unwrap();
        let text = "With 90 % confidence, at most 5 % of the accepted predictions of NUQ are wrong. Of the 999 held-out rows, ";
        assert!(threshold.to_string().starts_with(text), "{threshold}");
        let of_network = ScoreThreshold::calibrate(&scores, Some(&wrong), Predictor::Network, target);
        let of_network = of_network.unwrap().to_string();
        assert!(of_network.contains("accepted predictions of the network"), "{of_network}");
        let target = Target::Risk { risk: 0.2, delta: 0.1 };
        let everything = calibrate(&scores, Some(&wrong), target).unwrap();
        assert_eq!(
            everything.to_string(),
            "With 90 % confidence, at most 20 % of all predictions of NUQ are wrong, and every row is accepted. Of the predictions \
             of the 999 held-out rows, 99 are wrong."
        );
    }

    #[test]
    fn training_rows_are_stated() {
        let scores: Vec<f64> = (0..999).map(f64::from).collect();
        let threshold = calibrate(&scores, None, Target::Coverage(0.9)).unwrap();
        let text = threshold.on_training_rows(relevant_training_rows(998, 999)).to_string();
        let start = "Chosen on training rows (998 of 999), so that the following is not guaranteed for new rows. A new row of the same \
                     distribution as the 999 rows";
        assert!(text.starts_with(start) && !text.contains("held-out"), "{text}");
        let text = threshold.on_training_rows(999).to_string();
        assert!(text.contains("as the 999 training rows"), "{text}");
        assert_eq!((relevant_training_rows(9, 100), relevant_training_rows(10, 100)), (0, 10));
    }

    #[test]
    fn too_few_rows_for_a_finite_threshold_are_stated() {
        for (share, needed) in [(0.05, 19), (0.01, 99), (0.1, 9), (0.3, 3)] {
            let scores = |rows: usize| (0..rows).map(|i| i as f64).collect::<Vec<f64>>();
            let threshold = calibrate(&scores(2), None, Target::FalseAlarm(share)).unwrap();
            assert_eq!(threshold.value, f64::INFINITY);
            let text = format!("at least {needed} held-out rows are needed");
            assert!(threshold.to_string().contains(&text), "{threshold}");
            let finite = calibrate(&scores(needed), None, Target::FalseAlarm(share)).unwrap();
            assert!(finite.value.is_finite(), "{finite}");
        }
    }

    #[test]
    fn ties_at_the_threshold_are_stated() {
        // 50 different values, then 50 equal ones: every threshold above the median accepts all rows.
        let scores: Vec<f64> = (0..100).map(|i| f64::from(i.min(50))).collect();
        let threshold = calibrate(&scores, None, Target::Coverage(0.6)).unwrap();
        let Guarantee::Coverage { low, high, accepted, .. } = threshold.guarantee else { panic!("coverage") };
        assert_eq!((threshold.value, accepted, high), (50.0, 100, 1.0));
        assert!(low < 0.6);
        assert!(threshold.to_string().contains("It accepts 100 % of the held-out rows"), "{threshold}");
        let distinct: Vec<f64> = (0..100).map(f64::from).collect();
        let threshold = calibrate(&distinct, None, Target::Coverage(0.6)).unwrap();
        assert!(!threshold.to_string().contains("exactly"), "{threshold}");
    }

    #[test]
    fn equal_scores_give_no_threshold() {
        let error = calibrate(&[f64::NEG_INFINITY; 9], None, Target::FalseAlarm(0.5));
        assert_eq!(error, Err(Error::EqualScores { measure: None, value: f64::NEG_INFINITY }));
    }

    #[test]
    fn targets_out_of_range_or_not_certifiable_are_errors() {
        let error = |target| calibrate(&[1.0, 2.0], Some(&[true, true]), target).unwrap_err().to_string();
        assert_eq!(error(Target::Coverage(1.0)), "coverage is 1.0: it must lie strictly between 0 and 1");
        assert_eq!(
            error(Target::FalseAlarm(0.0)),
            "false_alarm is 0.0: it must lie strictly between 0 and 1"
        );
        // The target is checked before the scores.
        let result = calibrate(&[], None, Target::Coverage(1.5));
        assert!(matches!(result, Err(Error::OutOfRange { name: "coverage", .. })));
        // A target in its range that cannot be certified, because both held-out predictions are wrong.
        assert!(error(Target::Risk { risk: 0.1, delta: 0.1 }).contains("2 of 2"));
    }
}
