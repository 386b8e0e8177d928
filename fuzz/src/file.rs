//! Temporary files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folder of this process. libFuzzer ends its processes without a cleanup; `cargo xtask fuzz` therefore sets the folder of temporary files to
/// one in memory, and removes it.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("nuq-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder of temporary files is writable");
        folder
    })
}

/// Path of a file or folder of this process.
pub fn path(name: &str) -> PathBuf {
    folder().join(name)
}

/// Writes `bytes` to the file `name` of this process. A former file with this name is removed first, because it may be mapped into
/// memory, and a mapped file must not become shorter.
pub fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = path(name);
    let _ = fs::remove_file(&path);
    fs::write(&path, bytes).expect("there is space for a temporary file");
    path
}
