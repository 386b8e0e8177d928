//! The fitted classifier.

use std::path::PathBuf;
use std::sync::{Arc, RwLock, RwLockReadGuard};

use numpy::PyReadonlyArray1;
use nuq::{Decision, Model, NuqClassifier, RejectRule, Variance};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arrays::{column, embeddings, matrix};
use crate::errors::Failure;
use crate::regressor::PyRegressor;
use crate::{labels, params, work};

/// A fitted classifier; many threads may ask it at once.
#[pyclass(name = "Classifier", module = "nuq._nuq", frozen)]
pub(crate) struct PyClassifier {
    model: Arc<RwLock<NuqClassifier<'static>>>,
}

impl PyClassifier {
    fn new(model: NuqClassifier<'static>) -> Self {
        Self { model: Arc::new(RwLock::new(model)) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, NuqClassifier<'static>> {
        self.model.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asks the model on a thread of its own.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        n_jobs: Option<usize>,
        question: impl FnOnce(&NuqClassifier<'static>) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        let model = self.model.clone();
        work::run_in(py, n_jobs, None, move |pool| {
            let model = model.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            let model = &*model;
            pool.install(|| question(model))
        })
    }

    /// Changes the model on a thread of its own.
    fn change<T: Send + 'static>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut NuqClassifier<'static>) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        let model = self.model.clone();
        work::run_in(py, None, None, move |pool| {
            let mut model = model.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            let model = &mut *model;
            pool.install(|| change(model))
        })
    }
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
        Ok(Self::new(model))
    }

    /// Columns of what is said of each row.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        n_jobs: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let x = embeddings(x)?;
        let rows = self.ask(py, n_jobs, move |model| Ok(model.predict(&x)?.to_vec()))?;
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
            self.ask(py, n_jobs, move |model| Ok((model.predict_proba(&x)?, model.classes().len())))?;
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
        let accepted = self.ask(py, n_jobs, move |model| {
            let decisions = model.predict(&x)?.decide(&rule);
            Ok(decisions.iter().map(|decision| *decision == Decision::Accept).collect::<Vec<bool>>())
        })?;
        Ok(column(py, &accepted).into_any())
    }

    /// Row, given and likeliest class with their probabilities, of training rows with doubtful labels.
    fn label_issues<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let issues = self.ask(py, None, |model| Ok(model.label_issues()?))?;
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
        let ids = self.change(py, move |model| Ok(model.insert(&x, &y)?))?;
        Ok(column(py, &ids.iter().map(|&id| i64::from(id)).collect::<Vec<i64>>()).into_any())
    }

    /// The labels, in the order of their numbers.
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        labels::to_python(py, self.read().classes().labels())
    }

    /// The variance term: "sum" or "max".
    fn variance(&self) -> &'static str {
        match self.read().parts().variance {
            Variance::Max => "max",
            _ => "sum",
        }
    }

    /// The class number of each training row.
    fn training_classes<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        let numbers: Vec<i64> = self.read().training_classes().iter().map(|&class| class.into()).collect();
        column(py, &numbers).into_any()
    }

    /// What leave-one-out said: bandwidths, accuracies, log-likelihoods, and which was chosen.
    fn bandwidth_curve<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let model = self.read();
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

