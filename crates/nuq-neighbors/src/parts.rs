//! An index taken apart into plain arrays, and put together again: what a model file holds.
//!
//! Arrays may lie in a mapped file. Putting an index together reads none of the large ones; a [`Verifier`] has its say
//! before the first search does.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use crate::exact::{ExactIndex, check_scale};
use crate::hnsw::HnswIndex;
use crate::rows::Rows;
use crate::{
    CodeBlock, Embeddings, Error, HnswParams, MeasuredRecall, NeighborIndex, Precision, SharedSlice,
};

/// Everything that an index is made of.
#[derive(Clone)]
pub struct IndexParts<'a> {
    /// The dimension of the rows.
    pub dim: usize,
    /// The rows, in the order of their ids.
    pub rows: StoredRows<'a>,
    /// Ids whose rows were removed.
    pub removed: Vec<u32>,
    /// What coordinates are divided by, if they are.
    pub scale: Option<Vec<f64>>,
    /// The graph, unless the index is exact.
    pub graph: Option<GraphParts<'a>>,
}

/// Rows in the precision in which they are kept.
#[derive(Clone)]
pub enum StoredRows<'a> {
    /// `f32`.
    F32(SharedSlice<'a, f32>),
    /// The bits of IEEE halves.
    F16(SharedSlice<'a, u16>),
}

/// What a graph index has beside its rows.
#[derive(Clone)]
pub struct GraphParts<'a> {
    /// How it was built and is searched.
    pub params: HnswParams,
    /// The recall that was measured last.
    pub recall: Option<MeasuredRecall>,
    /// The links, unless exact search answers everything.
    pub links: Option<LinkParts<'a>>,
    /// The codes that walks read, if they do.
    pub codes: Option<CodeParts<'a>>,
}

/// The links of a graph.
#[derive(Clone)]
pub struct LinkParts<'a> {
    /// For each id a count and room for $2M$ ids.
    pub bottom: SharedSlice<'a, u32>,
    /// For each id and each layer above the bottom that it is on, a count and room for $M$ ids.
    pub upper: SharedSlice<'a, u32>,
    /// Where walks start.
    pub entry: u32,
}

/// Codes of a byte a coordinate.
#[derive(Clone)]
pub struct CodeParts<'a> {
    /// What each coordinate is centered on.
    pub center: Vec<f32>,
    /// What one step of a code stands for.
    pub step: f32,
    /// Rows added later that the codes do not reach.
    pub unreached: usize,
    /// The codes, whole lines for each row.
    pub lines: SharedSlice<'a, CodeBlock>,
}

/// Who vouches for arrays that were not read yet: a file with checksums.
pub trait Verifier: Send + Sync {
    /// Reads them and says whether they are what was written.
    fn verify(&self) -> Result<(), Error>;
}

/// A verifier and its answer.
#[derive(Clone, Default)]
pub(crate) struct Verified(Option<Arc<Asked>>);

struct Asked {
    verifier: Box<dyn Verifier>,
    answer: OnceLock<Result<(), Error>>,
}

impl Verified {
    pub(crate) fn by(verifier: Box<dyn Verifier>) -> Self {
        Self(Some(Arc::new(Asked { verifier, answer: OnceLock::new() })))
    }

    /// The verifier's answer, asked for once (or by several threads at once: it may read in parallel, so no lock is held).
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some(asked) = &self.0 else { return Ok(()) };
        let Asked { verifier, answer } = &**asked;
        match answer.get() {
            Some(answer) => answer.clone(),
            None => {
                let found = verifier.verify();
                answer.get_or_init(|| found).clone()
            }
        }
    }
}

impl<'a> IndexParts<'a> {
    /// Puts the index together. Arrays are read when the first search needs them, after the verifier has vouched for them
    /// and their contents made sense.
    pub fn restore(
        self,
        verifier: Box<dyn Verifier + 'static>,
    ) -> Result<Box<dyn NeighborIndex + 'a>, Error> {
        let damaged = |what: &str| Error::Damaged { section: "index".to_owned(), problem: what.to_owned() };
        let len = match &self.rows {
            StoredRows::F32(values) => values.len(),
            StoredRows::F16(values) => values.len(),
        };
        if self.dim == 0 || len == 0 || len % self.dim != 0 || len / self.dim > u32::MAX as usize {
            return Err(damaged("rows do not fit their dimension"));
        }
        let ids = len / self.dim;
        let removed: BTreeSet<u32> = self.removed.iter().copied().collect();
        if removed.len() != self.removed.len() || removed.last().is_some_and(|&id| id as usize >= ids) {
            return Err(damaged("removed ids are not ids"));
        }
        if let Some(scale) = &self.scale {
            check_scale(scale, self.dim)?;
        }
        let verifier = Verified::by(verifier);
        let rows = match self.rows {
            StoredRows::F32(values) => {
                Rows::restored_floats(Embeddings::unread(values, self.dim), removed, verifier)
            }
            StoredRows::F16(values) => Rows::restored_halves(values, self.dim, removed, verifier),
        };
        let exact = ExactIndex::over(rows, self.scale);
        match self.graph {
            None => Ok(Box::new(exact)),
            Some(graph) => {
                let stored = exact.rows().precision();
                if stored != graph.params.precision {
                    return Err(damaged("rows are not of the precision that the graph was built with"));
                }
                HnswIndex::restored(exact, graph)
                    .map(|index| Box::new(index) as Box<dyn NeighborIndex + 'a>)
                    .ok_or_else(|| damaged("links or codes do not fit the rows"))
            }
        }
    }
}

impl<'a> From<&'a Rows<'_>> for StoredRows<'a> {
    fn from(rows: &'a Rows<'_>) -> Self {
        match (rows.precision(), rows.floats(), rows.halves()) {
            (Precision::F32, Some(floats), _) => StoredRows::F32(SharedSlice::borrowed(floats.as_slice())),
            (Precision::F16, _, Some(halves)) => StoredRows::F16(SharedSlice::borrowed(halves)),
            _ => unreachable!("rows are floats or halves"),
        }
    }
}
