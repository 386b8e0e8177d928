//! A model in memory, with its version and the lock under which it is read and changed.

use std::ops::Deref;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nuq::Model;
use nuq_neighbors::RowStorage;

use crate::file_rows::FileRows;
use crate::state::StateError;

/// A model in memory. Its rows are changed in place. A changed file is loaded as another `LoadedModel`, which replaces this one.
pub(crate) struct LoadedModel {
    name: String,
    contents: RwLock<Contents>,
    /// The rows of the model file. They are absent if the model has no pictures, or if the model was
    /// restored from a snapshot and its file cannot be read.
    file_rows: Option<FileRows>,
    /// The id of the change that has panicked while it was applied, so that the model may have a part of it. It is set before the lock is
    /// released.
    failed_change: OnceLock<u64>,
}

impl LoadedModel {
    pub(crate) fn new(name: &str, model: Model<'static>, version: u64, file_rows: Option<FileRows>) -> Self {
        let contents = RwLock::new(Contents { model, version });
        Self { name: name.to_owned(), contents, file_rows, failed_change: OnceLock::new() }
    }

    /// Fails if the model may have a part of a failed change.
    pub(crate) fn check(&self) -> Result<(), StateError> {
        match self.failed_change.get() {
            Some(&change) => Err(StateError::Damaged { model: self.name.clone(), change }),
            None => Ok(()),
        }
    }

    /// Records that a change has panicked. Call it before the lock of the model is released.
    pub(crate) fn set_failed_change(&self, id: u64) {
        let _ = self.failed_change.set(id);
    }

    /// The version of the last change that was applied completely.
    pub(crate) fn version(&self) -> u64 {
        self.contents.read().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Waits for a change that is being applied. It is an error if the model may have a part of a failed change.
    pub(crate) fn read(&self) -> Result<ModelGuard<'_>, StateError> {
        let contents = self.contents.read().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        Ok(ModelGuard(contents))
    }

    /// Whether a row of this model is a row of its file. `rows` are the rows of the model that [`read`](Self::read) returns. The caller
    /// has locked the model, so this function does not lock it again. The result is `false` if the rows of the file are not known.
    pub(crate) fn is_row_of_model_file(&self, rows: &dyn RowStorage, id: u32) -> bool {
        self.file_rows.as_ref().is_some_and(|file_rows| file_rows.contains(rows, id))
    }

    /// Exclusive access, for changes. It waits for the batches that are being computed.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A model and its version, which are changed together.
pub(crate) struct Contents {
    pub(crate) model: Model<'static>,
    /// Increases by one with each change or replacement. If the state is stored, it continues to increase after a restart; see
    /// [`ModelState`](crate::state::ModelState).
    pub(crate) version: u64,
}

/// A model that is locked for reading.
pub(crate) struct ModelGuard<'m>(RwLockReadGuard<'m, Contents>);

impl ModelGuard<'_> {
    /// The version of the model. Clients may see it after [`ServedModel::wait_for_version`](crate::served_model::ServedModel::wait_for_version).
    pub(crate) fn version(&self) -> u64 {
        self.0.version
    }
}

impl Deref for ModelGuard<'_> {
    type Target = Model<'static>;

    fn deref(&self) -> &Model<'static> {
        &self.0.model
    }
}
