//! Approximate search in a hierarchical navigable small world graph (HNSW, Malkov and Yashunin 2018).
//!
//! A query is compared with the rows along a walk in a graph of near neighbors, not with every row. Some true neighbors
//! may be missing; their number depends on `ef_search`, and [`HnswIndex::recall`] measures it. The returned rows are
//! ranked by direct differences in `f64`, as in exact search.
//!
//! Walks read compact vectors: [codes] of one byte per coordinate if they preserve the neighbors, otherwise the
//! [rows](walk_data). The graph is [built](build) in batches, [updated](update) by insertion and removal, and
//! searched by a [beam](walk).

mod build;
mod codes;
mod graph;
mod kernels;
mod params;
mod recall;
mod update;
mod vectors;
mod walk;
mod walk_data;

pub(crate) use kernels::prefetch;
pub use kernels::{code_distances, float_distances, half_distances};
pub use params::HnswParams;
pub use vectors::CodeBlock;

use std::sync::OnceLock;

use rayon::prelude::*;

use crate::cancel::{Checkpoint, ParallelCheckpoints, all_or_nothing, checkpoint, uninterrupted};
use crate::exact::ExactIndex;
use crate::neighbors::{Neighbor, keep_nearest};
use crate::parts::{GraphParts, IndexParts};
use crate::progress::Steps;
use crate::{
    Embeddings, Error, IndexSummary, MeasuredRecall, NeighborIndex, Neighbors, RowStorage, StoredRows,
};
use codes::Codes;
use graph::Graph;
use vectors::{AnyVectors, Element, Vectors, halves, with_vectors};
use walk::{Beam, SearchView};
use walk_data::{MAX_MAGNITUDE, WalkData, max_magnitude};

/// Approximate nearest neighbors by search in a layered graph.
///
/// The graph is a function of rows, parameters and seed, independent of the number of threads. If walks read codes
/// (see the field `precision` of [`HnswParams`]), it is also independent of the processor. Rows stored in `f32` are
/// borrowed or shared, not copied. Exact search is used instead of the graph for fewer than 1024 rows, for k above
/// one eighth of the number of rows, and for coordinates with squares outside the range of `f32`.
///
/// ```
/// use nuq_neighbors::{Embeddings, HnswIndex, HnswParams, NeighborIndex, SeededRng};
///
/// let mut rng = SeededRng::new(1);
/// let x = Embeddings::new((0..20_000).map(|_| rng.normal() as f32).collect(), 8)?;
/// let mut index = HnswIndex::new(&x, HnswParams::default())?;
/// let achieved = index.tune(0.99, 10)?;
/// assert!(achieved.share >= 0.99);
/// assert_eq!(index.search(&x.gather(&[17]), 1)?.ids(0), [17]);
///
/// index.remove(&[17])?;
/// assert_ne!(index.search(&x.gather(&[17]), 1)?.ids(0), [17]);
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
pub struct HnswIndex<'a> {
    data: WalkData<'a>,
    /// `None` when all searches are exact.
    graph: Option<Graph<'a>>,
    params: HnswParams,
    recall: Option<MeasuredRecall>,
    /// The result of the bounds check of links and codes. A restored index is checked at its first use.
    bounds_check: OnceLock<Result<(), Error>>,
}

/// With fewer rows than this, exact search is faster than a graph.
const MIN_ROWS: usize = 1024;
/// In addition to the k first candidates of a walk, at least this number of further candidates, and at least k / 4, are
/// ranked by their `f64` distances, because the order of the distances of a walk is approximate.
const EXTRA_RANKED: usize = 16;
/// The number of nodes whose links are copied in about the time in which one node is linked.
const COPIED_PER_LINKED: usize = 4096;

impl<'a> HnswIndex<'a> {
    /// Builds the graph on all threads of the current pool.
    ///
    /// # Errors
    /// [`Error::Empty`] without rows, [`Error::BadGraphParameter`], and [`Error::OutOfHalfRange`] if rows are stored in
    /// `f16` and a value is outside its range.
    pub fn new(embeddings: &Embeddings<'a>, params: HnswParams) -> Result<Self, Error> {
        params.check()?;
        Ok(Self::build(StoredRows::new(embeddings, params.precision)?, params))
    }

