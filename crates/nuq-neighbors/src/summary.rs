//! The description of an index.

use std::fmt;

use crate::HnswParams;

/// The kind of an index and its measured recall.
///
/// ```
/// use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex};
/// let index = ExactIndex::new(&Embeddings::from_rows(&[[0.0]])?)?;
/// assert_eq!(index.describe().to_string(), "exact search");
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IndexSummary {
    /// Exact search: all true neighbors are returned.
    Exact,
    /// Approximate search in an HNSW graph: true neighbors may be missing.
    Hnsw {
        /// The parameters of construction and search.
        params: HnswParams,
        /// The last measured recall; `None` when it was not measured after the last change of the index.
        recall: Option<MeasuredRecall>,
    },
    /// Any other index, for example one that is implemented outside this crate.
    Other {
        /// The name of the method.
        name: &'static str,
        /// The last measured recall; `None` when it was not measured or the search is exact.
        recall: Option<MeasuredRecall>,
    },
}

/// The share of the true neighbors that a search returns, measured against exact search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredRecall {
    /// The recall, from 0 to 1.
    pub share: f64,
    /// The number of neighbors per query.
    pub k: usize,
    /// The number of training rows that were used as queries, each excluded from its own neighbors.
    pub points: usize,
}

impl IndexSummary {
    /// The last measured recall of an approximate index.
    #[must_use]
    pub fn recall(&self) -> Option<MeasuredRecall> {
        match self {
            Self::Exact => None,
            Self::Hnsw { recall, .. } | Self::Other { recall, .. } => *recall,
        }
    }
}

impl fmt::Display for IndexSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => write!(f, "exact search"),
            Self::Hnsw { params, recall: None } => {
                write!(f, "HNSW graph (M {}, ef {}), recall not measured", params.m, params.ef_search)
            }
            Self::Hnsw { params, recall: Some(recall) } => {
                write!(f, "HNSW graph (M {}, ef {}) {recall}", params.m, params.ef_search)
            }
            Self::Other { name, recall: None } => write!(f, "{name}"),
            Self::Other { name, recall: Some(recall) } => write!(f, "{name} {recall}"),
        }
    }
}

impl fmt::Display for MeasuredRecall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { share, k, points } = self;
        write!(
            f,
            "with {:.1} % of the {k} nearest rows found, measured on {points} training rows",
            100.0 * share
        )
    }
}
