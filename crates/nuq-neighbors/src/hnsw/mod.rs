//! Approximate search that scales: hierarchical navigable small worlds (Malkov and Yashunin 2018).
//!
//! A query walks a graph of near neighbors instead of meeting every row. It may miss some: how many depends on
//! `ef_search`, and [`HnswIndex::recall`] measures it. What is found is measured and ranked like everywhere in this
//! crate, by direct differences in `f64`.

mod build;
mod graph;
mod params;
mod simd;
mod walk;

pub use params::HnswParams;

use rayon::prelude::*;

use crate::exact::ExactIndex;
use crate::neighbors::{Candidate, keep_nearest};
use crate::{Embeddings, Error, NeighborIndex, Neighbors, SeededRng};
use graph::Graph;
use simd::Distance;
use walk::{Beam, Terrain};

/// Approximate nearest neighbors by a walk on a layered graph.
///
/// The graph depends on rows, parameters and seed, and on the width of the processor's vectors (which rounds the
/// distances that steer it), but not on the number of threads that build it. Rows are borrowed
/// or shared, not copied. Where a graph cannot help (few rows, k near their number, coordinates beyond the reach of
/// `f32` squares) the answer comes from exact search.
///
/// ```
/// use nuq_neighbors::{Embeddings, HnswIndex, HnswParams, NeighborIndex, SeededRng};
///
/// let mut rng = SeededRng::new(1);
/// let x = Embeddings::new((0..20_000).map(|_| rng.normal() as f32).collect(), 8)?;
/// let mut index = HnswIndex::new(&x, HnswParams::default())?;
/// let achieved = index.tune(0.99, 10)?;
/// assert!(achieved >= 0.99);
/// assert_eq!(index.search(&x.gather(&[17]), 1)?.ids(0), [17]);
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
pub struct HnswIndex<'a> {
    exact: ExactIndex<'a>,
    /// `None` where exact search answers everything.
    graph: Option<Graph>,
    params: HnswParams,
    distance: Distance,
}

/// Fewer rows than this are searched faster without a graph.
const FEWEST_ROWS: usize = 1024;
/// Coordinates beyond this, or all below its inverse, have squares that `f32` cannot hold well.
const LARGEST: f32 = 1e15;
/// How many candidates beyond k are ranked by their `f64` distances: `f32` may have their order wrong.
const SPARE: usize = 16;
/// Where tuning gives up.
const WIDEST_BEAM: usize = 10_000;
/// Training points on which recall is measured.
const RECALL_SAMPLE: usize = 500;

impl<'a> HnswIndex<'a> {
    /// Builds the graph, on all threads of the pool.
    pub fn new(embeddings: &Embeddings<'a>, params: HnswParams) -> Result<Self, Error> {
        params.check()?;
        let exact = ExactIndex::new(embeddings)?;
        let distance = simd::fastest();
        let largest = embeddings.as_slice().par_iter().copied().map(f32::abs).reduce(|| 0.0, f32::max);
        let fits = largest < LARGEST && largest > 1.0 / LARGEST && embeddings.len() >= FEWEST_ROWS;
        let graph = fits.then(|| build::build(embeddings, &params, distance));
        Ok(Self { exact, graph, params, distance })
    }

    /// The parameters; `ef_search` is the one in force.
    pub fn params(&self) -> &HnswParams {
        &self.params
    }

    /// Bytes that the graph takes beside the rows.
    pub fn graph_bytes(&self) -> usize {
        self.graph.as_ref().map_or(0, Graph::bytes)
    }

    /// Changes how many candidates a search keeps; at least 1.
    pub fn set_ef_search(&mut self, ef: usize) {
        self.params.ef_search = ef.max(1);
    }

    /// The share of true neighbors found, for the `k` nearest others of a seeded sample of 500 training points. They are
    /// points of the graph themselves, which makes it a little easier for them than for queries it has not seen.
    pub fn recall(&self, k: usize) -> Result<f64, Error> {
        let (ids, truth) = self.recall_sample(k)?;
        self.recall_against(&ids, &truth, k)
    }