    /// Builds an index in the space in which coordinate `j` is divided by `scale[j]`. Walks read a scaled copy of the
    /// rows in `f32`, or its codes.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new); [`Error::LengthMismatch`] or [`Error::BadScale`] for an invalid scale.
    pub fn scaled(embeddings: &Embeddings<'a>, scale: Vec<f64>, params: HnswParams) -> Result<Self, Error> {
        params.check()?;
        Ok(Self::build(StoredRows::new(embeddings, params.precision)?.scaled(scale)?, params))
    }

    fn build(rows: StoredRows<'a>, params: HnswParams) -> Self {
        let data = WalkData::new(ExactIndex::from_rows(rows), None);
        let bounds_check = OnceLock::from(Ok(()));
        let mut index = Self { data, graph: None, params, recall: None, bounds_check };
        index.link_all();
        index
    }

    /// Builds codes and graph over all rows, when a graph is useful for them.
    fn link_all(&mut self) {
        let (codes, graph) = match self.len() >= MIN_ROWS && self.data.fits_f32_squares() {
            true => {
                let codes = self.data.learn_codes(self.params.seed);
                let vectors = match &codes {
                    Some(codes) => AnyVectors::Codes(codes.vectors()),
                    None => self.data.row_vectors(),
                };
                let mut graph =
                    Graph::unlinked(self.stored_rows().id_bound(), self.params.m, self.params.seed);
                let live = self.stored_rows().live_ids();
                with_vectors!(vectors, vectors => build::link(&mut graph, vectors, &self.params, 0, &live));
                (codes, Some(graph))
            }
            false => (None, None),
        };
        self.data.replace_codes(codes);
        self.graph = graph;
    }

