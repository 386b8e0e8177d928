//! The commands as a user runs them. One binary, because each integration test binary links the whole dependency tree again.

#![allow(clippy::unwrap_used)]

mod cli;
mod commands;
mod common;
mod evaluate;
#[cfg(unix)]
mod interrupt;
#[cfg(target_os = "linux")]
mod memory;
mod readme;
#[cfg(unix)]
mod sparse_file;
