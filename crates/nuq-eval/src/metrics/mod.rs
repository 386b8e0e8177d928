//! Metrics of uncertainty scores and probabilities, with bootstrap intervals.
//!
//! Scores are slices; a higher score is a higher uncertainty. NaN is an error, infinite scores are allowed. For rows with equal
//! scores, every metric is the mean over all their orders, so that it does not depend on the order of the input.
//!
//! - Detection of outliers: [`Detection`], and [`roc_auc`], [`average_precision`], [`fpr_at_tpr`],
//!   [`detection_error`] in one call.
//! - Selective prediction: [`Selective`], and [`rcc_auc`], [`prediction_rejection_ratio`], [`scod_risk`] in one call.
//! - Probabilities: [`calibration_error`], [`negative_log_likelihood`], [`brier_score`], [`agreement`].
//! - Uncertainty of a metric: [`Resampling`] gives intervals and paired differences.

mod bootstrap;
mod detection;
mod probabilities;
mod ranked;
mod selective;

pub use bootstrap::{Difference, Interval, Resampling};
pub use detection::{Detection, average_precision, detection_error, fpr_at_tpr, roc_auc};
pub use probabilities::{Agreement, agreement, brier_score, calibration_error, negative_log_likelihood};
pub use selective::{Selective, prediction_rejection_ratio, rcc_auc, scod_risk};
