//! Classification with a reject option.
//!
//! A wrong answer costs 1 and an abstention costs `λ` in (0, 1). So the optimal rule answers if the probability of error is at
//! most `λ` (Chow 1970). That probability is estimated, and Algorithm 2 of the paper adds a margin for the error of the
//! estimate at level `β`. With `C` classes it accepts iff
//!
//! ```text
//! 1 − max_c η_c ≤ λ − z_{1−β/C} max_c τ_c
//! ```
//!
//! `η_c` is the estimated probability of class `c`, `τ_c` its standard error, and `z_q` the `q` quantile of the standard normal
//! distribution.
//!
//! A rule is separate from the model: changing it needs no refit.

use crate::Error;
use crate::error::out_of_range;
use crate::uncertainty::Prediction;

/// The decision for one prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Give the predicted label.
    Accept,
    /// Abstain.
    Reject,
}

/// A rule that abstains from predictions, at a cost `λ` per abstention.
///
/// ```
/// use nuq::{Decision, Embeddings, NuqClassifier, RejectRule};
///
/// let x = Embeddings::from_rows(&[[0.0], [0.2], [0.4], [0.6], [0.8], [1.0]])?;
/// let model = NuqClassifier::params().bandwidth(0.1).fit(&x, &[0, 0, 0, 1, 1, 1])?;
/// let predictions = model.predict(&Embeddings::from_rows(&[[0.05], [0.42], [50.0]])?)?;
///
/// use Decision::{Accept, Reject};
/// assert_eq!(predictions.decide(&RejectRule::plug_in(0.3)?), [Accept, Accept, Reject]);
/// // Near the border between the classes, six rows give a large standard error.
/// assert_eq!(predictions.decide(&RejectRule::confident(0.3, 0.05)?), [Accept, Reject, Reject]);
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RejectRule {
    cost: f64,
    level: Option<f64>,
}

impl RejectRule {
    /// Algorithm 2: accepts if the estimated probability of error, plus a margin at level `level` in (0, 1/2), is at
    /// most `cost`.
    ///
    /// The margin is a multiple of an asymptotic standard error. It is zero if all neighbors have the same class and the prior weight
    /// is 0, as in the preset `paper`. With the scales `intrinsic` and `ambient` it is too small in tens of dimensions.
    /// A query with an estimated density of 0 is rejected. This rule has no guarantee; a threshold that is calibrated
    /// on held-out data has one.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a cost outside (0, 1) or a level outside (0, 1/2).
    pub fn confident(cost: f64, level: f64) -> Result<Self, Error> {
        if !(level > 0.0 && level < 0.5) {
            return Err(out_of_range("reject level", level, "it must lie strictly between 0 and 1/2"));
        }
        Ok(Self { level: Some(level), ..Self::plug_in(cost)? })
    }

    /// The plug-in rule: accepts if the estimated probability of error is at most `cost`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a cost outside (0, 1).
    pub fn plug_in(cost: f64) -> Result<Self, Error> {
        if !(cost > 0.0 && cost < 1.0) {
            return Err(out_of_range("reject cost", cost, "it must lie strictly between 0 and 1"));
        }
        Ok(Self { cost, level: None })
    }

    /// `λ`, the cost of an abstention.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// `β`, the level of the confident rule; `None` for the plug-in rule.
    #[must_use]
    pub fn level(&self) -> Option<f64> {
        self.level
    }

    /// The decision for one prediction of a model with `classes` classes.
    #[must_use]
    pub fn decide(&self, prediction: &Prediction, classes: usize) -> Decision {
        let margin = match self.level {
            None => 0.0,
            Some(_) if prediction.log_standard_error == f64::NEG_INFINITY => 0.0,
            Some(level) => {
                upper_quantile(level / classes.max(1) as f64) * prediction.log_standard_error.exp()
            }
        };
        let has_density = self.level.is_none() || prediction.log_density > f64::NEG_INFINITY;
        if has_density && prediction.aleatoric <= self.cost - margin {
            Decision::Accept
        } else {
            Decision::Reject
        }
    }
}

/// `z_{1−p}`, the value that a standard normal variable exceeds with probability `p` in (0, 1/2).
///
/// Newton's method for `ln Q(z) = ln p`, where `Q(z)` is the probability that the variable exceeds `z`. `ln Q` is concave and
/// decreasing. Therefore iterates that start above the solution decrease to it, with quadratic convergence. The
/// first iterate is above the solution because `Q(z) ≤ ½ exp(−z²/2)`. `p` has a lower bound, because `Q` underflows for smaller `p`.
fn upper_quantile(p: f64) -> f64 {
    const MIN_P: f64 = 1e-300;
    let p = p.max(MIN_P);
    let mut z = (-2.0 * (2.0 * p).ln()).max(0.0).sqrt();
    for _ in 0..60 {
        let tail = 0.5 * libm::erfc(z / std::f64::consts::SQRT_2);
        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let step = (tail.ln() - p.ln()) * tail / density;
        z += step;
        if step.abs() <= 1e-15 * z {
            break;
        }
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_scipy() {
        // scipy.stats.norm.isf
        let known = [
            (0.05, 1.644_853_626_951_472_2),
            (0.025, 1.959_963_984_540_054),
            (1e-5, 4.264_890_793_922_602),
            (1e-12, 7.034_483_825_301_131),
            (1e-14, 7.650_628_092_935_27),
            (1e-100, 21.273_453_560_965_322),
            (0.4999, 0.000_250_662_830_088_035_6),
        ];
        assert!(upper_quantile(f64::MIN_POSITIVE) > 37.0);
        for (p, z) in known {
            assert!((upper_quantile(p) - z).abs() < 1e-12 * z.max(1.0), "{p}: {}", upper_quantile(p));
        }
    }

    fn prediction(aleatoric: f64, standard_error: f64) -> Prediction {
        Prediction {
            class: 0,
            probability: 1.0 - aleatoric,
            aleatoric,
            log_epistemic: 0.0,
            log_total: 0.0,
            log_density: 0.0,
            log_sample_size: 0.0,
            log_standard_error: standard_error.ln(),
        }
    }

    #[test]
    fn the_confident_rule_matches_a_manual_calculation() {
        // z for β/C = 0.1/2 is 1.6449: accept iff 0.1 ≤ 0.3 − 1.6449 τ, iff τ ≤ 0.1216.
        let rule = RejectRule::confident(0.3, 0.1).unwrap();
        assert_eq!(rule.decide(&prediction(0.1, 0.1215), 2), Decision::Accept);
        assert_eq!(rule.decide(&prediction(0.1, 0.1217), 2), Decision::Reject);
        assert_eq!(rule.decide(&prediction(0.1, f64::INFINITY), 2), Decision::Reject);
        assert_eq!(rule.decide(&prediction(0.1, 0.0), 2), Decision::Accept);
    }

    #[test]
    fn costs_and_levels_outside_their_range_are_errors() {
        for cost in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(matches!(RejectRule::plug_in(cost), Err(Error::OutOfRange { name: "reject cost", .. })));
        }
        for level in [0.0, 0.5, f64::NAN] {
            assert!(matches!(
                RejectRule::confident(0.1, level),
                Err(Error::OutOfRange { name: "reject level", .. })
            ));
        }
    }
}
