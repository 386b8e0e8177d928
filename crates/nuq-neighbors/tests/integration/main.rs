//! Integration tests of all indexes. They are one binary, because each test binary links all dependencies again.

#![allow(clippy::unwrap_used)]

mod cancel;
mod custom_index;
mod exact;
mod hnsw;
mod sharded;
