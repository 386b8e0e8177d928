//! Conversion between the parameters of the Python constructors and the parameters of the Rust library.

use std::str::FromStr;

use numpy::{PyArray1, PyArrayMethods};
use nuq::parts::FittedDensityParts;
use nuq::{
    Bandwidth, BandwidthRule, Covariance, Density, DensityBandwidth, DensityKind, Embeddings, FittedModel,
    GmmDensity, IndexKind, NamedCriterion, NuqClassifier, NuqRegressor, Params, Precision, Shrinkage,
    UnknownChoice,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arrays::{column, copied_embeddings, embeddings};
use crate::errors::raise;

fn invalid(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    match value.repr() {
        Ok(value) => raise("InvalidParameterError", format!("{name}={value}: expected {expected}")),
        Err(error) => error,
    }
}

fn get<'py>(params: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    params.get_item(name)?.ok_or_else(|| raise("InvalidParameterError", format!("{name} is missing")))
}

/// Parses a parameter whose value is one of several names. The error lists the valid names.
fn choice<T: FromStr<Err = UnknownChoice>>(params: &Bound<'_, PyDict>, name: &str) -> PyResult<T> {
    let value = get(params, name)?;
    parse(name, &value)
}

pub(crate) fn parse<T: FromStr<Err = UnknownChoice>>(name: &str, value: &Bound<'_, PyAny>) -> PyResult<T> {
    // A value that is not a string gives the same error as an unknown name.
    let text = if value.is_instance_of::<PyString>() { value.extract::<String>()? } else { String::new() };
    text.parse().map_err(|unknown: UnknownChoice| invalid(name, value, &unknown.list()))
}

/// A parameter as a value of the type `T`. The error message contains `expected`, a description of the valid values.
fn extract<'py, T: FromPyObjectOwned<'py>>(
    params: &Bound<'py, PyDict>,
    name: &str,
    expected: &str,
) -> PyResult<T> {
    let value = get(params, name)?;
    value.extract::<T>().map_err(|_| invalid(name, &value, expected))
}

/// A bandwidth: the name of a rule, a number, or one number per dimension.
fn bandwidth<C: NamedCriterion>(params: &Bound<'_, PyDict>) -> PyResult<BandwidthRule<C>> {
    let value = get(params, "bandwidth")?;
    if let Ok(h) = value.extract::<f64>() {
        return Ok(BandwidthRule::Fixed(Bandwidth::Scalar(h)));
    }
    if let Ok(values) = value.cast::<PyArray1<f64>>() {
        return Ok(BandwidthRule::Fixed(Bandwidth::PerDimension(values.readonly().as_slice()?.to_vec())));
    }
    parse("bandwidth", &value)
}

fn density(params: &Bound<'_, PyDict>) -> PyResult<Density> {
    // All parameters are parsed, also those that the chosen density does not use: a wrong type or an unknown name is always an error.
    let (kind, covariance) = (choice(params, "density")?, choice(params, "covariance")?);
    let value = get(params, "shrinkage")?;
    let shrinkage = match value.extract::<f64>() {
        Ok(amount) => Shrinkage::Fixed(amount),
        Err(_) => parse("shrinkage", &value)?,
    };
    let scale_free = extract(params, "scale_free", "True or False")?;
    if kind != DensityKind::Gmm {
        let unused = [
            ("covariance", covariance != Covariance::Full, "\"full\" unless density=\"gmm\""),
            ("shrinkage", shrinkage != Shrinkage::LedoitWolf, "\"ledoit_wolf\" unless density=\"gmm\""),
            ("scale_free", scale_free, "False unless density=\"gmm\""),
        ];
        for (name, is_given, expected) in unused {
            if is_given {
                return Err(invalid(name, &get(params, name)?, expected));
            }
        }
    }
    let value = get(params, "density_bandwidth")?;
    let bandwidth = match value.extract::<f64>() {
        Ok(h) => DensityBandwidth::Fixed(h),
        Err(_) => parse("density_bandwidth", &value)?,
    };
    Ok(match kind {
        DensityKind::Kde => Density::Kde { bandwidth },
        _ if bandwidth != DensityBandwidth::HalfMedian => {
            return Err(invalid("density_bandwidth", &value, "\"half_median\" unless density=\"kde\""));
        }
        DensityKind::Gmm => Density::Gmm { covariance, shrinkage, scale_free },
        DensityKind::Auto => Density::Auto,
    })
}

/// Kind of the neighbor index. Only a graph uses the seed and can have a precision other than `f32`.
fn index(params: &Bound<'_, PyDict>, seed: u64) -> PyResult<IndexKind> {
    let precision = choice(params, "precision")?;
    match choice(params, "index")? {
        IndexKind::Hnsw(graph) => Ok(IndexKind::Hnsw(graph.seed(seed).precision(precision))),
        _ if precision != Precision::F32 => {
            Err(invalid("precision", &get(params, "precision")?, "\"f32\" unless index=\"hnsw\""))
        }
        other => Ok(other),
    }
}

