//! The manifest of a sharded model, with corrected checksums. The shards in the same folder are valid.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nuq::{FittedModel, NuqClassifier};
use nuq_fuzz::mutation::Structure;
use nuq_fuzz::{allocation, container, file, models, small_models};

/// The folder of a sharded model. The input replaces the manifest of this model.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = file::path("sharded");
        small_models::write_sharded(&folder, NuqClassifier::params().n_neighbors(4));
        folder
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let manifest = folder().join("manifest.nuq");
    allocation::limit_for(bytes.len());
    let Some(repaired) = container::with_checksums(bytes) else { return };
    let _ = fs::remove_file(&manifest);
    fs::write(&manifest, repaired).expect("there is space for a manifest");
    models::check(folder());
    check_without_shards(&manifest);
});

/// Opens the manifest without its shards. The model has as many rows as the model with shards.
fn check_without_shards(path: &Path) {
    let Ok(manifest) = nuq_io::open_manifest(path) else { return };
    let rows = manifest.model.index().len();
    let listed: usize = manifest.shards.iter().map(|shard| shard.rows).sum();
    assert_eq!(rows, listed, "the rows of the listed shards");
    if let Ok(opened) = nuq_io::open(folder()) {
        assert_eq!(rows, opened.model.index().len(), "the rows of the opened shards");
    }
}

nuq_fuzz::mutations!(Structure::ModelFile, "model.dict");
