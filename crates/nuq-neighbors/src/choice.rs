//! The choice between exact search and an HNSW graph by their expected cost.

use std::fmt;
use std::str::FromStr;

use crate::device::{self, Device};
use crate::exact::{CODED_COLUMNS, few_columns_seconds};
use crate::{
    Embeddings, Error, ExactIndex, HnswIndex, HnswParams, NeighborIndex, ShardedIndex, ShardedRows,
    UnknownChoice, normalized,
};

/// The kind of index to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexKind {
    /// The kind with the lower expected time, including construction, for the number of rows, the dimension and the
    /// expected number of queries.
    #[default]
    Auto,
    /// Exact search: all true neighbors are returned.
    Exact,
    /// An HNSW graph: each query is compared with a few thousand rows, and true neighbors may be missing.
    Hnsw(HnswParams),
}

impl IndexKind {
    /// One value of each kind, the graph with its default parameters.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Exact, Self::Hnsw(HnswParams::DEFAULT)];

    /// The name on the command line, in Python and in files.
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

/// Parses a name. The word `hnsw` gives a graph with the default parameters.
impl FromStr for IndexKind {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        let name = normalized(word);
        let unknown = || UnknownChoice::new("index", word, Self::ALL.map(Self::name).to_vec());
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(unknown)
    }
}

/// The requirements from which an index is chosen and built.
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
    /// The requested kind.
    pub kind: IndexKind,
    /// The recall to which `ef_search` of a graph is tuned, above 0 and at most 1. With `None`, `ef_search` is not
    /// changed. The recall is measured in both cases.
    pub recall: Option<f64>,
    /// The number of neighbors per query.
    pub n_neighbors: usize,
    /// The expected total number of queries, from which [`IndexKind::Auto`] estimates the cost of search.
    pub queries: u64,
    /// The seed of the graph, when [`IndexKind::Auto`] chooses one.
    pub seed: u64,
    /// The device of searches. [`Device::Auto`] stands for the device of the thread, see [`Device::scope`]. A GPU implies
    /// exact search.
    pub device: Device,
}

impl Default for IndexRequest {
    fn default() -> Self {
        Self {
            kind: IndexKind::Auto,
            recall: Some(0.99),
            n_neighbors: 20,
            queries: 10_000,
            seed: 0,
            device: Device::Auto,
        }
    }
}

/// The chosen kind of index and the reason for the choice.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexChoice {
    /// The chosen kind, with the tuned `ef_search`; never [`IndexKind::Auto`].
    pub kind: IndexKind,
    /// The reason for the choice.
    pub reason: Reason,
    /// The device of the last search, as [`NeighborIndex::device`] returns it. [`IndexRequest`] always leaves it `None`; a fitted
    /// model sets it in the choice that it returns. It is not part of a model file.
    pub device: Option<String>,
}

/// The reason for the choice of an index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// The kind was requested, or it is the only one for the requested device or for shards.
    Requested,
    /// The kind has the lower expected time.
    LowerCost {
        /// The number of training rows.
        rows: usize,
        /// The dimension.
        dim: usize,
        /// The expected number of queries.
        queries: u64,
        /// The expected time of exact search, in seconds of one processor core.
        exact_seconds: f64,
        /// The expected time of a graph including its construction, in seconds of one processor core.
        graph_seconds: f64,
    },
}

