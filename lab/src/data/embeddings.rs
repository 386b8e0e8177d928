//! Reads embeddings, labels and logits of any network from npz files.
//!
//! There are two layouts; the scripts in `lab/python` write both.
//!
//! - A folder with one file per set: `train.npz`, `test.npz` and `ood_NAME.npz` with the arrays `embeddings`, `logits` and (except
//!   `ood_NAME.npz`) `labels`. Optionally `ensemble_logits.npz` with arrays of shape members × rows × classes for `test` and each
//!   `ood_NAME`.
//! - One file with a prefix per set: `train_feat`, `train_labels`, `test_feat`, `test_logits`, `ood_NAME_feat`, `test_mc_logits`, …

use std::path::{Path, PathBuf};

use nuq::{Embeddings, Label};
use nuq_eval::baselines::Members;
use nuq_io::{ArraySpec, EmbeddingsFile, npz_names};

use super::DataError;
use crate::LabError;
use crate::training::argmax;

/// Embeddings and logits of one set.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Features of the penultimate layer.
    pub embeddings: Embeddings<'static>,
    /// Logits of the network.
    pub logits: Embeddings<'static>,
    /// Logits of an ensemble or of several passes with dropout.
    pub members: Option<Members>,
}

/// Embeddings and labels of the training, test and outlier sets of a network.
#[derive(Debug, Clone)]
pub struct EmbeddingSets {
    /// Embeddings of the training rows.
    pub train: Embeddings<'static>,
    /// Labels of the training rows.
    pub train_labels: Vec<Label>,
    /// Embeddings and logits of the test rows.
    pub test: Rows,
    /// Labels of the test rows.
    pub test_labels: Vec<Label>,
    /// Outlier sets with their names.
    pub ood: Vec<(String, Rows)>,
}

impl EmbeddingSets {
    /// Checks that array sizes match. For error messages, `file` returns the path of a set (`train`, `test` or `ood_NAME`), and
    /// `members_file` that of the logits of its members.
    fn checked(
        self,
        file: impl Fn(&str) -> PathBuf,
        members_file: impl Fn(&str) -> PathBuf,
    ) -> Result<Self, LabError> {
        let check = |path: PathBuf, [got, expected]: [usize; 2], what, reference| {
            if got == expected {
                return Ok(());
            }
            Err(DataError::SizeMismatch { path, what, got, reference, expected })
        };
        check(file("train"), [self.train_labels.len(), self.train.len()], "labels", "training rows")?;
        check(file("test"), [self.test_labels.len(), self.test.embeddings.len()], "labels", "test rows")?;
        let outliers = self.ood.iter().map(|(name, rows)| (format!("ood_{name}"), rows));
        for (set, rows) in std::iter::once(("test".to_owned(), &self.test)).chain(outliers) {
            let columns = [rows.embeddings.dim(), self.train.dim()];
            check(file(&set), columns, "columns of embeddings", "in the training set")?;
            let logits = [rows.logits.len(), rows.embeddings.len()];
            check(file(&set), logits, "rows of logits", "rows of embeddings")?;
            let classes = [rows.logits.dim(), self.test.logits.dim()];
            check(file(&set), classes, "columns of logits", "in the test set")?;
            if let Some(members) = &rows.members {
                let rows = [members.len(), rows.embeddings.len()];
                check(members_file(&set), rows, "rows of each member", "rows of embeddings")?;
            }
        }
        Ok(self)
    }

    /// The prediction of the network for each test row: the class with the largest logit, the first one in case of ties.
    pub fn predictions(&self) -> Vec<Label> {
        let classes = self.classes();
        let predict = |row: &[f32]| {
            let best = argmax(row);
            classes.get(best).cloned().unwrap_or(Label::Int(best as i128))
        };
        self.test.logits.rows().map(predict).collect()
    }

    /// For each test row, whether the prediction of the network is wrong.
    pub fn errors(&self) -> Vec<bool> {
        self.predictions()
            .iter()
            .zip(&self.test_labels)
            .map(|(predicted, label)| predicted != label)
            .collect()
    }

    /// The class of each column of logits. If all training labels are integers below the number of columns, column `c` is class
    /// `c`; a class without training rows then keeps its column. Otherwise columns are the sorted distinct labels.
    fn classes(&self) -> Vec<Label> {
        let columns = self.test.logits.dim() as i128;
        let is_column = |label: &Label| matches!(label, Label::Int(class) if (0..columns).contains(class));
        if self.train_labels.iter().all(is_column) {
            return (0..columns).map(Label::Int).collect();
        }
        let mut classes = self.train_labels.clone();
        classes.sort();
        classes.dedup();
        classes
    }
}

