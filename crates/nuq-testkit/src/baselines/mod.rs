//! The rivals by their papers: each score as its equation, for one query at a time, in plain `f64`.
//!
//! Higher is less certain throughout; where a paper has it the other way round, the sign is turned. Nothing is shared with the
//! library: probabilities are sums over pairs of classes, distances are loops over coordinates, and what takes an
//! eigenvector is done by rotations.

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
pub use reductions::{Huq, Members, temperature_slope};
