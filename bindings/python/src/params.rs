//! The words that Python has for the choices of a model.

use numpy::{PyArray1, PyArrayMethods};
use nuq::parts::{FittedDensityParts, SmootherParts};
use nuq::{
    Bandwidth, BandwidthRule, Covariance, Criterion, Density, DensityBandwidth, Dimension, HnswParams,
    IndexKind, Kernel, NuqClassifier, NuqRegressor, Params, Shrinkage, Variance,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::column;
use crate::errors::raise;

fn refuse<T>(name: &str, given: &Bound<'_, PyAny>, allowed: &str) -> PyResult<T> {
    Err(raise("InvalidParameterError", format!("{name}={}: it is {allowed}", given.repr()?)))
}

/// A parameter's value.
fn get<'py>(given: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    given.get_item(name)?.ok_or_else(|| raise("InvalidParameterError", format!("{name} is missing")))
}

/// A parameter that is one of some words.
fn word<T>(given: &Bound<'_, PyDict>, name: &str, words: &[(&str, T)]) -> PyResult<T>
where
    T: Clone,
{
    let value = get(given, name)?;
    let text = value.extract::<String>().unwrap_or_default();
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, meaning)) => Ok(meaning.clone()),
        None => {
            let allowed: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            refuse(name, &value, &format!("one of {}", allowed.join(", ")))
        }
    }
}

fn number<'py, T: FromPyObjectOwned<'py>>(given: &Bound<'py, PyDict>, name: &str, kind: &str) -> PyResult<T> {
    let value = get(given, name)?;
    value.extract::<T>().or_else(|_| refuse(name, &value, kind))
}

