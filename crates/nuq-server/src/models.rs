//! The served models by name, and their atomic replacement.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use nuq::{Device, FittedModel, Model};

use crate::batch::{Batcher, Rows};
use crate::error::{ApiError, Error};
use crate::metrics::Metrics;
use crate::results::{Results, Selection};
use crate::rows::{Blocks, HeldBlocks};
use crate::{App, Config, ModelSource};

/// All served models, by name.
pub(crate) struct Registry {
    models: BTreeMap<String, Arc<ServedModel>>,
}

impl Registry {
    /// Opens all models and starts their workers.
    pub(crate) fn open(config: &Config, metrics: &Metrics) -> Result<Self, Error> {
        let open = |source: &ModelSource| {
            let served = ServedModel::open(source, config.device, metrics)?;
            Ok((source.name.clone(), Arc::new(served)))
        };
        Ok(Self { models: config.models.iter().map(open).collect::<Result<_, Error>>()? })
    }

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
    device: Device,
    current: RwLock<Arc<LoadedModel>>,
    /// 1 for the first model, and one more after each change or replacement.
    version: AtomicU64,
    pub(crate) batcher: Batcher,
}

impl ServedModel {
    fn open(source: &ModelSource, device: Device, metrics: &Metrics) -> Result<Self, Error> {
        let model = open_model(source, device)?;
        let batcher = Batcher::start(&source.name, metrics.of_model(&source.name))
            .map_err(|error| Error::System { what: "cannot start a thread".to_owned(), source: error })?;
        Ok(Self {
            name: source.name.clone(),
            path: source.path.clone(),
            device,
            current: RwLock::new(Arc::new(LoadedModel::new(model))),
            version: AtomicU64::new(1),
            batcher,
        })
    }

    /// The model that answers new requests. A request uses one of these until its end.
    pub(crate) fn current(&self) -> Arc<LoadedModel> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Counts a change of the current model and returns the new version.
    pub(crate) fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Replaces the model. Running requests are completed with the former one.
    pub(crate) fn replace(&self, model: Model<'static>) -> u64 {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(LoadedModel::new(model));
        self.next_version()
    }

    /// Reads the current model on a thread that may wait for a change of the model.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Model<'static>) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let current = self.current();
        tokio::task::spawn_blocking(move || read(&current.read())).await.map_err(|_| ApiError::internal())
    }

    /// The results of rows in memory. Long requests are computed in blocks, so that others are computed in between.
    pub(crate) async fn score(&self, rows: Rows, selection: Selection) -> Result<Results, ApiError> {
        let (model, selection) = (self.current(), Arc::new(selection));
        let mut blocks = HeldBlocks::new(rows);
        let mut all: Option<Results> = None;
        while let Some(block) = blocks.next()? {
            let results = self.batcher.submit(model.clone(), block, selection.clone()).results().await?;
            match &mut all {
                Some(all) => all.append(results),
                None => all = Some(results),
            }
        }
        Ok(all.expect("a request has at least one block"))
    }

    /// Opens the file again and replaces the model. After an error the former model is still served.
    pub(crate) fn reload(&self) -> Result<u64, Error> {
        let source = ModelSource { name: self.name.clone(), path: self.path.clone() };
        let version = self.replace(open_model(&source, self.device)?);
        tracing::info!(model = self.name, version, "model reloaded");
        Ok(version)
    }
}

/// The model that the parameter `{model}` of a route names.
pub(crate) struct Named(pub(crate) Arc<ServedModel>);

impl FromRequestParts<Arc<App>> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|error| ApiError::invalid(error.body_text()))?;
        let name = params.iter().find(|(key, _)| *key == "model").map_or("", |(_, name)| name);
        Ok(Self(app.models.get(name)?.clone()))
    }
}

/// Opens a model and reads its rows, so that the first request finds them in memory and damage is found now.
pub(crate) fn open_model(source: &ModelSource, device: Device) -> Result<Model<'static>, Error> {
    let file = device.scope(|| nuq_io::open(&source.path))?;
    file.verify()?;
    tracing::info!(
        model = source.name,
        file = %source.path.display(),
        rows = file.model.index().len(),
        columns = file.model.index().dim(),
        "model opened"
    );
    Ok(file.model)
}

/// A model in memory. Changes of its rows happen in place; another file replaces it.
pub(crate) struct LoadedModel {
    model: RwLock<Model<'static>>,
}

impl LoadedModel {
    fn new(model: Model<'static>) -> Self {
        Self { model: RwLock::new(model) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Model<'static>> {
        self.model.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exclusive access, for changes. It waits for the batches that are being computed.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Model<'static>> {
        self.model.write().unwrap_or_else(PoisonError::into_inner)
    }
}
