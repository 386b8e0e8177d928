//! Nearest-neighbor search over embeddings.
//!
//! An index ([`NeighborIndex`]) over rows of numbers ([`Embeddings`]) returns the ids and squared distances of the
//! nearest rows of each query ([`Neighbors`]). [`ExactIndex`] returns all true neighbors. [`HnswIndex`] searches a
//! graph, in which some true neighbors may be missed; its recall is measured. The crate `nuq` computes predictions
//! and uncertainties from the neighbors and their labels.
//!
//! ```
//! use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex};
//!
//! let train = Embeddings::from_rows(&[[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])?;
//! let index = ExactIndex::new(&train)?;
//! let neighbors = index.search(&Embeddings::from_rows(&[[0.0, 0.0]])?, 2)?;
//! assert_eq!(neighbors.ids(0), [0, 2]);
//! assert_eq!(neighbors.sq_distances(0), [0.0, 1.0]);
//! # Ok::<(), nuq_neighbors::Error>(())
//! ```

mod absent;
pub mod cancel;
mod choice;
pub mod device;
mod distance;
mod embeddings;
mod error;
mod exact;
mod hnsw;
mod index;
mod neighbors;
mod parts;
pub mod progress;
mod seeded;
mod sharded;
mod shared_slice;
mod storage;
mod stored_rows;
mod summary;
mod verified;
mod vocabulary;

pub use absent::AbsentIndex;
pub use cancel::{CancelToken, Cancelled};
pub use choice::{IndexChoice, IndexKind, IndexRequest, Reason};
pub use device::Device;
pub use distance::{scaled_sq_distance, sq_distance};
pub use embeddings::Embeddings;
pub use error::Error;
pub use exact::ExactIndex;
#[doc(hidden)]
pub use exact::Pruning;
pub use hnsw::{CodeBlock, HnswIndex, HnswParams, IndexBytes};
pub use index::NeighborIndex;
pub use neighbors::Neighbors;
pub use parts::{CodeParts, GraphParts, IndexParts, LinkParts, OrderParts, RowParts, RowValues};
pub use progress::{Progress, Stage};
pub use seeded::SeededRng;
pub use sharded::{AddTable, HeldShards, Shard, ShardMerge, ShardSearch, ShardedIndex, ShardedRows};
pub use shared_slice::{DeviceSlice, SharedSlice};
pub use storage::RowStorage;
#[doc(hidden)]
pub use stored_rows::widened;
pub use stored_rows::{Precision, StoredRows};
pub use summary::{IndexSummary, MeasuredRecall};
pub use verified::Verifier;
pub use vocabulary::{UnknownChoice, normalized};

/// The distance kernels of graph search, for benchmarks. Not part of the public interface.
#[doc(hidden)]
pub mod bench_kernels {
    pub use crate::hnsw::{code_distances, float_distances, half_distances};
}
