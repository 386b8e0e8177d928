//! The served models by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use crate::error::{ApiError, Error};
use crate::metrics::Metrics;
use crate::served_model::ServedModel;
use crate::state::{State, StateOptions};
use crate::{App, Config, ModelSource};

/// All served models, by name.
pub(crate) struct Registry {
    models: BTreeMap<String, Arc<ServedModel>>,
}

impl Registry {
    /// Opens all models and starts their workers.
    pub(crate) fn open(config: &Config, metrics: &Metrics) -> Result<Self, Error> {
        let state = State::open(&StateOptions::of(config))?;
        let open = |source: &ModelSource| {
            let served = ServedModel::open(source, (config, &state), metrics)?;
            Ok((source.name.clone(), Arc::new(served)))
        };
        Ok(Self { models: config.models.iter().map(open).collect::<Result<_, Error>>()? })
    }

    /// The model of this name. It is an error if a failed change has damaged the model in memory.
    pub(crate) fn get(&self, name: &str) -> Result<&Arc<ServedModel>, ApiError> {
        let served = self.models.get(name).ok_or_else(|| {
            let names: Vec<_> = self.models.keys().map(String::as_str).collect();
            ApiError::not_found(format!("there is no model {name:?}; the models are {}", names.join(", ")))
        })?;
        served.current().check()?;
        Ok(served)
    }

    /// All models, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ServedModel>> {
        self.models.values()
    }
}

/// The model that the parameter `{model}` of a route names.
pub(crate) struct NamedModel(pub(crate) Arc<ServedModel>);

impl FromRequestParts<Arc<App>> for NamedModel {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|error| ApiError::invalid(error.body_text()))?;
        let name = params.iter().find(|(key, _)| *key == "model").map_or("", |(_, name)| name);
        Ok(Self(app.models.get(name)?.clone()))
    }
}
