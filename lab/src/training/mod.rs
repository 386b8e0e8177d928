//! Training of networks. A [`Network`] is trained from a [`Recipe`] and data, and stored in a [`Cache`].

mod augment;
mod checkpoint;
mod network;
mod optimizer;
mod progress;
mod recipe;
mod state;
#[cfg(test)]
mod tests;
mod train;

pub use augment::{Augment, rotate};
pub use checkpoint::Cache;
pub(crate) use network::argmax;
pub use network::{Network, Outputs};
pub use progress::{Epoch, Progress, Silent, ToStderr};
pub(crate) use recipe::CNN_REGIONS;
pub use recipe::{Architecture, HeadKind, Optimizer, Recipe, Schedule, Spectral};
