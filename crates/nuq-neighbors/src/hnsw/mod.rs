//! Approximate search that scales: hierarchical navigable small worlds (Malkov and Yashunin 2018).
//!
//! A query walks a graph of near neighbors instead of meeting every row. It may miss some: how many depends on
//! `ef_search`, and [`HnswIndex::recall`] measures it. What is found is measured and ranked like everywhere in this
//! crate, by direct differences in `f64`.
//!
//! Walks read little: [codes] of a byte a coordinate where those tell the rows apart, the [rows](walk_data) otherwise. The
//! graph is [built](build) in batches, [grows and shrinks](update), and is [walked](walk) by a beam.

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

pub use params::HnswParams;
pub use vectors::CodeBlock;

use std::borrow::Cow;
use std::sync::OnceLock;

use rayon::prelude::*;

use crate::exact::{ExactIndex, check_scale};
use crate::neighbors::{Neighbor, keep_nearest};
use crate::parts::{GraphParts, IndexParts};
use crate::{Embeddings, Error, IndexSummary, MeasuredRecall, NeighborIndex, Neighbors};
use codes::Codes;
use graph::Graph;
use vectors::{AnyVectors, Element, Vectors, halves, with_vectors};
use walk::{Beam, SearchView};
use walk_data::{LARGEST, WalkData, largest};

/// Approximate nearest neighbors by a walk on a layered graph.
///
/// The graph depends on rows, parameters and seed, not on the number of threads that build it; where walks read codes
/// (rows kept in `f32`, 32 columns or more), not on the processor either. Rows kept in `f32` are borrowed or shared, not
/// copied. Where a graph cannot help (few rows, k near their number, coordinates beyond the reach of `f32` squares) the
/// answer comes from exact search.
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
    /// `None` where exact search answers everything.
    graph: Option<Graph<'a>>,
    params: HnswParams,
    recall: Option<MeasuredRecall>,
    /// Whether links and codes were found within their bounds: those built here are.
    is_sound: OnceLock<Result<(), Error>>,
}

/// Fewer rows than this are searched faster without a graph.
const FEWEST_ROWS: usize = 1024;
/// How many candidates beyond k are ranked by their `f64` distances: a walk may have their order wrong.
const SPARE: usize = 16;

impl<'a> HnswIndex<'a> {
    /// Builds the graph, on all threads of the pool.
    pub fn new(embeddings: &Embeddings<'a>, params: HnswParams) -> Result<Self, Error> {
        params.check()?;
        Ok(Self::build(WalkData::new(embeddings, None, &params)?, params))
    }

    /// An index that divides coordinate `j` by `scale[j]` before it measures. Walks read a scaled copy of the rows.
    pub fn scaled(embeddings: &Embeddings<'a>, scale: Vec<f64>, params: HnswParams) -> Result<Self, Error> {
        params.check()?;
        check_scale(&scale, embeddings.dim())?;
        Ok(Self::build(WalkData::new(embeddings, Some(scale), &params)?, params))
    }

    fn build(data: WalkData<'a>, params: HnswParams) -> Self {
        let mut index = Self { data, graph: None, params, recall: None, is_sound: OnceLock::from(Ok(())) };
        index.link_all();
        index
    }

    /// Builds the graph over the rows there are, if it can help.
    fn link_all(&mut self) {
        self.graph = None;
        self.data.codes = None;
        if self.len() < FEWEST_ROWS || !self.data.can_be_walked() {
            return;
        }
        self.data.learn_codes(self.params.seed);
        let mut graph = Graph::unlinked(self.ids(), self.params.m, self.params.seed);
        let present: Vec<u32> = (0..self.ids() as u32).filter(|&id| self.contains(id)).collect();
        with_vectors!(self.data.vectors(), vectors => build::link(&mut graph, vectors, &self.params, 0, &present));
        self.graph = Some(graph);
    }

