//! The fitted classifier.

use std::path::PathBuf;

use numpy::PyReadonlyArray1;
use nuq::calibrate::{Predictor, SetRule, SetTarget};
use nuq::column_names::check_distinct;
use nuq::{
    Decision, Embeddings, FittedModel, Label, NetworkProbabilities, NuqClassifier, Probabilities, RejectRule,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arrays::{NeighborArrays, column, embeddings, matrix, neighbor_table, release, sample_weights};
use crate::calibrate::parse;
use crate::errors::Failure;
use crate::model::common_methods;
use crate::rules::PySetRule;
use crate::shared::Shared;
use crate::{labels, params, shards, work};

/// A fitted classifier.
#[pyclass(name = "Classifier", module = "nuq._nuq", frozen)]
pub(crate) struct PyClassifier {
    pub(crate) model: Shared<NuqClassifier<'static>>,
}

#[pymethods]
impl PyClassifier {
    /// Fits a classifier. The label of row `i` is `classes[numbers[i]]`; `names` are the names of the columns; `weights` are sample
    /// weights. `tick` is called repeatedly during the fit and updates the progress display.
    #[staticmethod]
    #[pyo3(signature = (params, x, classes, numbers, weights, names, n_jobs, tick))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of a fit")]
    fn fit(
        py: Python<'_>,
        params: &Bound<'_, PyDict>,
        x: &Bound<'_, PyAny>,
        classes: &Bound<'_, PyList>,
        numbers: PyReadonlyArray1<'_, i64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        names: Option<Vec<String>>,
        n_jobs: Option<usize>,
        tick: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let parsed = params::classifier(params)?;
        let x = params::training_rows(params, x, n_jobs)?;
        let y = labels::of_rows(classes, numbers.as_slice()?)?;
        let weights = sample_weights(weights)?;
        check_distinct(names.as_deref().unwrap_or_default()).map_err(Failure::from)?;
        let model = work::run(py, n_jobs, tick, move || {
            x.load()?;
            let mut model = match weights {
                Some(weights) => parsed.fit_weighted(&x, &y, &weights)?,
                None => parsed.fit(&x, &y)?,
            };
            model.set_column_names(names)?;
            release(&x)?;
            Ok(model)
        })?;
        Ok(Self { model: Shared::new(model) })
    }

    /// Fits a classifier to the rows of shards (files with a part of the rows each) in a folder. Writes the manifest into the
    /// same folder. The manifest is a model file that lists the shards instead of containing the rows. `search` searches the shards; see `shards.rs`.
    #[staticmethod]
    #[pyo3(signature = (params, folder, files, classes, numbers, weights, names, search, n_jobs, tick))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of a fit")]
    fn fit_shards(
        py: Python<'_>,
        params: &Bound<'_, PyDict>,
        folder: PathBuf,
        files: Vec<shards::File>,
        classes: &Bound<'_, PyList>,
        numbers: PyReadonlyArray1<'_, i64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        names: Option<Vec<String>>,
        search: Option<Py<PyAny>>,
        n_jobs: Option<usize>,
        tick: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let parsed = params::classifier(params)?;
        let (y, weights) = (labels::of_rows(classes, numbers.as_slice()?)?, sample_weights(weights)?);
        check_distinct(names.as_deref().unwrap_or_default()).map_err(Failure::from)?;
        work::run(py, n_jobs, tick, move || {
            let rows = shards::training_rows(&folder, files, search)?;
            let mut model = parsed.fit_shards(&rows, &y, weights.as_deref())?;
            model.set_column_names(names)?;
            Ok(nuq_io::save_classifier(&model, &folder, nuq_io::Rows::Stored)?)
        })
    }

    /// Predictions as columns, and the labels to which the class numbers refer. `neighbors` contains ids and squared distances for each
    /// row; if it is given, there is no search. If `network` is given, labels, probabilities and uncertainties describe the predictions
    /// of the network.
    #[pyo3(signature = (x, neighbors, n_jobs, network = None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        neighbors: Option<NeighborArrays<'_>>,
        n_jobs: Option<usize>,
        network: Option<NetworkArrays<'_>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (x, neighbors) = (embeddings(x, n_jobs)?, neighbors.map(neighbor_table).transpose()?);
        let network = network.map(|arrays| NetworkOutputs::new(arrays, n_jobs)).transpose()?;
        let (rows, classes) = self.model.query(py, n_jobs, move |model| {
            let mut predictions = match neighbors {
                Some(neighbors) => model.predict_from(&x, &neighbors)?,
                None => model.predict(&x)?,
            };
            if let Some(network) = network {
                predictions = model.with_network(&predictions, &network.probabilities(model)?)?;
            }
            Ok((predictions.to_vec(), model.classes().labels().to_vec()))
        })?;
        columns_of(py, &rows, &classes)
    }

    /// Predictions of the training rows as columns, by ascending id. Each prediction is computed from the other rows.
    fn leave_one_out<'py>(&self, py: Python<'py>, n_jobs: Option<usize>) -> PyResult<Bound<'py, PyDict>> {
        let (rows, classes) = self.model.query(py, n_jobs, |model| {
            Ok((model.leave_one_out()?.to_vec(), model.classes().labels().to_vec()))
        })?;
        columns_of(py, &rows, &classes)
    }

    /// Probabilities of all classes, and the labels of the classes. `neighbors` as in `predict`.
    fn predict_proba<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        neighbors: Option<NeighborArrays<'_>>,
        n_jobs: Option<usize>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let (x, neighbors) = (embeddings(x, n_jobs)?, neighbors.map(neighbor_table).transpose()?);
        let (probabilities, classes) = self.model.query(py, n_jobs, move |model| {
            let probabilities = match neighbors {
                Some(neighbors) => model.predict_proba_from(&x, &neighbors)?,
                None => model.predict_proba(&x)?,
            };
            Ok((probabilities, model.classes().labels().to_vec()))
        })?;
        let values = matrix(py, probabilities.as_slice(), classes.len())?;
        Ok((values.into_any(), labels::to_python(py, &classes)?))
    }

    /// True for each row that the reject rule accepts: its estimated probability of an error is at most `cost`. If `level` is given, the
    /// margin of [`RejectRule::confident`] is added to this probability. `network` as in `predict`.
    #[pyo3(signature = (x, cost, level, n_jobs, network = None))]
    fn accept<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        cost: f64,
        level: Option<f64>,
        n_jobs: Option<usize>,
        network: Option<NetworkArrays<'_>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let network = network.map(|arrays| NetworkOutputs::new(arrays, n_jobs)).transpose()?;
        let rule = match level {
            Some(level) => RejectRule::confident(cost, level),
            None => RejectRule::plug_in(cost),
        };
        let (x, rule) = (embeddings(x, n_jobs)?, rule.map_err(Failure::from)?);
        let accepted = self.model.query(py, n_jobs, move |model| {
            let mut predictions = model.predict(&x)?;
            if let Some(network) = network {
                predictions = model.with_network(&predictions, &network.probabilities(model)?)?;
            }
            let decisions = predictions.decide(&rule);
            Ok(decisions.iter().map(|decision| *decision == Decision::Accept).collect::<Vec<bool>>())
        })?;
        Ok(column(py, &accepted).into_any())
    }

    /// Calibrates a rule for prediction sets on held-out rows. `training_rows` is the number of held-out rows that equal training rows.
    /// `network` as in `predict`.
    #[pyo3(signature = (x, classes, numbers, coverage, score, by_class, training_rows, n_jobs, network = None))]
    #[allow(clippy::too_many_arguments, reason = "the options of prediction sets")]
    fn calibrate_sets(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        classes: &Bound<'_, PyList>,
        numbers: PyReadonlyArray1<'_, i64>,
        coverage: f64,
        score: &str,
        by_class: bool,
        training_rows: usize,
        n_jobs: Option<usize>,
        network: Option<NetworkArrays<'_>>,
    ) -> PyResult<PySetRule> {
        let (x, y) = (embeddings(x, n_jobs)?, labels::of_rows(classes, numbers.as_slice()?)?);
        let target = SetTarget { coverage, score: parse("set_score", score)?, by_class };
        let network = network.map(|arrays| NetworkOutputs::new(arrays, n_jobs)).transpose()?;
        let inner = self.model.query(py, n_jobs, move |model| {
            let (probabilities, predictor) = class_probabilities(model, &x, network.as_ref())?;
            let rule = SetRule::calibrate(target, &x, &probabilities, model.classes(), &y)?;
            Ok(rule.of_predictor(predictor).on_training_rows(training_rows))
        })?;
        Ok(PySetRule { inner })
    }

    /// The prediction set of each row as one flag per class, and the labels of the classes. `network` as in `predict`.
    #[pyo3(signature = (x, rule, n_jobs, network = None))]
    fn predict_sets<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        rule: &PySetRule,
        n_jobs: Option<usize>,
        network: Option<NetworkArrays<'_>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let (x, rule) = (embeddings(x, n_jobs)?, rule.inner.clone());
        let network = network.map(|arrays| NetworkOutputs::new(arrays, n_jobs)).transpose()?;
        let (sets, classes) = self.model.query(py, n_jobs, move |model| {
            let (probabilities, _) = class_probabilities(model, &x, network.as_ref())?;
            Ok((rule.sets(&x, &probabilities)?, model.classes().labels().to_vec()))
        })?;
        Ok((matrix(py, sets.as_slice(), classes.len())?.into_any(), labels::to_python(py, &classes)?))
    }

    /// Stores a rule for prediction sets under a name.
    fn set_sets(&self, py: Python<'_>, name: String, rule: &PySetRule) -> PyResult<()> {
        let rule = rule.inner.clone();
        self.model.update(py, Some(1), move |model| {
            model.rules_mut().sets.insert(name, rule);
            Ok(())
        })
    }

    /// Removes a rule for prediction sets.
    fn remove_sets(&self, py: Python<'_>, name: String) -> PyResult<()> {
        self.model.update(py, Some(1), move |model| {
            model.rules_mut().sets.remove(&name);
            Ok(())
        })
    }

    /// The stored rules for prediction sets, by name.
    fn sets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for (name, rule) in &self.model.read(py)?.rules().sets {
            values.set_item(name, PySetRule { inner: rule.clone() })?;
        }
        Ok(values)
    }

    /// The temperature by which logits are divided; `None` if no temperature was fitted.
    fn temperature(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.model.read(py)?.rules().fitted_temperature())
    }

    /// Sets the temperature by which logits are divided; `None` removes it.
    fn set_temperature(&self, py: Python<'_>, temperature: Option<f64>) -> PyResult<()> {
        self.model.update(py, Some(1), move |model| Ok(model.rules_mut().set_temperature(temperature)?))
    }

    /// Training rows with doubtful labels: id (`row`), given and predicted class, the probabilities of both, and the labels to which the
    /// class numbers refer.
    fn label_issues<'py>(&self, py: Python<'py>, n_jobs: Option<usize>) -> PyResult<Bound<'py, PyDict>> {
        let (issues, classes) = self
            .model
            .query(py, n_jobs, |model| Ok((model.label_issues()?, model.classes().labels().to_vec())))?;
        let numbers =
            |of: fn(&nuq::LabelIssue) -> i64| column(py, &issues.iter().map(of).collect::<Vec<i64>>());
        let probabilities =
            |of: fn(&nuq::LabelIssue) -> f64| column(py, &issues.iter().map(of).collect::<Vec<f64>>());
        let columns = PyDict::new(py);
        columns.set_item("row", numbers(|issue| issue.row.into()))?;
        columns.set_item("classes", labels::to_python(py, &classes)?)?;
        columns.set_item("given", numbers(|issue| issue.given.into()))?;
        columns.set_item("predicted_label", numbers(|issue| issue.predicted_label.into()))?;
        columns.set_item("probability_given", probabilities(|issue| issue.probability_given))?;
        columns.set_item("predicted_probability", probabilities(|issue| issue.predicted_probability))?;
        Ok(columns)
    }

    /// Inserts rows and returns their ids. The labels must have the same type as the classes.
    fn insert<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'_, PyAny>,
        classes: &Bound<'_, PyList>,
        numbers: PyReadonlyArray1<'_, i64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        n_jobs: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (x, y) = (embeddings(x, n_jobs)?, labels::of_rows(classes, numbers.as_slice()?)?);
        let weights = sample_weights(weights)?;
        let ids = self.model.update(py, n_jobs, move |model| {
            let y: Vec<Label> = y.into_iter().map(|label| model.classes().convert(label)).collect();
            model.classes().check_kind(&y)?;
            Ok(match weights {
                Some(weights) => model.insert_weighted(&x, &y, &weights)?,
                None => model.insert(&x, &y)?,
            })
        })?;
        Ok(column(py, &ids.iter().map(|&id| i64::from(id)).collect::<Vec<i64>>()).into_any())
    }

    /// Replaces the labels of training rows. The labels must have the same type as the classes.
    fn relabel(
        &self,
        py: Python<'_>,
        ids: Vec<u32>,
        classes: &Bound<'_, PyList>,
        numbers: PyReadonlyArray1<'_, i64>,
        n_jobs: Option<usize>,
    ) -> PyResult<()> {
        let y = labels::of_rows(classes, numbers.as_slice()?)?;
        self.model.update(py, n_jobs, move |model| {
            let y: Vec<Label> = y.into_iter().map(|label| model.classes().convert(label)).collect();
            model.classes().check_kind(&y)?;
            Ok(model.relabel(&ids, &y)?)
        })
    }

    /// The class number of the label of each row, and the labels to which the class numbers refer. The number of a label that is not a class is
    /// -1. The labels must have the same type as the classes.
    fn class_numbers<'py>(
        &self,
        py: Python<'py>,
        classes: &Bound<'_, PyList>,
        numbers: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let y = labels::of_rows(classes, numbers.as_slice()?)?;
        let model = self.model.read(py)?;
        let y: Vec<Label> = y.into_iter().map(|label| model.classes().convert(label)).collect();
        model.classes().check_kind(&y).map_err(Failure::from)?;
        let known = model.classes().labels();
        let number = |label: &Label| known.binary_search(label).map_or(-1, |class| class as i64);
        let numbers = column(py, &y.iter().map(number).collect::<Vec<i64>>());
        Ok((numbers.into_any(), labels::to_python(py, known)?))
    }

    /// Labels in the order of the class numbers.
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        labels::to_python(py, self.model.read(py)?.classes().labels())
    }

    /// Whether the labels look like targets of a regression: they are integers, and many of them are distinct.
    fn has_many_integers(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.model.read(py)?.classes().look_like_targets())
    }

    /// Variance term of the epistemic uncertainty: "sum" or "max".
    fn variance(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.model.read(py)?.variance().name())
    }

    /// The labels in the order of the class numbers, and the class number of each id. The class number of an id that names no row has no meaning.
    fn training_classes<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyAny>)> {
        let model = self.model.read(py)?;
        let numbers: Vec<i64> = model.training_classes().iter().map(|&class| class.into()).collect();
        Ok((labels::to_python(py, model.classes().labels())?, column(py, &numbers).into_any()))
    }

    /// Leave-one-out scores of the candidate bandwidths, the index of the selected one (`chosen`), and the number of left-out rows
    /// (`rows`). `None` if the bandwidth was not selected by leave-one-out.
    fn bandwidth_curve<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let model = self.model.read(py)?;
        let Some(curve) = model.bandwidth_curve() else { return Ok(None) };
        let columns = PyDict::new(py);
        let score = |read: fn(&nuq::bandwidth::CurvePoint<nuq::ClassificationScore>) -> f64| {
            column(py, &curve.points.iter().map(read).collect::<Vec<f64>>())
        };
        columns.set_item("bandwidth", score(|point| point.bandwidth))?;
        columns.set_item("accuracy", score(|point| point.score.accuracy))?;
        columns.set_item("log_likelihood", score(|point| point.score.log_likelihood))?;
        columns.set_item("chosen", curve.chosen)?;
        columns.set_item("rows", curve.rows)?;
        Ok(Some(columns))
    }
}

