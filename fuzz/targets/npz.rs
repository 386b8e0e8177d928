//! The reader of npz files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nuq_fuzz::arrays::check(bytes, "npz"));
