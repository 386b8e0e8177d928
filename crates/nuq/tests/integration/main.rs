//! The method against the oracle, the authors' outputs and hostile input. One binary, because each integration test binary links the whole dependency tree again.

#![allow(clippy::unwrap_used)]

mod auto;
mod churn;
mod golden;
mod hostile;
mod learned;
mod oracle;
mod properties;
mod statistics;
mod tables;
