//! The referee's numbers.

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use nuq_eval::metrics::{self, Detection, Difference, Interval, Resampling, Selective};
use pyo3::prelude::*;

use crate::arrays::{column, matrix};
use crate::errors::{Failure, raise};
use crate::work;

type Scores<'py> = PyReadonlyArray1<'py, f64>;
type Flags<'py> = PyReadonlyArray1<'py, bool>;

fn detection(inliers: &Scores<'_>, outliers: &Scores<'_>) -> PyResult<Detection> {
    Ok(Detection::new(inliers.as_slice()?, outliers.as_slice()?).map_err(Failure::from)?)
}

fn selective(uncertainty: &Scores<'_>, is_error: &Flags<'_>) -> PyResult<Selective> {
    Ok(Selective::new(uncertainty.as_slice()?, is_error.as_slice()?).map_err(Failure::from)?)
}

#[pyfunction]
fn roc_auc(inliers: Scores<'_>, outliers: Scores<'_>) -> PyResult<f64> {
    Ok(detection(&inliers, &outliers)?.roc_auc())
}

#[pyfunction]
fn average_precision(inliers: Scores<'_>, outliers: Scores<'_>) -> PyResult<f64> {
    Ok(detection(&inliers, &outliers)?.average_precision())
}

#[pyfunction]
fn average_precision_of_inliers(inliers: Scores<'_>, outliers: Scores<'_>) -> PyResult<f64> {
    Ok(detection(&inliers, &outliers)?.average_precision_of_inliers())
}

#[pyfunction]
fn fpr_at_tpr(inliers: Scores<'_>, outliers: Scores<'_>, tpr: f64) -> PyResult<f64> {
    Ok(metrics::fpr_at_tpr(inliers.as_slice()?, outliers.as_slice()?, tpr).map_err(Failure::from)?)
}

#[pyfunction]
fn detection_error(inliers: Scores<'_>, outliers: Scores<'_>) -> PyResult<f64> {
    Ok(detection(&inliers, &outliers)?.detection_error())
}

#[pyfunction]
fn roc_curve<'py>(py: Python<'py>, inliers: Scores<'_>, outliers: Scores<'_>) -> PyResult<Bound<'py, PyAny>> {
    let points: Vec<f64> =
        detection(&inliers, &outliers)?.curve().into_iter().flat_map(|(x, y)| [x, y]).collect();
    Ok(matrix(py, &points, 2)?.into_any())
}

#[pyfunction]
fn count_curve<'py>(
    py: Python<'py>,
    inliers: Scores<'_>,
    outliers: Scores<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(column(py, &detection(&inliers, &outliers)?.count_curve()).into_any())
}

#[pyfunction]
fn rcc_auc(uncertainty: Scores<'_>, is_error: Flags<'_>) -> PyResult<f64> {
    Ok(selective(&uncertainty, &is_error)?.rcc_auc())
}

#[pyfunction]
fn risk_coverage_curve<'py>(
    py: Python<'py>,
    uncertainty: Scores<'_>,
    is_error: Flags<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(column(py, &selective(&uncertainty, &is_error)?.curve()).into_any())
}

#[pyfunction]
fn prediction_rejection_ratio(uncertainty: Scores<'_>, is_error: Flags<'_>) -> PyResult<Option<f64>> {
    Ok(selective(&uncertainty, &is_error)?.prediction_rejection_ratio())
}

#[pyfunction]
fn scod_risk(inliers: Scores<'_>, is_error: Flags<'_>, outliers: Scores<'_>, coverage: f64) -> PyResult<f64> {
    let found = metrics::scod_risk(inliers.as_slice()?, is_error.as_slice()?, outliers.as_slice()?, coverage);
    Ok(found.map_err(Failure::from)?)
}

#[pyfunction]
fn calibration_error(confidence: Scores<'_>, is_right: Flags<'_>, bins: usize) -> PyResult<f64> {
    let found = metrics::calibration_error(confidence.as_slice()?, is_right.as_slice()?, bins);
    Ok(found.map_err(Failure::from)?)
}

