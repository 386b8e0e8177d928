//! Exports embeddings and logits of a network as npz files for `nuq fit` and `lab run embeddings --data`.

use std::path::{Path, PathBuf};

use nuq_io::{NpzArray, write_atomically, write_npz};

use crate::data::DataError;
use crate::data::embeddings::npz_files;
use crate::data::outliers::Outliers;
use crate::data::sets::Set;
use crate::training::{Network, Outputs};
use crate::{Images, LabError};

/// Result of [`export`].
#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    /// Paths of the written files, training rows first.
    pub files: Vec<PathBuf>,
    /// Accuracy of the network on the test rows, in `[0, 1]`.
    pub accuracy: f64,
}

/// Writes `train.npz`, `test.npz` and one `ood_NAME.npz` per outlier set into a folder.
///
/// Each file holds the arrays `embeddings` and `logits`; `train.npz` and `test.npz` also hold `labels`.
///
/// # Errors
/// If the network does not accept the images, or the folder or a file cannot be written.
pub fn export(
    network: &Network,
    set: &Set,
    outliers: &[Outliers],
    folder: &Path,
) -> Result<Exported, LabError> {
    std::fs::create_dir_all(folder).map_err(|source| LabError::File { path: folder.to_owned(), source })?;
    let mut files = Vec::new();
    let mut write = |name: &str, images: &Images, labels: Option<&[usize]>| -> Result<Outputs, LabError> {
        let (outputs, path) = (network.outputs(images)?, folder.join(format!("{name}.npz")));
        write_file(&path, &outputs, labels)?;
        files.push(path);
        Ok(outputs)
    };
    write("train", &set.train.images, Some(&set.train.labels))?;
    let test = write("test", &set.test.images, Some(&set.test.labels))?;
    for set in outliers {
        write(&file_stem(set), &set.images, None)?;
    }
    Ok(Exported { accuracy: test.accuracy(&set.test.labels), files })
}

/// File name of an outlier set without extension.
fn file_stem(set: &Outliers) -> String {
    format!("ood_{}", set.name.to_lowercase().replace(' ', "_"))
}

/// Checks that a folder contains no npz file that [`export`] would not overwrite. `lab run embeddings --data` would read such a file, which
/// belongs to another network, together with the exported files. Call this before training, so that the error appears early.
///
/// # Errors
/// If the folder contains such a file or cannot be read.
pub fn check_folder(folder: &Path, outliers: &[Outliers]) -> Result<(), LabError> {
    if !folder.is_dir() {
        return Ok(());
    }
    let is_expected =
        |stem: &str| ["train", "test"].contains(&stem) || outliers.iter().any(|set| file_stem(set) == stem);
    for path in npz_files(folder)? {
        if !path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_expected) {
            return Err(DataError::OtherNetworkFile { path }.into());
        }
    }
    Ok(())
}

fn write_file(path: &Path, outputs: &Outputs, labels: Option<&[usize]>) -> Result<(), LabError> {
    let logits = outputs.logit_rows()?;
    let rows = [("embeddings", &outputs.embeddings), ("logits", &logits)];
    let mut arrays: Vec<NpzArray<'_>> =
        rows.map(|(name, rows)| NpzArray::singles(name, rows.as_slice(), Some(rows.dim()))).into();
    let labels: Option<Vec<i64>> = labels.map(|labels| labels.iter().map(|&label| label as i64).collect());
    arrays.extend(labels.iter().map(|labels| NpzArray::integers("labels", labels, None)));
    Ok(write_atomically(path, |writer| write_npz(writer, &arrays))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unexpected_npz_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let images = Images::new(1, 1, 1, vec![0.0]).unwrap();
        let outliers = [Outliers { name: "Smooth noise", images }];
        for name in ["train.npz", "ood_smooth_noise.npz", "notes.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        check_folder(folder.path(), &outliers).unwrap();
        std::fs::write(folder.path().join("ensemble_logits.npz"), "").unwrap();
        let error = check_folder(folder.path(), &outliers).unwrap_err().to_string();
        assert!(error.contains("ensemble_logits.npz belongs to another network"), "{error}");
    }
}
