//! The predictor whose errors are counted.

use nuq_neighbors::choices;

/// The predictor whose errors are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Predictor {
    /// The network, by its logits.
    Network,
    /// The NUQ model.
    #[default]
    Nuq,
}

choices!(Predictor, "predictor", { Network => "network", Nuq => "nuq" });
