//! The reader of safetensors files.

#![no_main]

use nuq_fuzz::mutation::{Structure, TextPosition};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nuq_fuzz::arrays::check(bytes, "safetensors"));

nuq_fuzz::mutations!(Structure::Json(TextPosition::AfterLength), "safetensors.dict");
