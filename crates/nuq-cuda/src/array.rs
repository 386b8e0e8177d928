//! Arrays in the memory of a device: arrays of other libraries, and the rows that nuq copies from them.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{result, sys};
use nuq_neighbors::{DeviceSlice, Embeddings, Error as SearchError, SharedSlice};

use crate::Error;
use crate::device::{Buffer, CudaDevice, launch};
use crate::platform::{Platform, ThisMachine, driver_failed};

/// The type of the values of a [`DeviceArray`]. The kernel `import_rows` identifies the types by the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayElement {
    /// IEEE half precision.
    F16 = 0,
    /// The upper half of `f32`.
    Bf16 = 1,
    /// Single precision.
    F32 = 2,
    /// Double precision.
    F64 = 3,
}

impl ArrayElement {
    /// The size in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// A matrix of another library in the memory of a device, in any layout.
#[derive(Debug, Clone, Copy)]
pub struct DeviceArray {
    /// The device address of the first value, a multiple of the size of a value.
    pub address: u64,
    /// The type of the values.
    pub element: ArrayElement,
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// The distance between two rows in elements.
    pub row_stride: i64,
    /// The distance between two columns in elements.
    pub column_stride: i64,
}

/// The unfinished work that may still write to a [`DeviceArray`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// No work, or only work for which the stream of [`CudaDevice::stream_handle`] waits.
    Nothing,
    /// The work of the stream with this handle.
    Stream(u64),
    /// It is not known which work is unfinished. The work of all streams is awaited.
    Unknown,
}

/// Rows in `f32` in the memory of a device. Several owners may share the memory.
#[derive(Clone)]
pub(crate) struct Floats {
    memory: Arc<Buffer<f32>>,
    first: usize,
}

impl Floats {
    pub(crate) fn new(memory: Buffer<f32>) -> Self {
        Self { memory: Arc::new(memory), first: 0 }
    }

    /// The device address of a value.
    pub(crate) fn at(&self, value: usize) -> u64 {
        self.memory.at(self.first + value)
    }

    /// The values from the given one on.
    pub(crate) fn skip(&self, values: usize) -> Self {
        Self { first: self.first + values, ..self.clone() }
    }

    /// The memory for writing; `None` if it has other owners, or if these values are not at its start.
    pub(crate) fn exclusive(&mut self) -> Option<&mut Buffer<f32>> {
        Arc::get_mut(&mut self.memory).filter(|_| self.first == 0)
    }
}

/// Rows that were copied from an array on a device and stay on this device. When the host reads them, they are copied to the host.
struct DeviceRows {
    device: CudaDevice,
    /// `None` after [`release`](DeviceSlice::release).
    floats: Mutex<Option<Floats>>,
    len: usize,
    host: OnceLock<Vec<f32>>,
}

impl DeviceRows {
    fn new(device: CudaDevice, floats: Floats, len: usize) -> Self {
        Self { device, floats: Mutex::new(Some(floats)), len, host: OnceLock::new() }
    }

