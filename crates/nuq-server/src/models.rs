//! The served models by name, and their atomic replacement.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nuq::Model;

use crate::error::ApiError;

/// All served models, by name.
pub(crate) struct Registry {
    models: BTreeMap<String, Arc<ServedModel>>,
}

impl Registry {
    /// The model of this name.
    pub(crate) fn get(&self, name: &str) -> Result<&Arc<ServedModel>, ApiError> {
        self.models.get(name).ok_or_else(|| {
            let names: Vec<_> = self.models.keys().map(String::as_str).collect();
            ApiError::not_found(format!("there is no model {name:?}; the models are {}", names.join(", ")))
        })
    }

    /// All models, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ServedModel>> {
        self.models.values()
    }
}

/// A name under which a model is served.
pub(crate) struct ServedModel {
    pub(crate) name: String,
    /// The file of the model.
    pub(crate) path: PathBuf,
    current: RwLock<Arc<LoadedModel>>,
}

impl ServedModel {
    /// The model that answers new requests. A request uses one of these until its end.
    pub(crate) fn current(&self) -> Arc<LoadedModel> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A model in memory. Changes of its rows happen in place; another file replaces it.
pub(crate) struct LoadedModel {
    model: RwLock<Model<'static>>,
}

impl LoadedModel {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Model<'static>> {
        self.model.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exclusive access, for changes. It waits for the batches that are being computed.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Model<'static>> {
        self.model.write().unwrap_or_else(PoisonError::into_inner)
    }
}
