//! Metrics of scores and probabilities.

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use nuq_eval::metrics::{self, Detection, Difference, Interval, Resampling, Selective};
use pyo3::prelude::*;

use crate::arrays::{column, matrix, row_major};
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
    let risk = metrics::scod_risk(inliers.as_slice()?, is_error.as_slice()?, outliers.as_slice()?, coverage);
    Ok(risk.map_err(Failure::from)?)
}

#[pyfunction]
fn calibration_error(confidence: Scores<'_>, is_correct: Flags<'_>, bins: usize) -> PyResult<f64> {
    let error = metrics::calibration_error(confidence.as_slice()?, is_correct.as_slice()?, bins);
    Ok(error.map_err(Failure::from)?)
}

/// Class numbers of rows.
pub(crate) fn class_numbers(classes: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<u32>> {
    let number = |&class: &i64| {
        u32::try_from(class).map_err(|_| {
            raise(
                "InvalidInputError",
                format!("{class} is not a class number: expected an integer of at least 0"),
            )
        })
    };
    classes.as_slice()?.iter().map(number).collect()
}

#[pyfunction]
fn negative_log_likelihood(
    probabilities: PyReadonlyArray2<'_, f64>,
    classes: PyReadonlyArray1<'_, i64>,
) -> PyResult<f64> {
    let (values, columns) = row_major(&probabilities)?;
    Ok(metrics::negative_log_likelihood(values, columns, &class_numbers(&classes)?).map_err(Failure::from)?)
}

#[pyfunction]
fn brier_score(
    probabilities: PyReadonlyArray2<'_, f64>,
    classes: PyReadonlyArray1<'_, i64>,
) -> PyResult<f64> {
    let (values, columns) = row_major(&probabilities)?;
    Ok(metrics::brier_score(values, columns, &class_numbers(&classes)?).map_err(Failure::from)?)
}

/// A metric by name, with its data.
enum Metric {
    RocAuc(Detection),
    AveragePrecision(Detection),
    Fpr95(Detection),
    RccAuc(Selective),
}

impl Metric {
    /// For "rcc_auc", `first` contains uncertainties and `second` states which predictions are wrong. For the other metrics, they are the
    /// scores of inliers and of outliers.
    fn new(metric: &str, first: &Scores<'_>, second: &Bound<'_, PyAny>) -> PyResult<Self> {
        let of_detection = || detection(first, &second.extract::<Scores<'_>>()?);
        match metric {
            "roc_auc" => Ok(Self::RocAuc(of_detection()?)),
            "average_precision" => Ok(Self::AveragePrecision(of_detection()?)),
            "fpr95" => Ok(Self::Fpr95(of_detection()?)),
            "rcc_auc" => Ok(Self::RccAuc(selective(first, &second.extract::<Flags<'_>>()?)?)),
            _ => Err(raise(
                "InvalidParameterError",
                format!(
                    "metric={metric:?}: expected one of \"roc_auc\", \"average_precision\", \"fpr95\", \"rcc_auc\""
                ),
            )),
        }
    }

    /// Value of the metric, and its value on each resample.
    fn draws(&self, resampling: Resampling) -> (f64, Vec<f64>) {
        match self {
            Self::RocAuc(data) => (data.roc_auc(), resampling.roc_auc_draws(data)),
            Self::AveragePrecision(data) => {
                (data.average_precision(), resampling.average_precision_draws(data))
            }
            Self::Fpr95(data) => (data.fpr_at_tpr(0.95), resampling.fpr_at_tpr_draws(data, 0.95)),
            Self::RccAuc(data) => (data.rcc_auc(), resampling.rcc_auc_draws(data)),
        }
    }
}

fn interval_tuple(interval: Interval) -> (f64, f64, f64) {
    (interval.value, interval.low, interval.high)
}

/// A metric with its 95 % bootstrap interval.
#[pyfunction]
fn interval(
    metric: &str,
    first: Scores<'_>,
    second: &Bound<'_, PyAny>,
    resamples: usize,
    seed: u64,
) -> PyResult<(f64, f64, f64)> {
    let metric = Metric::new(metric, &first, second)?;
    work::run(second.py(), None, None, move || {
        let (value, draws) = metric.draws(Resampling { resamples, seed });
        Ok(interval_tuple(Interval::new(value, &draws)))
    })
}

/// Metric of the first score minus metric of the second score on the same rows: the difference, the ends of its interval, and the p-value.
/// Each score is given as the two arrays of [`Metric::new`].
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "two scores with two arrays each")]
fn difference(
    metric: &str,
    first: Scores<'_>,
    first_other: &Bound<'_, PyAny>,
    second: Scores<'_>,
    second_other: &Bound<'_, PyAny>,
    resamples: usize,
    seed: u64,
) -> PyResult<(f64, f64, f64, f64)> {
    let metrics = (Metric::new(metric, &first, first_other)?, Metric::new(metric, &second, second_other)?);
    work::run(first_other.py(), None, None, move || {
        let resampling = Resampling { resamples, seed };
        let ((a, of_a), (b, of_b)) = (metrics.0.draws(resampling), metrics.1.draws(resampling));
        let difference = Difference::new((a, &of_a), (b, &of_b))?;
        let (value, low, high) = interval_tuple(difference.interval);
        Ok((value, low, high, difference.p_value))
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
