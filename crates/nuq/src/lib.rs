//! NUQ: nonparametric uncertainty quantification for the predictions of any trained network.
//!
//! From embeddings and labels the crate computes, for each query, a label, its probability, aleatoric, epistemic and total
//! uncertainty, a density, a decision to accept or to abstain, and the nearest training rows. The method is that of
//! Kotelevskii et al., *Nonparametric Uncertainty Quantification for Single Deterministic Neural Network*, NeurIPS 2022.
//!
//! ```
//! use nuq::{Embeddings, NuqClassifier, RejectRule};
//!
//! let train = Embeddings::from_rows(&[[0.0, 0.0], [0.1, 0.0], [1.0, 1.0], [1.1, 1.0]])?;
//! let model = NuqClassifier::params().fit(&train, &["cat", "cat", "dog", "dog"])?;
//!
//! let queries = Embeddings::from_rows(&[[0.05, 0.0], [9.0, -9.0]])?;
//! let predictions = model.predict(&queries)?;
//! assert_eq!(predictions.label(0), "cat");
//! assert!(predictions[1].total() > predictions[0].total());
//! let decisions = predictions.decide(&RejectRule::plug_in(0.2)?);
//! # assert_eq!(decisions.len(), 2);
//! # Ok::<(), nuq::Error>(())
//! ```
//!
//! The steps of a prediction are: embeddings → neighbors (crate [`nuq_neighbors`]) → kernel weights (`weights`) and density
//! (`smoother`) → class probabilities (`posterior`) → uncertainties (`uncertainty`) → decisions (`reject`). Everything after
//! the distances is `f64` in natural-log space.
//!
//! Common entry points: [`NuqClassifier`], [`NuqRegressor`], their parameters [`Params`], the common interface
//! of fitted models [`FittedModel`], thresholds with a guarantee [`calibrate`], and [`parts`] for storing models.

pub mod bandwidth;
pub mod calibrate;
mod classifier;
pub mod column_names;
mod density;
mod dimension;
pub mod drift;
mod error;
mod estimate;
mod kernel;
mod labels;
mod leave_one_out;
pub mod log_space;
mod model;
pub mod moments;
mod network;
mod params;
pub mod parts;
mod posterior;
mod quantiles;
mod regressor;
mod reject;
mod row_source;
mod sample_weights;
mod scale;
mod selection;
mod smoother;
mod suggest;
mod uncertainty;
mod weights;

pub use bandwidth::{Bandwidth, BandwidthRule, Criterion, NamedCriterion, SelectionCurve, SquaredError};
pub use classifier::{ClassificationScore, LabelIssue, NuqClassifier, Predictions, Probabilities};
pub use column_names::DifferentNames;
pub use density::{
    AutoDensity, AutoGaussians, ClassGaussians, Combination, Covariance, Density, DensityBandwidth,
    DensityKind, GmmDensity, LogLikelihoods, LogisticTail, RadialCorrection, Shrinkage,
};
pub use drift::DriftMonitor;
pub use error::Error;
pub use estimate::Estimate;
pub use kernel::Kernel;
pub use labels::{Classes, Label};
pub use model::{FittedModel, Model};
pub use network::NetworkProbabilities;
pub use nuq_neighbors::{
    self, CancelToken, Cancelled, Device, Embeddings, ExactIndex, HnswIndex, HnswParams, IndexChoice,
    IndexKind, IndexSummary, NeighborIndex, Neighbors, Precision, Progress, ShardedRows, UnknownChoice,
};
pub use params::{Classification, Params, Regression, Task, Variance};
pub use regressor::{Estimates, NuqRegressor, RegressionScore};
pub use reject::{Decision, RejectRule};
pub use scale::{FittedScale, Scale};
pub use suggest::{SearchSpace, suggest};
pub use uncertainty::Prediction;

/// The traits and types of a typical program.
///
/// ```
/// use nuq::prelude::*;
///
/// let x = Embeddings::from_rows(&[[0.0], [0.1], [1.0], [1.1]])?;
/// let model = NuqClassifier::params().n_neighbors(2).fit(&x, &["a", "a", "b", "b"])?;
/// assert_eq!(model.index().len(), 4);
/// # Ok::<(), nuq::Error>(())
/// ```
pub mod prelude {
    pub use crate::{Embeddings, FittedModel, NeighborIndex, NuqClassifier, NuqRegressor, RejectRule};
}

/// Runs the example of the README as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