    /// Links inserted rows into the graph of `linked` rows, completely or, when it is cancelled, not at all.
    fn link_inserted(&mut self, rows: &Embeddings<'_>, linked: usize, ids: &[u32]) {
        match &self.graph {
            Some(graph) if max_magnitude(&self.data.scaled_rows(rows.as_slice())) < MAX_MAGNITUDE => {
                let is_copy_cheap = ids.len().saturating_mul(COPIED_PER_LINKED) >= graph.len();
                let link = |graph: &mut Graph<'_>, Self { data, params, .. }: &Self| {
                    with_vectors!(data.vectors(), vectors => update::insert(graph, vectors, params, linked, ids));
                };
                if is_copy_cheap {
                    // The copy is linked, so that a cancelled insertion leaves the graph unchanged.
                    let mut copy = graph.clone();
                    link(&mut copy, self);
                    self.graph = Some(copy);
                } else if let Some(mut graph) = self.graph.take() {
                    // A copy would take longer than linking these few rows.
                    uninterrupted(|| link(&mut graph, self));
                    self.graph = Some(graph);
                }
            }
            // The new rows have squares outside the range of `f32`, so the graph is dropped; or there was no graph,
            // and there may now be enough rows for one.
            _ => self.link_all(),
        }
    }

    /// Removes the links of rows that are no longer stored. `before` is the number of rows before their removal.
    fn unlink_removed(&mut self, before: usize, ids: &[u32]) {
        if self.len() < MIN_ROWS || ids.len() > before / 2 {
            // Too few rows remain for a graph, or too few links remain to repair the graph.
            return self.link_all();
        }
        let Some(graph) = &mut self.graph else { return };
        with_vectors!(self.data.vectors(), vectors => update::remove(graph, vectors, ids));
        let rows = self.data.exact.stored_rows();
        if !rows.contains(graph.entry) {
            let live = (0..graph.len() as u32).filter(|&id| rows.contains(id));
            graph.entry =
                live.rev().max_by_key(|&id| graph.level(id)).expect("at least MIN_ROWS rows remain");
        }
    }

    /// Restores an index from stored parts; `None` when they do not fit each other.
    pub(crate) fn restored(exact: ExactIndex<'a>, parts: GraphParts<'a>) -> Option<Self> {
        let GraphParts { params, recall, links, codes } = parts;
        params.check().ok()?;
        let rows = exact.stored_rows();
        let (ids, dim) = (rows.id_bound(), rows.dim());
        let codes = match codes {
            Some(codes) => Some(Codes::restored(codes, ids, dim)?),
            None => None,
        };
        let graph = match links {
            Some(links) => Some(Graph::restored(ids, params.m, params.seed, links)?),
            None => None,
        };
        let has_live_entry = graph.as_ref().is_none_or(|graph| rows.contains(graph.entry));
        let data = WalkData::new(exact, codes);
        let bounds_check = OnceLock::new();
        has_live_entry.then_some(Self { data, graph, params, recall, bounds_check })
    }

    fn stored_rows(&self) -> &StoredRows<'a> {
        self.data.exact.stored_rows()
    }

    /// The parameters, with the current `ef_search`.
    #[must_use]
    pub fn params(&self) -> &HnswParams {
        &self.params
    }

    /// The memory of the rows (also of borrowed ones) and of their scaled copy, of codes and of links.
    #[must_use]
    pub fn bytes(&self) -> IndexBytes {
        let rows = self.stored_rows();
        IndexBytes {
            rows: rows.floats().map_or(0, |rows| size_of_val(rows.as_slice()))
                + rows.halves().map_or(0, size_of_val)
                + self.data.scaled_bytes(),
            codes: self.data.codes.as_ref().map_or(0, |codes| size_of_val(&codes.blocks[..])),
            links: self.graph.as_ref().map_or(0, Graph::bytes),
        }
    }

    /// Sets the number of candidates of a search; at least 1.
    pub fn set_ef_search(&mut self, ef: usize) {
        self.params.ef_search = ef.max(1);
        self.recall = None;
    }

    fn search_one(&self, graph: &Graph<'_>, query: &[f32], k: usize, excluded: Option<u32>) -> Vec<Neighbor> {
        let nearest = self.walk(graph, query, k, excluded);
        // Exact search is parallel: while it waits, this thread may execute the walk of another query, which borrows the beam of
        // the thread. Exact search therefore starts only after `walk` has released the beam.
        nearest.unwrap_or_else(|| self.data.exact.search_directly(query, k, excluded))
    }

    /// The `k` nearest of the rows that a walk finds. If the query is outside the range of the codes, the walk reads rows, and all rows
    /// outside this range are added to those that it finds. `None` when fewer than `k` rows are found, when the squares of the query are
    /// outside the range of `f32`, or when the walk reads rows in `f16` and the query is outside the range of `f16`.
    fn walk(
        &self,
        graph: &Graph<'_>,
        query: &[f32],
        k: usize,
        excluded: Option<u32>,
    ) -> Option<Vec<Neighbor>> {
        let scaled = self.data.scaled_rows(query);
        if max_magnitude(&scaled) >= MAX_MAGNITUDE {
            return None;
        }
        let codes = self.data.codes.as_ref().filter(|codes| codes.coder.is_in_range(&scaled));
        let reads_rows = codes.is_none();
        let mut nearest = match codes {
            Some(codes) => {
                let mut blocks = vec![CodeBlock([0; 64]); codes.coder.width()];
                codes.coder.encode_row(&scaled, &mut blocks);
                self.walk_on(graph, codes.vectors(), &blocks, query, k, excluded)
            }
            None => match self.data.row_vectors() {
                AnyVectors::Floats(vectors) => self.walk_on(graph, vectors, &scaled, query, k, excluded),
                AnyVectors::Halves(vectors) => {
                    self.walk_on(graph, vectors, &halves(&scaled)?, query, k, excluded)
                }
                AnyVectors::Codes(_) => unreachable!("rows are stored as floats or halves"),
            },
        };
        // A walk may not reach the rows that are outside the range of the codes. Without codes there are none.
        if reads_rows {
            let found: Vec<u32> = nearest.iter().map(|neighbor| neighbor.1).collect();
            let others = self.data.out_of_range().iter().copied();
            let others = others.filter(|id| Some(*id) != excluded && !found.contains(id));
            nearest.extend(others.map(|id| (self.stored_rows().sq_distance(query, id), id)));
        }
        keep_nearest(&mut nearest, k);
        (nearest.len() == k).then_some(nearest)
    }

    /// Walks on vectors of one element type; `encoded` is the query in that type.
    fn walk_on<T: Element>(
        &self,
        graph: &Graph<'_>,
        vectors: Vectors<'_, T>,
        encoded: &[T],
        query: &[f32],
        k: usize,
        excluded: Option<u32>,
    ) -> Vec<Neighbor> {
        let view = SearchView { links: graph.links(), vectors };
        let ef = self.params.ef_search.max(k).saturating_add(usize::from(excluded.is_some()));
        let ranked = k + EXTRA_RANKED.max(k / 4);
        Beam::with(|beam| {
            let start = view.descend(encoded, 0, excluded, beam);
            view.search(encoded, start, 0, ef, excluded, beam);
            let ids = beam.nearest.iter().map(|candidate| candidate.id()).filter(|&id| Some(id) != excluded);
            ids.take(ranked).map(|id| (self.stored_rows().sq_distance(query, id), id)).collect()
        })
    }
}

