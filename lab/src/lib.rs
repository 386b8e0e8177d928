//! The laboratory: the networks, experiments, tables and figures of the paper, one command each.

mod error;
mod images;
mod nets;
pub mod training;

pub use error::LabError;
pub use images::{Images, Labeled};