fn truth(classes: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<u32>> {
    let number = |&class: &i64| {
        u32::try_from(class).map_err(|_| raise("InvalidInputError", format!("{class} is no class number")))
    };
    classes.as_slice()?.iter().map(number).collect()
}

#[pyfunction]
fn negative_log_likelihood(
    probabilities: PyReadonlyArray2<'_, f64>,
    classes: PyReadonlyArray1<'_, i64>,
) -> PyResult<f64> {
    let columns = probabilities.as_array().ncols();
    let found = metrics::negative_log_likelihood(probabilities.as_slice()?, columns, &truth(&classes)?);
    Ok(found.map_err(Failure::from)?)
}

#[pyfunction]
fn brier_score(
    probabilities: PyReadonlyArray2<'_, f64>,
    classes: PyReadonlyArray1<'_, i64>,
) -> PyResult<f64> {
    let columns = probabilities.as_array().ncols();
    let found = metrics::brier_score(probabilities.as_slice()?, columns, &truth(&classes)?);
    Ok(found.map_err(Failure::from)?)
}

/// A metric by its name, with what it looks at.
enum Asked {
    RocAuc(Detection),
    AveragePrecision(Detection),
    Fpr95(Detection),
    RccAuc(Selective),
}

impl Asked {
    fn new(metric: &str, first: &Scores<'_>, second: &Bound<'_, PyAny>) -> PyResult<Self> {
        let found = || detection(first, &second.extract::<Scores<'_>>()?);
        match metric {
            "roc_auc" => Ok(Self::RocAuc(found()?)),
            "average_precision" => Ok(Self::AveragePrecision(found()?)),
            "fpr95" => Ok(Self::Fpr95(found()?)),
            "rcc_auc" => Ok(Self::RccAuc(selective(first, &second.extract::<Flags<'_>>()?)?)),
            _ => Err(raise(
                "InvalidParameterError",
                format!(
                    "metric={metric:?}: it is one of \"roc_auc\", \"average_precision\", \"fpr95\", \"rcc_auc\""
                ),
            )),
        }
    }

    /// The metric, and the same on each resample.
    fn draws(&self, resampling: Resampling) -> (f64, Vec<f64>) {
        match self {
            Self::RocAuc(found) => (found.roc_auc(), resampling.roc_auc_draws(found)),
            Self::AveragePrecision(found) => {
                (found.average_precision(), resampling.average_precision_draws(found))
            }
            Self::Fpr95(found) => (found.fpr_at_tpr(0.95), resampling.fpr_at_tpr_draws(found, 0.95)),
            Self::RccAuc(found) => (found.rcc_auc(), resampling.rcc_auc_draws(found)),
        }
    }
}

fn told(interval: Interval) -> (f64, f64, f64) {
    (interval.value, interval.low, interval.high)
}

/// A metric with its 95 % interval.
#[pyfunction]
fn interval(
    metric: &str,
    first: Scores<'_>,
    second: &Bound<'_, PyAny>,
    resamples: usize,
    seed: u64,
) -> PyResult<(f64, f64, f64)> {
    let asked = Asked::new(metric, &first, second)?;
    work::run(second.py(), None, None, move || {
        let (value, draws) = asked.draws(Resampling { resamples, seed });
        Ok(told(Interval::new(value, &draws)))
    })
}

/// By how much one score is ahead of another on the same rows: difference, its interval, and the p-value.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "two scores, each of two sets, as Python gives them")]
fn difference(
    metric: &str,
    first: Scores<'_>,
    first_other: &Bound<'_, PyAny>,
    second: Scores<'_>,
    second_other: &Bound<'_, PyAny>,
    resamples: usize,
    seed: u64,
) -> PyResult<(f64, f64, f64, f64)> {
    let asked = (Asked::new(metric, &first, first_other)?, Asked::new(metric, &second, second_other)?);
    work::run(first_other.py(), None, None, move || {
        let resampling = Resampling { resamples, seed };
        let ((a, of_a), (b, of_b)) = (asked.0.draws(resampling), asked.1.draws(resampling));
        let found = Difference::new((a, &of_a), (b, &of_b))?;
        let (value, low, high) = told(found.interval);
        Ok((value, low, high, found.p_value))
    })
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(roc_auc, module)?)?;
    module.add_function(wrap_pyfunction!(average_precision, module)?)?;
    module.add_function(wrap_pyfunction!(average_precision_of_inliers, module)?)?;
    module.add_function(wrap_pyfunction!(fpr_at_tpr, module)?)?;
    module.add_function(wrap_pyfunction!(detection_error, module)?)?;
    module.add_function(wrap_pyfunction!(roc_curve, module)?)?;
    module.add_function(wrap_pyfunction!(count_curve, module)?)?;
    module.add_function(wrap_pyfunction!(rcc_auc, module)?)?;
    module.add_function(wrap_pyfunction!(risk_coverage_curve, module)?)?;
    module.add_function(wrap_pyfunction!(prediction_rejection_ratio, module)?)?;
    module.add_function(wrap_pyfunction!(scod_risk, module)?)?;
    module.add_function(wrap_pyfunction!(calibration_error, module)?)?;
    module.add_function(wrap_pyfunction!(negative_log_likelihood, module)?)?;
    module.add_function(wrap_pyfunction!(brier_score, module)?)?;
    module.add_function(wrap_pyfunction!(interval, module)?)?;
    module.add_function(wrap_pyfunction!(difference, module)?)
}
