//! What a network of somebody's said: embeddings, labels and logits in npz files.
//!
//! Two layouts, which `lab/python` writes. A folder with a file per set (`train.npz`, `test.npz`, `ood_NAME.npz`, each with `embeddings`,
//! `labels` and `logits`; `ensemble_logits.npz` with an array of members × rows × classes for `test` and each `ood_NAME`), or one file
//! with a prefix per array (`train_feat`, `test_logits`, `ood_NAME_feat`, `test_mc_logits` and so on).

use std::path::{Path, PathBuf};

use nuq_eval::baselines::Members;
use nuq::{Embeddings, Label};
use nuq_io::{ArraySpec, EmbeddingsFile, npz_names};

use super::DataError;
use crate::LabError;
use crate::training::first_largest;

/// Rows of one set.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Features of the last layer but one.
    pub embeddings: Embeddings<'static>,
    /// What the network said.
    pub logits: Embeddings<'static>,
    /// What several networks, or one several times, said.
    pub members: Option<Members>,
}

/// A network's view of its data.
#[derive(Debug, Clone)]
pub struct Views {
    /// Training rows.
    pub train: Embeddings<'static>,
    /// Their labels.
    pub labels: Vec<Label>,
    /// Test rows.
    pub test: Rows,
    /// Their labels.
    pub truth: Vec<Label>,
    /// Rows that are unlike the training data, by name.
    pub ood: Vec<(String, Rows)>,
}

impl Views {
    /// Refuses arrays that do not fit each other; `train` and `test` are the files to name.
    fn checked(self, train: &Path, test: &Path) -> Result<Self, LabError> {
        let paired = |path: &Path, [got, expected]: [usize; 2], what, beside| {
            if got == expected {
                return Ok(());
            }
            Err(DataError::NotPaired { path: path.to_owned(), what, got, beside, expected })
        };
        paired(train, [self.labels.len(), self.train.len()], "labels", "training rows")?;
        paired(test, [self.truth.len(), self.test.embeddings.len()], "labels", "test rows")?;
        let sets = std::iter::once(&self.test).chain(self.ood.iter().map(|(_, rows)| rows));
        for rows in sets {
            paired(test, [rows.logits.len(), rows.embeddings.len()], "rows of logits", "rows of a set")?;
            paired(
                test,
                [rows.embeddings.dim(), self.train.dim()],
                "columns of a set",
                "of the training rows",
            )?;
        }
        Ok(self)
    }

    /// The network's own answer for each test row: the class of its largest logit, the first of equal ones.
    pub fn predictions(&self) -> Vec<Label> {
        let classes = self.classes();
        let answer = |row: &[f32]| {
            let best = first_largest(row);
            classes.get(best).cloned().unwrap_or(Label::Int(best as i128))
        };
        self.test.logits.rows().map(answer).collect()
    }

    /// Which test rows the network's own answer is wrong for.
    pub fn errors(&self) -> Vec<bool> {
        self.predictions().iter().zip(&self.truth).map(|(said, truth)| said != truth).collect()
    }

    /// The class of each column of logits: its number where all labels are such numbers, for a class may have no training row;
    /// otherwise the sorted labels.
    fn classes(&self) -> Vec<Label> {
        let columns = self.test.logits.dim() as i128;
        let is_number = |label: &Label| matches!(label, Label::Int(class) if (0..columns).contains(class));
        if self.labels.iter().all(is_number) {
            return (0..columns).map(Label::Int).collect();
        }
        let mut classes = self.labels.clone();
        classes.sort();
        classes.dedup();
        classes
    }
}

/// Reads a folder with a file per set.
pub fn read_folder(folder: &Path) -> Result<Views, LabError> {
    let file = |name: &str| folder.join(format!("{name}.npz"));
    if !file("train").is_file() || !file("test").is_file() {
        let expected = "train.npz and test.npz with the arrays embeddings, logits and labels";
        return Err(DataError::NothingIn { folder: folder.to_owned(), expected }.into());
    }
    let ensemble = Some(file("ensemble_logits")).filter(|path| path.is_file());
    let rows = |name: &str| -> Result<Rows, LabError> {
        let path = file(name);
        let members = match &ensemble {
            Some(path) if npz_names(path)?.iter().any(|n| n == name) => Some(members(path, name)?),
            _ => None,
        };
        Ok(Rows { embeddings: array(&path, "embeddings")?, logits: array(&path, "logits")?, members })
    };
    let mut ood = Vec::new();
    for name in outlier_files(folder)? {
        let rows = rows(&format!("ood_{name}"))?;
        ood.push((name, rows));
    }
    let views = Views {
        train: array(&file("train"), "embeddings")?,
        labels: labels(&file("train"), "labels")?,
        test: rows("test")?,
        truth: labels(&file("test"), "labels")?,
        ood,
    };
    views.checked(&file("train"), &file("test"))
}

