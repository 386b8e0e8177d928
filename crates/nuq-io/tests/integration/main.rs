//! Reading and writing files, including damaged ones. One binary, because each integration test binary links the whole dependency tree again.

#![allow(clippy::unwrap_used)]

mod arrays;
#[cfg(unix)]
mod fork;
mod model_file;
mod model_file_v1;
#[cfg(feature = "parquet")]
mod parquet;
