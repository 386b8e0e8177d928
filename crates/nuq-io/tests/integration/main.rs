//! Tests of reading and writing files, including damaged ones. They are one binary, because each integration test binary links the
//! whole dependency tree again.

#![allow(clippy::unwrap_used)]

mod arrays;
mod baseline_file;
mod compressed;
#[cfg(unix)]
mod fork;
mod labels;
mod large_arrays;
mod model_file;
mod model_file_v1;
mod npy_headers;
#[cfg(feature = "parquet")]
mod parquet;
mod sharded;
mod tables;
mod without_rows;
