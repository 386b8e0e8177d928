//! Bringing data sets: the ordinary package clients download, the laboratory checks.
//!
//! A set is unpacked into a folder beside its own, every file is compared with its SHA-256, and only then the folder gets its
//! name: a folder under its name is complete.

mod client;
mod sources;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::DataError;
pub use sources::{CIFAR10, FASHION_MNIST, Form, MNIST, SOURCES, Source};

/// Whether a set had to be brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brought {
    /// It was not there.
    Now,
    /// It was there, every file as it should be.
    Before,
}

/// The folder of a set in a cache.
pub fn folder(cache: &Path, name: &str) -> PathBuf {
    cache.join("data").join(name)
}

/// Refuses a cache that is no folder.
pub(super) fn check_cache(cache: &Path) -> Result<(), DataError> {
    if cache.is_file() { Err(DataError::NotAFolder { path: cache.to_owned() }) } else { Ok(()) }
}

/// Brings a set into the cache unless it is there.
pub fn bring(source: &Source, cache: &Path) -> Result<Brought, DataError> {
    check_cache(cache)?;
    let folder = folder(cache, source.name);
    if folder.is_dir() {
        match check(source, &folder) {
            Ok(()) => return Ok(Brought::Before),
            // Files that a person put there and that are others are not ours to replace.
            Err(refusal @ DataError::Checksum { .. }) => return Err(refusal),
            Err(_) => {}
        }
    }
    let partial = Partial::beside(&folder)?;
    client::fetch(source, &partial.path, &folder)?;
    check(source, &partial.path)?;
    partial.finish(&folder)?;
    Ok(Brought::Now)
}

/// Compares every file of a set with its checksum.
fn check(source: &Source, folder: &Path) -> Result<(), DataError> {
    for &(name, expected) in source.files {
        let path = folder.join(name);
        let found = sha256(&path).map_err(|source| DataError::Read { path: path.clone(), source })?;
        if found != expected {
            return Err(DataError::Checksum { path, found, expected });
        }
    }
    Ok(())
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// A folder that is being filled: removed when dropped, unless it is finished.
struct Partial {
    path: PathBuf,
}

impl Partial {
    fn beside(folder: &Path) -> Result<Self, DataError> {
        // One name: what a run that was killed left is taken away by the next.
        let mut name = folder.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let path = folder.with_file_name(name);
        let made = remove_folder(&path).and_then(|()| fs::create_dir_all(&path));
        made.map_err(|source| DataError::Write { path: path.clone(), source })?;
        Ok(Self { path })
    }

    /// Gives it its name, in place of what has it.
    fn finish(self, folder: &Path) -> Result<(), DataError> {
        let renamed = remove_folder(folder).and_then(|()| fs::rename(&self.path, folder));
        renamed.map_err(|source| DataError::Write { path: folder.to_owned(), source })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // What could not be removed is in nobody's way.
        let _ = remove_folder(&self.path);
    }
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "abc", from FIPS 180-2.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn set() -> Source {
        Source {
            name: "abc",
            title: "ABC",
            files: &[("abc", ABC)],
            form: Form::Idx,
            way: sources::Way::Npm { package: "none" },
        }
    }

    #[test]
    fn a_set_that_is_there_is_not_brought_again() {
        let cache = tempfile::tempdir().unwrap();
        let folder = folder(cache.path(), "abc");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("abc"), "abc").unwrap();
        assert_eq!(bring(&set(), cache.path()).unwrap(), Brought::Before);
    }

    #[test]
    fn another_file_is_told_by_its_checksum_and_left_alone() {
        let cache = tempfile::tempdir().unwrap();
        let folder = folder(cache.path(), "abc");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("abc"), "abd").unwrap();
        let refused = bring(&set(), cache.path()).unwrap_err();
        assert!(matches!(&refused, DataError::Checksum { expected: ABC, .. }), "{refused}");
        assert_eq!(fs::read_to_string(folder.join("abc")).unwrap(), "abd");
    }

    #[test]
    fn what_is_not_finished_leaves_nothing_behind() {
        let cache = tempfile::tempdir().unwrap();
        let folder = folder(cache.path(), "abc");
        let partial = Partial::beside(&folder).unwrap();
        fs::write(partial.path.join("abc"), "a").unwrap();
        drop(partial);
        assert_eq!(fs::read_dir(folder.parent().unwrap()).unwrap().count(), 0);
        let partial = Partial::beside(&folder).unwrap();
        fs::write(partial.path.join("abc"), "abc").unwrap();
        partial.finish(&folder).unwrap();
        assert_eq!(bring(&set(), cache.path()).unwrap(), Brought::Before);
    }
}