impl fmt::Display for IndexChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if matches!(self.kind, IndexKind::Exact) { "exact search" } else { "HNSW graph" };
        match self.reason {
            Reason::Requested => write!(f, "{name}, {}", self.reason),
            Reason::LowerCost { .. } => write!(f, "{name}: {}", self.reason),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Requested => write!(f, "as requested"),
            Reason::LowerCost { queries, exact_seconds, graph_seconds, .. } => write!(
                f,
                "for {queries} queries exact search takes about {} of one core, a graph with its construction about {}",
                Seconds(exact_seconds),
                Seconds(graph_seconds)
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
    /// Checks the recall, the graph parameters and the device.
    ///
    /// # Errors
    /// [`Error::BadRecall`], [`Error::BadGraphParameter`] or [`Error::GraphOnDevice`].
    pub fn check(&self) -> Result<(), Error> {
        match (self.recall, self.kind) {
            (Some(value), _) if !(value > 0.0 && value <= 1.0) => Err(Error::BadRecall { value }),
            (_, IndexKind::Hnsw(params)) => {
                check_graph_device(self.device.or_current())?;
                params.check()
            }
            _ => Ok(()),
        }
    }

    /// Chooses the kind for `rows` rows of `dim` columns.
    #[must_use]
    pub fn choose(&self, rows: usize, dim: usize) -> IndexChoice {
        let requested = |kind| IndexChoice { kind, reason: Reason::Requested, device: None };
        if self.kind != IndexKind::Auto {
            return requested(self.kind);
        }
        let exact_seconds = exact_seconds(rows, dim, self.queries, self.n_neighbors);
        let graph_seconds = graph_seconds(rows, dim, self.queries, self.n_neighbors);
        let params = HnswParams::default().seed(self.seed);
        let is_exact = exact_seconds <= graph_seconds;
        // If exact search has the lower cost anyway, the choice and its reason are the same for every device.
        if !is_exact && matches!(self.device.or_current(), Device::Cuda(_)) {
            return requested(IndexKind::Exact);
        }
        IndexChoice {
            kind: if is_exact { IndexKind::Exact } else { IndexKind::Hnsw(params) },
            reason: Reason::LowerCost { rows, dim, queries: self.queries, exact_seconds, graph_seconds },
            device: None,
        }
    }

    /// Chooses and builds the index. With `scale`, coordinate `j` is divided by `scale[j]`.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check) and of the constructors of the indexes.
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
                // A single row has no neighbors on which recall could be measured.
                if index.len() > 1 {
                    match self.recall {
                        Some(target) => index.tune(target, self.n_neighbors)?,
                        None => index.recall(self.n_neighbors)?,
                    };
                }
                choice.kind = IndexKind::Hnsw(*index.params());
                Box::new(index)
            }
            (_, Some(scale)) => {
                device::place(ExactIndex::scaled(embeddings, scale)?, self.device.or_current())?
            }
            (_, None) => device::place(ExactIndex::new(embeddings)?, self.device.or_current())?,
        };
        Ok((index, choice))
    }

    /// Builds an index over shards, which are always searched exactly. With `scale`, coordinate `j` is divided by `scale[j]`.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check), [`Error::GraphOverShards`] when a graph was requested,
    /// [`Error::LengthMismatch`] or [`Error::BadScale`] for an invalid scale.
    pub fn build_sharded(
        &self,
        rows: ShardedRows,
        scale: Option<Vec<f64>>,
    ) -> Result<(Box<dyn NeighborIndex>, IndexChoice), Error> {
        self.check()?;
        let choice = match self.choose(rows.len(), rows.dim()) {
            exact @ IndexChoice { kind: IndexKind::Exact, .. } => exact,
            IndexChoice { reason: Reason::Requested, .. } => return Err(Error::GraphOverShards),
            graph => IndexChoice { kind: IndexKind::Exact, reason: Reason::Requested, ..graph },
        };
        let rows = match scale {
            Some(scale) => rows.scaled(scale)?,
            None => rows,
        };
        Ok((Box::new(ShardedIndex::new(rows, self.device.or_current())), choice))
    }
}

/// Checks that the device is not a GPU: a graph is searched on the CPU.
pub(crate) fn check_graph_device(device: Device) -> Result<(), Error> {
    if matches!(device, Device::Cuda(_)) { Err(Error::GraphOnDevice { device }) } else { Ok(()) }
}

// Costs in seconds of one core of a processor with instructions for products of bytes (AVX-512 VNNI). Without them, comparing
// all rows takes up to three times as long. The constants are the same for every processor, because the choice of the
// index must not depend on the processor. `cargo xtask bench search` prints estimates and measured times.
//
// Exact search computes an approximate score of each row, by products in `f32` or by codes of one byte per coordinate. Rows whose
// score is within a limit enter a shortlist of candidates, which are ranked by their exact distances.

