//! The predictor of labels and uncertainties.

use nuq_neighbors::choices;

/// The predictor whose errors are counted, or whose uncertainties are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Predictor {
    /// The network, given by its logits or probabilities.
    Network,
    /// The NUQ model.
    #[default]
    Nuq,
}

choices!(Predictor, "predictor", { Network => "network", Nuq => "nuq" });
