//! Which index to build: exact search or a graph, by what each will cost.

use std::fmt;
use std::str::FromStr;

use crate::{Embeddings, Error, ExactIndex, HnswIndex, HnswParams, NeighborIndex, UnknownChoice, normalized};

/// The index that a model is to stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexKind {
    /// Whichever takes less time for the rows, their dimension and the expected number of queries, building included.
    #[default]
    Auto,
    /// Exact search: every neighbor is found, each query meets every row.
    Exact,
    /// A graph: some neighbors may be missed, each query meets a few thousand rows.
    Hnsw(HnswParams),
}

impl IndexKind {
    /// One value of each kind, the graph with its default parameters.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Exact, Self::Hnsw(HnswParams::DEFAULT)];

    /// The word for this kind on the command line, in Python and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Hnsw(_) => "hnsw",
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A graph has its default parameters.
impl FromStr for IndexKind {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        let name = normalized(word);
        let unknown = || UnknownChoice::new("index", word, Self::ALL.map(Self::name).to_vec());
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(unknown)
    }
}

/// What is known before an index is built.
///
/// ```
/// use nuq_neighbors::{IndexRequest, IndexKind, Embeddings};
/// let x = Embeddings::from_rows(&[[0.0], [1.0]])?;
/// let (index, choice) = IndexRequest::default().build(&x, None)?;
/// assert_eq!(choice.kind, IndexKind::Exact);
/// assert_eq!(index.len(), 2);
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndexRequest {
    /// The kind asked for.
    pub kind: IndexKind,
    /// The share of true neighbors that a graph must find: its beam is made as wide as that takes. With `None` the beam
    /// stays as its parameters say, and what it finds is measured all the same.
    pub recall: Option<f64>,
    /// How many neighbors will be asked for.
    pub n_neighbors: usize,
    /// How many queries are expected in the life of the index: what [`IndexKind::Auto`] weighs building against.
    pub queries: u64,
    /// The seed of a graph that [`IndexKind::Auto`] takes.
    pub seed: u64,
}

impl Default for IndexRequest {
    fn default() -> Self {
        Self { kind: IndexKind::Auto, recall: Some(0.99), n_neighbors: 20, queries: 10_000, seed: 0 }
    }
}

/// The index that was taken, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndexChoice {
    /// Never [`IndexKind::Auto`]; with the beam that was found wide enough.
    pub kind: IndexKind,
    /// Why.
    pub reason: Reason,
}

/// Why an index was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// It was asked for.
    Requested,
    /// It is expected to take less time.
    Cheaper {
        /// Training rows.
        rows: usize,
        /// Their dimension.
        dim: usize,
        /// Expected queries.
        queries: u64,
        /// What exact search is expected to take, in seconds of one processor core.
        exact: f64,
        /// The same for a graph, building included.
        graph: f64,
    },
}

impl fmt::Display for IndexChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if matches!(self.kind, IndexKind::Exact) { "exact search" } else { "HNSW graph" };
        match self.reason {
            Reason::Requested => write!(f, "{name}, {}", self.reason),
            Reason::Cheaper { .. } => write!(f, "{name}: {}", self.reason),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Requested => write!(f, "as requested"),
            Reason::Cheaper { queries, exact, graph, .. } => write!(
                f,
                "for {queries} queries exact search takes about {} of one core, a graph with its building about {}",
                Seconds(exact),
                Seconds(graph)
            ),
        }
    }
}

struct Seconds(f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s < 1.0 => write!(f, "{:.0} ms", (1e3 * s).max(1.0)),
            s if s < 100.0 => write!(f, "{s:.1} s"),
            s => write!(f, "{s:.0} s"),
        }
    }
}

impl IndexRequest {
    /// Refuses what no index can be.
    pub fn check(&self) -> Result<(), Error> {
        match (self.recall, self.kind) {
            (Some(value), _) if !(value > 0.0 && value <= 1.0) => Err(Error::BadRecall { value }),
            (_, IndexKind::Hnsw(params)) => params.check(),
            _ => Ok(()),
        }
    }

