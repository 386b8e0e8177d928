//! The sets that `lab get-data` brings, read whole.

use std::path::{Path, PathBuf};

use super::get::{self, Form, Source};
use super::{DataError, cifar, idx};
use crate::{LabError, Labeled};

/// A set as its authors divided it.
#[derive(Debug, Clone)]
pub struct Set {
    /// To learn from.
    pub train: Labeled,
    /// To be judged by.
    pub test: Labeled,
}

/// Reads a set from the cache, or says with which command it is brought.
pub fn read(cache: &Path, source: &Source) -> Result<Set, LabError> {
    let &Source { title, name, .. } = source;
    get::check_cache(cache)?;
    let folder = get::folder(cache, name);
    let files: Vec<PathBuf> = source.files.iter().map(|(file, _)| folder.join(file)).collect();
    if files.iter().any(|file| !file.is_file()) {
        return Err(DataError::NotBrought { title, name, cache: cache.to_owned(), folder }.into());
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
        (Form::Idx, _) | (Form::Sheets, _) => unreachable!("{name} lists the files of its form"),
    }
}

/// Where the test pictures of a set of IDX files lie.
pub(super) fn test_images(cache: &Path, source: Source) -> PathBuf {
    get::folder(cache, source.name).join(source.files[2].0)
}

#[cfg(test)]
mod tests {
    use super::super::get::SOURCES;
    use super::*;

    #[test]
    fn what_is_not_there_is_told_with_its_command() {
        let cache = tempfile::tempdir().unwrap();
        for source in SOURCES {
            let refused = read(cache.path(), source).unwrap_err().to_string();
            let command = format!("`lab get-data {} --cache {}`", source.name, cache.path().display());
            assert!(refused.ends_with(&command), "{refused}");
        }
        let file = cache.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = read(&file, &SOURCES[0]).unwrap_err().to_string();
        assert!(refused.ends_with("file is a file; name a folder"), "{refused}");
    }
}
