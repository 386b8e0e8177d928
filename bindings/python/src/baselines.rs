//! Baseline scores. One function per family (scores of logits, of ensembles, of embeddings and so on) creates scorers, and the class
//! `Scorer` evaluates all of them.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::PyReadonlyArray1;
use nuq::{Device, Embeddings, Label, Shrinkage, UnknownChoice};
use nuq_eval::baselines::{
    Batch, Ddu, Duq, DuqParams, Energy, Ensemble, Entropy, Fdbd, Gen, Head, Huq, KnnDistance,
    LocalOutlierFactor, Mahalanobis, Margin, MaxLogit, MaxProb, Members, NnGuide, Normalized, Param, React,
    RelativeMahalanobis, Scorer, Sngp, SngpParams, Uncertainties, Vim,
};
use nuq_io::{BaselineDetails, BaselineFile, TrainingRows};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arrays::{column, copied_embeddings, embeddings, release};
use crate::calibrate::PyScoreThreshold;
use crate::errors::{Failure, raise};
use crate::metrics::class_numbers;
use crate::params::parse;
use crate::{labels, work};

/// A baseline score. It is fitted if it estimates parameters from training rows.
#[pyclass(name = "Scorer", module = "nuq._nuq", frozen)]
struct PyScorer {
    inner: Arc<dyn Scorer>,
    /// Stored thresholds and a description of the training rows. The lock is held only while a value is copied or stored.
    details: Mutex<BaselineDetails>,
}

impl PyScorer {
    fn new(inner: Arc<dyn Scorer>, details: BaselineDetails) -> Self {
        Self { inner, details: Mutex::new(details) }
    }

    fn details(&self) -> MutexGuard<'_, BaselineDetails> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyScorer {
    /// Score of each row. A higher score means a less certain prediction. `members` are the logits of the members of an ensemble, and
    /// `uncertainties` the aleatoric and epistemic uncertainties of the rows, which only [`Huq`] uses.
    fn score<'py>(
        &self,
        py: Python<'py>,
        rows: Option<&Bound<'_, PyAny>>,
        logits: Option<&Bound<'_, PyAny>>,
        members: Option<Vec<Bound<'_, PyAny>>>,
        uncertainties: Option<(PyReadonlyArray1<'_, f64>, PyReadonlyArray1<'_, f64>)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let uncertainties = match uncertainties {
            Some((aleatoric, epistemic)) => {
                Some((aleatoric.as_slice()?.to_vec(), epistemic.as_slice()?.to_vec()))
            }
            None => None,
        };
        let rows = rows.map(|rows| embeddings(rows, None)).transpose()?;
        let logits = logits.map(|logits| embeddings(logits, None)).transpose()?;
        let members = members.map(|all| self::members(&all, None)).transpose()?;
        let scorer = self.inner.clone();
        let scores = work::run(py, None, None, move || {
            let batch = Batch {
                embeddings: rows.as_ref(),
                logits: logits.as_ref(),
                members: members.as_ref(),
                uncertainties: uncertainties
                    .as_ref()
                    .map(|(aleatoric, epistemic)| Uncertainties { aleatoric, epistemic }),
                ..Batch::default()
            };
            Ok(scorer.score(&batch)?)
        })?;
        Ok(column(py, &scores).into_any())
    }

    /// The number of rows that equal training rows; 0 if the baseline stores no training rows.
    fn equal_training_rows(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (rows, scorer) = (embeddings(rows, None)?, self.inner.clone());
        work::run(py, None, None, move || Ok(scorer.equal_training_rows(&rows)?.unwrap_or(0)))
    }

    /// Writes the file of the baseline.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let (scorer, details) = (self.inner.clone(), self.details().clone());
        work::run(py, None, None, move || Ok(nuq_io::save_baseline(&*scorer, &details, &path)?))
    }

    /// Stores a threshold under a name.
    fn set_threshold(&self, name: String, threshold: &PyScoreThreshold) {
        self.details().thresholds.insert(name, threshold.inner);
    }

    /// Stored thresholds by name.
    fn thresholds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (values, thresholds) = (PyDict::new(py), self.details().thresholds.clone());
        for (name, inner) in thresholds {
            values.set_item(name, PyScoreThreshold { inner })?;
        }
        Ok(values)
    }

    /// The same baseline with a description of its training rows and without thresholds.
    fn with_training(
        &self,
        rows: usize,
        columns: usize,
        column_names: Option<Vec<String>>,
    ) -> PyResult<PyScorer> {
        if let Some(names) = &column_names {
            nuq::column_names::check_distinct(names).map_err(Failure::from)?;
        }
        let training = Some(TrainingRows { rows, columns, column_names });
        Ok(PyScorer::new(self.inner.clone(), BaselineDetails { training, ..BaselineDetails::default() }))
    }

    /// Names of the columns of the training rows.
    fn column_names(&self) -> Option<Vec<String>> {
        self.details().training.as_ref()?.column_names.clone()
    }

    /// Description of the difference between `names` and the column names of the training rows; `None` if the names are accepted.
    fn different_names(&self, names: Vec<String>) -> Option<String> {
        match self.details().training.as_ref()?.check_column_names(&names) {
            Err(nuq::Error::ColumnNames(difference)) => Some(difference.to_string()),
            _ => None,
        }
    }

    /// Display name.
    #[getter]
    fn name(&self) -> String {
        self.inner.name()
    }
}

