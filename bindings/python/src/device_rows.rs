//! Rows in the memory of a GPU, taken from an array of another library.
//!
//! Arrays are described by DLPack (`__dlpack__`) or by `__cuda_array_interface__`. They are copied on the GPU. The copy does not depend
//! on the lifetime of the array or on later changes of it. The rows are copied to the host only when they are read there.

use std::ffi::c_void;

use numpy::PyArray2;
use nuq::Embeddings;
use nuq::nuq_neighbors::Error as RowError;
use nuq_cuda::{ArrayElement, CudaDevice, DeviceArray, Pending};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PySlice};

use crate::arrays::matrix;
use crate::errors::Failure;

/// A matrix of `float32` in the memory of a GPU.
#[pyclass(name = "DeviceRows", module = "nuq._nuq", frozen)]
pub(crate) struct PyDeviceRows {
    rows: Embeddings<'static>,
}

impl PyDeviceRows {
    pub(crate) fn embeddings(&self) -> Embeddings<'static> {
        self.rows.clone()
    }
}

#[pymethods]
impl PyDeviceRows {
    /// Number of rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.rows.len(), self.rows.dim())
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }

    /// Selects rows. The rows of a slice with step 1 stay on the GPU; any other selection is copied to the host.
    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let len = isize::try_from(self.rows.len()).map_err(|_| PyIndexError::new_err("too many rows"))?;
            let range = slice.indices(len)?;
            if range.step == 1 {
                let start = range.start.max(0) as usize;
                let stop = (range.stop.max(0) as usize).max(start);
                let rows = nuq_cuda::slice_rows(&self.rows, start..stop);
                return Ok(Bound::new(py, Self { rows })?.into_any());
            }
        }
        self.numpy(py)?.as_any().get_item(key)
    }

    /// A copy on the host, for numpy. `copy=False` is an error, because the rows are not in the memory of the host.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            let text = "copy=False: rows in the memory of a GPU must be copied to the host; use copy=None";
            return Err(PyValueError::new_err(text));
        }
        let array = self.numpy(py)?.into_any();
        dtype.map_or(Ok(array.clone()), |dtype| array.call_method1("astype", (dtype,)))
    }
}

impl PyDeviceRows {
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        py.detach(|| self.rows.load()).map_err(Failure::from)?;
        matrix(py, self.rows.as_slice(), self.rows.dim())
    }
}

/// Copies a matrix of floats in the memory of a GPU to rows that stay on the GPU.
///
/// `None` if the array is not an aligned matrix of floats in the memory of GPU `number`, if it is empty, if its library does not share
/// it, or if this GPU cannot be used, for example because it does not have enough free memory.
#[pyfunction]
fn device_rows(py: Python<'_>, array: &Bound<'_, PyAny>, number: usize) -> PyResult<Option<PyDeviceRows>> {
    let has = |name| array.hasattr(name);
    let shared = if has("__dlpack__")? && has("__dlpack_device__")? {
        from_dlpack(array, number)?
    } else if has("__cuda_array_interface__")? {
        from_cuda_array_interface(array, number)?
    } else {
        None
    };
    let Some(Shared { device, array, pending, .. }) = &shared else { return Ok(None) };
    // SAFETY: the library has described its own array correctly, and `shared` keeps the array alive. `pending` names the stream whose
    // unfinished work may write to the array.
    match py.detach(|| unsafe { device.import(array, *pending) }) {
        Ok(rows) => Ok(Some(PyDeviceRows { rows })),
        // The GPU may not have enough free memory, for example. The caller then copies the rows to the host.
        Err(RowError::Device { .. }) => Ok(None),
        Err(error) => Err(Failure::from(error).into()),
    }
}

/// An array of another library, and the object that keeps its memory alive.
struct Shared<'py> {
    device: CudaDevice,
    array: DeviceArray,
    pending: Pending,
    _owner: Bound<'py, PyAny>,
}

