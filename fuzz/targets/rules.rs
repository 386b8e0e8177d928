//! Thresholds, rules of sets and intervals, and the temperature, in the format that Python pickles contain.

#![no_main]

use nuq_fuzz::allocation;
use nuq_fuzz::mutation::{Structure, TextPosition};
use nuq_io::{rules_from_bytes, rules_to_bytes};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocation::limit_for(bytes.len());
    if let Some(rules) = rules_from_bytes(bytes) {
        let written = rules_to_bytes(&rules);
        let again = rules_from_bytes(&written).expect("written rules can be read");
        // Compared as text, because NaN differs from itself.
        assert_eq!(format!("{rules:?}"), format!("{again:?}"), "rules differ after they were written");
        assert_eq!(written, rules_to_bytes(&again), "bytes differ");
    }
});

nuq_fuzz::mutations!(Structure::Json(TextPosition::AfterLength), "rules.dict");