/// Logits of the members of an ensemble.
pub(crate) fn members(all: &[Bound<'_, PyAny>], n_jobs: Option<usize>) -> PyResult<Members> {
    let logits: Vec<Embeddings<'static>> =
        all.iter().map(|logits| embeddings(logits, n_jobs)).collect::<PyResult<_>>()?;
    Ok(Members::new(logits).map_err(Failure::from)?)
}

fn scorer(inner: impl Scorer + 'static) -> PyScorer {
    without_details(Arc::new(inner))
}

/// A scorer without thresholds and without a description of its training rows.
fn without_details(inner: Arc<dyn Scorer>) -> PyScorer {
    PyScorer::new(inner, BaselineDetails::default())
}

/// Wraps a scorer. With `normalize`, the scorer was fitted to L2-normalized rows, and the wrapper normalizes rows before it scores them.
fn wrap<S: Scorer + 'static>(scorer: S, normalize: bool) -> Arc<dyn Scorer> {
    if normalize { Arc::new(Normalized::new(scorer)) } else { Arc::new(scorer) }
}

/// A score of logits. It needs no fit.
#[pyfunction]
fn from_logits(name: &str, temperature: f64, gamma: f64, top: usize) -> PyResult<PyScorer> {
    Ok(match name {
        "max_prob" => scorer(MaxProb),
        "entropy" => scorer(Entropy),
        "margin" => scorer(Margin),
        "max_logit" => scorer(MaxLogit),
        "energy" => scorer(Energy::new(temperature).map_err(Failure::from)?),
        "gen" => scorer(Gen::new(gamma, top).map_err(Failure::from)?),
        _ => return Err(unknown(name)),
    })
}

fn unknown(name: &str) -> PyErr {
    raise("InvalidParameterError", format!("unknown baseline {name:?}"))
}

/// A score of an ensemble.
#[pyfunction]
fn from_members(reduction: &str) -> PyResult<PyScorer> {
    Ok(scorer(Ensemble(parse_reduction(reduction)?)))
}

/// Parses the reduction of a baseline. The error lists the choices.
fn parse_reduction<T: FromStr<Err = UnknownChoice>>(reduction: &str) -> PyResult<T> {
    reduction.parse().map_err(|unknown: UnknownChoice| {
        raise("InvalidParameterError", format!("reduction={reduction:?}: expected {}", unknown.list()))
    })
}

