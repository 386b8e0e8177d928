//! An open device: its context, two streams (one for work, one for concurrent copies), the compiled kernels and cuBLAS.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, sys,
    sys::cudaError_enum,
};
use cudarc::nvrtc::Ptx;

use crate::cublas::{Cublas, Product};
use crate::libraries::{CUBLAS, NVRTC};
use crate::nvrtc::Nvrtc;
use crate::platform::{ThisMachine, check};
use crate::{Error, kernels};

/// An open GPU. Clones share it.
#[derive(Clone)]
pub struct CudaDevice(Arc<Open>);

struct Open {
    ordinal: usize,
    name: String,
    /// The process that opened the device.
    process: u32,
    cublas: Cublas,
    kernels: Kernels,
    /// The stream of all work except the copies below.
    stream: Arc<CudaStream>,
    /// The stream of copies that run while a search continues.
    copies: Arc<CudaStream>,
    context: Arc<CudaContext>,
}

/// The compiled kernels.
pub(crate) struct Kernels {
    pub(crate) prepare: CudaFunction,
    pub(crate) remove_rows: CudaFunction,
    pub(crate) gather: CudaFunction,
    pub(crate) import_rows: CudaFunction,
    pub(crate) select_rows: CudaFunction,
    pub(crate) start_pass: CudaFunction,
    pub(crate) refine: CudaFunction,
    pub(crate) rank_candidates: CudaFunction,
    pub(crate) rescale: CudaFunction,
    pub(crate) prepare_points: CudaFunction,
    pub(crate) tighten: CudaFunction,
}

/// The devices that this process has opened; they stay open, because opening one takes some tenths of a second.
static DEVICES: Mutex<Vec<CudaDevice>> = Mutex::new(Vec::new());

/// The process that first tried to open a device; 0 before. A child of `fork` must not wait for the lock of [`DEVICES`], because the thread that
/// holds it may not exist in the child.
static PROCESS: AtomicU32 = AtomicU32::new(0);

impl CudaDevice {
    /// Opens the device with this number, or returns it if it is already open.
    ///
    /// # Errors
    /// The errors of [`check`](crate::platform::check), [`Error::BadLibrary`], [`Error::NotCompiled`], [`Error::OutOfMemory`],
    /// [`Error::Forked`] in a child of a process that has called this function, and [`Error::Failed`].
    pub fn open(ordinal: usize) -> Result<Self, Error> {
        let process = std::process::id();
        if PROCESS.compare_exchange(0, process, Relaxed, Relaxed).is_err_and(|first| first != process) {
            return Err(Error::Forked);
        }
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = devices.iter().find(|device| device.0.ordinal == ordinal) {
            return device.check_process().map(|()| device.clone());
        }
        check(&ThisMachine, ordinal)?;
        let device = Self(Arc::new(Open::new(ordinal)?));
        devices.push(device.clone());
        Ok(device)
    }