    /// Puts an index together from what was written of one; `None` when the parts do not fit each other.
    pub(crate) fn restored(exact: ExactIndex<'a>, parts: GraphParts<'a>) -> Option<Self> {
        let GraphParts { params, recall, links, codes } = parts;
        params.check().ok()?;
        let (ids, dim) = (exact.ids(), exact.dim());
        let codes = match codes {
            Some(codes) => Some(Codes::restored(codes, ids, dim)?),
            None => None,
        };
        let graph = match links {
            Some(links) => Some(Graph::restored(ids, params.m, params.seed, links)?),
            None => None,
        };
        let starts_at_a_row = graph.as_ref().is_none_or(|graph| exact.contains(graph.entry));
        let data = WalkData::over(exact, codes);
        let unread = OnceLock::new();
        starts_at_a_row.then_some(Self { data, graph, params, recall, is_sound: unread })
    }

    /// The parameters; `ef_search` is the one in force.
    pub fn params(&self) -> &HnswParams {
        &self.params
    }

    /// Bytes that the index keeps: rows (borrowed ones included), and what it keeps beside them.
    pub fn bytes(&self) -> IndexBytes {
        let rows = self.data.exact.rows();
        IndexBytes {
            rows: rows.floats().map_or(0, |rows| size_of_val(rows.as_slice()))
                + rows.halves().map_or(0, size_of_val),
            codes: self.data.codes.as_ref().map_or(0, |codes| size_of_val(&codes.lines[..])),
            links: self.graph.as_ref().map_or(0, Graph::bytes),
        }
    }

    /// Changes how many candidates a search keeps; at least 1.
    pub fn set_ef_search(&mut self, ef: usize) {
        self.params.ef_search = ef.max(1);
        self.recall = None;
    }

    fn search_one(&self, graph: &Graph<'_>, query: &[f32], k: usize, excluded: Option<u32>) -> Vec<Neighbor> {
        let walked = self.walk(graph, query, k, excluded);
        // Outside the walk: direct search is parallel itself, and may run another query's walk on this thread.
        walked.unwrap_or_else(|| self.data.exact.search_directly(query, k, excluded))
    }

    /// The nearest rows that a walk finds; `None` when they are fewer than `k`, or the query is too far for any walk.
    fn walk(
        &self,
        graph: &Graph<'_>,
        query: &[f32],
        k: usize,
        excluded: Option<u32>,
    ) -> Option<Vec<Neighbor>> {
        let scaled = self.data.scaled_query(query);
        if largest(&scaled) >= LARGEST {
            return None;
        }
        let codes = self.data.codes.as_ref().filter(|codes| codes.coder.reaches(&scaled));
        let mut nearest = match codes {
            Some(codes) => {
                let mut lines = vec![CodeBlock([0; 64]); codes.coder.width()];
                codes.coder.encode_row(&scaled, &mut lines);
                self.walk_in(graph, codes.vectors(), &lines, query, k, excluded)
            }
            None => match self.data.row_vectors() {
                AnyVectors::Floats(vectors) => self.walk_in(graph, vectors, &scaled, query, k, excluded),
                AnyVectors::Halves(vectors) => {
                    self.walk_in(graph, vectors, &halves(&scaled)?, query, k, excluded)
                }
                AnyVectors::Codes(_) => unreachable!("rows are floats or halves"),
            },
        };
        keep_nearest(&mut nearest, k);
        (nearest.len() == k).then_some(nearest)
    }

    fn walk_in<T: Element>(
        &self,
        graph: &Graph<'_>,
        vectors: Vectors<'_, T>,
        walker: &[T],
        query: &[f32],
        k: usize,
        excluded: Option<u32>,
    ) -> Vec<Neighbor> {
        let view = SearchView { links: graph.links(), vectors };
        let ef = self.params.ef_search.max(k).saturating_add(usize::from(excluded.is_some()));
        let ranked = k + SPARE.max(k / 4);
        Beam::with(|beam| {
            let start = view.descend(walker, 0, excluded, beam);
            view.search(walker, start, 0, ef, excluded, beam);
            let met = beam.found.iter().map(|met| met.id()).filter(|&id| Some(id) != excluded);
            met.take(ranked).map(|id| (self.data.exact.distance(query, id), id)).collect()
        })
    }
}

