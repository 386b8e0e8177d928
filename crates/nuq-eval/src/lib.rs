//! Baseline uncertainty scores, metrics, and a comparison of methods on the same arrays.
//!
//! - [`baselines`]: published uncertainty scores, which implement the trait [`baselines::Scorer`].
//! - [`metrics`]: ROC-AUC, risk-coverage curves, calibration error and others, and bootstrap intervals.
//! - [`evaluate`]: one call that runs a fitted [`nuq::NuqClassifier`] and every baseline that the arrays allow on the same
//!   rows.
//!
//! The method itself is in the crate [`nuq`]. This crate reads no files and prints nothing.

pub mod baselines;
mod error;
pub mod evaluate;
pub mod metrics;

pub use error::Error;
