//! Fitted models as plain data without their index, as a model file stores them.
//!
//! [`NuqClassifier::parts`](crate::NuqClassifier::parts) and [`NuqRegressor::parts`](crate::NuqRegressor::parts) give the
//! parts of a model; `from_parts` restores the model from them and an index.

pub use crate::classifier::ClassifierParts;
pub use crate::density::GaussianParts;
pub use crate::drift::DriftParts;
pub use crate::regressor::RegressorParts;
pub use crate::smoother::{FittedDensityParts, SmootherParts};
