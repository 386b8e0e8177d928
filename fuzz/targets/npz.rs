//! The reader of npz files.

#![no_main]

use nuq_fuzz::mutation::Structure;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nuq_fuzz::arrays::check(bytes, "npz"));

nuq_fuzz::mutations!(Structure::Archive, "npz.dict");
