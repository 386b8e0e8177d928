//! The laboratory: the networks, experiments, tables and figures of the paper, one command each.

pub mod data;
mod error;
pub mod experiments;
mod images;
mod nets;
pub mod results;
pub mod training;

pub use error::LabError;
pub use images::{Images, Labeled};
