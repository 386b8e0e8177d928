//! The run-time compiler NVRTC.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;

use crate::Error;
use crate::libraries::NVRTC;

type Program = *mut c_void;
type GetSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type GetBytes = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// The functions of NVRTC that are used.
pub(crate) struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    cubin_size: GetSize,
    cubin: GetBytes,
    log_size: GetSize,
    log: GetBytes,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    version: (c_int, c_int),
}

impl Nvrtc {
    /// Looks up the functions in an open library.
    ///
    /// # Errors
    /// [`Error::BadLibrary`] when a function is missing, or when the library does not report its version.
    pub(crate) fn new(library: &'static Library) -> Result<Self, Error> {
        let bad = |problem: String| Error::BadLibrary { library: NVRTC.title, problem };
        // SAFETY: the type is that of the function in `nvrtc.h`.
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
            unsafe { NVRTC.function(library, "nvrtcVersion") }?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for writes.
        let status = unsafe { version(&mut major, &mut minor) };
        if status != 0 {
            return Err(bad(format!("nvrtcVersion returned {status}")));
        }
        // SAFETY: the fields have the types of the functions in `nvrtc.h`.
        unsafe {
            Ok(Self {
                create: NVRTC.function(library, "nvrtcCreateProgram")?,
                compile: NVRTC.function(library, "nvrtcCompileProgram")?,
                cubin_size: NVRTC.function(library, "nvrtcGetCUBINSize")?,
                cubin: NVRTC.function(library, "nvrtcGetCUBIN")?,
                log_size: NVRTC.function(library, "nvrtcGetProgramLogSize")?,
                log: NVRTC.function(library, "nvrtcGetProgramLog")?,
                destroy: NVRTC.function(library, "nvrtcDestroyProgram")?,
                version: (major, minor),
            })
        }
    }

    /// The version of the compiler.
    pub(crate) fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Compiles a source to machine code for an architecture such as `sm_90`.
    ///
    /// # Errors
    /// [`Error::NotCompiled`] with the compiler's output.
    pub(crate) fn compile(&self, source: &str, architecture: &str) -> Result<Vec<u8>, Error> {
        let failed =
            |call: &str, status: c_int| Error::NotCompiled { log: format!("{call} returned {status}") };
        let source = CString::new(source).expect("the kernels contain no zero byte");
        let options = [format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()]
            .map(|option| CString::new(option).expect("options contain no zero byte"));
        let option_pointers = options.each_ref().map(|option| option.as_ptr());
        let mut program = Guard { program: null_mut(), destroy: self.destroy };
        // SAFETY: all pointers are valid during the calls, and the buffers have the sizes that the library reports.
        unsafe {
            let status =
                (self.create)(&mut program.program, source.as_ptr(), c"nuq.cu".as_ptr(), 0, null(), null());
            if status != 0 {
                return Err(failed("nvrtcCreateProgram", status));
            }
            let status =
                (self.compile)(program.program, option_pointers.len() as c_int, option_pointers.as_ptr());
            if status != 0 {
                let log = read(program.program, self.log_size, self.log).unwrap_or_default();
                let log = String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_owned();
                let (major, minor) = self.version;
                return Err(Error::NotCompiled {
                    log: format!("NVRTC {major}.{minor}, {architecture}, status {status}: {log}"),
                });
            }
            read(program.program, self.cubin_size, self.cubin)
                .map_err(|status| failed("nvrtcGetCUBIN", status))
        }
    }
}

struct Guard {
    program: Program,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: the program was created and is not used afterward.
            unsafe { (self.destroy)(&mut self.program) };
        }
    }
}

/// Reads the machine code or the log of a program: `size` returns the number of bytes, and `bytes` the bytes.
///
/// # Safety
/// The program was created by the same library from which `size` and `bytes` were loaded.
unsafe fn read(program: Program, size: GetSize, bytes: GetBytes) -> Result<Vec<u8>, c_int> {
    let mut len = 0;
    // SAFETY: the pointer is valid for writes.
    let status = unsafe { size(program, &mut len) };
    if status != 0 {
        return Err(status);
    }
    let mut buffer = vec![0u8; len];
    // SAFETY: the buffer has the length that the library reported.
    let status = unsafe { bytes(program, buffer.as_mut_ptr().cast()) };
    if status == 0 { Ok(buffer) } else { Err(status) }
}
