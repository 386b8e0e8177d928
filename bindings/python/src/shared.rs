//! A fitted model that many threads may ask at once.

use std::sync::{Arc, RwLock, RwLockReadGuard};

use pyo3::prelude::*;

use crate::errors::Failure;
use crate::work;

/// A model that is read by many and changed by one.
pub(crate) struct Shared<M> {
    model: Arc<RwLock<M>>,
}

impl<M: Send + Sync + 'static> Shared<M> {
    pub(crate) fn new(model: M) -> Self {
        Self { model: Arc::new(RwLock::new(model)) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, M> {
        self.model.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asks the model on a thread of its own.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        n_jobs: Option<usize>,
        question: impl FnOnce(&M) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        let model = self.model.clone();
        work::run_in(py, n_jobs, None, move |pool| {
            let model = model.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            let model = &*model;
            pool.install(|| question(model))
        })
    }

    /// Changes the model on a thread of its own.
    pub(crate) fn change<T: Send + 'static>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut M) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        let model = self.model.clone();
        work::run_in(py, None, None, move |pool| {
            let mut model = model.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            let model = &mut *model;
            pool.install(|| change(model))
        })
    }
}
