//! The reader of parquet files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nuq_fuzz::arrays::check(bytes, "parquet"));