/// A score that is fitted to rows, and to their labels if it uses labels. The label of row `i` is `classes[numbers[i]]`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the parameters of all scores of this family")]
fn from_embeddings(
    py: Python<'_>,
    name: String,
    rows: &Bound<'_, PyAny>,
    classes: &Bound<'_, PyList>,
    numbers: PyReadonlyArray1<'_, i64>,
    normalize: bool,
    k: usize,
    shrinkage: Option<f64>,
    device: &Bound<'_, PyAny>,
) -> PyResult<PyScorer> {
    let device: Device = parse("device", device)?;
    let (rows, labels) = (copied_embeddings(rows, None)?, labels::of_rows(classes, numbers.as_slice()?)?);
    let shrinkage = shrinkage.map_or(Shrinkage::LedoitWolf, Shrinkage::Fixed);
    let inner = work::run(py, None, None, move || {
        rows.load()?;
        let given = rows.clone();
        let rows = if normalize { rows.l2_normalized() } else { rows };
        let scorer = device.scope(|| fitted(&name, &rows, &labels, normalize, k, shrinkage));
        release(&given)?;
        Ok(scorer)
    })?;
    Ok(without_details(inner?))
}

fn fitted(
    name: &str,
    rows: &Embeddings<'static>,
    labels: &[Label],
    normalize: bool,
    k: usize,
    shrinkage: Shrinkage,
) -> PyResult<Arc<dyn Scorer>> {
    match name {
        "ddu" => Ok(wrap(Ddu::fit(rows, labels, shrinkage).map_err(Failure::from)?, normalize)),
        "mahalanobis" => {
            Ok(wrap(Mahalanobis::fit(rows, labels, shrinkage).map_err(Failure::from)?, normalize))
        }
        "relative_mahalanobis" => {
            Ok(wrap(RelativeMahalanobis::fit(rows, labels, shrinkage).map_err(Failure::from)?, normalize))
        }
        "knn_kth" => Ok(wrap(KnnDistance::kth(rows, k).map_err(Failure::from)?, normalize)),
        "knn_mean" => Ok(wrap(KnnDistance::mean(rows, k).map_err(Failure::from)?, normalize)),
        "lof" => Ok(wrap(LocalOutlierFactor::fit(rows, k).map_err(Failure::from)?, normalize)),
        _ => Err(unknown(name)),
    }
}

/// A score that is fitted to rows and logits. For all scores except "nnguide", the weights of the last linear layer of the network are
/// estimated from rows and logits.
#[pyfunction]
fn from_embeddings_and_logits(
    py: Python<'_>,
    name: String,
    rows: &Bound<'_, PyAny>,
    logits: &Bound<'_, PyAny>,
    k: usize,
    quantile: f64,
    principal: Option<usize>,
) -> PyResult<PyScorer> {
    let (rows, logits) = (copied_embeddings(rows, None)?, embeddings(logits, None)?);
    work::run(py, None, None, move || {
        if name == "nnguide" {
            return Ok(Ok(scorer(NnGuide::fit(&rows, &logits, k)?)));
        }
        let head = Head::fit(&rows, &logits)?;
        Ok(Ok(match &*name {
            "vim" => scorer(Vim::fit(&rows, &head, principal)?),
            "fdbd" => scorer(Fdbd::fit(&rows, &head)?),
            "react" => scorer(React::fit(&rows, &head, quantile)?),
            _ => return Ok(Err(unknown(&name))),
        }))
    })?
}

/// Temperature that maximizes the likelihood of held-out labels.
#[pyfunction]
fn temperature(
    logits: &Bound<'_, PyAny>,
    classes: PyReadonlyArray1<'_, i64>,
    n_jobs: Option<usize>,
) -> PyResult<f64> {
    let classes = class_numbers(&classes)?;
    let rows = embeddings(logits, n_jobs)?;
    work::run(logits.py(), n_jobs, None, move || Ok(nuq_eval::baselines::temperature(&rows, &classes)?))
}

