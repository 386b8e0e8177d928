//! Conversion of labels, which are booleans, integers or strings.

use nuq::Label;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList};

use crate::errors::raise;

/// The label of each row. `distinct` contains the distinct labels, and `indices` the position of each row's label in `distinct`.
pub(crate) fn of_rows(distinct: &Bound<'_, PyList>, indices: &[i64]) -> PyResult<Vec<Label>> {
    let distinct = from_list(distinct)?;
    let label = |&index: &i64| {
        let label = usize::try_from(index).ok().and_then(|index| distinct.get(index));
        label
            .cloned()
            .ok_or_else(|| raise("InvalidInputError", format!("label index {index} is out of range")))
    };
    indices.iter().map(label).collect()
}

pub(crate) fn from_list(labels: &Bound<'_, PyList>) -> PyResult<Vec<Label>> {
    labels.iter().map(|label| from_python(&label)).collect()
}

fn from_python(label: &Bound<'_, PyAny>) -> PyResult<Label> {
    if let Ok(value) = label.cast::<PyBool>() {
        return Ok(Label::Bool(value.is_true()));
    }
    if let Ok(value) = label.extract::<i128>() {
        return Ok(Label::Int(value));
    }
    if label.is_instance_of::<PyInt>() {
        let problem = "it is outside the range of 128-bit integers; convert the labels to strings";
        return Err(raise("InvalidInputError", format!("invalid label {}: {problem}", label.repr()?)));
    }
    match label.extract::<String>() {
        Ok(text) => Ok(Label::Text(text)),
        Err(_) => Err(raise(
            "InvalidInputError",
            format!("invalid label {}: labels are booleans, integers or strings", label.repr()?),
        )),
    }
}

/// Labels as a list of `bool`, `int` or `str`.
pub(crate) fn to_python<'py>(py: Python<'py>, labels: &[Label]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for label in labels {
        match label {
            Label::Bool(value) => list.append(value)?,
            Label::Int(value) => list.append(value)?,
            Label::Text(text) => list.append(text)?,
        }
    }
    Ok(list)
}
