//! The fitted classifier.

use numpy::PyReadonlyArray1;
use nuq::{Decision, NuqClassifier, RejectRule, Variance};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arrays::{column, embeddings, matrix};
use crate::errors::Failure;
use crate::model::common_methods;
use crate::shared::Shared;
use crate::{labels, params, work};

/// A fitted classifier.
#[pyclass(name = "Classifier", module = "nuq._nuq", frozen)]
pub(crate) struct PyClassifier {
    pub(crate) model: Shared<NuqClassifier<'static>>,
}

#[pymethods]
impl PyClassifier {
    /// Fits rows whose labels are `classes[numbers[i]]`.
    #[staticmethod]
    #[pyo3(signature = (given, x, classes, numbers, n_jobs, tick))]
    fn fit(
        py: Python<'_>,
        given: &Bound<'_, PyDict>,
        x: &Bound<'_, PyAny>,
        classes: &Bound<'_, PyList>,
        numbers: PyReadonlyArray1<'_, i64>,
        n_jobs: Option<usize>,
        tick: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let params = params::classifier(given)?;
        let (x, y) = (embeddings(x)?, labels::of_rows(classes, numbers.as_slice()?)?);
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
        let numbers =
            |of: fn(&nuq::Prediction) -> f64| column(py, &rows.iter().map(of).collect::<Vec<f64>>());
        let said = PyDict::new(py);
        said.set_item("class", column(py, &rows.iter().map(|p| p.class as i64).collect::<Vec<i64>>()))?;
        said.set_item("probability", numbers(|p| p.probability))?;
        said.set_item("aleatoric", numbers(|p| p.aleatoric))?;
        said.set_item("epistemic", numbers(nuq::Prediction::epistemic))?;
        said.set_item("total", numbers(nuq::Prediction::total))?;
        said.set_item("log_epistemic", numbers(|p| p.log_epistemic))?;
        said.set_item("log_total", numbers(|p| p.log_total))?;
        said.set_item("log_density", numbers(|p| p.log_density))?;
        Ok(said)
    }

    /// Probabilities of all classes.
    fn predict_proba<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        n_jobs: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let x = embeddings(x)?;
        let found =
            self.model.ask(py, n_jobs, move |model| Ok((model.predict_proba(&x)?, model.classes().len())))?;
        Ok(matrix(py, found.0.as_slice(), found.1)?.into_any())
    }

    /// Whether to accept each row at a cost, and a level if there is one.
    fn accept<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        cost: f64,
        level: Option<f64>,
        n_jobs: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rule = match level {
            Some(level) => RejectRule::confident(cost, level),
            None => RejectRule::plug_in(cost),
        };
        let (x, rule) = (embeddings(x)?, rule.map_err(Failure::from)?);
        let accepted = self.model.ask(py, n_jobs, move |model| {
            let decisions = model.predict(&x)?.decide(&rule);
            Ok(decisions.iter().map(|decision| *decision == Decision::Accept).collect::<Vec<bool>>())
        })?;
        Ok(column(py, &accepted).into_any())
    }

    /// Row, given and likeliest class with their probabilities, of training rows with doubtful labels.
    fn label_issues<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let issues = self.model.ask(py, None, |model| Ok(model.label_issues()?))?;
        let numbers =
            |of: fn(&nuq::LabelIssue) -> i64| column(py, &issues.iter().map(of).collect::<Vec<i64>>());
        let shares =
            |of: fn(&nuq::LabelIssue) -> f64| column(py, &issues.iter().map(of).collect::<Vec<f64>>());
        let said = PyDict::new(py);
        said.set_item("row", numbers(|issue| issue.row.into()))?;
        said.set_item("given", numbers(|issue| issue.given.into()))?;
        said.set_item("likeliest", numbers(|issue| issue.likeliest.into()))?;
        said.set_item("probability_given", shares(|issue| issue.probability_given))?;
        said.set_item("probability_likeliest", shares(|issue| issue.probability_likeliest))?;
        Ok(said)
    }

    /// Learns rows, and returns their ids.
    fn insert<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        classes: &Bound<'_, PyList>,
        numbers: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (x, y) = (embeddings(x)?, labels::of_rows(classes, numbers.as_slice()?)?);
        let ids = self.model.change(py, move |model| Ok(model.insert(&x, &y)?))?;
        Ok(column(py, &ids.iter().map(|&id| i64::from(id)).collect::<Vec<i64>>()).into_any())
    }

    /// The labels, in the order of their numbers.
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        labels::to_python(py, self.model.read().classes().labels())
    }

    /// The variance term: "sum" or "max".
    fn variance(&self) -> &'static str {
        match self.model.read().variance() {
            Variance::Max => "max",
            _ => "sum",
        }
    }

    /// The class number of each training row.
    fn training_classes<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        let numbers: Vec<i64> =
            self.model.read().training_classes().iter().map(|&class| class.into()).collect();
        column(py, &numbers).into_any()
    }

    /// What leave-one-out said: bandwidths, accuracies, log-likelihoods, and which was chosen.
    fn bandwidth_curve<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let model = self.model.read();
        let Some(curve) = model.bandwidth_curve() else { return Ok(None) };
        let said = PyDict::new(py);
        let of = |read: fn(&nuq::bandwidth::CurvePoint<nuq::ClassificationScore>) -> f64| {
            column(py, &curve.points.iter().map(read).collect::<Vec<f64>>())
        };
        said.set_item("bandwidth", of(|point| point.bandwidth))?;
        said.set_item("accuracy", of(|point| point.score.accuracy))?;
        said.set_item("log_likelihood", of(|point| point.score.log_likelihood))?;
        said.set_item("chosen", curve.chosen)?;
        said.set_item("rows", curve.rows)?;
        Ok(Some(said))
    }
}

common_methods!(PyClassifier, nuq_io::save_classifier);
