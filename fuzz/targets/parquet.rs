//! The reader of parquet files.

#![no_main]

libfuzzer_sys::fuzz_target!(init: nuq_fuzz::caught_panics::allow(), |bytes: &[u8]| nuq_fuzz::arrays::check(
    bytes, "parquet"
));
