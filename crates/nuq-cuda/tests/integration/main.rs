//! Tests of the GPU index. Without a GPU, the tests that need one print a notice and pass, unless the variable `NUQ_REQUIRE_CUDA` is
//! set.

#![allow(clippy::unwrap_used)]

mod arrays;
mod common;
mod equality;
mod platform;
