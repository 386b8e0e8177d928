//! What an index says of itself.

use std::fmt;

use crate::{HnswParams, Precision};

/// The kind of an index and how many of the true neighbors it finds: shown wherever its answers are.
///
/// ```
/// use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex};
/// let index = ExactIndex::new(&Embeddings::from_rows(&[[0.0]])?)?;
/// assert_eq!(index.describe().to_string(), "exact search");
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IndexSummary {
    /// Every neighbor is found.
    Exact,
    /// A graph is walked; some neighbors may be missed.
    Hnsw {
        /// How the graph was built and is searched.
        params: HnswParams,
        /// The recall that was measured last, if it was.
        recall: Option<MeasuredRecall>,
    },
}

/// The share of true neighbors found, as measured against exact search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredRecall {
    /// From 0 to 1.
    pub share: f64,
    /// Neighbors looked for.
    pub k: usize,
    /// Left-out training points that looked for them.
    pub points: usize,
}

impl IndexSummary {
    /// Whether the rows are kept in half precision.
    pub fn keeps_halves(&self) -> bool {
        matches!(self, Self::Hnsw { params, .. } if params.precision == Precision::F16)
    }
}

impl fmt::Display for IndexSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => write!(f, "exact search"),
            Self::Hnsw { params, recall: None } => {
                write!(f, "HNSW graph (M {}, ef {}), recall not measured", params.m, params.ef_search)
            }
            Self::Hnsw { params, recall: Some(recall) } => write!(
                f,
                "HNSW graph (M {}, ef {}) that finds {:.1} % of the {} nearest rows, measured on {} training points",
                params.m,
                params.ef_search,
                100.0 * recall.share,
                recall.k,
                recall.points
            ),
        }
    }
}
