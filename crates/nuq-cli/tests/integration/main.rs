//! Integration tests that run the binary. They are one test binary, because linking the whole dependency tree for each file takes
//! long.

#![allow(clippy::unwrap_used)]

mod baselines;
mod cli;
mod column_names;
mod column_order;
mod commands;
mod common;
mod conformal;
mod evaluate;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(unix)]
mod interrupt;
mod json;
mod kept_columns;
#[cfg(target_os = "linux")]
mod memory;
mod network;
mod paths;
#[cfg(unix)]
mod processes;
mod readme;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod serve_secrets;
mod shards;
#[cfg(unix)]
mod sparse_file;
#[cfg(unix)]
mod streams;
mod tables;
mod weights;