    fn floats(&self) -> Option<Floats> {
        self.floats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl DeviceSlice<f32> for DeviceRows {
    fn len(&self) -> usize {
        self.len
    }

    fn on_host(&self) -> Result<&[f32], SearchError> {
        if let Some(values) = self.host.get() {
            return Ok(values);
        }
        // Another thread may have copied and released the values in the meantime.
        if let Some(floats) = self.floats() {
            self.device.check_process()?;
            let mut values = vec![0f32; self.len];
            self.device.read_concurrently(&floats.memory, floats.first, &mut values)?;
            let _ = self.host.set(values);
        }
        Ok(self.host.get().expect("the values are released only when the host has them"))
    }

    fn release(&self) -> Result<(), SearchError> {
        self.on_host()?;
        *self.floats.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn device_rows<'s>(values: &'s SharedSlice<'_, f32>) -> Option<&'s DeviceRows> {
    values.device_slice()?.as_any().downcast_ref()
}

/// The values in the memory of `device`; `None` if they are elsewhere.
pub(crate) fn floats_on(device: &CudaDevice, values: &SharedSlice<'_, f32>) -> Option<Floats> {
    let rows = device_rows(values).filter(|rows| rows.device.ordinal() == device.ordinal())?;
    rows.floats()
}

/// Whether the values are in the memory of any device.
pub(crate) fn is_on_any(values: &SharedSlice<'_, f32>) -> bool {
    device_rows(values).is_some_and(|rows| rows.floats().is_some())
}

/// Consecutive rows, which share the memory of `rows` if they are on a device.
///
/// # Panics
/// When the range is not inside the rows.
#[must_use]
pub fn slice_rows(rows: &Embeddings<'static>, range: Range<usize>) -> Embeddings<'static> {
    assert!(range.start <= range.end && range.end <= rows.len(), "the range is inside the rows");
    let dim = rows.dim();
    match device_rows(rows.values()).and_then(|rows| Some((rows, rows.floats()?))) {
        Some((all, floats)) => {
            let part = DeviceRows::new(all.device.clone(), floats.skip(range.start * dim), range.len() * dim);
            Embeddings::on_device(Arc::new(part), dim).expect("the shape of the rows is valid")
        }
        None => rows.gather(&(range.start as u32..range.end as u32).collect::<Vec<_>>()),
    }
}

/// The number of the device whose memory contains an address.
///
/// # Errors
/// [`Error::NoDriver`], [`Error::NoDevice`], [`Error::Forked`] in a child of a process that used a device, or [`Error::DriverFailed`], for
/// example when no device has this address.
pub fn device_of(address: u64) -> Result<usize, Error> {
    ThisMachine.load_driver()?;
    ThisMachine.device_count()?;
    let mut ordinal = 0i32;
    let which = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the driver is initialized, and the attribute is a 32-bit integer.
    unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), which, address) }
        .result()
        .map_err(driver_failed)?;
    // For memory of the host, the driver returns a negative number.
    let problem = || Error::DriverFailed { problem: format!("{address:#x} is no address of a GPU") };
    usize::try_from(ordinal).map_err(|_| problem())
}

impl CudaDevice {
    /// The handle of the stream on which [`import`](Self::import) reads. A library that shares an array must make this stream wait
    /// for the work that writes the array.
    #[must_use]
    pub fn stream_handle(&self) -> u64 {
        self.stream().cu_stream() as u64
    }

    /// Copies a matrix on this device to rows that stay on the device, rounded to `f32`. The matrix is not used afterward.
    ///
    /// # Errors
    /// [`SearchError::NotFinite`] and [`SearchError::OutOfRange`] for the first invalid value, the errors of
    /// [`Embeddings::on_device`], and [`SearchError::Device`].
    ///
    /// # Safety
    /// All values of the matrix are in the memory of this device until the function returns, and only the work of `pending`
    /// writes to them. A stream in `pending` belongs to this device.
    pub unsafe fn import(
        &self,
        array: &DeviceArray,
        pending: Pending,
    ) -> Result<Embeddings<'static>, SearchError> {
        self.check_process()?;
        let (floats, first_invalid) = {
            let _lock = self.lock();
            // SAFETY: as for this function.
            unsafe { self.copy_rows(array, pending) }?
        };
        if let Some(at) = first_invalid {
            let (row, column) = (at / array.columns, at % array.columns);
            // SAFETY: the row and the column are inside the matrix.
            let value = unsafe { self.value_of(array, row, column) }?;
            return Err(match value.is_finite() {
                true => SearchError::OutOfRange { row, column, value },
                false => SearchError::NotFinite { row, column, value },
            });
        }
        let rows = DeviceRows::new(self.clone(), floats, array.rows * array.columns);
        Embeddings::on_device(Arc::new(rows), array.columns)
    }

    /// Copies a matrix, and returns the position of the first value that is not finite in `f32`.
    ///
    /// # Safety
    /// As for [`import`](Self::import).
    unsafe fn copy_rows(
        &self,
        array: &DeviceArray,
        pending: Pending,
    ) -> Result<(Floats, Option<usize>), Error> {
        const THREADS: u32 = 256;
        const MAX_BLOCKS: usize = 1 << 16;
        let len = array.rows * array.columns;
        let rows = self.allocate::<f32>(len)?;
        let first_invalid = self.upload(&[u64::MAX])?;
        // SAFETY: the caller guarantees the handle.
        unsafe { self.wait_for(pending) }?;
        launch!(
            self,
            import_rows,
            (len.div_ceil(THREADS as usize).clamp(1, MAX_BLOCKS) as u32, 1, 1),
            THREADS,
            0,
            array.address,
            array.element as u32,
            len as u64,
            array.columns as u32,
            array.row_stride,
            array.column_stride,
            rows.address,
            first_invalid.address,
        )?;
        let mut at = [0u64];
        self.read(&first_invalid, &mut at)?;
        Ok((Floats::new(rows), (at[0] != u64::MAX).then_some(at[0] as usize)))
    }

    /// Waits for pending work.
    ///
    /// # Safety
    /// The handle belongs to a stream of this device.
    unsafe fn wait_for(&self, pending: Pending) -> Result<(), Error> {
        self.bind()?;
        let waited = match pending {
            Pending::Nothing => Ok(()),
            // SAFETY: the caller guarantees the handle.
            Pending::Stream(handle) => unsafe { result::stream::synchronize(handle as sys::CUstream) },
            // SAFETY: the context is bound to this thread.
            Pending::Unknown => unsafe { sys::cuCtxSynchronize() }.result(),
        };
        waited.map_err(|e| self.failed("waiting for an array", e))
    }

    /// A value of a matrix.
    ///
    /// # Safety
    /// The matrix contains the value and is in the memory of this device.
    unsafe fn value_of(&self, array: &DeviceArray, row: usize, column: usize) -> Result<f64, Error> {
        self.bind()?;
        let at = row as i64 * array.row_stride + column as i64 * array.column_stride;
        let size = array.element.size();
        let address = array.address.wrapping_add_signed(at * size as i64);
        let mut bytes = [0u8; 8];
        // SAFETY: the caller guarantees the address.
        unsafe { result::memcpy_dtoh_sync(&mut bytes[..size], address) }
            .map_err(|e| self.failed("a copy from the device", e))?;
        let [a, b, c, d, ..] = bytes;
        Ok(match array.element {
            ArrayElement::F64 => f64::from_le_bytes(bytes),
            ArrayElement::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
            ArrayElement::Bf16 => f64::from(f32::from_le_bytes([0, 0, a, b])),
            ArrayElement::F16 => f64::from(nuq_neighbors::widened(&[u16::from_le_bytes([a, b])])[0]),
        })
    }

    /// Copies some rows of an array on this device to the host. The caller holds the lock of the device.
    pub(crate) fn gathered(&self, floats: &Floats, ids: &[u32], dim: usize) -> Result<Vec<f32>, Error> {
        let (buffer, gathered) = (self.upload(ids)?, self.allocate::<f32>(ids.len() * dim)?);
        self.gather(floats, &buffer, ids.len(), dim, &gathered)?;
        let mut values = vec![0f32; ids.len() * dim];
        self.read(&gathered, &mut values)?;
        Ok(values)
    }

    /// Starts the kernel that copies the rows with the first `n` ids.
    pub(crate) fn gather(
        &self,
        floats: &Floats,
        ids: &Buffer<u32>,
        n: usize,
        dim: usize,
        gathered: &Buffer<f32>,
    ) -> Result<(), Error> {
        launch!(
            self,
            gather,
            (n as u32, 1, 1),
            256,
            0,
            floats.at(0),
            ids.address,
            dim as u32,
            gathered.address
        )
    }
}
