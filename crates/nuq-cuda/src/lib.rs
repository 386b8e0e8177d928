//! Exact nearest-neighbor search on NVIDIA GPUs.
//!
//! [`CudaIndex`] returns the same neighbors and distances as [`ExactIndex`](nuq_neighbors::ExactIndex), bit for bit. Tensor
//! cores multiply queries and rows in half precision. A bound on the rounding error excludes rows that are provably not among
//! the nearest. For the remaining rows, distances are computed in `f64`, with the same order of operations as on the CPU.
//!
//! No part of CUDA is needed to compile this crate or to start a program that contains it: the driver, cuBLAS and the
//! compiler NVRTC are loaded at run time. [`CudaDevice::open`] returns an [`Error`] that names the missing part. The crate
//! looks for libraries in the folders of the system, of the CUDA toolkit (`CUDA_HOME` or `CUDA_PATH`), of the Python packages `nvidia-*`
//! that PyTorch installs, and in the folders of the variable `NUQ_CUDA_LIBRARIES`. Compiled kernels are stored in the folder
//! `NUQ_CACHE`, by default `nuq` in the user's cache folder.
//!
//! A program calls [`register`] once. Then all models, baselines and evaluations use GPUs according to their
//! [`Device`](nuq_neighbors::Device). An index can also be created directly:
//!
//! ```
//! use nuq_cuda::{CudaDevice, CudaIndex};
//! use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex};
//!
//! let train = Embeddings::from_rows(&[[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])?;
//! let query = Embeddings::from_rows(&[[0.0, 0.0]])?;
//! let exact = ExactIndex::new(&train)?;
//! match CudaDevice::open(0) {
//!     Ok(device) => assert_eq!(CudaIndex::new(exact, device).search(&query, 2)?.ids(0), [0, 2]),
//!     Err(problem) => println!("search on the CPU: {problem}"),
//! }
//! # Ok::<(), nuq_neighbors::Error>(())
//! ```

mod array;
mod backend;
mod block;
mod bound;
mod choice;
mod cublas;
mod device;
mod error;
mod index;
mod kernels;
mod libraries;
mod nvrtc;
pub mod platform;
mod projection;
mod queries;
mod resident;
mod search;
mod shard;
mod sizes;
mod workspace;

pub use array::{ArrayElement, DeviceArray, Pending, device_of, slice_rows};
pub use backend::register;
pub use device::CudaDevice;
pub use error::Error;
pub use index::CudaIndex;
