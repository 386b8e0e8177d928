//! Training: a [`Recipe`] and data make a [`Network`], once; after that it comes from the [`Cache`].

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
pub(crate) use network::first_largest;
pub use network::{Network, Outputs};
pub use progress::{Epoch, Progress, Silent, ToStderr};
pub(crate) use recipe::CNN_REGIONS;
pub use recipe::{Architecture, HeadKind, Optimizer, Recipe, Schedule, Spectral};