    /// The number of the device.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    /// The name of the device, for example `NVIDIA H200`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The free memory in bytes.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn free_memory(&self) -> Result<usize, Error> {
        self.0
            .context
            .mem_get_info()
            .map(|(free, _)| free)
            .map_err(|e| self.failed("reading its free memory", e))
    }

    /// The largest memory in bytes that this process has allocated at once since the last call, without the memory of libraries.
    ///
    /// # Errors
    /// [`Error::Failed`].
    #[doc(hidden)]
    pub fn take_peak_memory(&self) -> Result<usize, Error> {
        use sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH as PEAK;
        let context = &self.0.context;
        self.bind()?;
        let (mut pool, mut peak, mut zero) = (std::ptr::null_mut(), 0u64, 0u64);
        // SAFETY: the device is open; the attribute is a 64-bit integer, and the pointers are valid.
        let result = unsafe {
            sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device())
                .result()
                .and_then(|()| sys::cuMemPoolGetAttribute(pool, PEAK, (&raw mut peak).cast()).result())
                .and_then(|()| sys::cuMemPoolSetAttribute(pool, PEAK, (&raw mut zero).cast()).result())
        };
        result.map_err(|e| self.failed("reading its memory", e))?;
        Ok(peak as usize)
    }

    /// Returns an error in a child of the process that opened the device, because CUDA cannot be used there.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.0.process == std::process::id() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Makes the context current in this thread.
    pub(crate) fn bind(&self) -> Result<(), Error> {
        self.0.context.bind_to_thread().map_err(|e| self.failed("binding its context", e))
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.0.kernels
    }

    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.0.stream
    }

    /// Waits for all work that was started on the stream.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.0.stream.synchronize().map_err(|e| self.failed("waiting for its work", e))
    }

    /// Allocates memory with undefined values.
    pub(crate) fn allocate<T: DeviceRepr>(&self, len: usize) -> Result<Buffer<T>, Error> {
        // SAFETY: every kernel writes the values that later kernels read.
        let slice =
            unsafe { self.0.stream.alloc(len.max(1)) }.map_err(|e| self.failed("an allocation", e))?;
        let address = slice.device_ptr(&self.0.stream).0;
        Ok(Buffer { slice, address })
    }

    /// Copies values to the device.
    pub(crate) fn upload<T: DeviceRepr>(&self, values: &[T]) -> Result<Buffer<T>, Error> {
        let mut buffer = self.allocate(values.len())?;
        self.write(values, &mut buffer, 0)?;
        Ok(buffer)
    }

    /// Copies values into a buffer, from element `at` on.
    pub(crate) fn write<T: DeviceRepr>(
        &self,
        values: &[T],
        buffer: &mut Buffer<T>,
        at: usize,
    ) -> Result<(), Error> {
        if values.is_empty() {
            return Ok(());
        }
        let mut view = buffer.slice.slice_mut(at..at + values.len());
        self.0.stream.memcpy_htod(values, &mut view).map_err(|e| self.failed("a copy to the device", e))
    }

    /// Copies values to the start of a buffer while the started work continues. Work that is started later waits for the
    /// copy. The caller ensures that no unfinished work uses the buffer.
    pub(crate) fn write_ahead<T: DeviceRepr>(
        &self,
        values: &[T],
        buffer: &mut Buffer<T>,
    ) -> Result<(), Error> {
        let mut view = buffer.slice.slice_mut(..values.len());
        self.0
            .copies
            .memcpy_htod(values, &mut view)
            .and_then(|()| self.0.stream.join(&self.0.copies))
            .map_err(|e| self.failed("a copy to the device", e))
    }

    /// Copies elements of a buffer to the host while searches of other threads continue. The caller ensures that no unfinished
    /// work writes to the buffer.
    pub(crate) fn read_concurrently<T: DeviceRepr>(
        &self,
        buffer: &Buffer<T>,
        at: usize,
        values: &mut [T],
    ) -> Result<(), Error> {
        let view = buffer.slice.slice(at..at + values.len());
        let copies = &self.0.copies;
        let copied = copies.memcpy_dtoh(&view, values).and_then(|()| copies.synchronize());
        copied.map_err(|e| self.failed("a copy from the device", e))
    }

    /// Copies the first elements of a buffer to the host and waits until they are copied.
    pub(crate) fn read<T: DeviceRepr>(&self, buffer: &Buffer<T>, values: &mut [T]) -> Result<(), Error> {
        if values.is_empty() {
            return Ok(());
        }
        let view = buffer.slice.slice(..values.len());
        self.0.stream.memcpy_dtoh(&view, values).map_err(|e| self.failed("a copy from the device", e))?;
        self.synchronize()
    }

    /// Starts a product.
    ///
    /// # Safety
    /// As for [`Cublas::multiply`]; the caller holds the lock of the device.
    pub(crate) unsafe fn multiply(&self, product: &Product) -> Result<(), Error> {
        self.bind()?;
        // SAFETY: the caller guarantees the addresses; the context is bound above.
        unsafe { self.0.cublas.multiply(product) }
    }

    /// The error of a call of the driver.
    pub(crate) fn failed(&self, call: &'static str, error: DriverError) -> Error {
        match error.0 {
            cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => {
                Error::OutOfMemory { free: self.0.context.mem_get_info().ok().map(|(free, _)| free) }
            }
            _ => Error::Failed { call, problem: format!("{error:?}") },
        }
    }

    /// A lock for searches: one search at a time uses the stream and cuBLAS of a device.
    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'static, ()> {
        // Devices whose numbers differ by a multiple of 16 share a lock.
        static LOCKS: [Mutex<()>; 16] = [const { Mutex::new(()) }; 16];
        LOCKS[self.0.ordinal % LOCKS.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn new(ordinal: usize) -> Result<Self, Error> {
        let opening = |e: DriverError| match e.0 {
            cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory { free: None },
            _ => Error::Failed { call: "opening the device", problem: format!("{e:?}") },
        };
        let nvrtc = Nvrtc::new(ThisMachine.open(NVRTC)?)?;
        let context = CudaContext::new(ordinal).map_err(opening)?;
        // SAFETY: the stream orders all work except two kinds of copies. `write_ahead` makes later work of the stream wait for its
        // copy. `read_concurrently` waits for its copy, and no unfinished work writes to the buffer that it reads.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(opening)?;
        let copies = context.new_stream().map_err(opening)?;
        let (major, minor) = context.compute_capability().map_err(opening)?;
        let code = kernels::machine_code(&nvrtc, &format!("sm_{major}{minor}"))?;
        let module = context.load_module(Ptx::from_binary(code)).map_err(|e| Error::DriverFailed {
            problem: format!(
                "it does not load code of NVRTC {}.{}, so it may be too old ({e:?})",
                nvrtc.version().0,
                nvrtc.version().1
            ),
        })?;
        let function = |name: &str| module.load_function(name).map_err(opening);
        let kernels = Kernels {
            prepare: function("prepare")?,
            remove_rows: function("remove_rows")?,
            gather: function("gather")?,
            import_rows: function("import_rows")?,
            select_rows: function("select_rows")?,
            start_pass: function("start_pass")?,
            refine: function("refine")?,
            rank_candidates: function("rank_candidates")?,
            rescale: function("rescale")?,
            prepare_points: function("prepare_points")?,
            tighten: function("tighten")?,
        };
        // SAFETY: the context is bound to this thread by its creation; the stream is dropped after cuBLAS.
        let cublas = unsafe { Cublas::new(ThisMachine.open(CUBLAS)?, stream.cu_stream().cast()) }?;
        let name = context.name().map_err(opening)?;
        Ok(Self { ordinal, name, process: std::process::id(), cublas, kernels, stream, copies, context })
    }
}

