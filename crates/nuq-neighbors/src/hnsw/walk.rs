//! Search in the graph: greedy descent through the upper layers, then a beam search.

use std::cell::RefCell;

use super::graph::Links;
use super::kernels::PREFETCH_DISTANCE;
use super::vectors::{Element, Vectors};
use crate::cancel::checkpoint;

/// A visited node and its squared distance, packed into one integer that sorts by distance, then by id.
///
/// The sign bit of a nonnegative float is 0, and the other 31 bits sort like the float. Together with the 32 bits of the id
/// they leave one bit of the integer: the lowest one records whether the links of the node were expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate(u64);

impl Candidate {
    pub(super) fn new(distance: f32, id: u32) -> Self {
        Self(u64::from(distance.to_bits()) << 33 | u64::from(id) << 1)
    }

    pub(super) fn distance(self) -> f32 {
        f32::from_bits((self.0 >> 33) as u32)
    }

    pub(super) fn id(self) -> u32 {
        (self.0 >> 1) as u32
    }

    fn is_expanded(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The links and vectors of one search.
#[derive(Clone, Copy)]
pub(super) struct SearchView<'v, T> {
    pub(super) links: Links<'v>,
    pub(super) vectors: Vectors<'v, T>,
}

impl<T: Element> SearchView<'_, T> {
    /// Descends greedily from the entry node to `layer`: on each layer above it, moves to the nearest neighbor until none
    /// is nearer. The node `excluded` is skipped unless it is the entry node.
    pub(super) fn descend(
        &self,
        query: &[T],
        layer: usize,
        excluded: Option<u32>,
        beam: &mut Beam,
    ) -> Candidate {
        let entry = self.links.entry;
        let mut current = Candidate::new(self.vectors.distance(query, entry), entry);
        for layer in (layer + 1..=self.links.level(entry)).rev() {
            loop {
                let links = self.links.of(current.id(), layer);
                beam.measure(&self.vectors, query, links);
                let candidates =
                    links.iter().zip(&beam.distances).map(|(&id, &distance)| Candidate::new(distance, id));
                let others = candidates.filter(|candidate| Some(candidate.id()) != excluded);
                let nearest = others.fold(current, Candidate::min);
                if nearest == current {
                    break;
                }
                current = nearest;
            }
        }
        current
    }

    /// Beam search on `layer`: writes the `ef` nearest visited nodes to `beam.nearest`, nearest first.
    ///
    /// One sorted list is both the result and the queue of nodes to expand. The node `excluded` is not visited unless the
    /// search starts from it.
    pub(super) fn search(
        &self,
        query: &[T],
        start: Candidate,
        layer: usize,
        ef: usize,
        excluded: Option<u32>,
        beam: &mut Beam,
    ) {
        beam.begin(self.links.len());
        if let Some(id) = excluded {
            beam.visit(id);
        }
        beam.visit(start.id());
        beam.nearest.push(start);
        let mut next = 0;
        while let Some(candidate) = beam.nearest.get_mut(next) {
            checkpoint();
            candidate.0 |= 1;
            let from = candidate.id();
            let mut unvisited = std::mem::take(&mut beam.unvisited);
            unvisited.clear();
            unvisited.extend(self.links.of(from, layer).iter().filter(|&&id| beam.visit(id)));
            unvisited.iter().take(PREFETCH_DISTANCE).for_each(|&id| self.vectors.prefetch(id));
            next = beam.next_unexpanded(next + 1);
            // The distances that are measured below rarely change which node is next, so its links are prefetched now.
            if let Some(candidate) = beam.nearest.get(next) {
                self.links.prefetch(candidate.id(), layer);
            }
            beam.measure(&self.vectors, query, &unvisited);
            for (i, &id) in unvisited.iter().enumerate() {
                next = beam.add(Candidate::new(beam.distances[i], id), ef, next);
            }
            beam.unvisited = unvisited;
        }
    }
}

/// The working memory of the searches of one thread.
#[derive(Debug, Default)]
pub(super) struct Beam {
    /// The nearest visited nodes, nearest first.
    pub(super) nearest: Vec<Candidate>,
    unvisited: Vec<u32>,
    distances: Vec<f32>,
    /// The epoch of the last search that visited each node.
    visited: Vec<u8>,
    /// The number of the current search, from 1 to 255. After 255, all marks in `visited` are cleared and it starts again at 1.
    epoch: u8,
}

thread_local! {
    static BEAM: RefCell<Beam> = RefCell::default();
}

impl Beam {
    /// Calls `search` with the beam of this thread, which is reused because clearing the marks of visited nodes before each
    /// search would cost more than the search. `search` must not start parallel work: this thread could execute another
    /// search meanwhile and borrow the beam twice.
    pub(super) fn with<R>(search: impl FnOnce(&mut Beam) -> R) -> R {
        BEAM.with_borrow_mut(search)
    }

    fn begin(&mut self, len: usize) {
        self.nearest.clear();
        if self.visited.len() < len {
            self.visited.resize(len, 0);
        }
        if self.epoch == u8::MAX {
            self.visited.fill(0);
            self.epoch = 0;
        }
        self.epoch += 1;
    }

    /// Marks a node as visited; returns whether this is its first visit in this search.
    #[inline]
    fn visit(&mut self, id: u32) -> bool {
        let visited = &mut self.visited[id as usize];
        std::mem::replace(visited, self.epoch) != self.epoch
    }

    fn measure<T: Element>(&mut self, vectors: &Vectors<'_, T>, query: &[T], ids: &[u32]) {
        if self.distances.len() < ids.len() {
            self.distances.resize(ids.len(), 0.0);
        }
        vectors.measure(query, ids, &mut self.distances[..ids.len()]);
    }

    /// Adds the other nodes of the batch of node `id` that are on `layer`, at their distances to `id`. The search did not find
    /// them, because no links lead to them yet.
    pub(super) fn add_batch<T: Element>(
        &mut self,
        view: &SearchView<'_, T>,
        id: u32,
        batch: &[u32],
        layer: usize,
        ef: usize,
    ) {
        let on_layer = |&other: &u32| other != id && view.links.level(other) >= layer;
        let others: Vec<u32> = batch.iter().copied().filter(on_layer).collect();
        self.measure(&view.vectors, view.vectors.row(id), &others);
        for (i, &other) in others.iter().enumerate() {
            self.add(Candidate::new(self.distances[i], other), ef, 0);
        }
    }

    /// The position of the first candidate, from `from` on, that was not expanded.
    #[inline]
    fn next_unexpanded(&self, from: usize) -> usize {
        let rest = self.nearest[from..].iter();
        from + rest.take_while(|candidate| candidate.is_expanded()).count()
    }

    /// Inserts a candidate if it is among the `ef` nearest. `next` is the position of the first candidate that was not
    /// expanded; returns this position after the insertion.
    #[inline]
    fn add(&mut self, candidate: Candidate, ef: usize, next: usize) -> usize {
        if self.nearest.len() == ef {
            match self.nearest.last() {
                Some(&last) if candidate < last => self.nearest.pop(),
                _ => return next,
            };
        }
        let at = self.nearest.partition_point(|&other| other < candidate);
        self.nearest.insert(at, candidate);
        // A candidate inserted before `next` is the first that was not expanded.
        next.min(at)
    }
}
