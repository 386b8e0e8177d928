//! The reader of csv and tsv files, plain or compressed. The first byte of the input selects the extension.

#![no_main]

const EXTENSIONS: [&str; 4] = ["csv", "tsv", "csv.gz", "csv.zst"];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((&first, bytes)) = bytes.split_first() {
        nuq_fuzz::arrays::check(bytes, EXTENSIONS[usize::from(first) % EXTENSIONS.len()]);
    }
});
