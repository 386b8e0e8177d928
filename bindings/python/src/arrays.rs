//! Conversion between numpy arrays and Rust values.

use std::sync::Arc;

use half::f16;
use numpy::{
    PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArray,
    PyUntypedArrayMethods, ToPyArray,
};
use nuq::{Embeddings, Neighbors};
use pyo3::prelude::*;

use crate::device_rows::PyDeviceRows;
use crate::errors::{Failure, raise};
use crate::work::without_gil;

/// A borrowed numpy array: aligned, in C order, and not empty. The reference to the array keeps its memory alive.
struct BorrowedArray {
    values: *const f32,
    len: usize,
    _array: Py<PyArray2<f32>>,
}

// SAFETY: the values are only read. A counted reference keeps the array alive, and any thread may drop this reference.
unsafe impl Send for BorrowedArray {}
// SAFETY: as for `Send`: the values are only read.
unsafe impl Sync for BorrowedArray {}

impl AsRef<[f32]> for BorrowedArray {
    fn as_ref(&self) -> &[f32] {
        // SAFETY: pointer and length belong to an aligned C-contiguous array, which lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.values, self.len) }
    }
}

/// Rows of a two-dimensional array of `float16`, `float32` or `float64`, or rows on a GPU.
///
/// An aligned `float32` array in C order is borrowed, and must not change while the result exists. Every other array is copied. The values
/// are checked on `n_jobs` threads.
pub(crate) fn embeddings(array: &Bound<'_, PyAny>, n_jobs: Option<usize>) -> PyResult<Embeddings<'static>> {
    convert(array, n_jobs, false)
}

/// A copy of the rows of an array. Later changes of the array have no effect on the copy. [`embeddings`] lists the accepted types.
pub(crate) fn copied_embeddings(
    array: &Bound<'_, PyAny>,
    n_jobs: Option<usize>,
) -> PyResult<Embeddings<'static>> {
    convert(array, n_jobs, true)
}

