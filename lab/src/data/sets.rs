//! Reads the data sets that `lab get-data` downloads.

use std::path::{Path, PathBuf};

use super::get::{self, Form, Source};
use super::{DataError, cifar, idx};
use crate::{LabError, Labeled};

/// A data set with the authors' split.
#[derive(Debug, Clone)]
pub struct Set {
    /// Training images.
    pub train: Labeled,
    /// Test images.
    pub test: Labeled,
}

/// Reads a data set from the cache.
///
/// # Errors
/// If the data set has not been downloaded (the message contains the command), or a file cannot be read.
pub fn read(cache: &Path, source: &Source) -> Result<Set, LabError> {
    let &Source { title, name, .. } = source;
    get::check_cache(cache)?;
    let folder = get::folder(cache, name);
    let files: Vec<PathBuf> = source.files.iter().map(|(file, _)| folder.join(file)).collect();
    if files.iter().any(|file| !file.is_file()) {
        return Err(DataError::NotDownloaded { title, name, cache: cache.to_owned(), folder }.into());
    }
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    match (source.form, files.as_slice()) {
        (Form::Idx, [images, labels, test_images, test_labels]) => Ok(Set {
            train: idx::read_labeled(images, labels)?,
            test: idx::read_labeled(test_images, test_labels)?,
        }),
        (Form::Sheets, [sheets @ .., test, labels, test_labels]) => Ok(Set {
            train: cifar::read_sheets(sheets, labels)?,
            test: cifar::read_sheets(&[*test], test_labels)?,
        }),
        (Form::Idx, _) | (Form::Sheets, _) => unreachable!("{name} has the files of its format"),
    }
}

/// Path of the test images of an IDX data set.
pub(super) fn test_images_path(cache: &Path, source: Source) -> PathBuf {
    get::folder(cache, source.name).join(source.files[2].0)
}

#[cfg(test)]
mod tests {
    use super::super::get::SOURCES;
    use super::*;

    #[test]
    fn missing_data_set_error_contains_the_download_command() {
        let cache = tempfile::tempdir().unwrap();
        for source in SOURCES {
            let error = read(cache.path(), source).unwrap_err().to_string();
            let command = format!("`lab get-data {} --cache {}`", source.name, cache.path().display());
            assert!(error.ends_with(&command), "{error}");
        }
        let file = cache.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = read(&file, &SOURCES[0]).unwrap_err().to_string();
        assert!(error.ends_with("file is a file; the cache must be a folder"), "{error}");
    }
}
