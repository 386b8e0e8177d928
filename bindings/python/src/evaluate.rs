//! Comparison of a model with the baselines.

use std::time::Instant;

use numpy::PyReadonlyArray1;
use nuq::Embeddings;
use nuq_eval::baselines::Members;
use nuq_eval::evaluate::{Comparison, Measured, MethodResult, Predictor, Rows};
use nuq_eval::metrics::Resampling;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arrays::{column, embeddings};
use crate::baselines::members;
use crate::classifier::PyClassifier;
use crate::labels;

/// Arrays of one set: rows, logits, members.
type SetArrays<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Vec<Bound<'py, PyAny>>>);

struct Set {
    name: String,
    rows: Embeddings<'static>,
    logits: Option<Embeddings<'static>>,
    members: Option<Members>,
}

impl Set {
    fn new(name: String, (rows, logits, member_logits): SetArrays<'_>) -> PyResult<Self> {
        let logits = logits.as_ref().map(embeddings).transpose()?;
        let members = member_logits.as_deref().map(members).transpose()?;
        Ok(Self { name, rows: embeddings(&rows)?, logits, members })
    }

    fn rows(&self) -> Rows<'_> {
        let rows = Rows::new(&self.rows);
        let rows = self.logits.as_ref().map_or(rows, |logits| rows.logits(logits));
        self.members.as_ref().map_or(rows, |members| rows.members(members))
    }
}

fn measured_tuple(measured: Measured) -> (f64, f64, f64, bool) {
    let interval = measured.interval;
    (interval.value, interval.low, interval.high, measured.is_best)
}

/// Evaluates all methods whose inputs are given.
#[pyfunction]
#[pyo3(signature = (model, test, classes, numbers, ood, resamples, seed))]
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
) -> PyResult<Bound<'py, PyDict>> {
    let test = Set::new("test".to_owned(), test)?;
    let truth = labels::of_rows(classes, numbers.as_slice()?)?;
    let ood: Vec<Set> =
        ood.into_iter().map(|(name, arrays)| Set::new(name, arrays)).collect::<PyResult<_>>()?;
    let results = model.model.query(py, None, move |model| {
        let start = Instant::now();
        let clock = || start.elapsed().as_secs_f64();
        let resampling = Resampling { resamples, seed };
        let mut comparison = Comparison::new(test.rows(), &truth).resampling(resampling).clock(&clock);
        for set in &ood {
            comparison = comparison.ood(&set.name, set.rows());
        }
        let evaluation = comparison.run(model)?;
        let accuracy = (evaluation.accuracy.value, evaluation.accuracy.low, evaluation.accuracy.high);
        let skipped: Vec<(String, String)> =
            evaluation.skipped.iter().map(|skipped| (skipped.name.clone(), skipped.reason.clone())).collect();
        Ok((accuracy, evaluation.errors_of, evaluation.is_error, evaluation.methods, skipped))
    })?;
    let (accuracy, errors_of, is_error, methods, skipped) = results;
    let results = PyDict::new(py);
    results.set_item("accuracy", accuracy)?;
    results.set_item("errors_of", if errors_of == Predictor::Network { "network" } else { "nuq" })?;
    results.set_item("is_error", column(py, &is_error))?;
    results.set_item("skipped", skipped)?;
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
