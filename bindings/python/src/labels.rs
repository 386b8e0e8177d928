//! Labels between Python and Rust: integers and strings, as they are.

use nuq::Label;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::raise;

/// The labels of rows, from the distinct ones and the number of each row's.
pub(crate) fn of_rows(distinct: &Bound<'_, PyList>, numbers: &[i64]) -> PyResult<Vec<Label>> {
    let distinct: Vec<Label> = distinct.iter().map(|label| one(&label)).collect::<PyResult<_>>()?;
    let label = |&number: &i64| {
        let found = usize::try_from(number).ok().and_then(|number| distinct.get(number));
        found.cloned().ok_or_else(|| raise("InvalidInputError", format!("there is no label number {number}")))
    };
    numbers.iter().map(label).collect()
}

fn one(label: &Bound<'_, PyAny>) -> PyResult<Label> {
    if let Ok(value) = label.extract::<i128>() {
        return Ok(Label::Int(value));
    }
    match label.extract::<String>() {
        Ok(text) => Ok(Label::Text(text)),
        Err(_) => Err(raise(
            "InvalidInputError",
            format!("{} is no label: labels are integers or strings", label.repr()?),
        )),
    }
}

/// Labels as Python has them.
pub(crate) fn to_python<'py>(py: Python<'py>, labels: &[Label]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for label in labels {
        match label {
            Label::Int(value) => list.append(value)?,
            Label::Text(text) => list.append(text)?,
        }
    }
    Ok(list)
}
