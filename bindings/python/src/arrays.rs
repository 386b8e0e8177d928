//! numpy arrays as embeddings: looked at where they lie when they are `float32` in C order, copied otherwise.

use std::sync::Arc;

use half::f16;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods, ToPyArray};
use nuq::Embeddings;
use pyo3::prelude::*;

use crate::errors::{Failure, raise};
use crate::work::briefly;

/// A numpy array that is kept alive while Rust looks at it. It is aligned (`_arrays.py` sees to that) and must not be changed
/// meanwhile.
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
        // SAFETY: pointer and length are those of an aligned C-contiguous array that lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.values, self.len) }
    }
}

/// Rows of a two-dimensional array of `float16`, `float32` or `float64`, checked or copied without the interpreter's lock.
pub(crate) fn embeddings(array: &Bound<'_, PyAny>) -> PyResult<Embeddings<'static>> {
    let py = array.py();
    let made = if let Ok(array) = array.cast::<PyArray2<f32>>() {
        let (dim, len) = (array.shape()[1], array.len());
        // An empty array may point nowhere.
        if array.is_c_contiguous() && len > 0 {
            let kept = Kept { values: array.data(), len, _array: array.clone().unbind() };
            briefly(py, || Embeddings::shared(Arc::new(kept), dim))?
        } else {
            let array = array.readonly();
            let view = array.as_array();
            briefly(py, || Embeddings::new(view.iter().copied().collect(), dim))?
        }
    } else if let Ok(array) = array.cast::<PyArray2<f64>>() {
        let array = array.readonly();
        let view = array.as_array();
        briefly(py, || match view.as_slice() {
            Some(values) => Embeddings::from_f64(values, view.ncols()),
            None => Embeddings::from_f64(&view.iter().copied().collect::<Vec<f64>>(), view.ncols()),
        })?
    } else if let Ok(array) = array.cast::<PyArray2<f16>>() {
        let array = array.readonly();
        let view = array.as_array();
        briefly(py, || Embeddings::new(view.iter().map(|v| v.to_f32()).collect(), view.ncols()))?
    } else {
        let text = "rows must be a two-dimensional array of float16, float32 or float64";
        return Err(raise("InvalidInputError", text.to_owned()));
    };
    Ok(made.map_err(Failure::from)?)
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