/// The cost of one multiply-add of exact search.
const EXACT_TERM: f64 = 2.0e-11;
/// The cost of the comparison of one score with the limit of a shortlist. With few columns it exceeds the cost of the
/// products.
const EXACT_SCORE: f64 = 1.7e-10;
/// The cost of one row that enters a shortlist.
const EXACT_CANDIDATE: f64 = 80e-9;
/// The other costs of one query.
const EXACT_QUERY: f64 = 2e-6;
/// Exact search by codes: the cost of one multiply-add, the cost of one score, and the number of candidates relative to a
/// search by products in `f32`.
const CODED_TERM: f64 = 4.5e-12;
const CODED_SCORE: f64 = 6e-10;
const CODED_CANDIDATES: f64 = 2.0;
/// The cost of inserting one row, or of one query at a recall of 0.99, per doubling of the number of rows. In more
/// dimensions a search visits more nodes, up to about [`MAX_INTRINSIC`] dimensions, the intrinsic dimension of most
/// embeddings.
const GRAPH_DOUBLING: f64 = 4e-6;
const GRAPH_DOUBLING_COLUMN: f64 = 9e-6 / MAX_INTRINSIC as f64;
const MAX_INTRINSIC: usize = 32;
/// The additional cost of inserting one row, or of one query, per column.
const GRAPH_COLUMN: f64 = 0.15e-6;

/// The expected time of exact search. With few columns, it includes the preparation, which groups the rows so that a search
/// can skip most of them. With more columns, the share of rows that a search skips is not known before the rows are read. The
/// estimate is then the time of comparing all rows, by codes if the number of columns is in [`CODED_COLUMNS`]. It is near the
/// actual time, because the preparation takes about the time that skipped rows save.
fn exact_seconds(rows: usize, dim: usize, queries: u64, k: usize) -> f64 {
    let compare_all = if CODED_COLUMNS.contains(&dim) { all_codes_seconds } else { all_rows_seconds };
    let all_rows = compare_all(rows, dim, queries, k);
    few_columns_seconds(rows, dim, queries, k).map_or(all_rows, |seconds| seconds.min(all_rows))
}

/// The expected time of comparing every row with each query, in seconds of one processor core.
pub(crate) fn all_rows_seconds(rows: usize, dim: usize, queries: u64, k: usize) -> f64 {
    let (rows, k) = (rows.max(1) as f64, k.clamp(1, rows.max(1)) as f64);
    // Row i is among the k nearest of the first i rows with probability k/i, if the rows are in random order.
    let candidates = k * (1.0 + (rows / k).ln());
    let scan = rows * (EXACT_TERM * dim as f64 + EXACT_SCORE);
    queries as f64 * (scan + EXACT_CANDIDATE * candidates + EXACT_QUERY)
}

/// As [`all_rows_seconds`], for rows that are compared by codes of one byte per coordinate.
pub(crate) fn all_codes_seconds(rows: usize, dim: usize, queries: u64, k: usize) -> f64 {
    let scan = rows as f64 * (CODED_TERM * dim as f64 + CODED_SCORE);
    // The cost of the candidates and the other costs of one query.
    let candidate_seconds = all_rows_seconds(rows, 0, 1, k) - EXACT_SCORE * rows as f64;
    queries as f64 * (scan + CODED_CANDIDATES * candidate_seconds)
}

