//! Integration tests of baselines, metrics and evaluations. They form one binary, because each test binary links all
//! dependencies again.

#![allow(clippy::unwrap_used)]

mod baselines;
mod cancel;
mod evaluate_inputs;
mod guarantees;
mod peers;
mod scorers;
mod shared_rows;