/// Logits or probabilities of the network with one column per class, whether they are logits, and the classes in the order of the columns.
type NetworkArrays<'py> = (Bound<'py, PyAny>, bool, Bound<'py, PyList>);

/// The outputs of the network, in the order of the classes.
struct NetworkOutputs {
    values: Embeddings<'static>,
    are_logits: bool,
    classes: Vec<Label>,
}

impl NetworkOutputs {
    fn new((array, are_logits, classes): NetworkArrays<'_>, n_jobs: Option<usize>) -> PyResult<Self> {
        Ok(Self { values: embeddings(&array, n_jobs)?, are_logits, classes: labels::from_list(&classes)? })
    }

    /// The probabilities of the classes of `model`. Its classes are compared, because another thread may have changed them since the columns
    /// were put into their order.
    fn probabilities(&self, model: &NuqClassifier<'_>) -> Result<NetworkProbabilities, Failure> {
        if self.classes != model.classes().labels() {
            return Err(Failure::OtherClasses);
        }
        Ok(if self.are_logits {
            model.network(&self.values)?
        } else {
            NetworkProbabilities::from_probabilities(self.values.as_slice(), self.values.dim())?
        })
    }
}

/// Class probabilities and their predictor: those of the network if its outputs are given, otherwise those of the model.
fn class_probabilities(
    model: &NuqClassifier<'_>,
    x: &Embeddings<'_>,
    network: Option<&NetworkOutputs>,
) -> Result<(Probabilities, Predictor), Failure> {
    match network {
        Some(network) => Ok((network.probabilities(model)?.probabilities(), Predictor::Network)),
        None => Ok((model.predict_proba(x)?, Predictor::Nuq)),
    }
}

common_methods!(PyClassifier, nuq_io::save_classifier);

/// Predictions as columns, and the labels to which the class numbers refer.
fn columns_of<'py>(
    py: Python<'py>,
    rows: &[nuq::Prediction],
    classes: &[Label],
) -> PyResult<Bound<'py, PyDict>> {
    let numbers = |of: fn(&nuq::Prediction) -> f64| column(py, &rows.iter().map(of).collect::<Vec<f64>>());
    let columns = PyDict::new(py);
    columns.set_item("class", column(py, &rows.iter().map(|p| p.class as i64).collect::<Vec<i64>>()))?;
    columns.set_item("classes", labels::to_python(py, classes)?)?;
    columns.set_item("probability", numbers(|p| p.probability))?;
    columns.set_item("aleatoric", numbers(|p| p.aleatoric))?;
    columns.set_item("epistemic", numbers(nuq::Prediction::epistemic))?;
    columns.set_item("total", numbers(nuq::Prediction::total))?;
    columns.set_item("log_epistemic", numbers(|p| p.log_epistemic))?;
    columns.set_item("log_total", numbers(|p| p.log_total))?;
    columns.set_item("log_density", numbers(|p| p.log_density))?;
    Ok(columns)
}
