//! Who is near: embeddings, the neighbors found among them, and the indexes that find them.
//!
//! This crate knows nothing of labels or statistics. It takes rows of numbers ([`Embeddings`]), and an index
//! over them ([`NeighborIndex`], of which [`ExactIndex`] is the one that is never wrong) gives back, for each
//! query, the ids and squared distances of its nearest rows ([`Neighbors`]). The crate `nuq` turns that table
//! into predictions and uncertainties.
//!
//! ```
//! use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex};
//!
//! let train = Embeddings::from_rows(&[[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])?;
//! let index = ExactIndex::new(&train)?;
//! let found = index.search(&Embeddings::from_rows(&[[0.0, 0.0]])?, 2)?;
//! assert_eq!(found.ids(0), [0, 2]);
//! assert_eq!(found.sq_distances(0), [0.0, 1.0]);
//! # Ok::<(), nuq_neighbors::Error>(())
//! ```

mod choice;
mod distance;
mod embeddings;
mod error;
mod exact;
mod hnsw;
mod index;
mod neighbors;
mod parts;
mod rows;
mod seeded;
mod shared_slice;
mod summary;
mod vocabulary;

pub use choice::{IndexChoice, IndexKind, IndexRequest, Reason};
pub use distance::sq_distance;
pub use embeddings::Embeddings;
pub use error::Error;
pub use exact::ExactIndex;
pub use hnsw::{CodeBlock, HnswIndex, HnswParams, IndexBytes};
pub use index::NeighborIndex;
pub use neighbors::Neighbors;
pub use parts::{CodeParts, GraphParts, IndexParts, LinkParts, StoredRows, Verifier};
pub use rows::Precision;
pub use seeded::SeededRng;
pub use shared_slice::SharedSlice;
pub use summary::{IndexSummary, MeasuredRecall};
pub use vocabulary::{UnknownChoice, normalized};
