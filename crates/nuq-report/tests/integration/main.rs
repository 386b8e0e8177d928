//! The page and the figures of an evaluation. One binary, because each integration test binary links the whole dependency tree again.

mod common;
mod page;
mod report;