/// An array in the memory of a device.
pub(crate) struct Buffer<T> {
    slice: CudaSlice<T>,
    /// The device address.
    pub(crate) address: u64,
}

impl<T> Buffer<T> {
    /// The device address of an element.
    pub(crate) fn at(&self, element: usize) -> u64 {
        debug_assert!(element <= self.slice.len(), "element {element} is beyond the end of the buffer");
        self.address + (element * size_of::<T>()) as u64
    }
}

/// Starts a kernel with the given grid, threads per block, bytes of shared memory and arguments.
///
/// Arguments are device addresses (`u64`, zero for none), numbers and structures, with the types and in the order of the kernel's
/// parameters.
macro_rules! launch {
    ($device:expr, $kernel:ident, $grid:expr, $threads:expr, $shared:expr, $($argument:expr),+ $(,)?) => {{
        let device: &$crate::device::CudaDevice = $device;
        let config = cudarc::driver::LaunchConfig {
            grid_dim: $grid,
            block_dim: ($threads, 1, 1),
            shared_mem_bytes: $shared,
        };
        let mut launch = device.stream().launch_builder(&device.kernels().$kernel);
        $crate::device::launch_arguments!(launch, config, $($argument),+)
            .map_err(|e| device.failed(concat!("the kernel ", stringify!($kernel)), e))
    }};
}

/// Binds each argument to a variable that lives until the launch.
macro_rules! launch_arguments {
    ($launch:ident, $config:ident, $($argument:expr),+) => {{
        use cudarc::driver::PushKernelArg;
        $crate::device::launch_arguments!(@bind $launch, $config, [$($argument),+], [])
    }};
    (@bind $launch:ident, $config:ident, [$first:expr $(, $rest:expr)*], [$($bound:ident)*]) => {{
        let argument = $first;
        $launch.arg(&argument);
        $crate::device::launch_arguments!(@bind $launch, $config, [$($rest),*], [$($bound)* argument])
    }};
    (@bind $launch:ident, $config:ident, [], [$($bound:ident)*]) => {
        // SAFETY: the arguments have the types of the kernel's parameters. The buffers are at least as large as the memory that
        // the kernel accesses, and they are freed in stream order, after the kernel.
        unsafe { $launch.launch($config) }.map(drop)
    };
}

pub(crate) use {launch, launch_arguments};
