//! The fitted regressor.

use numpy::PyReadonlyArray1;
use nuq::NuqRegressor;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{column, embeddings};
use crate::model::common_methods;
use crate::shared::Shared;
use crate::{params, work};

/// A fitted regressor.
#[pyclass(name = "Regressor", module = "nuq._nuq", frozen)]
pub(crate) struct PyRegressor {
    pub(crate) model: Shared<NuqRegressor<'static>>,
}

#[pymethods]
impl PyRegressor {
    /// Fits rows and their targets.
    #[staticmethod]
    #[pyo3(signature = (given, x, y, n_jobs, tick))]
    fn fit(
        py: Python<'_>,
        given: &Bound<'_, PyDict>,
        x: &Bound<'_, PyAny>,
        y: PyReadonlyArray1<'_, f64>,
        n_jobs: Option<usize>,
        tick: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let params = params::regressor(given)?;
        let (x, y) = (embeddings(x)?, y.as_slice()?.to_vec());
        let model = work::run(py, n_jobs, tick, move || Ok(params.fit(&x, &y)?))?;
        Ok(Self { model: Shared::new(model) })
    }

    /// Columns of what is said of each row.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        n_jobs: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let x = embeddings(x)?;
        let rows = self.model.ask(py, n_jobs, move |model| Ok(model.predict(&x)?.to_vec()))?;
        let numbers = |of: fn(&nuq::Estimate) -> f64| column(py, &rows.iter().map(of).collect::<Vec<f64>>());
        let said = PyDict::new(py);
        said.set_item("mean", numbers(|e| e.mean))?;
        said.set_item("aleatoric", numbers(nuq::Estimate::aleatoric))?;
        said.set_item("epistemic", numbers(nuq::Estimate::epistemic))?;
        said.set_item("total", numbers(nuq::Estimate::total))?;
        said.set_item("log_aleatoric", numbers(|e| e.log_aleatoric))?;
        said.set_item("log_epistemic", numbers(|e| e.log_epistemic))?;
        said.set_item("log_total", numbers(|e| e.log_total))?;
        said.set_item("log_density", numbers(|e| e.log_density))?;
        Ok(said)
    }

    /// Learns rows, and returns their ids.
    fn insert<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        y: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (x, y) = (embeddings(x)?, y.as_slice()?.to_vec());
        let ids = self.model.change(py, move |model| Ok(model.insert(&x, &y)?))?;
        Ok(column(py, &ids.iter().map(|&id| i64::from(id)).collect::<Vec<i64>>()).into_any())
    }

    /// What leave-one-out said: bandwidths, squared errors, and which was chosen.
    fn bandwidth_curve<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let model = self.model.read();
        let Some(curve) = model.bandwidth_curve() else { return Ok(None) };
        let said = PyDict::new(py);
        let bandwidths: Vec<f64> = curve.points.iter().map(|point| point.bandwidth).collect();
        let errors: Vec<f64> = curve.points.iter().map(|point| point.score.squared_error).collect();
        said.set_item("bandwidth", column(py, &bandwidths))?;
        said.set_item("squared_error", column(py, &errors))?;
        said.set_item("chosen", curve.chosen)?;
        said.set_item("rows", curve.rows)?;
        Ok(Some(said))
    }
}

common_methods!(PyRegressor, nuq_io::save_regressor);
