//! Thresholds with promises, and p-values.

use numpy::PyReadonlyArray1;
use nuq::Decision;
use nuq::calibrate::{Measure, Promise, Target, Threshold};
use pyo3::prelude::*;

use crate::arrays::column;
use crate::errors::{Failure, raise};

/// A threshold on one of the uncertainties.
#[pyclass(name = "Threshold", module = "nuq._nuq", frozen)]
pub(crate) struct PyThreshold {
    pub(crate) inner: Threshold,
}

/// What a threshold promises, as a tuple: three numbers of what it accepts, or four of its errors.
#[derive(FromPyObject, IntoPyObject)]
enum Promised {
    Accepts(f64, f64, f64),
    Errs(f64, f64, usize, usize),
}

fn measure(name: &str) -> PyResult<Measure> {
    match name {
        "aleatoric" => Ok(Measure::Aleatoric),
        "epistemic" => Ok(Measure::Epistemic),
        "total" => Ok(Measure::Total),
        "density" => Ok(Measure::Density),
        _ => Err(raise(
            "InvalidParameterError",
            format!("measure={name:?}: it is one of \"aleatoric\", \"epistemic\", \"total\", \"density\""),
        )),
    }
}

#[pymethods]
impl PyThreshold {
    /// Chosen on held-out scores for a target: "coverage", "risk" or "false_alarm".
    #[staticmethod]
    fn calibrate(
        measured: &str,
        scores: PyReadonlyArray1<'_, f64>,
        is_error: Option<PyReadonlyArray1<'_, bool>>,
        target: &str,
        share: f64,
        delta: f64,
    ) -> PyResult<Self> {
        let target = match target {
            "coverage" => Target::Coverage(share),
            "risk" => Target::Risk { risk: share, delta },
            _ => Target::FalseAlarm(share),
        };
        let is_error = is_error.as_ref().map(|wrong| wrong.as_slice()).transpose()?;
        let found = nuq::calibrate::calibrate(measure(measured)?, scores.as_slice()?, is_error, target);
        Ok(Self { inner: found.map_err(Failure::from)? })
    }

    /// One that was taken apart by `parts`.
    #[staticmethod]
    fn of_parts(measured: &str, value: f64, rows: usize, promise: Promised) -> PyResult<Self> {
        let promise = match promise {
            Promised::Accepts(share, low, high) => Promise::Accepts { share, low, high },
            Promised::Errs(risk, delta, accepted, errors) => {
                Promise::ErrsAtMost { risk, delta, accepted, errors }
            }
        };
        Ok(Self { inner: Threshold { measure: measure(measured)?, value, promise, rows } })
    }

    /// All that it is, for pickles.
    fn parts(&self) -> (String, f64, usize, Promised) {
        let promise = match self.inner.promise {
            Promise::Accepts { share, low, high } => Promised::Accepts(share, low, high),
            Promise::ErrsAtMost { risk, delta, accepted, errors } => {
                Promised::Errs(risk, delta, accepted, errors)
            }
        };
        (self.inner.measure.to_string(), self.inner.value, self.inner.rows, promise)
    }

    /// What is compared.
    #[getter]
    fn measure(&self) -> String {
        self.inner.measure.to_string()
    }

    /// Accept where the measure is at most this.
    #[getter]
    fn value(&self) -> f64 {
        self.inner.value
    }

    /// The held-out rows it was chosen on.
    #[getter]
    fn rows(&self) -> usize {
        self.inner.rows
    }

    /// What it promises, in words.
    #[getter]
    fn statement(&self) -> String {
        self.inner.to_string()
    }

    /// Whether each score is accepted.
    fn accept<'py>(&self, py: Python<'py>, scores: PyReadonlyArray1<'_, f64>) -> PyResult<Bound<'py, PyAny>> {
        let accept = |&score: &f64| self.inner.decide_score(score) == Decision::Accept;
        Ok(column(py, &scores.as_slice()?.iter().map(accept).collect::<Vec<bool>>()).into_any())
    }
}

/// For each score the chance that a row like the calibration rows scores as high.
#[pyfunction]
pub(crate) fn conformal_p_values<'py>(
    py: Python<'py>,
    calibration: PyReadonlyArray1<'_, f64>,
    scores: PyReadonlyArray1<'_, f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let found = nuq::calibrate::conformal_p_values(calibration.as_slice()?, scores.as_slice()?);
    Ok(column(py, &found.map_err(Failure::from)?).into_any())
}

/// Which p-values of a batch are alarms.
#[pyfunction]
pub(crate) fn benjamini_hochberg<'py>(
    py: Python<'py>,
    p_values: PyReadonlyArray1<'_, f64>,
    level: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let found = nuq::calibrate::benjamini_hochberg(p_values.as_slice()?, level);
    Ok(column(py, &found.map_err(Failure::from)?).into_any())
}
