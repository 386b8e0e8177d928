//! Files in, files out, and damaged files. One binary, because each integration test binary links the whole dependency tree again.

#![allow(clippy::unwrap_used)]

mod arrays;
mod model_file;
#[cfg(feature = "parquet")]
mod parquet;