/// The last layer of SNGP, fitted to rows and labels.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the parameters of the layer")]
fn sngp(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    classes: &Bound<'_, PyList>,
    numbers: PyReadonlyArray1<'_, i64>,
    features: usize,
    length_scale: Option<f64>,
    ridge: f64,
    seed: u64,
    reduction: &str,
    normalize: bool,
) -> PyResult<PyScorer> {
    let (rows, labels) = (embeddings(rows, None)?, labels::of_rows(classes, numbers.as_slice()?)?);
    let params = SngpParams { features, length_scale, ridge, seed, reduction: parse_reduction(reduction)? };
    work::run(py, None, None, move || {
        let rows = if normalize { rows.l2_normalized() } else { rows };
        Ok(without_details(wrap(Sngp::fit(&rows, &labels, params)?, normalize)))
    })
}

/// The last layer of DUQ, fitted to rows and labels.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the parameters of the layer")]
fn duq(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    classes: &Bound<'_, PyList>,
    numbers: PyReadonlyArray1<'_, i64>,
    projection: usize,
    length_scale: f64,
    momentum: f64,
    steps: usize,
    batch: usize,
    learning_rate: f64,
    seed: u64,
    normalize: bool,
) -> PyResult<PyScorer> {
    let (rows, labels) = (embeddings(rows, None)?, labels::of_rows(classes, numbers.as_slice()?)?);
    let params = DuqParams { projection, length_scale, momentum, steps, batch, learning_rate, seed };
    work::run(py, None, None, move || {
        let rows = if normalize { rows.l2_normalized() } else { rows };
        Ok(without_details(wrap(Duq::fit(&rows, &labels, params)?, normalize)))
    })
}

/// Hybrid uncertainty, fitted to the uncertainties of reference rows.
#[pyfunction]
fn huq(
    aleatoric: PyReadonlyArray1<'_, f64>,
    epistemic: PyReadonlyArray1<'_, f64>,
    alpha: f64,
    epistemic_quantile: f64,
    aleatoric_quantile: f64,
) -> PyResult<PyScorer> {
    let (aleatoric, epistemic) = (aleatoric.as_slice()?, epistemic.as_slice()?);
    let huq = Huq::fit(aleatoric, epistemic, alpha, epistemic_quantile, aleatoric_quantile);
    Ok(scorer(huq.map_err(Failure::from)?))
}

/// An opened baseline: the name of the method, the parameters of the Python class, and the scorer. A method has the same name with and
/// without normalization of the rows; the parameter `normalize` states which of the two was fitted.
pub(crate) fn opened(py: Python<'_>, file: BaselineFile) -> PyResult<Py<PyAny>> {
    let (method, is_normalized) = file.method.without_normalization();
    let params = PyDict::new(py);
    for (name, value) in &file.params {
        match value {
            Param::Default => params.set_item(name, py.None())?,
            Param::Integer(value) => params.set_item(name, value)?,
            Param::Number(value) => params.set_item(name, value)?,
            Param::Word(word) => params.set_item(name, word)?,
        }
    }
    if method.normalized().is_some() {
        params.set_item("normalize", is_normalized)?;
    }
    let scorer = PyScorer::new(file.scorer.into(), file.details);
    Ok((method.name(), params, scorer).into_pyobject(py)?.into_any().unbind())
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyScorer>()?;
    module.add_function(wrap_pyfunction!(huq, module)?)?;
    module.add_function(wrap_pyfunction!(sngp, module)?)?;
    module.add_function(wrap_pyfunction!(duq, module)?)?;
    module.add_function(wrap_pyfunction!(from_logits, module)?)?;
    module.add_function(wrap_pyfunction!(from_members, module)?)?;
    module.add_function(wrap_pyfunction!(from_embeddings, module)?)?;
    module.add_function(wrap_pyfunction!(from_embeddings_and_logits, module)?)?;
    module.add_function(wrap_pyfunction!(temperature, module)?)
}
