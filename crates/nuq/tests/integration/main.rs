//! Integration tests. They are one binary, because each test binary links all dependencies again.

#![allow(clippy::unwrap_used)]

mod auto;
mod cancel;
mod conformal;
mod drift;
mod golden;
mod invalid_input;
mod learned;
mod oracle;
mod properties;
mod sample_weights;
mod statistics;
mod tables;
mod training_rows;
mod update;
