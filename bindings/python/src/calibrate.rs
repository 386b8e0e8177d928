//! Thresholds with guarantees, conformal p-values, false discovery control.

use numpy::PyReadonlyArray1;
use nuq::calibrate::{Guarantee, Measure, Target, Threshold};
use nuq::{Decision, UnknownChoice};
use pyo3::prelude::*;

use crate::arrays::column;
use crate::errors::{Failure, raise};

/// A calibrated threshold on one measure of uncertainty.
#[pyclass(name = "Threshold", module = "nuq._nuq", frozen)]
pub(crate) struct PyThreshold {
    pub(crate) inner: Threshold,
}

/// The guarantee of a threshold as a tuple: (share, (low, high), accepted) for acceptance, (risk, delta, accepted, errors) for risk.
#[derive(FromPyObject, IntoPyObject)]
enum GuaranteeTuple {
    Accepts(f64, (f64, f64), usize),
    Errs(f64, f64, usize, usize),
}

fn parse_measure(name: &str) -> PyResult<Measure> {
    name.parse().map_err(|unknown: UnknownChoice| {
        raise("InvalidParameterError", format!("measure={name:?}: expected {}", unknown.list()))
    })
}

#[pymethods]
impl PyThreshold {
    /// Chooses a threshold on held-out scores. `target` is "coverage", "risk" or "false_alarm".
    #[staticmethod]
    fn calibrate(
        measure: &str,
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
        let threshold =
            nuq::calibrate::calibrate(parse_measure(measure)?, scores.as_slice()?, is_error, target);
        Ok(Self { inner: threshold.map_err(Failure::from)? })
    }

    /// Inverse of `parts`.
    #[staticmethod]
    fn from_parts(measure: &str, value: f64, rows: usize, guarantee: GuaranteeTuple) -> PyResult<Self> {
        let guarantee = match guarantee {
            GuaranteeTuple::Accepts(share, (low, high), accepted) => {
                Guarantee::Coverage { share, low, high, accepted }
            }
            GuaranteeTuple::Errs(risk, delta, accepted, errors) => {
                Guarantee::Risk { risk, delta, accepted, errors }
            }
        };
        Ok(Self { inner: Threshold { measure: parse_measure(measure)?, value, guarantee, rows } })
    }

    /// All fields, for pickle.
    fn parts(&self) -> (String, f64, usize, GuaranteeTuple) {
        let guarantee = match self.inner.guarantee {
            Guarantee::Coverage { share, low, high, accepted } => {
                GuaranteeTuple::Accepts(share, (low, high), accepted)
            }
            Guarantee::Risk { risk, delta, accepted, errors } => {
                GuaranteeTuple::Errs(risk, delta, accepted, errors)
            }
        };
        (self.inner.measure.to_string(), self.inner.value, self.inner.rows, guarantee)
    }

    /// Name of the measure that is compared.
    #[getter]
    fn measure(&self) -> String {
        self.inner.measure.to_string()
    }

    /// Largest accepted value of the measure.
    #[getter]
    fn value(&self) -> f64 {
        self.inner.value
    }

    /// Number of held-out rows on which the threshold was chosen.
    #[getter]
    fn rows(&self) -> usize {
        self.inner.rows
    }

    /// The guarantee as a sentence.
    #[getter]
    fn statement(&self) -> String {
        self.inner.to_string()
    }

    /// True for each accepted score.
    fn accept<'py>(&self, py: Python<'py>, scores: PyReadonlyArray1<'_, f64>) -> PyResult<Bound<'py, PyAny>> {
        let accept = |&score: &f64| self.inner.decide_score(score) == Decision::Accept;
        Ok(column(py, &scores.as_slice()?.iter().map(accept).collect::<Vec<bool>>()).into_any())
    }
}

/// Conformal p-value of each score.
#[pyfunction]
pub(crate) fn conformal_p_values<'py>(
    py: Python<'py>,
    calibration: PyReadonlyArray1<'_, f64>,
    scores: PyReadonlyArray1<'_, f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let p_values = nuq::calibrate::conformal_p_values(calibration.as_slice()?, scores.as_slice()?);
    Ok(column(py, &p_values.map_err(Failure::from)?).into_any())
}

/// True for each p-value that the procedure of Benjamini and Hochberg rejects.
#[pyfunction]
pub(crate) fn benjamini_hochberg<'py>(
    py: Python<'py>,
    p_values: PyReadonlyArray1<'_, f64>,
    level: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let rejected = nuq::calibrate::benjamini_hochberg(p_values.as_slice()?, level);
    Ok(column(py, &rejected.map_err(Failure::from)?).into_any())
}
