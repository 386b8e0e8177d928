//! Thresholds with guarantees, conformal p-values, control of the false discovery rate.

use std::str::FromStr;

use numpy::PyReadonlyArray1;
use nuq::calibrate::{Guarantee, Predictor, ScoreThreshold, Target, Threshold};
use nuq::{Decision, UnknownChoice};
use pyo3::prelude::*;

use crate::arrays::column;
use crate::errors::{Failure, raise};

/// A calibrated threshold on one measure of uncertainty of a model.
#[pyclass(name = "Threshold", module = "nuq._nuq", frozen)]
pub(crate) struct PyThreshold {
    pub(crate) inner: Threshold,
    /// The scores of the held-out rows, which are saved when the threshold is added to a model. `None` if the threshold was unpickled or
    /// taken from a model.
    pub(crate) scores: Option<Vec<f64>>,
}

/// A calibrated threshold on a score.
#[pyclass(name = "ScoreThreshold", module = "nuq._nuq", frozen)]
pub(crate) struct PyScoreThreshold {
    pub(crate) inner: ScoreThreshold,
}

/// The guarantee of a threshold as a tuple. For a coverage: (share, (low, high), accepted). For a risk:
/// (risk, delta, accepted, errors, predictor), where the predictor is "network" or "nuq". The fields are those of [`Guarantee`].
#[derive(FromPyObject, IntoPyObject)]
enum GuaranteeTuple {
    Coverage(f64, (f64, f64), usize),
    Risk(f64, f64, usize, usize, String),
}

pub(crate) fn parse<T: FromStr<Err = UnknownChoice>>(name: &str, value: &str) -> PyResult<T> {
    value.parse().map_err(|unknown: UnknownChoice| {
        raise("InvalidParameterError", format!("{name}={value:?}: expected {}", unknown.list()))
    })
}

/// A target by its name: "coverage", "risk" or "false_alarm". `share` is the coverage, the risk or the share of false alarms. Only "risk"
/// uses `delta`, the probability that its guarantee may fail.
fn parse_target(target: &str, share: f64, delta: f64) -> Target {
    match target {
        "coverage" => Target::Coverage(share),
        "risk" => Target::Risk { risk: share, delta },
        _ => Target::FalseAlarm(share),
    }
}

#[pymethods]
impl PyScoreThreshold {
    /// Raises an error if a share of the target is not between 0 and 1.
    #[staticmethod]
    fn check_target(target: &str, share: f64, delta: f64) -> PyResult<()> {
        Ok(parse_target(target, share, delta).check().map_err(Failure::from)?)
    }

    /// Chooses a threshold on the scores of held-out rows. `is_error` states which predictions of the network are wrong.
    /// `training_rows` is the number of held-out rows that equal training rows.
    #[staticmethod]
    fn calibrate(
        scores: PyReadonlyArray1<'_, f64>,
        is_error: Option<PyReadonlyArray1<'_, bool>>,
        target: &str,
        share: f64,
        delta: f64,
        training_rows: usize,
    ) -> PyResult<Self> {
        let target = parse_target(target, share, delta);
        let is_error = is_error.as_ref().map(|wrong| wrong.as_slice()).transpose()?;
        let inner = ScoreThreshold::calibrate(scores.as_slice()?, is_error, Predictor::Network, target);
        Ok(Self { inner: inner.map_err(Failure::from)?.on_training_rows(training_rows) })
    }

    /// Inverse of `parts`.
    #[staticmethod]
    #[pyo3(signature = (value, rows, guarantee, training_rows = 0))]
    fn from_parts(
        value: f64,
        rows: usize,
        guarantee: GuaranteeTuple,
        training_rows: usize,
    ) -> PyResult<Self> {
        let guarantee = match guarantee {
            GuaranteeTuple::Coverage(share, (low, high), accepted) => {
                Guarantee::Coverage { share, low, high, accepted }
            }
            GuaranteeTuple::Risk(risk, delta, accepted, errors, predictor) => {
                Guarantee::Risk { risk, delta, accepted, errors, predictor: parse("predictor", &predictor)? }
            }
        };
        Ok(Self { inner: ScoreThreshold { value, guarantee, rows, training_rows } })
    }

    /// All fields, for pickle.
    fn parts(&self) -> (f64, usize, GuaranteeTuple, usize) {
        let guarantee = match self.inner.guarantee {
            Guarantee::Coverage { share, low, high, accepted } => {
                GuaranteeTuple::Coverage(share, (low, high), accepted)
            }
            Guarantee::Risk { risk, delta, accepted, errors, predictor } => {
                GuaranteeTuple::Risk(risk, delta, accepted, errors, predictor.to_string())
            }
        };
        let ScoreThreshold { value, rows, training_rows, .. } = self.inner;
        (value, rows, guarantee, training_rows)
    }

    /// Largest accepted score.
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
        let accept = |&score: &f64| self.inner.decide(score) == Decision::Accept;
        Ok(column(py, &scores.as_slice()?.iter().map(accept).collect::<Vec<bool>>()).into_any())
    }
}

#[pymethods]
impl PyThreshold {
    /// Chooses a threshold on the values of a measure for held-out rows. `scores` contains these values. `scores` and `is_error` describe
    /// the predictions of `predictor`, which is "network" or "nuq". `training_rows` is the number of held-out rows that equal training
    /// rows.
    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "the options of a threshold")]
    fn calibrate(
        measure: &str,
        scores: PyReadonlyArray1<'_, f64>,
        is_error: Option<PyReadonlyArray1<'_, bool>>,
        target: &str,
        share: f64,
        delta: f64,
        predictor: &str,
        training_rows: usize,
    ) -> PyResult<Self> {
        let (measure, target) = (parse("measure", measure)?, parse_target(target, share, delta));
        let is_error = is_error.as_ref().map(|wrong| wrong.as_slice()).transpose()?;
        let scores = scores.as_slice()?;
        let threshold = nuq::calibrate::calibrate(measure, scores, is_error, target);
        let threshold = threshold.map_err(Failure::from)?;
        let threshold = threshold.of_predictor(parse("predictor", predictor)?);
        Ok(Self { inner: threshold.on_training_rows(training_rows), scores: Some(scores.to_vec()) })
    }

    /// A threshold on the values of a measure, for pickle.
    #[new]
    fn new(measure: &str, predictor: &str, score: &PyScoreThreshold) -> PyResult<Self> {
        let (measure, predictor) = (parse("measure", measure)?, parse("predictor", predictor)?);
        Ok(Self { inner: Threshold { measure, predictor, score: score.inner }, scores: None })
    }

    /// The threshold on the values of the measure.
    #[getter]
    fn score(&self) -> PyScoreThreshold {
        PyScoreThreshold { inner: self.inner.score }
    }

    /// Name of the measure that is compared.
    #[getter]
    fn measure(&self) -> String {
        self.inner.measure.to_string()
    }

    /// Predictor whose uncertainty is compared: "network" or "nuq".
    #[getter]
    fn predictor(&self) -> String {
        self.inner.predictor.to_string()
    }

    /// Whether the threshold can be applied to predictions of a predictor.
    fn applies_to(&self, predictor: &str) -> PyResult<bool> {
        Ok(self.inner.applies_to(parse("predictor", predictor)?))
    }
}

/// Conformal p-value of each score. `calibration` contains the scores of the held-out rows.
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
