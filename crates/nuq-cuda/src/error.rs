//! Errors of the GPU. Each message names the part that is missing or failed, and the remedy if there is one.

/// An error of a GPU or of the libraries that it needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver library does not exist.
    #[error("there is no NVIDIA driver on this machine ({DRIVER}): install one, or use the device `cpu`")]
    NoDriver,
    /// The driver exists, but cannot be used.
    #[error("the NVIDIA driver cannot be used: {problem}")]
    DriverFailed {
        /// The error of the driver.
        problem: String,
    },
    /// The driver supports only old versions of CUDA.
    #[error("the NVIDIA driver supports CUDA {}, and {} is needed: install a newer driver", Version(*.found), Version(*.needed))]
    DriverTooOld {
        /// The version of CUDA that the driver supports: 1000 × major + 10 × minor.
        found: i32,
        /// The oldest usable version.
        needed: i32,
    },
    /// The driver lists no device.
    #[error("the NVIDIA driver lists no GPU; the variable CUDA_VISIBLE_DEVICES may hide it")]
    NoDevice,
    /// The requested device does not exist.
    #[error("device `cuda:{requested}` does not exist: the GPUs of this machine have the numbers 0 to {}", count - 1)]
    NoSuchDevice {
        /// The requested number.
        requested: usize,
        /// The number of devices.
        count: usize,
    },
    /// The device has no tensor cores.
    #[error("the GPU has compute capability {}.{}, and at least 7.0 is needed", .capability.0, .capability.1)]
    DeviceTooOld {
        /// The compute capability.
        capability: (i32, i32),
    },
    /// A library of CUDA does not exist.
    #[error(
        "the library {library} was not found: install the CUDA toolkit or `pip install {package}`, or add the folder of the library to {}",
        LIBRARY_PATH
    )]
    NoLibrary {
        /// The name of the library.
        library: &'static str,
        /// The Python package that contains it.
        package: &'static str,
    },
    /// A library does not have the functions that are needed, or does not report its version.
    #[error("the library {library} cannot be used: {problem}")]
    BadLibrary {
        /// The name of the library.
        library: &'static str,
        /// The problem.
        problem: String,
    },
    /// The kernels could not be compiled.
    #[error("the GPU kernels could not be compiled: {log}")]
    NotCompiled {
        /// The output of the compiler.
        log: String,
    },
    /// The memory of the device is full.
    #[error("the GPU does not have enough free memory: {}", Free(*.free))]
    OutOfMemory {
        /// The free memory in bytes, if it is known.
        free: Option<usize>,
    },
    /// The process was forked after the device was opened.
    #[error(
        "the GPU was opened before this process was forked, and CUDA cannot be used after a fork: use the start method `spawn`"
    )]
    Forked,
    /// A call failed; the device may be lost.
    #[error("the GPU failed in {call}: {problem}")]
    Failed {
        /// The step that failed.
        call: &'static str,
        /// The error of the driver or library.
        problem: String,
    },
}

const DRIVER: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// The environment variable that lists the folders in which the system searches for libraries.
const LIBRARY_PATH: &str = if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" };

struct Version(i32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

struct Free(Option<usize>);

impl std::fmt::Display for Free {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(free) => write!(f, "{free} bytes are free, and other programs may use the rest"),
            None => write!(f, "other programs may use it"),
        }
    }
}

impl From<Error> for nuq_neighbors::Error {
    fn from(error: Error) -> Self {
        Self::Device { problem: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_memory_is_named_only_if_it_is_known() {
        let message = |free| Error::OutOfMemory { free }.to_string();
        assert_eq!(
            message(Some(4096)),
            "the GPU does not have enough free memory: 4096 bytes are free, and other programs may use the rest"
        );
        assert_eq!(message(None), "the GPU does not have enough free memory: other programs may use it");
    }
}
