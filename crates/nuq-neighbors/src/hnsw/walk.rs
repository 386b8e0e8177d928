//! Walking the graph towards a query: greedily down the layers, then a beam on the one that matters.

use std::cell::RefCell;

use super::graph::Graph;
use super::simd::Distance;
use crate::Embeddings;

/// A point met on the way: squared distance and id.
pub(super) type Met = (f32, u32);

/// What a walk needs to see.
#[derive(Clone, Copy)]
pub(super) struct Terrain<'t> {
    pub(super) graph: &'t Graph,
    pub(super) rows: &'t [f32],
    pub(super) dim: usize,
    pub(super) distance: Distance,
}

impl<'t> Terrain<'t> {
    pub(super) fn new(graph: &'t Graph, embeddings: &'t Embeddings<'_>, distance: Distance) -> Self {
        Self { graph, rows: embeddings.as_slice(), dim: embeddings.dim(), distance }
    }

    pub(super) fn row(&self, id: u32) -> &'t [f32] {
        &self.rows[id as usize * self.dim..][..self.dim]
    }

    fn to(&self, query: &[f32], id: u32) -> f32 {
        (self.distance)(query, self.row(id))
    }

    /// Walks from the entry down to `layer`, on each layer above it to a point no neighbor of which is nearer.
    pub(super) fn descend(&self, query: &[f32], layer: usize) -> Met {
        let mut here = (self.to(query, self.graph.entry), self.graph.entry);
        for layer in (layer + 1..=self.graph.level(self.graph.entry)).rev() {
            loop {
                let links = self.graph.links(here.1, layer).iter();
                let best = links.map(|&id| (self.to(query, id), id)).fold(here, nearer);
                if best.1 == here.1 {
                    break;
                }
                here = best;
            }
        }
        here
    }

    /// The `ef` nearest points that a beam search finds on `layer`, nearest first, in `beam.found`.
    ///
    /// One sorted list serves as result and as queue: points that fall off its end are neither.
    pub(super) fn search(&self, query: &[f32], start: Met, layer: usize, ef: usize, beam: &mut Beam) {
        beam.begin(self.rows.len() / self.dim);
        beam.visit(start.1);
        beam.found.push((start.0, start.1, false));
        let mut next = 0;
        while next < beam.found.len() {
            if beam.found[next].2 {
                next += 1;
                continue;
            }
            beam.found[next].2 = true;
            let from = beam.found[next].1;
            beam.fresh.clear();
            for &id in self.graph.links(from, layer) {
                if beam.seen[id as usize] != beam.epoch {
                    beam.seen[id as usize] = beam.epoch;
                    prefetch(self.row(id));
                    beam.fresh.push(id);
                }
            }
            let mut earliest = next + 1;
            for i in 0..beam.fresh.len() {
                let id = beam.fresh[i];
                let distance = self.to(query, id);
                if beam.found.len() == ef {
                    let last = beam.found[ef - 1];
                    if (distance, id) >= (last.0, last.1) {
                        continue;
                    }
                    beam.found.pop();
                }
                let at = beam.found.partition_point(|met| (met.0, met.1) < (distance, id));
                beam.found.insert(at, (distance, id, false));
                earliest = earliest.min(at);
            }
            next = earliest;
        }
    }
}

fn nearer(a: Met, b: Met) -> Met {
    if b.0 < a.0 { b } else { a }
}

/// Asks for the first cache lines of a row before they are needed; the processor fetches the rest itself.
fn prefetch(row: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in row.chunks(16).take(4) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of an address inside a slice reads nothing that the program can see.
        unsafe { _mm_prefetch(line.as_ptr().cast(), _MM_HINT_T0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

/// Working memory of one thread's searches.
#[derive(Debug, Default)]
pub(super) struct Beam {
    /// Distance, id, and whether its links were followed; nearest first.
    pub(super) found: Vec<(f32, u32, bool)>,
    fresh: Vec<u32>,
    /// The search in which each point was last met.
    seen: Vec<u32>,
    epoch: u32,
}

thread_local! {
    static BEAM: RefCell<Beam> = RefCell::default();
}

impl Beam {
    /// Lends this thread's beam: clearing the marks of every point for each search would cost more than the search.
    /// `use_it` starts nothing parallel, which could come back to this thread for the same beam.
    pub(super) fn with<R>(use_it: impl FnOnce(&mut Beam) -> R) -> R {
        BEAM.with_borrow_mut(use_it)
    }

    fn begin(&mut self, len: usize) {
        self.found.clear();
        if self.seen.len() < len || self.epoch == u32::MAX {
            self.seen = vec![0; len];
            self.epoch = 0;
        }
        self.epoch += 1;
    }

    fn visit(&mut self, id: u32) {
        self.seen[id as usize] = self.epoch;
    }
}