/// Bytes that an index keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexBytes {
    /// The rows.
    pub rows: usize,
    /// What walks read instead of them.
    pub codes: usize,
    /// The links of the graph.
    pub links: usize,
}

impl NeighborIndex for HnswIndex<'_> {
    fn len(&self) -> usize {
        self.data.exact.len()
    }

    fn dim(&self) -> usize {
        self.data.exact.dim()
    }

    fn ids(&self) -> usize {
        self.data.exact.ids()
    }

    fn contains(&self, id: u32) -> bool {
        self.data.exact.contains(id)
    }

    fn row(&self, id: u32) -> Cow<'_, [f32]> {
        self.data.exact.row(id)
    }

    fn describe(&self) -> IndexSummary {
        IndexSummary::Hnsw { params: self.params, recall: self.recall }
    }

    /// What came from a file is ready after the file was found whole, and links and codes within their bounds.
    fn verify_once(&self) -> Result<(), Error> {
        if self.is_sound.get().is_none() {
            self.data.exact.rows().verify_once()?;
            let damaged = |section: &str| Error::Damaged {
                section: section.to_owned(),
                problem: "its contents make no sense".to_owned(),
            };
            let found = match (&self.graph, &self.data.codes) {
                (Some(graph), _) if !graph.is_sound(&self.data.exact) => Err(damaged("index.links")),
                (_, Some(codes)) if !codes.are_sound() => Err(damaged("index.codes")),
                _ => Ok(()),
            };
            let _ = self.is_sound.set(found);
        }
        self.is_sound.get().map_or(Ok(()), Result::clone)
    }

    fn parts(&self) -> IndexParts<'_> {
        let graph = GraphParts {
            params: self.params,
            recall: self.recall,
            links: self.graph.as_ref().map(Graph::parts),
            codes: self.data.codes.as_ref().map(Codes::parts),
        };
        IndexParts { graph: Some(graph), ..self.data.exact.parts() }
    }

    fn scale(&self) -> Option<&[f64]> {
        self.data.exact.scale()
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
        let k = self.data.exact.check(queries, k, excluded)?;
        self.verify_once()?;
        let rows: Vec<Vec<Neighbor>> = queries
            .as_slice()
            .par_chunks(self.dim())
            .enumerate()
            .map(|(i, query)| self.search_one(graph, query, k, excluded.map(|ids| ids[i])))
            .collect();
        let mut table = Neighbors::with_capacity(k, rows.len());
        rows.iter().for_each(|row| table.push(row));
        Ok(table)
    }

    fn measure(&self, queries: &Embeddings<'_>, k: usize, ids: &[u32]) -> Result<Neighbors, Error> {
        self.data.exact.measure(queries, k, ids)
    }

    fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        self.verify_once()?;
        let present = self.len();
        let ids = self.data.insert(rows)?;
        self.recall = None;
        match &mut self.graph {
            Some(graph) if largest(&self.data.scaled_query(rows.as_slice())) < LARGEST => {
                let Self { data, params, .. } = self;
                with_vectors!(data.vectors(), vectors => update::insert(graph, vectors, params, present, &ids));
            }
            // Rows that no graph can hold, or enough of them at last for one.
            _ => self.link_all(),
        }
        Ok(ids)
    }

    fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.verify_once()?;
        let before = self.len();
        self.data.remove(ids)?;
        self.recall = None;
        if self.len() < FEWEST_ROWS || ids.len() > before / 2 {
            // Too few are left for a graph, or for what is left of it: they are linked anew.
            self.link_all();
            return Ok(());
        }
        let Some(graph) = &mut self.graph else { return Ok(()) };
        with_vectors!(self.data.vectors(), vectors => update::remove(graph, vectors, ids));
        if !self.data.exact.contains(graph.entry) {
            let present = (0..graph.len() as u32).filter(|&id| self.data.exact.contains(id));
            graph.entry = present.rev().max_by_key(|&id| graph.level(id)).expect("some rows are left");
        }
        Ok(())
    }
}
