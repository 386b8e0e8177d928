//! The laboratory: the networks, experiments, tables and figures of the paper, one command each.

pub mod data;
mod error;
pub mod experiments;
mod export;
mod images;
mod nets;
pub mod results;
mod stream;
pub mod training;

pub use error::LabError;
pub use export::{Exported, check_folder, export};
pub use images::{Images, Labeled};
