//! Baseline scores by the equations of their papers, for one query at a time, in `f64`.
//!
//! A higher score means a higher uncertainty. If a paper has the opposite order, the sign is changed. No code is shared
//! with the library: probabilities are computed from differences of logits, distances are loops over coordinates, and
//! eigenvectors are computed by rotations.

mod distances;
mod heads;
mod layers;
mod logits;
mod matrices;
mod reductions;

pub use distances::{LocalOutlierFactor, Mahalanobis, knn_distances};
pub use heads::{Vim, fdbd, least_squares_head, linear, nnguide, react};
pub use layers::{Sngp, dempster_shafer, duq_exponent, duq_loss, softmax_loss};
pub use logits::{energy, entropy, generalized_entropy, margin, max_logit, max_prob, softmax};
pub use reductions::{Huq, Members, temperature_derivative};
