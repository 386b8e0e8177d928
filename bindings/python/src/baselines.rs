//! The rivals, each fitted by its own function and asked as one class.

use std::sync::Arc;

use numpy::PyReadonlyArray1;
use nuq::{Embeddings, Label, Shrinkage};
use nuq_eval::baselines::{
    Batch, Ddu, Energy, Ensemble, Entropy, Fdbd, Gen, Head, KnnDistance, LocalOutlierFactor, Mahalanobis,
    Margin, MaxLogit, MaxProb, Members, NnGuide, Normalized, React, Reduction, RelativeMahalanobis, Scorer,
    Vim,
};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::{column, embeddings};
use crate::errors::{Failure, raise};
use crate::{labels, work};

/// A fitted scorer.
#[pyclass(name = "Scorer", module = "nuq._nuq", frozen)]
struct PyScorer {
    inner: Arc<dyn Scorer>,
}

#[pymethods]
impl PyScorer {
    /// A score per row: higher is less certain.
    fn score<'py>(
        &self,
        py: Python<'py>,
        rows: Option<&Bound<'_, PyAny>>,
        logits: Option<&Bound<'_, PyAny>>,
        members: Option<Vec<Bound<'_, PyAny>>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (rows, logits) = (rows.map(embeddings).transpose()?, logits.map(embeddings).transpose()?);
        let members = members.map(|all| self::members(&all)).transpose()?;
        let scorer = self.inner.clone();
        let scores = work::run(py, None, None, move || {
            let batch = Batch {
                embeddings: rows.as_ref(),
                logits: logits.as_ref(),
                members: members.as_ref(),
                ..Batch::default()
            };
            Ok(scorer.score(&batch)?)
        })?;
        Ok(column(py, &scores).into_any())
    }

    /// Its name, as tables show it.
    #[getter]
    fn name(&self) -> String {
        self.inner.name()
    }
}

/// The logits of several members.
pub(crate) fn members(all: &[Bound<'_, PyAny>]) -> PyResult<Members> {
    let logits: Vec<Embeddings<'static>> = all.iter().map(embeddings).collect::<PyResult<_>>()?;
    Ok(Members::new(logits).map_err(Failure::from)?)
}

fn scorer(inner: impl Scorer + 'static) -> PyScorer {
    PyScorer { inner: Arc::new(inner) }
}

/// One that looks at logits alone, and learns nothing.
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
    raise("InvalidParameterError", format!("{name:?} is no scorer"))
}

/// One that looks at several predictions.
#[pyfunction]
fn from_members(reduction: &str) -> PyResult<PyScorer> {
    Ok(scorer(Ensemble(match reduction {
        "entropy" => Reduction::Entropy,
        "mutual_information" => Reduction::MutualInformation,
        "mean_entropy" => Reduction::MeanEntropy,
        "std" => Reduction::Std,
        "max_prob" => Reduction::MaxProb,
        _ => return Err(unknown(reduction)),
    })))
}

/// One that is fitted to rows, and to their labels where it needs them.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one door for all scorers of this family")]
fn from_embeddings(
    py: Python<'_>,
    name: String,
    rows: &Bound<'_, PyAny>,
    classes: &Bound<'_, PyList>,
    numbers: PyReadonlyArray1<'_, i64>,
    normalize: bool,
    k: usize,
    shrinkage: Option<f64>,
) -> PyResult<PyScorer> {
    let (rows, labels) = (embeddings(rows)?, labels::of_rows(classes, numbers.as_slice()?)?);
    let shrinkage = shrinkage.map_or(Shrinkage::LedoitWolf, Shrinkage::Fixed);
    let inner = work::run(py, None, None, move || {
        let rows = if normalize { rows.l2_normalized() } else { rows };
        Ok(fitted(&name, &rows, &labels, normalize, k, shrinkage))
    })?;
    Ok(PyScorer { inner: inner? })
}

fn fitted(
    name: &str,
    rows: &Embeddings<'static>,
    labels: &[Label],
    normalize: bool,
    k: usize,
    shrinkage: Shrinkage,
) -> PyResult<Arc<dyn Scorer>> {
    fn either<S: Scorer + 'static>(
        made: Result<S, nuq_eval::Error>,
        normalize: bool,
    ) -> PyResult<Arc<dyn Scorer>> {
        let made = made.map_err(Failure::from)?;
        Ok(if normalize { Arc::new(Normalized::new(made)) } else { Arc::new(made) })
    }
    match name {
        "ddu" => either(Ddu::fit(rows, labels, shrinkage), normalize),
        "mahalanobis" => either(Mahalanobis::fit(rows, labels, shrinkage), normalize),
        "relative_mahalanobis" => either(RelativeMahalanobis::fit(rows, labels, shrinkage), normalize),
        "knn_kth" => either(KnnDistance::kth(rows, k), normalize),
        "knn_mean" => either(KnnDistance::mean(rows, k), normalize),
        "lof" => either(LocalOutlierFactor::fit(rows, k), normalize),
        _ => Err(unknown(name)),
    }
}

/// One that needs rows and the head of the network, which is found from logits.
#[pyfunction]
fn from_both(
    py: Python<'_>,
    name: String,
    rows: &Bound<'_, PyAny>,
    logits: &Bound<'_, PyAny>,
    k: usize,
    quantile: f64,
    principal: Option<usize>,
) -> PyResult<PyScorer> {
    let (rows, logits) = (embeddings(rows)?, embeddings(logits)?);
    let made = work::run(py, None, None, move || {
        if name == "nnguide" {
            return Ok(Some(scorer(NnGuide::fit(&rows, &logits, k)?)));
        }
        let head = Head::fit(&rows, &logits)?;
        Ok(Some(match &*name {
            "vim" => scorer(Vim::fit(&rows, &head, principal)?),
            "fdbd" => scorer(Fdbd::fit(&rows, &head)?),
            "react" => scorer(React::fit(&rows, &head, quantile)?),
            _ => return Ok(None),
        }))
    })?;
    made.ok_or_else(|| unknown("scorer"))
}

/// The temperature that makes held-out probabilities most likely.
#[pyfunction]
fn temperature(logits: &Bound<'_, PyAny>, classes: PyReadonlyArray1<'_, i64>) -> PyResult<f64> {
    let number = |&class: &i64| {
        u32::try_from(class).map_err(|_| raise("InvalidInputError", format!("{class} is no class number")))
    };
    let classes: Vec<u32> = classes.as_slice()?.iter().map(number).collect::<PyResult<_>>()?;
    let rows = embeddings(logits)?;
    work::run(logits.py(), None, None, move || Ok(nuq_eval::baselines::temperature(&rows, &classes)?))
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyScorer>()?;
    module.add_function(wrap_pyfunction!(from_logits, module)?)?;
    module.add_function(wrap_pyfunction!(from_members, module)?)?;
    module.add_function(wrap_pyfunction!(from_embeddings, module)?)?;
    module.add_function(wrap_pyfunction!(from_both, module)?)?;
    module.add_function(wrap_pyfunction!(temperature, module)?)
}