/// `DLTensor` of version 0 of DLPack. The fields of `DLManagedTensor` that follow are not used.
#[repr(C)]
struct Tensor {
    data: *const c_void,
    device_type: i32,
    device_id: i32,
    n_dimensions: i32,
    type_code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// The types of devices in DLPack whose memory CUDA can access: device memory and managed memory.
const DLPACK_CUDA: [i32; 2] = [2, 13];
/// The codes of floats in DLPack.
const DLPACK_FLOAT: u8 = 2;
const DLPACK_BFLOAT: u8 = 4;

fn from_dlpack<'py>(array: &Bound<'py, PyAny>, number: usize) -> PyResult<Option<Shared<'py>>> {
    let (kind, found): (i32, i64) = array.call_method0("__dlpack_device__")?.extract()?;
    if !DLPACK_CUDA.contains(&kind) || found != number as i64 {
        return Ok(None);
    }
    let Ok(device) = array.py().detach(|| CudaDevice::open(number)) else { return Ok(None) };
    // With the option `stream`, the other library makes this stream wait until its own work on the array has finished.
    let options = PyDict::new(array.py());
    options.set_item("stream", device.stream_handle())?;
    let Ok(capsule) = array.call_method("__dlpack__", (), Some(&options)) else { return Ok(None) };
    let Ok(pointer) = capsule.cast::<PyCapsule>()?.pointer_checked(Some(c"dltensor")) else {
        return Ok(None);
    };
    // SAFETY: a capsule of this name contains a pointer to a `DLManagedTensor`, whose first field is the tensor. The tensor lives as long
    // as the capsule, and the capsule is alive.
    let tensor = unsafe { pointer.cast::<Tensor>().as_ref() };
    let element = match (tensor.type_code, tensor.bits, tensor.lanes) {
        (DLPACK_FLOAT, 16, 1) => ArrayElement::F16,
        (DLPACK_BFLOAT, 16, 1) => ArrayElement::Bf16,
        (DLPACK_FLOAT, 32, 1) => ArrayElement::F32,
        (DLPACK_FLOAT, 64, 1) => ArrayElement::F64,
        _ => return Ok(None),
    };
    if tensor.n_dimensions != 2 || tensor.shape.is_null() {
        return Ok(None);
    }
    // SAFETY: there is one length per dimension.
    let shape = unsafe { [*tensor.shape, *tensor.shape.add(1)] };
    let strides = match tensor.strides.is_null() {
        true => [shape[1], 1],
        // SAFETY: there is one stride per dimension.
        false => unsafe { [*tensor.strides, *tensor.strides.add(1)] },
    };
    let address = tensor.data as u64 + tensor.byte_offset;
    let array = described(address, element, shape, strides);
    Ok(array.map(|array| Shared { device, array, pending: Pending::Nothing, _owner: capsule }))
}

/// An array that is described by `__cuda_array_interface__`, version 2 or 3.
fn from_cuda_array_interface<'py>(array: &Bound<'py, PyAny>, number: usize) -> PyResult<Option<Shared<'py>>> {
    let interface = array.getattr("__cuda_array_interface__")?;
    let entry = |name: &str| interface.call_method1("get", (name,));
    let (address, _): (u64, bool) = entry("data")?.extract()?;
    let element = match &*entry("typestr")?.extract::<String>()? {
        "<f2" => ArrayElement::F16,
        "<f4" => ArrayElement::F32,
        "<f8" => ArrayElement::F64,
        _ => return Ok(None),
    };
    let Ok(shape) = entry("shape")?.extract::<(i64, i64)>() else { return Ok(None) };
    let size = element.size() as i64;
    let strides = match entry("strides")?.extract::<Option<(i64, i64)>>()? {
        None => [shape.1, 1],
        Some((row, column)) if row % size == 0 && column % size == 0 => [row / size, column / size],
        Some(_) => return Ok(None),
    };
    // In version 2 there is no entry "stream", so the work of any stream may be unfinished. In version 3, None means that all work is
    // finished.
    let pending = match (interface.contains("stream")?, entry("stream")?.extract::<Option<u64>>()?) {
        (true, None) => Pending::Nothing,
        (true, Some(handle)) => Pending::Stream(handle),
        (false, _) => Pending::Unknown,
    };
    let open = || {
        let is_here = nuq_cuda::device_of(address).is_ok_and(|found| found == number);
        is_here.then(|| CudaDevice::open(number).ok()).flatten()
    };
    let Some(device) = array.py().detach(open) else { return Ok(None) };
    let array_of = described(address, element, shape.into(), strides);
    Ok(array_of.map(|described| Shared { device, array: described, pending, _owner: array.clone() }))
}

/// The description of a matrix; `None` if its values are not aligned, if it has no rows or no columns, or if it has more than `u32::MAX`
/// columns.
fn described(
    address: u64,
    element: ArrayElement,
    [rows, columns]: [i64; 2],
    [row_stride, column_stride]: [i64; 2],
) -> Option<DeviceArray> {
    let is_valid = address != 0 && address.is_multiple_of(element.size() as u64) && rows > 0 && columns > 0;
    let (rows, columns) = (usize::try_from(rows).ok()?, u32::try_from(columns).ok()? as usize);
    is_valid.then_some(DeviceArray { address, element, rows, columns, row_stride, column_stride })
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDeviceRows>()?;
    module.add_function(wrap_pyfunction!(device_rows, module)?)
}
