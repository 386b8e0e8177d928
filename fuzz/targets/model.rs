//! Files of models and baselines. Each input is opened unchanged, and then with corrected checksums.

#![no_main]

use nuq_fuzz::{allocation, container, file, models, mutation};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocation::limit_for(bytes.len());
    models::check(&file::write("input.nuq", bytes));
    if let Some(repaired) = container::with_checksums(bytes) {
        models::check(&file::write("input.nuq", &repaired));
    }
});

/// Strings and values that occur in model files.
const WORDS: &str = include_str!("../dictionaries/model.dict");

nuq_fuzz::mutations!(|input, seed| mutation::model_file(input, seed, WORDS), mutation::cross_model_files);
