//! One call that compares all.

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

/// Rows with what is known of them, as Python gives them: rows, logits, members.
type Given<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Vec<Bound<'py, PyAny>>>);

struct Set {
    name: String,
    rows: Embeddings<'static>,
    logits: Option<Embeddings<'static>>,
    members: Option<Members>,
}

impl Set {
    fn new(name: String, (rows, logits, all): Given<'_>) -> PyResult<Self> {
        let logits = logits.as_ref().map(embeddings).transpose()?;
        let members = all.as_deref().map(members).transpose()?;
        Ok(Self { name, rows: embeddings(&rows)?, logits, members })
    }

    fn rows(&self) -> Rows<'_> {
        let rows = Rows::new(&self.rows);
        let rows = self.logits.as_ref().map_or(rows, |logits| rows.logits(logits));
        self.members.as_ref().map_or(rows, |members| rows.members(members))
    }
}

fn told(measured: Measured) -> (f64, f64, f64, bool) {
    let interval = measured.interval;
    (interval.value, interval.low, interval.high, measured.is_best)
}

/// Every method that the arrays allow: accuracy, whose errors they are, the methods, and those left out.
#[pyfunction]
#[pyo3(signature = (model, test, classes, numbers, ood, resamples, seed))]
#[allow(clippy::too_many_arguments, reason = "the arrays of an evaluation, as Python gives them")]
pub(crate) fn evaluate<'py>(
    py: Python<'py>,
    model: &PyClassifier,
    test: Given<'_>,
    classes: &Bound<'_, PyList>,
    numbers: PyReadonlyArray1<'_, i64>,
    ood: Vec<(String, Given<'_>)>,
    resamples: usize,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let test = Set::new("test".to_owned(), test)?;
    let truth = labels::of_rows(classes, numbers.as_slice()?)?;
    let ood: Vec<Set> =
        ood.into_iter().map(|(name, given)| Set::new(name, given)).collect::<PyResult<_>>()?;
    let found = model.model.ask(py, None, move |model| {
        let start = Instant::now();
        let clock = || start.elapsed().as_secs_f64();
        let resampling = Resampling { resamples, seed };
        let mut comparison = Comparison::new(test.rows(), &truth).resampling(resampling).clock(&clock);
        for set in &ood {
            comparison = comparison.ood(&set.name, set.rows());
        }
        let found = comparison.run(model)?;
        let accuracy = (found.accuracy.value, found.accuracy.low, found.accuracy.high);
        let skipped: Vec<(String, String)> =
            found.skipped.iter().map(|skipped| (skipped.name.clone(), skipped.reason.clone())).collect();
        Ok((accuracy, found.errors_of, found.is_error, found.methods, skipped))
    })?;
    let (accuracy, errors_of, is_error, methods, skipped) = found;
    let said = PyDict::new(py);
    said.set_item("accuracy", accuracy)?;
    said.set_item("errors_of", if errors_of == Predictor::Network { "network" } else { "nuq" })?;
    said.set_item("is_error", column(py, &is_error))?;
    said.set_item("skipped", skipped)?;
    let list = PyList::empty(py);
    methods.iter().try_for_each(|found| list.append(method(py, found)?))?;
    said.set_item("methods", list)?;
    Ok(said)
}

fn method<'py>(py: Python<'py>, found: &MethodResult) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    said.set_item("name", &found.name)?;
    said.set_item("rcc_auc", told(found.rcc_auc))?;
    let of_sets: Vec<_> = found
        .ood
        .iter()
        .map(|set| (told(set.roc_auc), told(set.average_precision), told(set.fpr95)))
        .collect();
    said.set_item("ood", of_sets)?;
    said.set_item("mean_roc_auc", found.mean_roc_auc)?;
    said.set_item("seconds_per_1000", found.seconds_per_1000)?;
    said.set_item("fit_seconds", found.fit_seconds)?;
    said.set_item("bytes", found.bytes)?;
    said.set_item("test_scores", column(py, &found.test))?;
    let ood = PyList::empty(py);
    found.ood_scores.iter().try_for_each(|scores| ood.append(column(py, scores)))?;
    said.set_item("ood_scores", ood)?;
    Ok(said)
}