/// Reads one file with a prefix per array.
pub fn read_file(path: &Path) -> Result<Views, LabError> {
    let names = npz_names(path)?;
    let rows = |set: &str| -> Result<Rows, LabError> {
        let dropout = format!("{set}_mc_logits");
        let members = if names.contains(&dropout) { Some(members(path, &dropout)?) } else { None };
        let of = |what: &str| array(path, &format!("{set}_{what}"));
        Ok(Rows { embeddings: of("feat")?, logits: of("logits")?, members })
    };
    let set = |name: &String| Some(name.strip_prefix("ood_")?.strip_suffix("_feat")?.to_owned());
    let mut ood = Vec::new();
    for name in names.iter().filter_map(set) {
        let rows = rows(&format!("ood_{name}"))?;
        ood.push((name, rows));
    }
    let views = Views {
        train: array(path, "train_feat")?,
        labels: labels(path, "train_labels")?,
        test: rows("test")?,
        truth: labels(path, "test_labels")?,
        ood,
    };
    views.checked(path, path)
}

/// The names of `ood_NAME.npz`, sorted.
fn outlier_files(folder: &Path) -> Result<Vec<String>, DataError> {
    let mut names: Vec<String> = npz_files(folder)?
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_str()?.strip_prefix("ood_")?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// All npz files of a folder, sorted.
pub fn npz_files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |source| DataError::Read { path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "npz"))
        .collect();
    files.sort();
    Ok(files)
}

fn array(path: &Path, name: &str) -> Result<Embeddings<'static>, LabError> {
    Ok(EmbeddingsFile::open(&spec(path, name))?.read()?)
}

fn labels(path: &Path, name: &str) -> Result<Vec<Label>, LabError> {
    Ok(nuq_io::read_labels(&spec(path, name))?)
}

fn members(path: &Path, name: &str) -> Result<Members, LabError> {
    Ok(Members::new(nuq_io::read_members(&spec(path, name))?)?)
}

fn spec(path: &Path, name: &str) -> ArraySpec {
    ArraySpec { path: path.to_owned(), name: Some(name.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(labels: Vec<Label>, truth: Vec<Label>) -> Views {
        let rows = Embeddings::from_rows(&[[0.0], [1.0]]).unwrap();
        let logits = Embeddings::from_rows(&[[0.0, 2.0, 1.0], [3.0, 0.0, 3.0]]).unwrap();
        let test = Rows { embeddings: rows.clone(), logits, members: None };
        Views { train: rows, labels, test, truth, ood: vec![] }
    }

    #[test]
    fn answers_are_numbers_or_sorted_labels() {
        let ints = |values: &[i64]| -> Vec<Label> { values.iter().map(Label::from).collect() };
        // Class 2 has no training row and keeps its column.
        assert_eq!(views(ints(&[0, 1]), ints(&[1, 2])).errors(), [false, true]);
        let texts = |values: &[&str]| -> Vec<Label> { values.iter().map(|v| Label::from(*v)).collect() };
        let named = views(texts(&["cat", "ant", "bee"]), texts(&["bee", "ant"]));
        assert_eq!(named.errors(), [false, false]);
    }

    #[test]
    fn labels_that_are_too_few_are_refused_by_file() {
        let views = views(vec![Label::Int(0)], vec![Label::Int(0), Label::Int(1)]);
        let refused = views.checked(Path::new("train.npz"), Path::new("test.npz")).unwrap_err().to_string();
        assert_eq!(refused, "train.npz: 1 labels, and 2 training rows");
    }

    #[test]
    fn a_folder_without_files_is_told_by_the_file_that_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let refused = read_folder(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("train.npz"), "{refused}");
    }
}