/// Sets the parameters that both kinds of models have.
fn shared<T: nuq::Task>(builder: Params<T>, params: &Bound<'_, PyDict>) -> PyResult<Params<T>> {
    let seed = extract(params, "random_state", "an integer of at least 0")?;
    Ok(builder
        .n_neighbors(extract(params, "n_neighbors", "an integer of at least 1")?)
        .kernel(choice(params, "kernel")?)
        .density(density(params)?)
        .scale(choice(params, "scale")?)
        .prior_weight(extract(params, "prior_weight", "a number")?)
        .normalize(extract(params, "normalize", "True or False")?)
        .recall(extract::<f64>(params, "recall", "a number above 0 and at most 1")?)
        .expected_queries(extract(params, "expected_queries", "an integer of at least 0")?)
        .selection_rows(extract(params, "selection_rows", "an integer of at least 2")?)
        .seed(seed)
        .device(choice(params, "device")?)
        .index(index(params, seed)?))
}

/// Training rows: a copy of the caller's array. With `copy=False` the array itself is used if its layout permits.
pub(crate) fn training_rows(
    params: &Bound<'_, PyDict>,
    rows: &Bound<'_, PyAny>,
    n_jobs: Option<usize>,
) -> PyResult<Embeddings<'static>> {
    if extract(params, "copy", "True or False")? {
        copied_embeddings(rows, n_jobs)
    } else {
        embeddings(rows, n_jobs)
    }
}

/// Parameters of a classifier.
pub(crate) fn classifier(params: &Bound<'_, PyDict>) -> PyResult<Params<nuq::Classification>> {
    let builder = NuqClassifier::params().bandwidth(bandwidth::<nuq::Criterion>(params)?);
    shared(builder.variance(choice(params, "variance")?), params)
}

/// Parameters of a regressor.
pub(crate) fn regressor(params: &Bound<'_, PyDict>) -> PyResult<Params<nuq::Regression>> {
    shared(NuqRegressor::params().bandwidth(bandwidth::<nuq::SquaredError>(params)?), params)
}

/// Parameters of a fitted model. The bandwidth is the selected value, not the rule that selected it. Only "adaptive" stays a rule,
/// because it has one value per training row.
pub(crate) fn to_python<'py>(py: Python<'py>, model: &impl FittedModel) -> PyResult<Bound<'py, PyDict>> {
    let parts = model.smoother_parts();
    let params = PyDict::new(py);
    params.set_item("n_neighbors", parts.n_neighbors)?;
    params.set_item("kernel", parts.kernel.name())?;
    params.set_item("normalize", parts.normalize)?;
    params.set_item("prior_weight", model.prior_weight())?;
    match &parts.bandwidth {
        Bandwidth::Scalar(h) => params.set_item("bandwidth", h)?,
        Bandwidth::PerDimension(values) => params.set_item("bandwidth", column(py, values))?,
        Bandwidth::PerPoint(_) => params.set_item("bandwidth", "adaptive")?,
    }
    params.set_item("scale", parts.scale.kind().name())?;
    params.set_item("index", parts.choice.kind.name())?;
    if let IndexKind::Hnsw(graph) = parts.choice.kind {
        params.set_item("precision", graph.precision.name())?;
    }
    match parts.density {
        // A kernel density with the same bandwidth as the predictions (`parts.bandwidth`).
        FittedDensityParts::Same => {
            params.set_item("density", DensityKind::Kde.name())?;
            params.set_item("density_bandwidth", DensityBandwidth::Same.to_string())?;
        }
        FittedDensityParts::Kde(h) => {
            params.set_item("density", DensityKind::Kde.name())?;
            params.set_item("density_bandwidth", h)?;
        }
        FittedDensityParts::Auto(_) => params.set_item("density", DensityKind::Auto.name())?,
        FittedDensityParts::Gmm(GmmDensity { covariance, shrinkage, scale_free, .. }) => {
            params.set_item("scale_free", scale_free.is_some())?;
            params.set_item("density", DensityKind::Gmm.name())?;
            params.set_item("covariance", covariance.name())?;
            match shrinkage {
                Shrinkage::LedoitWolf => params.set_item("shrinkage", shrinkage.to_string())?,
                Shrinkage::Fixed(amount) => params.set_item("shrinkage", amount)?,
            }
        }
    }
    Ok(params)
}

/// Description of the fitted density. For "auto" it includes the parts that are used and the reason.
pub(crate) fn density_text(model: &impl FittedModel) -> String {
    match model.smoother_parts().density {
        FittedDensityParts::Same | FittedDensityParts::Kde(_) => "kernel density".to_owned(),
        FittedDensityParts::Auto(auto) => auto.to_string(),
        FittedDensityParts::Gmm(GmmDensity { covariance, .. }) => {
            format!("Gaussians, {covariance} covariance")
        }
    }
}
