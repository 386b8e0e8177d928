//! Files of models and baselines. Each input is opened unchanged, and then with corrected checksums.

#![no_main]

use nuq_fuzz::mutation::Structure;
use nuq_fuzz::{allocation, container, file, models};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocation::limit_for(bytes.len());
    models::check(&file::write("input.nuq", bytes));
    if let Some(repaired) = container::with_checksums(bytes) {
        models::check(&file::write("input.nuq", &repaired));
    }
});

nuq_fuzz::mutations!(Structure::ModelFile, "model.dict");
