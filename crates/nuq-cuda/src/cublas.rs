//! Matrix products on tensor cores by cuBLAS.

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

// Values of NVIDIA's header `cublas_api.h`.
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

/// A product of rows and queries in `f16`; the widths and distances are in elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    /// Device address of the first row.
    pub(crate) rows: u64,
    /// The number of rows.
    pub(crate) n_rows: usize,
    /// The distance between two rows.
    pub(crate) row_step: usize,
    /// Device address of the first query.
    pub(crate) queries: u64,
    /// The number of queries.
    pub(crate) n_queries: usize,
    /// The number of columns, and the distance between two queries.
    pub(crate) width: usize,
    /// Device address of the products in `f16`: one line per query.
    pub(crate) tile: u64,
    /// The distance between two lines.
    pub(crate) line: usize,
}

impl Cublas {
    /// Creates a handle in the current context.
    ///
    /// # Errors
    /// [`Error::BadLibrary`] when a function is missing, [`Error::Failed`] when the handle cannot be created.
    ///
    /// # Safety
    /// `stream` is a stream of the context of this thread, and outlives the handle.
    pub(crate) unsafe fn new(library: &'static Library, stream: *mut c_void) -> Result<Self, Error> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of the function in NVIDIA's header `cublas_api.h`.
                unsafe {
                    *library
                        .get($name)
                        .map_err(|e| Error::BadLibrary { library: CUBLAS.title, problem: e.to_string() })?
                }
            };
        }
        let create: unsafe extern "C" fn(*mut Handle) -> c_int = function!(b"cublasCreate_v2");
        let set_stream: unsafe extern "C" fn(Handle, *mut c_void) -> c_int = function!(b"cublasSetStream_v2");
        let set_mode: unsafe extern "C" fn(Handle, c_int) -> c_int = function!(b"cublasSetMathMode");
        let mut cublas = Self {
            handle: null_mut(),
            gemm: function!(b"cublasGemmEx"),
            destroy: function!(b"cublasDestroy_v2"),
        };
        // SAFETY: the pointer is valid for writes, and the handle is valid after its creation.
        unsafe {
            check("cublasCreate", create(&mut cublas.handle))?;
            check("cublasSetStream", set_stream(cublas.handle, stream))?;
            check("cublasSetMathMode", set_mode(cublas.handle, MATH_DISALLOW_REDUCED_PRECISION_REDUCTION))?;
        }
        Ok(cublas)
    }

    /// Starts a product on the stream.
    ///
    /// # Errors
    /// [`Error::Failed`] with the status of cuBLAS.
    ///
    /// # Safety
    /// The addresses are those of device memory of the given sizes, which exists until the product is finished. The
    /// context is bound to this thread, and no other thread uses the handle.
    pub(crate) unsafe fn multiply(&self, product: &Product) -> Result<(), Error> {
        let (alpha, beta) = (1f32, 0f32);
        let int = |value: usize| c_int::try_from(value).expect("blocks of rows have sizes below 2^31");
        // SAFETY: the caller guarantees the addresses and sizes.
        let status = unsafe {
            (self.gemm)(
                self.handle,
                OP_T,
                OP_N,
                int(product.n_rows),
                int(product.n_queries),
                int(product.width),
                (&raw const alpha).cast(),
                product.rows as *const c_void,
                R_16F,
                int(product.row_step),
                product.queries as *const c_void,
                R_16F,
                int(product.width),
                (&raw const beta).cast(),
                product.tile as *mut c_void,
                R_16F,
                int(product.line),
                COMPUTE_32F,
                GEMM_DEFAULT,
            )
        };
        check("cublasGemmEx", status)
    }
}

/// A product `C = op(A) B` of column-major matrices in `f64`: `m × k` by `k × n`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product64 {
    /// Whether A is stored as its transpose, `k × m`.
    pub(crate) is_transposed: bool,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Device address of A, and the distance between its columns.
    pub(crate) a: (u64, usize),
    /// Device address of B, and the distance between its columns.
    pub(crate) b: (u64, usize),
    /// Device address of C, and the distance between its columns.
    pub(crate) c: (u64, usize),
}

impl Cublas {
    /// Starts a product in `f64` on the stream.
    ///
    /// # Errors
    /// [`Error::Failed`] with the status of cuBLAS.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply).
    pub(crate) unsafe fn multiply_f64(&self, product: &Product64) -> Result<(), Error> {
        let (alpha, beta) = (1f64, 0f64);
        let int = |value: usize| c_int::try_from(value).expect("blocks of rows have sizes below 2^31");
        let Product64 { is_transposed, m, n, k, a, b, c } = *product;
        // SAFETY: the caller guarantees the addresses and sizes.
        let status = unsafe {
            (self.gemm)(
                self.handle,
                if is_transposed { OP_T } else { OP_N },
                OP_N,
                int(m),
                int(n),
                int(k),
                (&raw const alpha).cast(),
                a.0 as *const c_void,
                R_64F,
                int(a.1),
                b.0 as *const c_void,
                R_64F,
                int(b.1),
                (&raw const beta).cast(),
                c.0 as *mut c_void,
                R_64F,
                int(c.1),
                COMPUTE_64F,
                GEMM_DEFAULT,
            )
        };
        check("cublasGemmEx", status)
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle was created and is not used afterwards.
            unsafe { (self.destroy)(self.handle) };
        }
    }
}

fn check(call: &'static str, status: c_int) -> Result<(), Error> {
    const ALLOC_FAILED: c_int = 3;
    match status {
        0 => Ok(()),
        ALLOC_FAILED => Err(Error::OutOfMemory { free: 0 }),
        _ => Err(Error::Failed { call, problem: format!("cuBLAS status {status}") }),
    }
}
