//! Tests of the GPU index. Those that need a GPU print a notice and pass where there is none, unless the variable
//! `NUQ_REQUIRE_CUDA` is set.

#![allow(clippy::unwrap_used)]

mod equality;
mod platform;
