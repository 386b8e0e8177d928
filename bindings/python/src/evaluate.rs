//! Comparison of a model with the baselines.

use std::time::Instant;

use numpy::PyReadonlyArray1;
use nuq::{Device, Embeddings, Label};
use nuq_eval::baselines::Members;
use nuq_eval::evaluate::{Comparison, Measured, MethodResult, Rows};
use nuq_eval::metrics::Resampling;
use nuq_report::{Report, ReportOptions};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arrays::{column, embeddings};
use crate::baselines::members;
use crate::calibrate::PyThreshold;
use crate::classifier::PyClassifier;
use crate::labels;
use crate::params::parse;
use crate::work::without_gil;

/// Arrays of one [`Set`]: embeddings, logits of the network, and logits of each member of an ensemble.
type SetArrays<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Vec<Bound<'py, PyAny>>>);

/// The test rows, or the rows of one out-of-distribution set.
struct Set {
    name: String,
    rows: Embeddings<'static>,
    logits: Option<Embeddings<'static>>,
    members: Option<Members>,
}

impl Set {
    fn new(
        name: String,
        (rows, logits, member_logits): SetArrays<'_>,
        n_jobs: Option<usize>,
    ) -> PyResult<Self> {
        let logits = logits.as_ref().map(|logits| embeddings(logits, n_jobs)).transpose()?;
        let members = member_logits.as_deref().map(|all| members(all, n_jobs)).transpose()?;
        Ok(Self { name, rows: embeddings(&rows, n_jobs)?, logits, members })
    }

    fn rows(&self) -> Rows<'_> {
        let rows = Rows::new(&self.rows);
        let rows = self.logits.as_ref().map_or(rows, |logits| rows.logits(logits));
        self.members.as_ref().map_or(rows, |members| rows.members(members))
    }
}

/// The value of a metric, the ends of its interval, and whether the method is the best or does not differ significantly from the best.
fn measured_tuple(measured: Measured) -> (f64, f64, f64, bool) {
    let interval = measured.interval;
    (interval.value, interval.low, interval.high, measured.is_best)
}

/// An evaluation report.
#[pyclass(name = "Report", module = "nuq._nuq", frozen)]
pub(crate) struct PyReport {
    inner: Report,
}

#[pymethods]
impl PyReport {
    /// A complete HTML page with all figures.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        without_gil(py, None, || self.inner.page())
    }

    /// A part of an HTML page for notebooks: the table and the main figures.
    fn html_fragment(&self, py: Python<'_>) -> PyResult<String> {
        without_gil(py, None, || self.inner.html_fragment())
    }

    /// All numbers as JSON.
    fn json(&self) -> String {
        self.inner.json()
    }
}

/// Evaluates all methods whose inputs are given.
#[pyfunction]
#[pyo3(signature = (model, test, classes, numbers, ood, resamples, seed, threshold, device, n_jobs))]
#[allow(clippy::too_many_arguments, reason = "the arrays of an evaluation")]
pub(crate) fn evaluate<'py>(
    py: Python<'py>,
    model: &PyClassifier,
    test: SetArrays<'_>,
    classes: &Bound<'_, PyList>,
    numbers: PyReadonlyArray1<'_, i64>,
    ood: Vec<(String, SetArrays<'_>)>,
    resamples: usize,
    seed: u64,
    threshold: Option<(String, Bound<'_, PyThreshold>)>,
    device: &Bound<'_, PyAny>,
    n_jobs: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let device: Device = parse("device", device)?;
    let options = ReportOptions {
        threshold: threshold.map(|(name, threshold)| (name, threshold.get().inner)),
        command: "nuq.evaluate".to_owned(),
        ..ReportOptions::default()
    };
    let test = Set::new("test".to_owned(), test, n_jobs)?;
    let truth = labels::of_rows(classes, numbers.as_slice()?)?;
    let ood: Vec<Set> =
        ood.into_iter().map(|(name, arrays)| Set::new(name, arrays, n_jobs)).collect::<PyResult<_>>()?;
    let results = model.model.query(py, n_jobs, move |model| {
        let truth: Vec<Label> = truth.into_iter().map(|label| model.classes().convert(label)).collect();
        let start = Instant::now();
        let clock = || start.elapsed().as_secs_f64();
        let resampling = Resampling { resamples, seed };
        let mut comparison = Comparison::new(test.rows(), &truth).resampling(resampling).clock(&clock);
        for set in &ood {
            comparison = comparison.ood(&set.name, set.rows());
        }
        let evaluation = device.scope(|| comparison.run(model))?;
        let report = Report::from_evaluation(model, &comparison, &evaluation, &options);
        let accuracy = (evaluation.accuracy.value, evaluation.accuracy.low, evaluation.accuracy.high);
        let skipped: Vec<(String, String)> =
            evaluation.skipped.iter().map(|skipped| (skipped.name.clone(), skipped.reason.clone())).collect();
        // Another order of the columns of the logits, if it explains the labels much better than the order of the classes.
        let order = evaluation.column_order.map(|order| {
            let classes: Vec<String> = order.classes.iter().map(ToString::to_string).collect();
            (classes, order.accuracy, order.given_accuracy)
        });
        Ok((accuracy, evaluation.predictor, evaluation.is_error, evaluation.methods, skipped, report, order))
    })?;
    let (accuracy, predictor, is_error, methods, skipped, report, order) = results;
    let results = PyDict::new(py);
    results.set_item("accuracy", accuracy)?;
    results.set_item("predictor", predictor.name())?;
    results.set_item("is_error", column(py, &is_error))?;
    results.set_item("skipped", skipped)?;
    results.set_item("column_order", order)?;
    // Some data, such as a single training row, cannot be projected to two dimensions. The evaluation then has metrics but no report.
    match report {
        Ok(inner) => results.set_item("report", Py::new(py, PyReport { inner })?)?,
        Err(error) => results.set_item("report_error", error.to_string())?,
    }
    let list = PyList::empty(py);
    methods.iter().try_for_each(|result| list.append(method(py, result)?))?;
    results.set_item("methods", list)?;
    Ok(results)
}

fn method<'py>(py: Python<'py>, result: &MethodResult) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("name", &result.name)?;
    fields.set_item("rcc_auc", measured_tuple(result.rcc_auc))?;
    let of_sets: Vec<_> = result
        .ood
        .iter()
        .map(|set| {
            (measured_tuple(set.roc_auc), measured_tuple(set.average_precision), measured_tuple(set.fpr95))
        })
        .collect();
    fields.set_item("ood", of_sets)?;
    fields.set_item("mean_roc_auc", result.mean_roc_auc)?;
    fields.set_item("seconds_per_1000", result.seconds_per_1000)?;
    fields.set_item("fit_seconds", result.fit_seconds)?;
    fields.set_item("bytes", result.bytes)?;
    fields.set_item("test_scores", column(py, &result.test))?;
    let ood = PyList::empty(py);
    result.ood_scores.iter().try_for_each(|scores| ood.append(column(py, scores)))?;
    fields.set_item("ood_scores", ood)?;
    Ok(fields)
}
