//! Decisions that keep a promise: thresholds chosen on held-out rows, each with what it guarantees.
//!
//! A [`Threshold`] accepts a prediction whose [`Measure`] is at most its value. [`calibrate`] chooses the value for a
//! [`Target`] from held-out rows that resemble those to come (exchangeable with them), and that the model was not fitted to:
//!
//! - `Coverage(c)`, `FalseAlarm(a)`: the $k$-th smallest of $n$ held-out scores, $k = \lceil (n+1) c \rceil$ with $c = 1 - a$. A
//!   new row is accepted with probability at least $c$ (conformal prediction; Vovk et al. 2005); for the threshold at hand that
//!   probability is a draw from $\mathrm{Beta}(k, n + 1 - k)$, whose middle 95 % the statement tells.
//! - `Risk { risk, delta }`: the largest threshold such that, with probability $1 - \delta$ over held-out sets, at most the share
//!   `risk` of accepted predictions is wrong (Learn then Test; Angelopoulos et al. 2021): see [`selective_risk`].
//!
//! [`conformal_p_values`] and [`benjamini_hochberg`] do the same for a whole batch: the second keeps the expected share of
//! false alarms among all alarms below a level.

mod beta;
mod conformal;
mod scores;
mod selective_risk;
mod threshold;

pub use conformal::{benjamini_hochberg, conformal_p_values};
pub use selective_risk::{CertifiedRisk, selective_risk};
pub use threshold::{Measure, Promise, Target, Threshold, calibrate};

pub(crate) use beta::beta_quantile;
pub use beta::binomial_interval;
pub use scores::check_scores;
