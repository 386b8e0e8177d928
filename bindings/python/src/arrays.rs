//! numpy arrays as embeddings: looked at where they lie when they are `float32` in C order, copied otherwise.

use std::sync::Arc;

use half::f16;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods, ToPyArray};
use nuq::Embeddings;
use pyo3::prelude::*;

use crate::errors::{Failure, raise};

/// A numpy array that is kept alive while Rust looks at it. It must not be changed meanwhile.
struct Kept {
    values: *const f32,
    len: usize,
    _array: Py<PyArray2<f32>>,
}

// SAFETY: the values are only read, and the array that owns them is kept alive by a reference that is counted whatever
// thread drops it.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl AsRef<[f32]> for Kept {
    fn as_ref(&self) -> &[f32] {
        // SAFETY: pointer and length are those of a C-contiguous array that lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.values, self.len) }
    }
}

/// Rows of a two-dimensional array of `float16`, `float32` or `float64`.
pub(crate) fn embeddings(array: &Bound<'_, PyAny>) -> PyResult<Embeddings<'static>> {
    if let Ok(array) = array.cast::<PyArray2<f32>>() {
        if array.is_c_contiguous() {
            let dim = array.shape()[1];
            let len = array.len();
            let kept = Kept { values: array.data(), len, _array: array.clone().unbind() };
            // An empty array may point nowhere.
            let rows =
                if len == 0 { Embeddings::new(vec![], dim) } else { Embeddings::shared(Arc::new(kept), dim) };
            return Ok(rows.map_err(Failure::from)?);
        }
        let (values, dim) = copied(&array.readonly(), |v| v);
        return Ok(Embeddings::new(values, dim).map_err(Failure::from)?);
    }
    if let Ok(array) = array.cast::<PyArray2<f64>>() {
        let (values, dim) = copied(&array.readonly(), |v| v);
        return Ok(Embeddings::from_f64(&values, dim).map_err(Failure::from)?);
    }
    if let Ok(array) = array.cast::<PyArray2<f16>>() {
        let (values, dim) = copied(&array.readonly(), f16::to_f32);
        return Ok(Embeddings::new(values, dim).map_err(Failure::from)?);
    }
    Err(raise(
        "InvalidInputError",
        "rows must be a two-dimensional array of float16, float32 or float64".to_owned(),
    ))
}

fn copied<T: numpy::Element + Copy, U>(
    array: &PyReadonlyArray2<'_, T>,
    to: impl Fn(T) -> U,
) -> (Vec<U>, usize) {
    let view = array.as_array();
    (view.iter().map(|&v| to(v)).collect(), view.ncols())
}

/// Values row after row as a matrix of so many columns.
pub(crate) fn matrix<'py, T: numpy::Element + Clone>(
    py: Python<'py>,
    values: &[T],
    columns: usize,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    let rows = values.len().checked_div(columns).unwrap_or(0);
    values.to_pyarray(py).reshape([rows, columns])
}

/// A column.
pub(crate) fn column<'py, T: numpy::Element + Clone>(
    py: Python<'py>,
    values: &[T],
) -> Bound<'py, PyArray1<T>> {
    values.to_pyarray(py)
}
