//! The device on which neighbors are searched.
//!
//! The crate `nuq-cuda` searches on GPUs. A program that contains it calls `nuq_cuda::register()` once. From then on
//! every exact index that is built by [`IndexRequest`](crate::IndexRequest), by [`exact_index`] or from a file is
//! searched on the device of its request or, if that is [`Auto`](Device::Auto), on the device of the thread that
//! builds it. The result of a search does not depend on the device.
//!
//! ```
//! use nuq_neighbors::device::{Device, exact_index};
//! use nuq_neighbors::{Embeddings, NeighborIndex};
//!
//! let x = Embeddings::from_rows(&[[0.0], [1.0]])?;
//! let index = Device::Cpu.scope(|| exact_index(&x))?;
//! assert_eq!(index.search(&x, 1)?.ids(1), [1]);
//! # Ok::<(), nuq_neighbors::Error>(())
//! ```

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::{Embeddings, Error, ExactIndex, NeighborIndex, UnknownChoice, normalized};

/// The device on which neighbors are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// A GPU, if there is one and its expected time for a search, including the copy of the rows to it, is shorter than
    /// that of the CPU. Otherwise the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU by its number; without a number, the first one.
    Cuda(Option<u32>),
}

impl Device {
    /// One value of each kind.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Cpu, Self::Cuda(None)];

    /// The names of the kinds. A number may follow `cuda`, as in `cuda:1`.
    pub const NAMES: [&'static str; 4] = ["auto", "cpu", "cuda", "cuda:N"];

    /// Calls `compute` on this thread. Indexes that it builds on this thread are searched on this device, unless their request
    /// names another one.
    pub fn scope<T>(self, compute: impl FnOnce() -> T) -> T {
        let _scope = Scope { outer: CURRENT.replace(self) };
        compute()
    }

    /// The device of this thread: the device of the innermost [`scope`](Self::scope), or [`Auto`](Self::Auto) outside
    /// of all scopes.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// This device; for [`Auto`](Self::Auto), the device of the thread.
    pub(crate) fn or_current(self) -> Self {
        if self == Self::Auto { Self::current() } else { self }
    }
}

thread_local! {
    static CURRENT: Cell<Device> = const { Cell::new(Device::Auto) };
}

/// Restores the device of a thread when it is dropped, also by an unwind.
struct Scope {
    outer: Device,
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Cpu => f.pad("cpu"),
            Self::Cuda(None) => f.pad("cuda"),
            Self::Cuda(Some(number)) => f.pad(&format!("cuda:{number}")),
        }
    }
}

impl FromStr for Device {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        let name = normalized(word);
        // `parse` would accept a plus sign.
        let number = || name.strip_prefix("cuda:").filter(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
        let numbered = || number().and_then(|n| n.parse().ok()).map(|n| Self::Cuda(Some(n)));
        let known = Self::ALL.into_iter().find(|device| device.to_string() == name);
        known.or_else(numbered).ok_or_else(|| UnknownChoice::new("device", word, Self::NAMES.to_vec()))
    }
}

/// Searches exact indexes on devices other than the CPU.
pub trait Backend: Sync {
    /// Creates an index over the rows of an exact index, with the same results.
    ///
    /// # Errors
    /// [`Error::Device`] when a requested device cannot be used. With [`Device::Auto`] the CPU is used instead.
    fn place<'a>(&self, index: ExactIndex<'a>, device: Device) -> Result<Box<dyn NeighborIndex + 'a>, Error>;
}

static BACKEND: OnceLock<&'static dyn Backend> = OnceLock::new();

/// Sets the backend of this process; later calls have no effect.
pub fn register(backend: &'static dyn Backend) {
    let _ = BACKEND.set(backend);
}

/// An index with exact search on a device.
///
/// # Errors
/// [`Error::Device`] when a requested device cannot be used.
pub fn place<'a>(index: ExactIndex<'a>, device: Device) -> Result<Box<dyn NeighborIndex + 'a>, Error> {
    match (device, BACKEND.get()) {
        (Device::Cpu, _) | (Device::Auto, None) => Ok(Box::new(index)),
        (_, Some(backend)) => backend.place(index, device),
        (Device::Cuda(_), None) => Err(Error::Device {
            problem: format!("device `{device}`: this program cannot use GPUs, use the device `cpu`"),
        }),
    }
}

/// An index with exact search on the device of this thread.
///
/// # Errors
/// The errors of [`ExactIndex::new`] and [`place`].
pub fn exact_index<'a>(rows: &Embeddings<'a>) -> Result<Box<dyn NeighborIndex + 'a>, Error> {
    place(ExactIndex::new(rows)?, Device::current())
}

/// The expected time of an exact search that compares every row, in seconds, with all threads of the current pool.
#[doc(hidden)]
#[must_use]
pub fn cpu_seconds(rows: usize, dim: usize, queries: usize, k: usize) -> f64 {
    crate::choice::all_rows_seconds(rows, dim, queries as u64, k) / rayon::current_num_threads() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_as_its_value_and_other_words_are_errors() {
        for device in Device::ALL.into_iter().chain([Device::Cuda(Some(3))]) {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for word in ["gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", ""] {
            let error = word.parse::<Device>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("device `{word}` is unknown: choose one of auto, cpu, cuda, cuda:N")
            );
        }
    }

    #[test]
    fn a_scope_ends_with_its_computation() {
        assert_eq!(Device::current(), Device::Auto);
        let inner = Device::Cuda(Some(1)).scope(|| (Device::current(), Device::Cpu.scope(Device::current)));
        assert_eq!(inner, (Device::Cuda(Some(1)), Device::Cpu));
        assert_eq!(Device::current(), Device::Auto);
    }

    #[test]
    fn a_requested_gpu_without_a_backend_is_an_error() {
        let x = Embeddings::from_rows(&[[0.0], [1.0]]).unwrap();
        let error = Device::Cuda(None).scope(|| exact_index(&x)).err().unwrap();
        assert_eq!(error.to_string(), "device `cuda`: this program cannot use GPUs, use the device `cpu`");
        assert!(exact_index(&x).is_ok() && Device::Cpu.scope(|| exact_index(&x)).is_ok());
    }
}
