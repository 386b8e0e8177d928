//! When not to trust a network: NUQ, nonparametric uncertainty quantification.
//!
//! Takes the embeddings and labels of any trained model and gives, per prediction, a label, its probability,
//! aleatoric, epistemic and total uncertainty, a density, an abstain decision, and the training examples behind
//! it; after Kotelevskii et al., *Nonparametric Uncertainty Quantification for Single Deterministic Neural
//! Network*, NeurIPS 2022.
//!
//! ```
//! use nuq::{Embeddings, NuqClassifier, RejectRule};
//!
//! let train = Embeddings::from_rows(&[[0.0, 0.0], [0.1, 0.0], [1.0, 1.0], [1.1, 1.0]])?;
//! let model = NuqClassifier::params().fit(&train, &["cat", "cat", "dog", "dog"])?;
//!
//! let queries = Embeddings::from_rows(&[[0.05, 0.0], [9.0, -9.0]])?;
//! let found = model.predict(&queries)?;
//! assert_eq!(found.label(0), "cat");
//! assert!(found[1].total() > found[0].total());
//! let decisions = found.decide(&RejectRule::plug_in(0.2)?);
//! # assert_eq!(decisions.len(), 2);
//! # Ok::<(), nuq::Error>(())
//! ```
//!
//! Data flow one way: embeddings → neighbors (crate [`nuq_neighbors`]) → kernel weights (`weights`) and density
//! (`smoother`) → class probabilities (`posterior`) → uncertainties (`uncertainty`) → decisions (`reject`).
//! Everything after the distances is `f64` in natural-log space.

pub mod bandwidth;
pub mod calibrate;
mod classifier;
mod density;
mod dimension;
mod error;
mod kernel;
mod labels;
pub mod log_space;
pub mod moments;
mod params;
pub mod parts;
mod posterior;
mod regressor;
mod reject;
mod selection;
mod smoother;
mod suggest;
mod uncertainty;
mod weights;

pub use bandwidth::{Bandwidth, BandwidthRule, Criterion, NamedCriterion, SelectionCurve, SquaredError};
pub use classifier::{ClassificationScore, LabelIssue, NuqClassifier, Predictions, Probabilities};
pub use density::{
    AutoDensity, ClassGaussians, Covariance, Density, DensityBandwidth, DensityKind, Shrinkage, Tail,
};
pub use dimension::Dimension;
pub use error::Error;
pub use kernel::Kernel;
pub use labels::{Classes, Label};
pub use nuq_neighbors::{
    self, Embeddings, ExactIndex, HnswIndex, HnswParams, IndexChoice, IndexKind, IndexSummary, NeighborIndex,
    Neighbors, Precision, UnknownChoice,
};
pub use params::{Classification, Params, Regression, Task, Variance};
pub use parts::Model;
pub use regressor::{Estimate, Estimates, NuqRegressor, RegressionScore};
pub use reject::{Decision, RejectRule};
pub use suggest::suggest;
pub use uncertainty::Prediction;

/// The README's example, run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