    /// Sets `ef_search` to the smallest of a series (each a quarter larger than the last, from `k` on) at which
    /// [`recall`](Self::recall) reaches `target`, and returns what it reaches: less than `target` only when a beam of
    /// 10,000 is not enough.
    pub fn tune(&mut self, target: f64, k: usize) -> Result<f64, Error> {
        let (ids, truth) = self.recall_sample(k)?;
        self.params.ef_search = k.max(1);
        loop {
            let achieved = self.recall_against(&ids, &truth, k)?;
            if achieved >= target || self.params.ef_search >= self.len().min(WIDEST_BEAM) {
                return Ok(achieved);
            }
            self.params.ef_search += (self.params.ef_search / 4).max(1);
        }
    }

    fn recall_sample(&self, k: usize) -> Result<(Vec<u32>, Neighbors), Error> {
        let ids = SeededRng::new(self.params.seed).sample(self.len(), RECALL_SAMPLE);
        let truth = self.exact.leave_one_out(&ids, k)?;
        Ok((ids, truth))
    }

    fn recall_against(&self, ids: &[u32], truth: &Neighbors, k: usize) -> Result<f64, Error> {
        let found = self.leave_one_out(ids, k)?;
        let hits: usize =
            (0..ids.len()).map(|i| found.ids(i).iter().filter(|id| truth.ids(i).contains(id)).count()).sum();
        Ok(hits as f64 / (ids.len() * truth.k()) as f64)
    }

    fn find_one(&self, graph: &Graph, query: &[f32], k: usize, excluded: Option<u32>) -> Vec<Candidate> {
        let reachable = query.iter().all(|v| v.abs() < LARGEST);
        let walked = reachable.then(|| self.walk(graph, query, k, excluded)).flatten();
        // Outside the walk: direct search is parallel itself, and may run another query's walk on this thread.
        walked.unwrap_or_else(|| self.exact.find_directly(query, k, excluded))
    }

    /// The nearest rows that a walk finds; `None` when they are fewer than `k`.
    fn walk(&self, graph: &Graph, query: &[f32], k: usize, excluded: Option<u32>) -> Option<Vec<Candidate>> {
        let terrain = Terrain::new(graph, self.exact.embeddings(), self.distance);
        let ef = self.params.ef_search.max(k).saturating_add(usize::from(excluded.is_some()));
        let mut nearest: Vec<Candidate> = Beam::with(|beam| {
            terrain.search(query, terrain.descend(query, 0), 0, ef, beam);
            let met = beam.found.iter().map(|met| met.1).filter(|&id| Some(id) != excluded);
            met.take(k + SPARE).map(|id| (self.exact.distance(query, id), id)).collect()
        });
        keep_nearest(&mut nearest, k);
        (nearest.len() == k).then_some(nearest)
    }
}

impl NeighborIndex for HnswIndex<'_> {
    fn embeddings(&self) -> &Embeddings<'_> {
        self.exact.embeddings()
    }

    fn scale(&self) -> Option<&[f64]> {
        None
    }

    fn find(&self, queries: &Embeddings<'_>, k: usize, excluded: Option<&[u32]>) -> Result<Neighbors, Error> {
        let graph = match &self.graph {
            Some(graph) if k <= self.len() / 8 => graph,
            _ => return self.exact.find(queries, k, excluded),
        };
        let k = self.exact.check(queries, k, excluded)?;
        let rows: Vec<Vec<Candidate>> = queries
            .as_slice()
            .par_chunks(self.dim())
            .enumerate()
            .map(|(i, query)| self.find_one(graph, query, k, excluded.map(|ids| ids[i])))
            .collect();
        let mut table = Neighbors::with_capacity(k, rows.len());
        rows.iter().for_each(|row| table.push(row));
        Ok(table)
    }

    fn measure(&self, queries: &Embeddings<'_>, k: usize, ids: &[u32]) -> Result<Neighbors, Error> {
        self.exact.measure(queries, k, ids)
    }
}
