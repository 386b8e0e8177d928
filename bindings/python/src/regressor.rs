//! The fitted regressor.

use std::path::PathBuf;

use numpy::PyReadonlyArray1;
use nuq::column_names::check_distinct;
use nuq::{FittedModel, NuqRegressor};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{NeighborArrays, column, embeddings, neighbor_table, release, sample_weights};
use crate::errors::Failure;
use crate::model::common_methods;
use crate::rules::PyIntervalRule;
use crate::shared::Shared;
use crate::{params, shards, work};

/// A fitted regressor.
#[pyclass(name = "Regressor", module = "nuq._nuq", frozen)]
pub(crate) struct PyRegressor {
    pub(crate) model: Shared<NuqRegressor<'static>>,
}

#[pymethods]
impl PyRegressor {
    /// Fits a regressor. `names` are the names of the columns; `weights` are sample weights. `tick` is called repeatedly during the fit and
    /// updates the progress display.
    #[staticmethod]
    #[pyo3(signature = (params, x, y, weights, names, n_jobs, tick))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of a fit")]
    fn fit(
        py: Python<'_>,
        params: &Bound<'_, PyDict>,
        x: &Bound<'_, PyAny>,
        y: PyReadonlyArray1<'_, f64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        names: Option<Vec<String>>,
        n_jobs: Option<usize>,
        tick: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let parsed = params::regressor(params)?;
        let (x, y) = (params::training_rows(params, x, n_jobs)?, y.as_slice()?.to_vec());
        let weights = sample_weights(weights)?;
        check_distinct(names.as_deref().unwrap_or_default()).map_err(Failure::from)?;
        let model = work::run(py, n_jobs, tick, move || {
            x.load()?;
            let mut model = match weights {
                Some(weights) => parsed.fit_weighted(&x, &y, &weights)?,
                None => parsed.fit(&x, &y)?,
            };
            model.set_column_names(names)?;
            release(&x)?;
            Ok(model)
        })?;
        Ok(Self { model: Shared::new(model) })
    }

    /// Fits a regressor to the rows of shards (files with a part of the rows each) in a folder. Writes the manifest into the
    /// same folder. The manifest is a model file that lists the shards instead of containing the rows. `search` searches the shards; see `shards.rs`.
    #[staticmethod]
    #[pyo3(signature = (params, folder, files, y, weights, names, search, n_jobs, tick))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of a fit")]
    fn fit_shards(
        py: Python<'_>,
        params: &Bound<'_, PyDict>,
        folder: PathBuf,
        files: Vec<shards::File>,
        y: PyReadonlyArray1<'_, f64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        names: Option<Vec<String>>,
        search: Option<Py<PyAny>>,
        n_jobs: Option<usize>,
        tick: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let parsed = params::regressor(params)?;
        let (y, weights) = (y.as_slice()?.to_vec(), sample_weights(weights)?);
        check_distinct(names.as_deref().unwrap_or_default()).map_err(Failure::from)?;
        work::run(py, n_jobs, tick, move || {
            let rows = shards::training_rows(&folder, files, search)?;
            let mut model = parsed.fit_shards(&rows, &y, weights.as_deref())?;
            model.set_column_names(names)?;
            Ok(nuq_io::save_regressor(&model, &folder, nuq_io::Rows::Stored)?)
        })
    }

    /// Predictions as columns. `neighbors` contains ids and squared distances for each row; if it is given, there is no search.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        neighbors: Option<NeighborArrays<'_>>,
        n_jobs: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (x, neighbors) = (embeddings(x, n_jobs)?, neighbors.map(neighbor_table).transpose()?);
        let rows = self.model.query(py, n_jobs, move |model| {
            Ok(match neighbors {
                Some(neighbors) => model.predict_from(&x, &neighbors)?.to_vec(),
                None => model.predict(&x)?.to_vec(),
            })
        })?;
        columns_of(py, &rows)
    }

    /// Estimates of the training rows as columns, by ascending id. Each estimate is computed from the other rows.
    fn leave_one_out<'py>(&self, py: Python<'py>, n_jobs: Option<usize>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.model.query(py, n_jobs, |model| Ok(model.leave_one_out()?.to_vec()))?;
        columns_of(py, &rows)
    }

    /// Inserts rows and returns their ids.
    fn insert<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        y: PyReadonlyArray1<'_, f64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        n_jobs: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (x, y, weights) = (embeddings(x, n_jobs)?, y.as_slice()?.to_vec(), sample_weights(weights)?);
        let ids = self.model.update(py, n_jobs, move |model| {
            Ok(match weights {
                Some(weights) => model.insert_weighted(&x, &y, &weights)?,
                None => model.insert(&x, &y)?,
            })
        })?;
        Ok(column(py, &ids.iter().map(|&id| i64::from(id)).collect::<Vec<i64>>()).into_any())
    }

    /// Stores a rule for prediction intervals under a name.
    fn set_intervals(&self, py: Python<'_>, name: String, rule: &PyIntervalRule) -> PyResult<()> {
        let rule = rule.inner;
        self.model.update(py, Some(1), move |model| {
            model.rules_mut().intervals.insert(name, rule);
            Ok(())
        })
    }

    /// Removes a rule for prediction intervals.
    fn remove_intervals(&self, py: Python<'_>, name: String) -> PyResult<()> {
        self.model.update(py, Some(1), move |model| {
            model.rules_mut().intervals.remove(&name);
            Ok(())
        })
    }

    /// The stored rules for prediction intervals, by name.
    fn intervals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for (name, rule) in &self.model.read(py)?.rules().intervals {
            values.set_item(name, PyIntervalRule { inner: *rule })?;
        }
        Ok(values)
    }

    /// Leave-one-out scores of the candidate bandwidths, the index of the selected one (`chosen`), and the number of left-out rows
    /// (`rows`). `None` if the bandwidth was not selected by leave-one-out.
    fn bandwidth_curve<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let model = self.model.read(py)?;
        let Some(curve) = model.bandwidth_curve() else { return Ok(None) };
        let columns = PyDict::new(py);
        let bandwidths: Vec<f64> = curve.points.iter().map(|point| point.bandwidth).collect();
        let errors: Vec<f64> = curve.points.iter().map(|point| point.score.squared_error).collect();
        columns.set_item("bandwidth", column(py, &bandwidths))?;
        columns.set_item("squared_error", column(py, &errors))?;
        columns.set_item("chosen", curve.chosen)?;
        columns.set_item("rows", curve.rows)?;
        Ok(Some(columns))
    }
}

common_methods!(PyRegressor, nuq_io::save_regressor);

/// Estimates as columns.
fn columns_of<'py>(py: Python<'py>, rows: &[nuq::Estimate]) -> PyResult<Bound<'py, PyDict>> {
    let numbers = |of: fn(&nuq::Estimate) -> f64| column(py, &rows.iter().map(of).collect::<Vec<f64>>());
    let columns = PyDict::new(py);
    columns.set_item("mean", numbers(|e| e.mean))?;
    columns.set_item("aleatoric", numbers(nuq::Estimate::aleatoric))?;
    columns.set_item("epistemic", numbers(nuq::Estimate::epistemic))?;
    columns.set_item("total", numbers(nuq::Estimate::total))?;
    columns.set_item("log_aleatoric", numbers(|e| e.log_aleatoric))?;
    columns.set_item("log_epistemic", numbers(|e| e.log_epistemic))?;
    columns.set_item("log_total", numbers(|e| e.log_total))?;
    columns.set_item("log_density", numbers(|e| e.log_density))?;
    Ok(columns)
}
