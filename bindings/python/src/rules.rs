//! Rules for prediction sets and intervals.

use numpy::PyReadonlyArray1;
use nuq::Estimate;
use nuq::calibrate::{IntervalRule, SetLimits, SetRule};
use pyo3::prelude::*;

use crate::arrays::column;
use crate::calibrate::parse;
use crate::errors::Failure;

/// A calibrated rule for prediction sets.
#[pyclass(name = "SetRule", module = "nuq._nuq", frozen)]
pub(crate) struct PySetRule {
    pub(crate) inner: SetRule,
}

/// One limit for all classes, or one for each class. A class is in a prediction set if its score is at most its limit.
#[derive(FromPyObject, IntoPyObject)]
enum LimitsValue {
    All(f64),
    ByClass(Vec<f64>),
}

/// Coverage, score, limits, number of held-out rows, predictor, and the number of held-out rows that equal training rows.
type SetParts = (f64, String, LimitsValue, usize, String, usize);

#[pymethods]
impl PySetRule {
    /// Inverse of `parts`.
    #[staticmethod]
    #[pyo3(signature = (coverage, score, limits, rows, predictor, training_rows = 0))]
    fn from_parts(
        coverage: f64,
        score: &str,
        limits: LimitsValue,
        rows: usize,
        predictor: &str,
        training_rows: usize,
    ) -> PyResult<Self> {
        let limits = match limits {
            LimitsValue::All(limit) => SetLimits::All(limit),
            LimitsValue::ByClass(limits) => SetLimits::ByClass(limits),
        };
        let (score, predictor) = (parse("set_score", score)?, parse("predictor", predictor)?);
        Ok(Self { inner: SetRule { coverage, score, limits, rows, predictor, training_rows } })
    }

    /// All fields.
    fn parts(&self) -> SetParts {
        let SetRule { coverage, score, limits, rows, predictor, training_rows } = &self.inner;
        let limits = match limits {
            SetLimits::All(limit) => LimitsValue::All(*limit),
            SetLimits::ByClass(limits) => LimitsValue::ByClass(limits.clone()),
        };
        (*coverage, score.to_string(), limits, *rows, predictor.to_string(), *training_rows)
    }

    /// The guarantee as a sentence.
    #[getter]
    fn statement(&self) -> String {
        self.inner.to_string()
    }

    /// The number of classes that have no limit, because they have too few held-out rows. They are in every set.
    #[getter]
    fn unlimited_classes(&self) -> usize {
        self.inner.unlimited_classes()
    }
}

/// A calibrated rule for prediction intervals.
#[pyclass(name = "IntervalRule", module = "nuq._nuq", frozen)]
pub(crate) struct PyIntervalRule {
    pub(crate) inner: IntervalRule,
}

#[pymethods]
impl PyIntervalRule {
    /// Chooses the factor from the means, the logarithms of the total variance and the targets of held-out rows. The half-width of an
    /// interval is the factor times the total standard deviation. `training_rows` is the number of held-out rows that equal training rows.
    #[staticmethod]
    fn calibrate(
        coverage: f64,
        mean: PyReadonlyArray1<'_, f64>,
        log_total: PyReadonlyArray1<'_, f64>,
        targets: PyReadonlyArray1<'_, f64>,
        training_rows: usize,
    ) -> PyResult<Self> {
        let estimates = estimates(mean.as_slice()?, log_total.as_slice()?);
        let rule = IntervalRule::calibrate(coverage, &estimates, targets.as_slice()?);
        Ok(Self { inner: rule.map_err(Failure::from)?.on_training_rows(training_rows) })
    }

    /// Inverse of `parts`.
    #[staticmethod]
    #[pyo3(signature = (coverage, factor, rows, training_rows = 0))]
    fn from_parts(coverage: f64, factor: f64, rows: usize, training_rows: usize) -> Self {
        Self { inner: IntervalRule { coverage, factor, rows, training_rows } }
    }

    /// All fields.
    fn parts(&self) -> (f64, f64, usize, usize) {
        let IntervalRule { coverage, factor, rows, training_rows } = self.inner;
        (coverage, factor, rows, training_rows)
    }

    /// The guarantee as a sentence.
    #[getter]
    fn statement(&self) -> String {
        self.inner.to_string()
    }

    /// Lower and upper ends of the interval of each row.
    fn intervals<'py>(
        &self,
        py: Python<'py>,
        mean: PyReadonlyArray1<'_, f64>,
        log_total: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let estimates = estimates(mean.as_slice()?, log_total.as_slice()?);
        let (low, high): (Vec<f64>, Vec<f64>) = estimates.iter().map(|e| self.inner.interval(e)).unzip();
        Ok((column(py, &low).into_any(), column(py, &high).into_any()))
    }
}

/// Estimates with the given means and total variances; intervals do not use the other fields.
fn estimates(mean: &[f64], log_total: &[f64]) -> Vec<Estimate> {
    let estimate = |(&mean, &log_total): (&f64, &f64)| Estimate {
        mean,
        log_aleatoric: log_total,
        log_epistemic: f64::NEG_INFINITY,
        log_total,
        log_density: 0.0,
    };
    mean.iter().zip(log_total).map(estimate).collect()
}
