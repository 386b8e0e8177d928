//! Integration tests. They form one binary, because each test binary links all dependencies again.

#![allow(clippy::unwrap_used)]

mod auto;
mod cancel;
mod conformal;
mod drift;
mod given_neighbors;
mod golden;
mod invalid_input;
mod learned;
mod oracle;
mod properties;
mod sample_weights;
mod statistics;
mod training_rows;
mod update;