/// Reads a folder with one file per set.
///
/// # Errors
/// If a file or array is missing, cannot be read, or sizes do not match.
pub fn read_folder(folder: &Path) -> Result<EmbeddingSets, LabError> {
    let file = |name: &str| folder.join(format!("{name}.npz"));
    if !file("train").is_file() || !file("test").is_file() {
        let expected = "train.npz and test.npz with the arrays embeddings, logits and labels";
        return Err(DataError::MissingFiles { folder: folder.to_owned(), expected }.into());
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
    for name in outlier_names(folder)? {
        let rows = rows(&format!("ood_{name}"))?;
        ood.push((name, rows));
    }
    let sets = EmbeddingSets {
        train: array(&file("train"), "embeddings")?,
        train_labels: labels(&file("train"), "labels")?,
        test: rows("test")?,
        test_labels: labels(&file("test"), "labels")?,
        ood,
    };
    sets.checked(file, |set| format!("{}:{set}", file("ensemble_logits").display()).into())
}

/// Reads one file with a prefix per set.
///
/// # Errors
/// If an array is missing, cannot be read, or sizes do not match.
pub fn read_file(path: &Path) -> Result<EmbeddingSets, LabError> {
    let names = npz_names(path)?;
    let rows = |set: &str| -> Result<Rows, LabError> {
        let dropout = format!("{set}_mc_logits");
        let members = if names.contains(&dropout) { Some(members(path, &dropout)?) } else { None };
        let read = |suffix: &str| array(path, &format!("{set}_{suffix}"));
        Ok(Rows { embeddings: read("feat")?, logits: read("logits")?, members })
    };
    let outlier_name = |name: &String| Some(name.strip_prefix("ood_")?.strip_suffix("_feat")?.to_owned());
    let mut ood = Vec::new();
    for name in names.iter().filter_map(outlier_name) {
        let rows = rows(&format!("ood_{name}"))?;
        ood.push((name, rows));
    }
    let sets = EmbeddingSets {
        train: array(path, "train_feat")?,
        train_labels: labels(path, "train_labels")?,
        test: rows("test")?,
        test_labels: labels(path, "test_labels")?,
        ood,
    };
    let array_of = |name: &str| PathBuf::from(format!("{}:{name}", path.display()));
    sets.checked(array_of, |set| array_of(&format!("{set}_mc_logits")))
}

/// The sorted names of the files `ood_NAME.npz`.
fn outlier_names(folder: &Path) -> Result<Vec<String>, DataError> {
    let mut names: Vec<String> = npz_files(folder)?
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_str()?.strip_prefix("ood_")?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// The sorted paths of all npz files in a folder.
///
/// # Errors
/// If the folder cannot be read.
pub fn npz_files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |source| DataError::Read { path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "npz"))
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

    fn file(set: &str) -> PathBuf {
        format!("{set}.npz").into()
    }

    fn sets(train_labels: Vec<Label>, test_labels: Vec<Label>) -> EmbeddingSets {
        let rows = Embeddings::from_rows(&[[0.0], [1.0]]).unwrap();
        let logits = Embeddings::from_rows(&[[0.0, 2.0, 1.0], [3.0, 0.0, 3.0]]).unwrap();
        let test = Rows { embeddings: rows.clone(), logits, members: None };
        EmbeddingSets { train: rows, train_labels, test, test_labels, ood: vec![] }
    }

    #[test]
    fn logit_columns_are_class_numbers_or_sorted_labels() {
        let ints = |values: &[i64]| -> Vec<Label> { values.iter().map(Label::from).collect() };
        // Class 2 has no training row and keeps its column.
        assert_eq!(sets(ints(&[0, 1]), ints(&[1, 2])).errors(), [false, true]);
        let texts = |values: &[&str]| -> Vec<Label> { values.iter().map(|v| Label::from(*v)).collect() };
        let named = sets(texts(&["cat", "ant", "bee"]), texts(&["bee", "ant"]));
        assert_eq!(named.errors(), [false, false]);
    }

    #[test]
    fn missing_labels_are_an_error_with_the_file() {
        let sets = sets(vec![Label::Int(0)], vec![Label::Int(0), Label::Int(1)]);
        let error = sets.checked(file, file).unwrap_err().to_string();
        assert_eq!(error, "train.npz: 1 labels, but 2 training rows");
    }

    #[test]
    fn wrong_sizes_of_an_outlier_set_are_errors_with_its_file() {
        let one_row = Embeddings::from_rows(&[[0.0]]).unwrap();
        let two_columns = Embeddings::from_rows(&[[0.0, 1.0]]).unwrap();
        let logits = Embeddings::from_rows(&[[0.0, 2.0, 1.0]]).unwrap();
        for (embeddings, logits, expected) in [
            (&two_columns, &logits, "ood_svhn.npz: 2 columns of embeddings, but 1 in the training set"),
            (&one_row, &two_columns, "ood_svhn.npz: 2 columns of logits, but 3 in the test set"),
        ] {
            let mut sets = sets(vec![Label::Int(0), Label::Int(1)], vec![Label::Int(0), Label::Int(1)]);
            let (embeddings, logits) = (embeddings.clone(), logits.clone());
            sets.ood.push(("svhn".to_owned(), Rows { embeddings, logits, members: None }));
            let error = sets.checked(file, file).unwrap_err().to_string();
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn members_of_another_number_of_rows_are_an_error_with_their_file() {
        let labels = || vec![Label::Int(0), Label::Int(1)];
        let members = |rows: &[[f32; 3]]| Members::new(vec![Embeddings::from_rows(rows).unwrap()]).unwrap();
        let checked = |rows: &[[f32; 3]]| {
            let mut sets = sets(labels(), labels());
            sets.test.members = Some(members(rows));
            sets.checked(file, |set| format!("ensemble_logits.npz:{set}").into())
        };
        let error = checked(&[[0.0; 3]]).unwrap_err().to_string();
        assert_eq!(error, "ensemble_logits.npz:test: 1 rows of each member, but 2 rows of embeddings");
        checked(&[[0.0; 3], [1.0; 3]]).unwrap();
    }

    #[test]
    fn missing_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("train.npz"), "{error}");
    }
}
