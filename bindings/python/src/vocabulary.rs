//! The words of options that the Python code checks itself, from their definitions in Rust.

use nuq::calibrate::{Measure, Predictor, SetScore};
use nuq_eval::baselines::{KnnReduction, Reduction, SngpReduction};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// For each option, the tuple of its words.
pub(crate) fn choices(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let choices = PyDict::new(py);
    let add = |option: &str, words: Vec<&str>| choices.set_item(option, PyTuple::new(py, words)?);
    add("measure", Measure::ALL.iter().map(|measure| measure.name()).collect())?;
    add("predictor", Predictor::ALL.iter().map(|predictor| predictor.name()).collect())?;
    add("set_score", SetScore::ALL.iter().map(|score| score.name()).collect())?;
    add("ensemble_reduction", Reduction::ALL.iter().map(|reduction| reduction.name()).collect())?;
    add("knn_reduction", KnnReduction::ALL.iter().map(|reduction| reduction.name()).collect())?;
    add("sngp_reduction", SngpReduction::ALL.iter().map(|reduction| reduction.name()).collect())?;
    Ok(choices)
}