/// A bandwidth that is a word, a number, or a number for each dimension.
fn bandwidth<C: Default + Clone>(
    given: &Bound<'_, PyDict>,
    k: usize,
    words: &[(&str, BandwidthRule<C>)],
) -> PyResult<BandwidthRule<C>> {
    let value = get(given, "bandwidth")?;
    if let Ok(h) = value.extract::<f64>() {
        return Ok(BandwidthRule::Fixed(Bandwidth::Scalar(h)));
    }
    if let Ok(many) = value.cast::<PyArray1<f64>>() {
        return Ok(BandwidthRule::Fixed(Bandwidth::PerDimension(many.readonly().as_array().to_vec())));
    }
    let common = [
        ("silverman", BandwidthRule::Silverman),
        ("scott", BandwidthRule::Scott),
        ("isj", BandwidthRule::ImprovedSheatherJones),
        ("adaptive", BandwidthRule::Adaptive { k: Some(k) }),
    ];
    let text = value.extract::<String>().unwrap_or_default();
    match words.iter().chain(&common).find(|(word, _)| *word == text) {
        Some((_, rule)) => Ok(rule.clone()),
        None => {
            let allowed: Vec<String> =
                words.iter().chain(&common).map(|(word, _)| format!("\"{word}\"")).collect();
            refuse(
                "bandwidth",
                &value,
                &format!("a number, one per dimension, or one of {}", allowed.join(", ")),
            )
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Kde,
    Gmm,
    Auto,
}

fn density(given: &Bound<'_, PyDict>) -> PyResult<Density> {
    let kind = word(given, "density", &[("kde", Kind::Kde), ("gmm", Kind::Gmm), ("auto", Kind::Auto)])?;
    let covariance = word(
        given,
        "covariance",
        &[("full", Covariance::Full), ("tied", Covariance::Tied), ("diagonal", Covariance::Diagonal)],
    )?;
    let shrinkage = get(given, "shrinkage")?;
    let shrinkage = match (shrinkage.extract::<f64>(), shrinkage.extract::<String>()) {
        (Ok(amount), _) => Shrinkage::Fixed(amount),
        (_, Ok(word)) if word == "auto" => Shrinkage::LedoitWolf,
        _ => return refuse("shrinkage", &shrinkage, "\"auto\" or a number from 0 to 1"),
    };
    match kind {
        Kind::Gmm => return Ok(Density::Gmm { covariance, shrinkage }),
        Kind::Auto => return Ok(Density::Auto),
        Kind::Kde => {}
    }
    let value = get(given, "density_bandwidth")?;
    let bandwidth = match (value.extract::<f64>(), value.extract::<String>().as_deref()) {
        (Ok(h), _) => DensityBandwidth::Fixed(h),
        (_, Ok("kth")) => DensityBandwidth::HalfMedian,
        (_, Ok("same")) => DensityBandwidth::Same,
        _ => return refuse("density_bandwidth", &value, "\"kth\", \"same\" or a number"),
    };
    Ok(Density::Kde { bandwidth })
}

/// What both kinds of model share.
fn shared<T: nuq::Task>(params: Params<T>, given: &Bound<'_, PyDict>) -> PyResult<Params<T>> {
    let kernels = [
        ("gaussian", Kernel::Gaussian),
        ("rbf", Kernel::Gaussian),
        ("sigmoid", Kernel::Sigmoid),
        ("logistic", Kernel::Logistic),
        ("student", Kernel::Student),
    ];
    let seed: u64 = number(given, "random_state", "a whole number that is not negative")?;
    let index = word(
        given,
        "index",
        &[
            ("auto", IndexKind::Auto),
            ("exact", IndexKind::Exact),
            ("hnsw", IndexKind::Hnsw(HnswParams::default().seed(seed))),
        ],
    )?;
    let dimension =
        word(given, "dimension", &[("intrinsic", Dimension::Intrinsic), ("ambient", Dimension::Ambient)])?;
    Ok(params
        .n_neighbors(number(given, "n_neighbors", "a whole number above 0")?)
        .kernel(word(given, "kernel", &kernels)?)
        .density(density(given)?)
        .dimension(dimension)
        .prior_weight(number(given, "prior_weight", "a number")?)
        .normalize(number(given, "normalize", "True or False")?)
        .recall(number::<f64>(given, "recall", "a number above 0 and at most 1")?)
        .seed(seed)
        .index(index))
}

/// The parameters of a classifier.
pub(crate) fn classifier(given: &Bound<'_, PyDict>) -> PyResult<Params<nuq::Classification>> {
    let criterion = |criterion| BandwidthRule::from(criterion);
    let words = [
        ("log_likelihood", criterion(Criterion::LogLikelihood)),
        ("accuracy", criterion(Criterion::Accuracy)),
    ];
    let k = number(given, "n_neighbors", "a whole number above 0")?;
    let variance = word(given, "variance", &[("sum", Variance::Sum), ("max", Variance::Max)])?;
    shared(NuqClassifier::params().bandwidth(bandwidth(given, k, &words)?).variance(variance), given)
}

/// The parameters of a regressor.
pub(crate) fn regressor(given: &Bound<'_, PyDict>) -> PyResult<Params<nuq::Regression>> {
    let k = number(given, "n_neighbors", "a whole number above 0")?;
    let words = [("squared_error", BandwidthRule::default())];
    shared(NuqRegressor::params().bandwidth(bandwidth(given, k, &words)?), given)
}

/// What a model that came from a file was made with, as far as the file tells.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    parts: &SmootherParts,
    dim: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    said.set_item("n_neighbors", parts.n_neighbors)?;
    said.set_item("kernel", format!("{:?}", parts.kernel).to_lowercase())?;
    said.set_item("normalize", parts.normalize)?;
    said.set_item("prior_weight", parts.prior_weight)?;
    match &parts.bandwidth {
        Bandwidth::Scalar(h) => said.set_item("bandwidth", h)?,
        Bandwidth::PerDimension(many) => said.set_item("bandwidth", column(py, many))?,
        Bandwidth::PerPoint(_) => said.set_item("bandwidth", "adaptive")?,
    }
    said.set_item("dimension", if parts.dimension == dim as f64 { "ambient" } else { "intrinsic" })?;
    said.set_item("index", if matches!(parts.choice.kind, IndexKind::Hnsw(_)) { "hnsw" } else { "exact" })?;
    match parts.density {
        FittedDensityParts::Same => said.set_item("density_bandwidth", "same")?,
        FittedDensityParts::Kde(h) => said.set_item("density_bandwidth", h)?,
        FittedDensityParts::Auto(_) => said.set_item("density", "auto")?,
        FittedDensityParts::Gmm { covariance, shrinkage } => {
            said.set_item("density", "gmm")?;
            said.set_item("covariance", format!("{covariance:?}").to_lowercase())?;
            match shrinkage {
                Shrinkage::LedoitWolf => said.set_item("shrinkage", "auto")?,
                Shrinkage::Fixed(amount) => said.set_item("shrinkage", amount)?,
            }
        }
    }
    Ok(said)
}
