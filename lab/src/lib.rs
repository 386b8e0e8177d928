//! Reproduction of the NUQ paper (Kotelevskii et al., NeurIPS 2022): its networks, experiments, tables and figures.

pub mod data;
mod error;
pub mod experiments;
mod export;
mod images;
mod nets;
mod random;
pub mod results;
pub mod training;

pub use error::LabError;
pub use export::{Exported, check_folder, export};
pub use images::{Images, Labeled};
