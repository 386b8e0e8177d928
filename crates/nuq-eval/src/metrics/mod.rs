//! Metrics of uncertainty scores and probabilities, with bootstrap intervals.
//!
//! A higher score means a higher uncertainty. NaN is an error, infinite scores are allowed. If rows have equal scores,
//! a metric either uses one threshold for all of them, or it is the mean over all orders of these rows. So no metric
//! depends on the order of the input.
//!
//! - Detection of outliers: [`Detection`] sorts the scores once for several metrics. The functions [`roc_auc`],
//!   [`average_precision`], [`fpr_at_tpr`] and [`detection_error`] compute a single metric.
//! - Selective prediction: [`Selective`] sorts the rows once for several metrics. The functions [`rcc_auc`],
//!   [`prediction_rejection_ratio`] and [`scod_risk`] compute a single metric.
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
