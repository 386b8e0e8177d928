//! Compares baselines and metrics with the oracle and with stored outputs of other packages. All tests are one binary, because each integration
//! test binary links the whole dependency tree again.

#![allow(clippy::unwrap_used)]

mod baselines;
mod cancel;
mod evaluate_inputs;
mod guarantees;
mod peers;
mod scorers;