/// What a fitted model of either kind tells and does.
macro_rules! common_methods {
    ($class:ident, $save:path) => {
        #[pymethods]
        impl $class {
            /// Distances and ids of the nearest training rows.
            fn kneighbors<'py>(
                &self,
                py: Python<'py>,
                x: Option<&Bound<'_, PyAny>>,
                k: usize,
                n_jobs: Option<usize>,
            ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
                let x = x.map($crate::arrays::embeddings).transpose()?;
                let found = self.ask(py, n_jobs, move |model| match x {
                    Some(x) => Ok(model.neighbors_of(&x, k)?),
                    None => Ok(model.index().leave_one_out(&model.index().live_ids(), k)?),
                })?;
                let (rows, k) = (found.len(), found.k());
                let distances: Vec<f64> =
                    (0..rows).flat_map(|i| found.sq_distances(i)).map(|sq| sq.sqrt()).collect();
                let ids: Vec<i64> = (0..rows).flat_map(|i| found.ids(i)).map(|&id| id.into()).collect();
                let (distances, ids) =
                    ($crate::arrays::matrix(py, &distances, k)?, $crate::arrays::matrix(py, &ids, k)?);
                Ok((distances.into_any(), ids.into_any()))
            }

            /// Forgets rows by id.
            fn remove(&self, py: Python<'_>, ids: Vec<u32>) -> PyResult<()> {
                self.change(py, move |model| Ok(model.remove(&ids)?))
            }

            /// Writes the model file.
            fn save(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
                self.ask(py, None, move |model| Ok($save(model, &path)?))
            }

            /// Keeps a threshold under a name.
            fn set_threshold(
                &self,
                py: Python<'_>,
                name: String,
                threshold: &$crate::calibrate::PyThreshold,
            ) -> PyResult<()> {
                let threshold = threshold.inner;
                self.change(py, move |model| {
                    model.set_threshold(name, threshold);
                    Ok(())
                })
            }

            /// The thresholds, by name.
            fn thresholds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
                let said = pyo3::types::PyDict::new(py);
                for (name, threshold) in self.read().thresholds() {
                    said.set_item(name, $crate::calibrate::PyThreshold { inner: *threshold })?;
                }
                Ok(said)
            }

            /// The bandwidth: a number, or one for each dimension or training row.
            fn bandwidth<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                Ok(match self.read().bandwidth() {
                    nuq::Bandwidth::Scalar(h) => h.into_pyobject(py)?.into_any(),
                    nuq::Bandwidth::PerDimension(many) | nuq::Bandwidth::PerPoint(many) => {
                        $crate::arrays::column(py, many).into_any()
                    }
                })
            }

            /// Numbers and words of what was learned.
            fn learned<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
                let model = self.read();
                let said = pyo3::types::PyDict::new(py);
                said.set_item("density_bandwidth", model.density_bandwidth())?;
                said.set_item("dimension", model.dimension())?;
                said.set_item("index", model.index().describe().to_string())?;
                said.set_item("index_reason", model.index_choice().reason.to_string())?;
                said.set_item("n_rows", model.index().len())?;
                said.set_item("n_columns", model.index().dim())?;
                said.set_item("n_neighbors", model.neighbors())?;
                Ok(said)
            }

            /// What the model is made of, as the constructor's parameters.
            fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
                let model = self.read();
                $crate::params::to_python(py, &model.parts().smoother, model.index().dim())
            }
        }
    };
}
common_methods!(PyClassifier, nuq_io::save_classifier);
pub(crate) use common_methods;

/// A model of either kind from a file.
#[pyfunction]
fn load(py: Python<'_>, path: PathBuf) -> PyResult<Py<PyAny>> {
    let opened = work::run(py, None, None, move || Ok(nuq_io::open(&path)?))?;
    Ok(match opened.model {
        Model::Classifier(model) => Py::new(py, PyClassifier::new(model))?.into_any(),
        Model::Regressor(model) => Py::new(py, PyRegressor::new(model))?.into_any(),
    })
}

/// Rows that are worth a label.
#[pyfunction]
fn suggest<'py>(
    py: Python<'py>,
    x: &Bound<'_, PyAny>,
    uncertainty: PyReadonlyArray1<'_, f64>,
    count: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let (x, uncertainty) = (embeddings(x)?, uncertainty.as_slice()?.to_vec());
    let chosen = work::run(py, None, None, move || Ok(nuq::suggest(&x, &uncertainty, count)))?;
    Ok(column(py, &chosen.iter().map(|&row| row as i64).collect::<Vec<i64>>()).into_any())
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_function(wrap_pyfunction!(suggest, module)?)
}
