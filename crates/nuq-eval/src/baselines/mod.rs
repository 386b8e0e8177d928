//! Baseline uncertainty scores that need only arrays.
//!
//! | input | scorers |
//! | --- | --- |
//! | logits | [`MaxProb`], [`Entropy`], [`Margin`], [`Energy`], [`MaxLogit`], [`Gen`] |
//! | embeddings | [`Ddu`], [`Mahalanobis`], [`RelativeMahalanobis`], [`KnnDistance`], [`LocalOutlierFactor`], [`Sngp`], [`Duq`]; [`Normalized`] applies each to L2-normalized rows |
//! | embeddings and logits | [`Vim`], [`Fdbd`], [`NnGuide`], [`React`] |
//! | logits of several members of an ensemble | [`Ensemble`] |
//! | aleatoric and epistemic uncertainties | [`Huq`] |
//!
//! Each type has its own `fit` or `new`, and scores rows through the trait [`Scorer`]. [`fit()`](fit()) fits the method of a
//! [`MethodId`](crate::evaluate::MethodId). Methods that need the last layer of the network take a [`Head`], which [`Head::fit`]
//! estimates from embeddings and logits. [`React`] needs logits only for this estimate; it scores embeddings.
//!
//! [`Scorer::parts`] gives a fitted scorer as plain arrays, and [`restore`] creates the scorer from them. The crate
//! `nuq-io` writes them to a file.

mod ddu;
mod duq;
mod duq_training;
mod energy;
mod ensemble;
mod entropy;
mod fdbd;
mod fit;
mod gaussians;
mod generalized_entropy;
mod head;
mod huq;
mod knn_distance;
mod lbfgs;
mod local_outlier_factor;
mod mahalanobis;
mod margin;
mod max_logit;
mod max_prob;
mod nnguide;
mod normalized;
mod parts;
mod random_features;
mod react;
mod scorer;
mod sngp;
mod softmax;
mod softmax_regression;
mod temperature;
mod vim;

pub use ddu::Ddu;
pub use duq::{Duq, DuqParams};
pub use energy::Energy;
pub use ensemble::{Ensemble, Members, Reduction};
pub use entropy::Entropy;
pub use fdbd::Fdbd;
pub(crate) use fit::{CLIP_QUANTILE, NNGUIDE_NEIGHBORS};
pub use fit::{FitInputs, Uses, fit};
pub use generalized_entropy::Gen;
pub use head::Head;
pub use huq::Huq;
pub use knn_distance::{KnnDistance, KnnReduction};
pub use local_outlier_factor::LocalOutlierFactor;
pub use mahalanobis::{Mahalanobis, RelativeMahalanobis};
pub use margin::Margin;
pub use max_logit::MaxLogit;
pub use max_prob::MaxProb;
pub use nnguide::NnGuide;
pub use normalized::Normalized;
pub use parts::{Array, ArrayValues, BaselineParts, Param, restore};
pub use react::React;
pub use scorer::{Batch, Input, Scorer, Uncertainties};
pub use sngp::{Sngp, SngpParams, SngpReduction};
pub use temperature::temperature;
pub use vim::Vim;
