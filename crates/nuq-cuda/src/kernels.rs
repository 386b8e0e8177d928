//! The kernels: CUDA C in separate files, compiled at run time and stored in a cache folder.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::nvrtc::Nvrtc;

/// The source of all kernels.
pub(crate) const SOURCE: &str = concat!(
    include_str!("kernels/prepare.cu"),
    include_str!("kernels/import.cu"),
    include_str!("kernels/select.cu"),
    include_str!("kernels/rank.cu"),
    include_str!("kernels/project.cu")
);

/// The variable that names the cache folder.
pub(crate) const CACHE_VARIABLE: &str = "NUQ_CACHE";

/// The machine code of the kernels for an architecture such as `sm_90`. It is read from the cache folder if it is stored there.
///
/// # Errors
/// [`Error::NotCompiled`]. A cache folder that cannot be read or written is not an error.
pub(crate) fn machine_code(nvrtc: &Nvrtc, architecture: &str) -> Result<Vec<u8>, Error> {
    let cache = cache_folder().map(|folder| folder.join(file_name(SOURCE, architecture, nvrtc.version())));
    if let Some(code) = cache.as_deref().and_then(read) {
        return Ok(code);
    }
    let code = nvrtc.compile(SOURCE, architecture)?;
    if let Some(path) = &cache {
        let _ = write(path, &code);
    }
    Ok(code)
}

/// `NUQ_CACHE`, or the folder `nuq` in the user's cache folder.
fn cache_folder() -> Option<PathBuf> {
    let path =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || {
        path("XDG_CACHE_HOME")
            .or_else(|| path("LOCALAPPDATA"))
            .or_else(|| path("HOME").map(|home| home.join(".cache")))
            .map(|folder| folder.join("nuq"))
    };
    path(CACHE_VARIABLE).or_else(of_user)
}

/// The name of the cached file. It contains a hash of everything on which the code depends.
fn file_name(source: &str, architecture: &str, (major, minor): (i32, i32)) -> String {
    let key = hash(format!("{source}\n{architecture}\n{major}.{minor}").as_bytes());
    format!("kernels-{architecture}-{key:016x}.cubin")
}

/// The 64-bit hash FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Reads the code from a stored file, which contains a hash of the code, then the code itself. A damaged file is ignored.
fn read(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let (stored, code) = bytes.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*stored) == hash(code) && !code.is_empty()).then(|| code.to_vec())
}

/// Writes a file under a temporary name and renames it, so that another process reads a complete file or none.
fn write(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = std::fs::write(&temporary, [&hash(code).to_le_bytes()[..], code].concat())
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_code_is_read_back_and_damage_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/kernels.cubin");
        assert_eq!(read(&path), None);
        write(&path, b"machine code").unwrap();
        assert_eq!(read(&path).as_deref(), Some(&b"machine code"[..]));
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no temporary file remains"
        );
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[10] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path), None);
        std::fs::write(&path, &bytes[..3]).unwrap();
        assert_eq!(read(&path), None);
    }

    #[test]
    fn the_file_name_depends_on_source_architecture_and_compiler() {
        let names = [
            file_name("a", "sm_90", (13, 0)),
            file_name("b", "sm_90", (13, 0)),
            file_name("a", "sm_80", (13, 0)),
            file_name("a", "sm_90", (12, 9)),
        ];
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name}");
        }
    }
}
