//! What a network says about a set, as the npz files that `nuq fit` and `lab run embeddings --data` take.

use std::path::{Path, PathBuf};

use nuq_io::{NpzArray, write_atomically, write_npz};

use crate::data::DataError;
use crate::data::embeddings::npz_files;
use crate::data::outliers::Outliers;
use crate::data::sets::Set;
use crate::training::{Network, Outputs};
use crate::{Images, LabError};

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    /// The files, training rows first.
    pub files: Vec<PathBuf>,
    /// The network's accuracy on the test rows.
    pub accuracy: f64,
}

/// Writes `train.npz`, `test.npz` and `ood_NAME.npz` into a folder: embeddings, logits and, where there are any, labels.
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
    let said = write("test", &set.test.images, Some(&set.test.labels))?;
    for set in outliers {
        write(&name(set), &set.images, None)?;
    }
    Ok(Exported { accuracy: said.accuracy(&set.test.labels), files })
}

/// The name of a set's file, without its ending.
fn name(set: &Outliers) -> String {
    format!("ood_{}", set.name.to_lowercase().replace(' ', "_"))
}

/// Refuses a folder with npz files that [`export`] would leave beside its own, where they would be read as this network's. To be asked
/// before a training, which is long.
pub fn check_folder(folder: &Path, outliers: &[Outliers]) -> Result<(), LabError> {
    if !folder.is_dir() {
        return Ok(());
    }
    let is_ours =
        |stem: &str| ["train", "test"].contains(&stem) || outliers.iter().any(|set| name(set) == stem);
    for path in npz_files(folder)? {
        if !path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_ours) {
            return Err(DataError::Foreign { path }.into());
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
    fn files_of_another_network_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let images = Images::new(1, 1, 1, vec![0.0]).unwrap();
        let outliers = [Outliers { name: "Smooth noise", images }];
        for name in ["train.npz", "ood_smooth_noise.npz", "notes.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        check_folder(folder.path(), &outliers).unwrap();
        std::fs::write(folder.path().join("ensemble_logits.npz"), "").unwrap();
        let refused = check_folder(folder.path(), &outliers).unwrap_err().to_string();
        assert!(refused.contains("ensemble_logits.npz is of another network"), "{refused}");
    }
}
