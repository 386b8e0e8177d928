//! The referee: how well scores rank, how honest probabilities are, and how much of a difference is noise.
//!
//! Scores are plain slices, higher for less certain. NaN is refused; infinities are scores like any other. Rows with equal
//! scores have no order, and every metric is what it is on average over all orders of them, so that none depends on
//! how rows happen to be sorted.
//!
//! - Telling outliers from inliers: [`Detection`], and [`roc_auc`], [`average_precision`], [`fpr_at_tpr`],
//!   [`detection_error`] in one call.
//! - Knowing one's own errors: [`Selective`], and [`rcc_auc`], [`prediction_rejection_ratio`], [`scod_risk`] in one call.
//! - Probabilities: [`calibration_error`], [`negative_log_likelihood`], [`brier_score`], [`agreement`].
//! - Chance: [`Resampling`] gives intervals and paired differences for any of them.

mod bootstrap;
mod detection;
mod probabilities;
mod ranked;
mod selective;

pub use bootstrap::{Difference, Interval, Resampling};
pub use detection::{Detection, average_precision, detection_error, fpr_at_tpr, roc_auc};
pub use probabilities::{Agreement, agreement, brier_score, calibration_error, negative_log_likelihood};
pub use selective::{Selective, prediction_rejection_ratio, rcc_auc, scod_risk};
