//! Integration tests of all indexes. They are one binary, because each integration test binary links the whole dependency tree again.

#![allow(clippy::unwrap_used)]

mod cancel;
mod custom_index;
mod exact;
mod hnsw;
