//! The reader of safetensors files.

#![no_main]

use nuq_fuzz::mutation::{self, Place};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nuq_fuzz::arrays::check(bytes, "safetensors"));

/// Strings and values that occur in these inputs.
const WORDS: &str = include_str!("../dictionaries/safetensors.dict");

nuq_fuzz::mutations!(
    |input, seed| mutation::with_json(input, seed, Place::AfterLength, WORDS),
    |first, second, seed| mutation::cross_json(first, second, seed, Place::AfterLength)
);
