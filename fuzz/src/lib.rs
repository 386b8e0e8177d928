//! Code that the fuzz targets share: files in memory, checksums of model files, mutations of structured inputs, and the properties that accepted input must have.
//!
//! A target fails if the code under test panics, aborts, takes longer than the time limit, requests memory that its input does not
//! justify, or breaks a property that [`arrays`], [`models`] or the target itself checks.

pub mod allocation;
pub mod archive;
pub mod arrays;
pub mod caught_panics;
pub mod client;
pub mod container;
pub mod file;
pub mod json;
pub mod models;
pub mod mutation;
pub mod npy;
pub mod small_models;
pub mod vocabulary;

// The tests are compiled with the coverage counters of the targets, which need the functions of libFuzzer.
#[cfg(test)]
use libfuzzer_sys as _;