fn graph_seconds(rows: usize, dim: usize, queries: u64, k: usize) -> f64 {
    let doubling = GRAPH_DOUBLING + GRAPH_DOUBLING_COLUMN * dim.min(MAX_INTRINSIC) as f64;
    let per_row = doubling * (rows.max(2) as f64).log2() + GRAPH_COLUMN * dim as f64;
    // A search visits at least as many rows as it returns neighbors.
    let per_query = per_row * (k.min(rows) as f64 / HnswParams::DEFAULT.ef_search as f64).max(1.0);
    per_row * rows as f64 + per_query * queries as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_with_the_lower_expected_time_is_chosen() {
        let kind =
            |rows, dim, queries| IndexRequest { queries, ..IndexRequest::default() }.choose(rows, dim).kind;
        let graph = IndexKind::Hnsw(HnswParams::default());
        assert_eq!(kind(2000, 64, 10_000), IndexKind::Exact);
        assert_eq!(kind(50_000, 512, 10_000), IndexKind::Exact);
        assert_eq!(
            kind(50_000, 512, 10_000_000),
            IndexKind::Exact,
            "a graph search takes longer than comparing all codes"
        );
        assert_eq!(kind(1_000_000, 128, 1_000_000), graph);
        assert_eq!(kind(1_300_000, 2048, 100_000), graph);
        assert_eq!(kind(1_300_000, 2048, 100), IndexKind::Exact);
        assert_eq!(kind(500, 16, u64::MAX), IndexKind::Exact, "with few rows, a graph is never faster");
        assert_eq!(
            kind(1_000_000, 2, 10_000_000),
            IndexKind::Exact,
            "with few columns, most rows are skipped"
        );
    }

    #[test]
    fn a_graph_is_not_chosen_if_most_rows_are_neighbors() {
        let request = IndexRequest { queries: 10_000, n_neighbors: 10_000, ..IndexRequest::default() };
        assert_eq!(request.choose(10_000, 2).kind, IndexKind::Exact);
        assert_eq!(request.choose(10_000, 64).kind, IndexKind::Exact);
    }

    #[test]
    fn a_gpu_implies_exact_search() {
        let request =
            IndexRequest { device: Device::Cuda(None), queries: 100_000, ..IndexRequest::default() };
        let choice = request.choose(1_300_000, 2048);
        assert_eq!((choice.kind, choice.reason), (IndexKind::Exact, Reason::Requested));
        let graph = IndexRequest { kind: IndexKind::Hnsw(HnswParams::default()), ..request };
        assert_eq!(graph.check(), Err(Error::GraphOnDevice { device: Device::Cuda(None) }));
        let of_thread =
            Device::Cuda(Some(1)).scope(|| IndexRequest { device: Device::Auto, ..graph }.check());
        assert_eq!(of_thread, Err(Error::GraphOnDevice { device: Device::Cuda(Some(1)) }));
        assert_eq!(IndexRequest { device: Device::Cpu, ..graph }.check(), Ok(()));
    }

    /// Seconds of one core of an EPYC with AVX-512, k = 20, on 100 clusters of at most 16 dimensions.
    #[test]
    fn estimates_are_within_a_factor_of_two_of_measured_times() {
        let measured = [
            (1_000_000, 2, 10_000, 2.36),
            (1_000_000, 8, 10_000, 3.35),
            (1_000_000, 32, 1000, 0.765),
            (100_000, 8, 5000, 0.281),
            (100_000, 512, 1000, 1.06),
            (10_000, 2, 20_000, 0.296),
            (10_000, 8, 20_000, 0.335),
            (10_000, 32, 20_000, 0.434),
            (10_000, 512, 5000, 0.621),
        ];
        for (rows, dim, queries, seconds) in measured {
            let ratio = all_rows_seconds(rows, dim, queries, 20) / seconds;
            assert!((0.5..2.0).contains(&ratio), "{rows} × {dim}: {ratio}");
        }
        // Times of the first search of a new index, which also orders the rows. With few columns, the two times are for uniform
        // and for clustered rows. With 512 columns, 25,000 rows are embeddings of CIFAR-10 and 50,000 rows are Gaussian noise.
        let with_preparation = [
            (100_000, 2, [0.051, 0.049]),
            (1_000_000, 2, [0.341, 0.349]),
            (100_000, 8, [0.227, 0.129]),
            (1_000_000, 8, [1.043, 0.852]),
            (25_000, 512, [0.78, 0.78]),
            (50_000, 512, [2.64, 2.64]),
        ];
        for (rows, dim, seconds) in with_preparation {
            for seconds in seconds {
                let ratio = exact_seconds(rows, dim, 10_000, 20) / seconds;
                assert!((0.5..2.0).contains(&ratio), "first search of {rows} × {dim}: {ratio}");
            }
        }
        // The times of the two larger graphs are construction times without queries. docs/benchmarks.md has these times for two
        // threads; they are doubled here. Graphs of data with fewer intrinsic dimensions take less time.
        let graphs = [
            (20_000, 2, 2000, 1.43),
            (20_000, 8, 2000, 1.87),
            (50_000, 512, 0, 15.5),
            (200_000, 128, 0, 56.4),
        ];
        for (rows, dim, queries, seconds) in graphs {
            let ratio = graph_seconds(rows, dim, queries, 20) / seconds;
            assert!((0.5..2.0).contains(&ratio), "graph of {rows} × {dim}: {ratio}");
        }
    }

    #[test]
    fn display_names_the_kind_and_the_reason() {
        let request = IndexRequest { queries: 1000, ..IndexRequest::default() };
        assert_eq!(
            request.choose(100_000, 512).to_string(),
            "exact search: for 1000 queries exact search takes about 325 ms of one core, a graph with its construction \
             about 29.6 s"
        );
        let requested = IndexRequest { kind: IndexKind::Hnsw(HnswParams::default()), ..request };
        assert_eq!(requested.choose(10, 2).to_string(), "HNSW graph, as requested");
    }
}
