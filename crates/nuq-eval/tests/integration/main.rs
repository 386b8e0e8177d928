//! Compares baselines and metrics with the oracle and with stored outputs of other packages. All tests form one binary,
//! because each test binary links all dependencies again.

#![allow(clippy::unwrap_used)]

mod baselines;
mod cancel;
mod evaluate_inputs;
mod guarantees;
mod peers;
mod scorers;