/// The memory of an index, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexBytes {
    /// The rows, and the copy divided by the scale if walks read one.
    pub rows: usize,
    /// The quantized rows that walks read.
    pub codes: usize,
    /// The links of the graph.
    pub links: usize,
}

impl NeighborIndex for HnswIndex<'_> {
    fn rows(&self) -> &dyn RowStorage {
        self.stored_rows()
    }

    fn describe(&self) -> IndexSummary {
        IndexSummary::Hnsw { params: self.params, recall: self.recall }
    }

    /// Verifies the stored arrays, then checks that links and codes are within their bounds.
    fn verify_once(&self) -> Result<(), Error> {
        if self.bounds_check.get().is_none() {
            self.stored_rows().verify_once()?;
            let damaged = |section: &str| Error::Damaged {
                section: section.to_owned(),
                problem: "its values are out of bounds".to_owned(),
            };
            let result = match (&self.graph, &self.data.codes) {
                (Some(graph), _) if !graph.is_within_bounds(self.stored_rows()) => {
                    Err(damaged("index.links"))
                }
                (_, Some(codes)) if !codes.are_within_bounds() => Err(damaged("index.codes")),
                _ => Ok(()),
            };
            let _ = self.bounds_check.set(result);
        }
        self.bounds_check.get().map_or(Ok(()), Result::clone)
    }

    fn parts(&self) -> IndexParts<'_> {
        let graph = GraphParts {
            params: self.params,
            recall: self.recall,
            links: self.graph.as_ref().map(Graph::parts),
            codes: self.data.codes.as_ref().map(Codes::parts),
        };
        IndexParts { rows: self.stored_rows().parts(), graph: Some(graph), order: None }
    }

    fn search_excluding(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Result<Neighbors, Error> {
        let graph = match &self.graph {
            Some(graph) if k <= self.len() / 8 => graph,
            _ => return self.data.exact.search_excluding(queries, k, excluded),
        };
        let k = self.stored_rows().check_search(queries, k, excluded)?;
        self.verify_once()?;
        let (here, steps) = (Checkpoint::current(), Steps::current());
        let rows: Vec<Vec<Neighbor>> = queries
            .as_slice()
            .par_chunks(self.dim())
            .with_checkpoints()
            .enumerate()
            .map(|(i, query)| here.enter(|| self.search_one(graph, query, k, excluded.map(|ids| ids[i]))))
            .inspect(|_| steps.add(1))
            .collect();
        let mut table = Neighbors::with_capacity(k, rows.len());
        rows.iter().for_each(|row| table.push(row));
        Ok(table)
    }

    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        self.verify_once()?;
        checkpoint();
        let linked = self.len();
        let insertion = uninterrupted(|| self.data.insert(rows))?;
        let ids = insertion.ids.clone();
        all_or_nothing(
            self,
            |index| index.link_inserted(rows, linked, &ids),
            |index| index.data.undo_insert(insertion),
        );
        self.recall = None;
        Ok(ids)
    }

    fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.verify_once()?;
        checkpoint();
        let before = self.len();
        let inserted_out_of_range = self.data.remove(ids)?;
        all_or_nothing(
            self,
            |index| index.unlink_removed(before, ids),
            |index| index.data.undo_remove(ids, inserted_out_of_range),
        );
        self.recall = None;
        Ok(())
    }
}
