//! Which training rows of a served model are those of its file. Only these rows have pictures.
//!
//! The id of a removed row is given to the next inserted row, so an id alone does not identify a row of the file. Rows are therefore
//! compared with the file by hashes of their values. The journal of changes does not suffice, because old changes are removed from it.
//!
//! An undone removal inserts the removed row again. A normalized model normalizes inserted rows, and in a model with few columns rounding
//! may then change the values of the restored row. Such a row loses its picture, but no row gets a wrong one.

use std::hash::{DefaultHasher, Hasher};

use nuq_neighbors::RowStorage;
use rayon::prelude::*;

/// The rows of a model file.
pub(crate) struct FileRows {
    /// The hash of each row by its id; an entry is `None` if its id names no row. The list is absent if the rows are sharded, because such
    /// rows cannot be changed.
    hashes: Option<Vec<Option<u64>>>,
}

impl FileRows {
    /// The rows of a model that has not been changed since its file was opened and verified. The rows must be stored.
    pub(crate) fn of(rows: &dyn RowStorage) -> Self {
        if rows.sharded().is_some() {
            return Self { hashes: None };
        }
        let ids = (0..rows.id_bound() as u32).into_par_iter();
        Self { hashes: Some(ids.map(|id| hash(rows, id)).collect()) }
    }

    /// Whether the row with this id has the values that it has in the file.
    pub(crate) fn contains(&self, rows: &dyn RowStorage, id: u32) -> bool {
        match &self.hashes {
            None => rows.contains(id),
            Some(hashes) => {
                let in_file = hashes.get(id as usize).copied().flatten();
                in_file.is_some() && in_file == hash(rows, id)
            }
        }
    }
}

/// The hash of the values of a row; `None` if the id names no row.
fn hash(rows: &dyn RowStorage, id: u32) -> Option<u64> {
    rows.contains(id).then(|| {
        let mut hasher = DefaultHasher::new();
        rows.row(id).iter().for_each(|value| hasher.write_u32(value.to_bits()));
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use nuq::{Embeddings, FittedModel, Model, NuqClassifier};

    use super::*;

    #[test]
    fn a_row_with_the_id_of_a_removed_row_is_not_a_row_of_the_file() {
        let rows = |values: &[f32]| Embeddings::new(values.to_vec(), 1).unwrap();
        let values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let labels = ["a", "b", "a", "b", "a", "b", "a", "b"];
        let mut model = NuqClassifier::params().n_neighbors(2).fit(&rows(&values), &labels).unwrap();
        model.remove(&[7]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.nuq");
        nuq_io::save(&Model::Classifier(model), &path).unwrap();
        let Model::Classifier(mut model) = nuq_io::open(&path).unwrap().model else {
            unreachable!("the model is a classifier")
        };
        let file_rows = FileRows::of(model.index().rows());
        let of_file = |model: &NuqClassifier<'_>| {
            let rows = model.index().rows();
            (0..10).filter(|&id| file_rows.contains(rows, id)).collect::<Vec<u32>>()
        };
        assert_eq!(of_file(&model), [0, 1, 2, 3, 4, 5, 6]);
        model.relabel(&[0], &["b"]).unwrap();
        model.remove(&[1]).unwrap();
        assert_eq!(of_file(&model), [0, 2, 3, 4, 5, 6]);
        // Row 7 was removed before the file was written.
        assert_eq!(model.insert(&rows(&[8.0, 9.0, 10.0]), &["a", "b", "a"]).unwrap(), [1, 7, 8]);
        assert_eq!(of_file(&model), [0, 2, 3, 4, 5, 6]);
        // An undo of the removal inserts the row of the file again.
        model.remove(&[1]).unwrap();
        assert_eq!(model.insert(&rows(&[1.0]), &["b"]).unwrap(), [1]);
        assert_eq!(of_file(&model), [0, 1, 2, 3, 4, 5, 6]);
    }
}
