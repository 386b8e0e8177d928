//! Thresholds, prediction sets and intervals with finite-sample guarantees, chosen on held-out rows.
//!
//! A [`Threshold`] accepts a prediction whose [`Measure`] is at most its value. [`calibrate`] chooses the value for a
//! [`Target`] from held-out rows. These must be exchangeable with future rows, and the model must not be fitted to them.
//! [`ScoreThreshold`] is the same for the scores of any other method.
//!
//! - `Coverage(c)`, `FalseAlarm(a)`: the k-th smallest of n held-out scores, `k = ⌈(n+1) c⌉` with `c = 1 − a`. A new
//!   row is accepted with probability at least `c` (conformal prediction; Vovk et al. 2005). For one held-out set this
//!   acceptance probability is a random number with distribution `Beta(k, n + 1 − k)`; the guarantee includes the
//!   central 95 % interval of that distribution.
//! - `Risk { risk, delta }`: the largest threshold such that, with probability `1 − δ` over held-out sets, at most the share
//!   `risk` of accepted predictions is wrong (Learn then Test; Angelopoulos et al. 2021); see [`selective_risk()`].
//!
//! A [`SetRule`] gives sets of classes that contain the true class with a required probability. An [`IntervalRule`]
//! gives intervals of a regressor that contain the target with a required probability. A model stores its thresholds
//! and rules in [`Rules`].
//!
//! For a whole batch, [`conformal_p_values`] gives p-values, and [`benjamini_hochberg`] marks alarms among them such that the
//! expected share of false alarms among all alarms is at most a given level.

mod beta;
mod conformal;
mod intervals;
mod measure;
mod predictor;
mod rank;
mod rules;
mod score_threshold;
mod scores;
mod selective_risk;
mod sets;
mod threshold;
mod training_rows;

pub use conformal::{benjamini_hochberg, conformal_p_values};
pub use intervals::IntervalRule;
pub use measure::Measure;
pub use predictor::Predictor;
pub use rules::Rules;
pub use score_threshold::{Guarantee, ScoreThreshold, Target};
pub use selective_risk::{CertifiedRisk, selective_risk};
pub use sets::{PredictionSets, SetLimits, SetRule, SetScore, SetTarget};
pub use threshold::{Threshold, calibrate};
pub(crate) use training_rows::equal_training_rows;
pub use training_rows::{kind_of_rows, relevant_training_rows, rows_in_index};

pub(crate) use beta::beta_quantile;
pub use beta::binomial_interval;
pub use scores::check_scores;
pub(crate) use scores::check_share;
