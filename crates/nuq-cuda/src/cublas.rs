//! Matrix products by cuBLAS. Products in half precision are computed on tensor cores.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use libloading::Library;

use crate::Error;
use crate::libraries::CUBLAS;

type Handle = *mut c_void;
type GemmEx = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

// Values of NVIDIA's headers `cublas_api.h` and `library_types.h`.
const OP_N: c_int = 0;
const OP_T: c_int = 1;
const R_16F: c_int = 2;
const R_64F: c_int = 1;
const COMPUTE_32F: c_int = 68;
const COMPUTE_64F: c_int = 70;
const GEMM_DEFAULT: c_int = -1;
/// Partial sums are added in `f32`, never in `f16`.
const MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: c_int = 16;

/// A handle of cuBLAS for one context and one stream.
pub(crate) struct Cublas {
    handle: Handle,
    gemm: GemmEx,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
}

// SAFETY: a handle may be used from any thread, by one thread at a time; the owner serializes the calls.
unsafe impl Send for Cublas {}
// SAFETY: as above.
unsafe impl Sync for Cublas {}

/// The type of the values of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    /// `f16` on tensor cores, with sums in `f32`.
    F16,
    F64,
}

/// A product `C = op(A) B` of column-major matrices, where op(A) is `m × k` and B is `k × n`. In the products of a search, the columns of A
/// are rows of the index, and the columns of B are queries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    pub(crate) element: Element,
    /// Whether op(A) is the transpose of A, which is then `k × m`. Otherwise op(A) is A.
    pub(crate) is_transposed: bool,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Device address of A, and the distance between its columns in elements.
    pub(crate) a: (u64, usize),
    /// Device address of B, and the distance between its columns.
    pub(crate) b: (u64, usize),
    /// Device address of C, and the distance between its columns.
    pub(crate) c: (u64, usize),
}

impl Cublas {
    /// Creates a handle in the current context.
    ///
    /// # Errors
    /// [`Error::BadLibrary`] when a function is missing, [`Error::OutOfMemory`] or [`Error::Failed`] when the handle cannot be
    /// created.
    ///
    /// # Safety
    /// `stream` is a stream of the context of this thread, and outlives the handle.
    pub(crate) unsafe fn new(library: &'static Library, stream: *mut c_void) -> Result<Self, Error> {
        // SAFETY: the types are those of the functions in `cublas_api.h`; the pointer is valid for writes, and the handle is valid
        // after its creation.
        unsafe {
            let create: unsafe extern "C" fn(*mut Handle) -> c_int =
                CUBLAS.function(library, "cublasCreate_v2")?;
            let set_stream: unsafe extern "C" fn(Handle, *mut c_void) -> c_int =
                CUBLAS.function(library, "cublasSetStream_v2")?;
            let set_mode: unsafe extern "C" fn(Handle, c_int) -> c_int =
                CUBLAS.function(library, "cublasSetMathMode")?;
            let mut cublas = Self {
                handle: null_mut(),
                gemm: CUBLAS.function(library, "cublasGemmEx")?,
                destroy: CUBLAS.function(library, "cublasDestroy_v2")?,
            };
            check("cublasCreate", create(&mut cublas.handle))?;
            check("cublasSetStream", set_stream(cublas.handle, stream))?;
            check("cublasSetMathMode", set_mode(cublas.handle, MATH_DISALLOW_REDUCED_PRECISION_REDUCTION))?;
            Ok(cublas)
        }
    }

    /// Starts a product on the stream.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Failed`] with the status of cuBLAS.
    ///
    /// # Safety
    /// The addresses point to device memory of the given sizes, which exists until the product is finished. The
    /// context is bound to this thread, and no other thread uses the handle.
    pub(crate) unsafe fn multiply(&self, product: &Product) -> Result<(), Error> {
        let Product { element, is_transposed, m, n, k, a, b, c } = *product;
        let int = |value: usize| c_int::try_from(value).expect("blocks of rows have sizes below 2^31");
        // The coefficients of `C = alpha op(A) B + beta C`, in the type of the sums.
        let ((one, zero), (one_f64, zero_f64)) = ((1f32, 0f32), (1f64, 0f64));
        let (data, compute, alpha, beta): (_, _, *const c_void, *const c_void) = match element {
            Element::F16 => (R_16F, COMPUTE_32F, (&raw const one).cast(), (&raw const zero).cast()),
            Element::F64 => (R_64F, COMPUTE_64F, (&raw const one_f64).cast(), (&raw const zero_f64).cast()),
        };
        // SAFETY: the caller guarantees the addresses and sizes.
        let status = unsafe {
            (self.gemm)(
                self.handle,
                if is_transposed { OP_T } else { OP_N },
                OP_N,
                int(m),
                int(n),
                int(k),
                alpha,
                a.0 as *const c_void,
                data,
                int(a.1),
                b.0 as *const c_void,
                data,
                int(b.1),
                beta,
                c.0 as *mut c_void,
                data,
                int(c.1),
                compute,
                GEMM_DEFAULT,
            )
        };
        check("cublasGemmEx", status)
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle was created and is not used afterward.
            unsafe { (self.destroy)(self.handle) };
        }
    }
}

fn check(call: &'static str, status: c_int) -> Result<(), Error> {
    const ALLOC_FAILED: c_int = 3;
    match status {
        0 => Ok(()),
        ALLOC_FAILED => Err(Error::OutOfMemory { free: None }),
        _ => Err(Error::Failed { call, problem: format!("cuBLAS status {status}") }),
    }
}