fn convert(array: &Bound<'_, PyAny>, n_jobs: Option<usize>, copy: bool) -> PyResult<Embeddings<'static>> {
    let py = array.py();
    // Rows on a GPU are already a copy of the caller's array.
    if let Ok(rows) = array.cast::<PyDeviceRows>() {
        return Ok(rows.get().embeddings());
    }
    // Slices and views require aligned memory. A copy by numpy is aligned.
    if array.cast::<PyUntypedArray>().is_ok_and(|array| !array.is_aligned()) {
        return convert(&array.call_method0("copy")?, n_jobs, false);
    }
    let rows = if let Ok(array) = array.cast::<PyArray2<f32>>() {
        let (dim, len) = (array.shape()[1], array.len());
        // The pointer of an empty array may be dangling.
        if array.is_c_contiguous() && len > 0 && !copy {
            let borrowed = BorrowedArray { values: array.data(), len, _array: array.clone().unbind() };
            without_gil(py, n_jobs, || Embeddings::shared(Arc::new(borrowed), dim))?
        } else {
            let array = array.readonly();
            let view = array.as_array();
            without_gil(py, n_jobs, || {
                let values = match view.as_slice() {
                    Some(values) => values.to_vec(),
                    None => view.iter().copied().collect(),
                };
                Embeddings::new(values, dim)
            })?
        }
    } else if let Ok(array) = array.cast::<PyArray2<f64>>() {
        let array = array.readonly();
        let view = array.as_array();
        without_gil(py, n_jobs, || match view.as_slice() {
            Some(values) => Embeddings::from_f64(values, view.ncols()),
            None => Embeddings::from_f64(&view.iter().copied().collect::<Vec<f64>>(), view.ncols()),
        })?
    } else if let Ok(array) = array.cast::<PyArray2<f16>>() {
        let array = array.readonly();
        let view = array.as_array();
        without_gil(py, n_jobs, || Embeddings::new(view.iter().map(|v| v.to_f32()).collect(), view.ncols()))?
    } else {
        let text = "rows must be a two-dimensional array of float16, float32 or float64";
        return Err(raise("InvalidInputError", text.to_owned()));
    };
    Ok(rows.map_err(Failure::from)?)
}

/// Frees the GPU memory of training rows, except for memory that the index uses. The host has a copy of the rows.
pub(crate) fn release(rows: &Embeddings<'_>) -> Result<(), Failure> {
    Ok(rows.values().device_slice().map_or(Ok(()), |slice| slice.release())?)
}

/// Neighbor ids and squared distances of each query: two matrices of the same shape.
pub(crate) type NeighborArrays<'py> = (PyReadonlyArray2<'py, i64>, PyReadonlyArray2<'py, f64>);

/// Neighbors that another program has computed.
pub(crate) fn neighbor_table((ids, sq_distances): NeighborArrays<'_>) -> PyResult<Neighbors> {
    if ids.shape() != sq_distances.shape() {
        let text =
            format!("ids has shape {:?}, sq_distances has shape {:?}", ids.shape(), sq_distances.shape());
        return Err(raise("LengthMismatchError", text));
    }
    let (ids, k) = row_major(&ids)?;
    let id = |&id: &i64| {
        u32::try_from(id)
            .map_err(|_| raise("UnknownIdError", format!("{id} is not the id of a training row")))
    };
    let ids: Vec<u32> = ids.iter().map(id).collect::<PyResult<_>>()?;
    Ok(Neighbors::new(k, ids, row_major(&sq_distances)?.0.to_vec()).map_err(Failure::from)?)
}

/// The squared distances in `table`, in the order of `ids`. For each query, `table` contains the same ids as `ids`, but sorted by distance.
pub(crate) fn in_order_of(ids: &[u32], table: &Neighbors) -> Vec<f64> {
    let mut distances = vec![0.0; ids.len()];
    let (mut positions, mut measured) = (Vec::new(), Vec::new());
    for (i, (ids, distances)) in ids.chunks(table.k()).zip(distances.chunks_mut(table.k())).enumerate() {
        positions.clear();
        positions.extend(0..ids.len());
        positions.sort_unstable_by_key(|&position| ids[position]);
        measured.clear();
        measured.extend(table.ids(i).iter().copied().zip(table.sq_distances(i).iter().copied()));
        // The ids of a query are distinct, so both lists have the same order after sorting by id.
        measured.sort_unstable_by_key(|&(id, _)| id);
        for (&position, &(_, distance)) in positions.iter().zip(&measured) {
            distances[position] = distance;
        }
    }
    distances
}

/// Values of a matrix in row-major order, and its number of columns. The matrix must be aligned and in C order.
pub(crate) fn row_major<'a, T: numpy::Element>(
    array: &'a PyReadonlyArray2<'_, T>,
) -> PyResult<(&'a [T], usize)> {
    if !array.is_c_contiguous() {
        return Err(raise("InvalidInputError", "the matrix must be in C order".to_owned()));
    }
    Ok((array.as_slice()?, array.shape()[1]))
}

/// A matrix with `columns` columns from values in row-major order.
pub(crate) fn matrix<'py, T: numpy::Element + Clone>(
    py: Python<'py>,
    values: &[T],
    columns: usize,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    let rows = values.len().checked_div(columns).unwrap_or(0);
    values.to_pyarray(py).reshape([rows, columns])
}

/// A one-dimensional array.
pub(crate) fn column<'py, T: numpy::Element + Clone>(
    py: Python<'py>,
    values: &[T],
) -> Bound<'py, PyArray1<T>> {
    values.to_pyarray(py)
}

/// Sample weights as a list that another thread can use.
pub(crate) fn sample_weights(weights: Option<PyReadonlyArray1<'_, f64>>) -> PyResult<Option<Vec<f64>>> {
    weights.map(|weights| Ok(weights.as_slice()?.to_vec())).transpose()
}