    /// The kind for `rows` of `dim` columns.
    pub fn choose(&self, rows: usize, dim: usize) -> IndexChoice {
        if self.kind != IndexKind::Auto {
            return IndexChoice { kind: self.kind, reason: Reason::Requested };
        }
        let (exact, graph) = (exact_seconds(rows, dim, self.queries), graph_seconds(rows, dim, self.queries));
        let params = HnswParams::default().seed(self.seed);
        let kind = if exact <= graph { IndexKind::Exact } else { IndexKind::Hnsw(params) };
        IndexChoice { kind, reason: Reason::Cheaper { rows, dim, queries: self.queries, exact, graph } }
    }

    /// Builds the index over rows, with each coordinate divided by its scale where there is one.
    pub fn build<'a>(
        &self,
        embeddings: &Embeddings<'a>,
        scale: Option<Vec<f64>>,
    ) -> Result<(Box<dyn NeighborIndex + 'a>, IndexChoice), Error> {
        self.check()?;
        let mut choice = self.choose(embeddings.len(), embeddings.dim());
        let index: Box<dyn NeighborIndex + 'a> = match (choice.kind, scale) {
            (IndexKind::Hnsw(params), scale) => {
                let mut index = match scale {
                    Some(scale) => HnswIndex::scaled(embeddings, scale, params)?,
                    None => HnswIndex::new(embeddings, params)?,
                };
                // Alone among its kind a row has no neighbors to be missed.
                if index.len() > 1 {
                    match self.recall {
                        Some(target) => index.tune(target, self.n_neighbors)?,
                        None => index.recall(self.n_neighbors)?,
                    };
                }
                choice.kind = IndexKind::Hnsw(*index.params());
                Box::new(index)
            }
            (_, Some(scale)) => Box::new(ExactIndex::scaled(embeddings, scale)?),
            (_, None) => Box::new(ExactIndex::new(embeddings)?),
        };
        Ok((index, choice))
    }
}

// Measured by `cargo xtask bench search`, in seconds of one core: only their ratio decides, and it moves slowly from one
// processor to the next.

/// A multiply-add of exact search.
const EXACT_TERM: f64 = 2.4e-11;
/// Linking a row, or answering a query at a recall of 0.99: a part for each doubling of the rows, a part for each column.
const GRAPH_DOUBLING: f64 = 13e-6;
const GRAPH_COLUMN: f64 = 0.15e-6;

fn exact_seconds(rows: usize, dim: usize, queries: u64) -> f64 {
    EXACT_TERM * queries as f64 * rows as f64 * dim as f64
}

fn graph_seconds(rows: usize, dim: usize, queries: u64) -> f64 {
    let one = GRAPH_DOUBLING * (rows.max(2) as f64).log2() + GRAPH_COLUMN * dim as f64;
    one * (rows as f64 + queries as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_queries_are_not_worth_a_graph_and_many_are() {
        let kind =
            |rows, dim, queries| IndexRequest { queries, ..IndexRequest::default() }.choose(rows, dim).kind;
        let graph = IndexKind::Hnsw(HnswParams::default());
        assert_eq!(kind(2000, 64, 10_000), IndexKind::Exact);
        assert_eq!(kind(50_000, 512, 10_000), IndexKind::Exact);
        assert_eq!(kind(50_000, 512, 10_000_000), graph);
        assert_eq!(kind(1_300_000, 2048, 100_000), graph);
        assert_eq!(kind(1_300_000, 2048, 100), IndexKind::Exact);
        assert_eq!(kind(500, 16, u64::MAX), IndexKind::Exact, "where a graph cannot be faster");
    }

    #[test]
    fn the_choice_says_why() {
        let request = IndexRequest { queries: 1000, ..IndexRequest::default() };
        assert_eq!(
            request.choose(100_000, 512).to_string(),
            "exact search: for 1000 queries exact search takes about 1.2 s of one core, a graph with its building about \
             29.6 s"
        );
        let asked = IndexRequest { kind: IndexKind::Hnsw(HnswParams::default()), ..request };
        assert_eq!(asked.choose(10, 2).to_string(), "HNSW graph, as requested");
    }
}
