//! A fitted model that several Python threads use at once.

use std::ops::Deref;
use std::sync::{Arc, RwLock, RwLockReadGuard, TryLockError};

use pyo3::prelude::*;

use crate::errors::Failure;
use crate::fork::{ModelUse, pause};
use crate::work;

/// A model with a lock: many readers or one writer.
pub(crate) struct Shared<M> {
    model: Arc<RwLock<M>>,
}

/// Read access from the calling Python thread.
pub(crate) struct Reading<'a, M> {
    // This field is declared first and therefore dropped first: the lock is released before a fork may happen.
    guard: RwLockReadGuard<'a, M>,
    _in_use: ModelUse,
}

impl<M> Deref for Reading<'_, M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.guard
    }
}

impl<M: Send + Sync + 'static> Shared<M> {
    pub(crate) fn new(model: M) -> Self {
        Self { model: Arc::new(RwLock::new(model)) }
    }

    /// Reads the model on this thread. Other Python threads run while this one waits for a writer.
    pub(crate) fn read(&self, py: Python<'_>) -> PyResult<Reading<'_, M>> {
        loop {
            let in_use = ModelUse::begin(py)?;
            let guard = match self.model.try_read() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    drop(in_use);
                    pause(py);
                    py.check_signals()?;
                    continue;
                }
            };
            return Ok(Reading { guard, _in_use: in_use });
        }
    }

    /// Runs a query of the model on a worker thread.
    pub(crate) fn query<T: Send + 'static>(
        &self,
        py: Python<'_>,
        n_jobs: Option<usize>,
        query: impl FnOnce(&M) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        let (model, in_use) = (self.model.clone(), ModelUse::begin(py)?);
        work::run_worker(py, n_jobs, None, Some(in_use), move |worker| {
            let model = model.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            let model = &*model;
            worker.compute(|| query(model))
        })
    }

    /// Runs an update of the model on a worker thread. After an interrupt the update is applied completely or not at all.
    /// `n_jobs` is the number of threads of the computation. It is `Some(1)` for an update that only stores a value, such as a threshold.
    pub(crate) fn update<T: Send + 'static>(
        &self,
        py: Python<'_>,
        n_jobs: Option<usize>,
        update: impl FnOnce(&mut M) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        let (model, in_use) = (self.model.clone(), ModelUse::begin(py)?);
        work::run_worker(py, n_jobs, None, Some(in_use), move |worker| {
            let mut model = model.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            let model = &mut *model;
            worker.compute(|| update(model))
        })
    }
}
