//! Integration tests of reports. They are one binary, because each test binary links the whole dependency tree again.

mod common;
mod evaluation;
mod page;
mod report;
