//! Walking the graph towards a query: greedily down the layers, then a beam on the one that matters.

use std::cell::RefCell;

use super::graph::Links;
use super::kernels::AHEAD;
use super::vectors::{Element, Vectors};

/// A point met on the way: squared distance, then id, in one number that orders as they do, with a last bit that says
/// whether its links were followed.
///
/// The bits of a float that is not negative order as the float does, and leave one bit free.
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

    fn is_followed(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What a walk needs to see.
#[derive(Clone, Copy)]
pub(super) struct SearchView<'t, T> {
    pub(super) links: Links<'t>,
    pub(super) vectors: Vectors<'t, T>,
}

impl<T: Element> SearchView<'_, T> {
    /// Walks from the entry down to `layer`, on each layer above it to a point no neighbor of which is nearer; past
    /// `avoided`, as if it were not there.
    pub(super) fn descend(
        &self,
        query: &[T],
        layer: usize,
        avoided: Option<u32>,
        beam: &mut Beam,
    ) -> Candidate {
        let entry = self.links.entry;
        let mut here = Candidate::new(self.vectors.distance(query, entry), entry);
        for layer in (layer + 1..=self.links.level(entry)).rev() {
            loop {
                let links = self.links.of(here.id(), layer);
                beam.measure(&self.vectors, query, links);
                let met =
                    links.iter().zip(&beam.distances).map(|(&id, &distance)| Candidate::new(distance, id));
                let nearest = met.filter(|met| Some(met.id()) != avoided).fold(here, Candidate::min);
                if nearest == here {
                    break;
                }
                here = nearest;
            }
        }
        here
    }

    /// The `ef` nearest points that a beam search finds on `layer`, nearest first, in `beam.found`.
    ///
    /// One sorted list serves as result and as queue: points that fall off its end are neither. `avoided` is not met,
    /// unless the walk starts from it.
    pub(super) fn search(
        &self,
        query: &[T],
        start: Candidate,
        layer: usize,
        ef: usize,
        avoided: Option<u32>,
        beam: &mut Beam,
    ) {
        beam.begin(self.links.len());
        if let Some(id) = avoided {
            beam.is_new(id);
        }
        beam.is_new(start.id());
        beam.found.push(start);
        let mut next = 0;
        while let Some(met) = beam.found.get_mut(next) {
            met.0 |= 1;
            let from = met.id();
            let mut fresh = std::mem::take(&mut beam.fresh);
            fresh.clear();
            fresh.extend(self.links.of(from, layer).iter().filter(|&&id| beam.is_new(id)));
            fresh.iter().take(AHEAD).for_each(|&id| self.vectors.prefetch(id));
            next = beam.unfollowed(next + 1);
            // Who is next now will mostly be next when the distances are known.
            if let Some(met) = beam.found.get(next) {
                self.links.prefetch(met.id(), layer);
            }
            beam.measure(&self.vectors, query, &fresh);
            for (i, &id) in fresh.iter().enumerate() {
                next = beam.meet(Candidate::new(beam.distances[i], id), ef, next);
            }
            beam.fresh = fresh;
        }
    }
}

/// Working memory of one thread's searches.
#[derive(Debug, Default)]
pub(super) struct Beam {
    /// The nearest points so far, nearest first.
    pub(super) found: Vec<Candidate>,
    fresh: Vec<u32>,
    distances: Vec<f32>,
    /// The search in which each point was last met.
    seen: Vec<u8>,
    epoch: u8,
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
        if self.seen.len() < len {
            self.seen.resize(len, 0);
        }
        if self.epoch == u8::MAX {
            self.seen.fill(0);
            self.epoch = 0;
        }
        self.epoch += 1;
    }

    /// Whether this search has not met the point before; it has now.
    #[inline]
    fn is_new(&mut self, id: u32) -> bool {
        let seen = &mut self.seen[id as usize];
        std::mem::replace(seen, self.epoch) != self.epoch
    }

    fn measure<T: Element>(&mut self, vectors: &Vectors<'_, T>, query: &[T], ids: &[u32]) {
        if self.distances.len() < ids.len() {
            self.distances.resize(ids.len(), 0.0);
        }
        vectors.measure(query, ids, &mut self.distances[..ids.len()]);
    }

    /// Meets the others of a batch that are on a layer: they are not in the graph yet.
    pub(super) fn meet_all<T: Element>(
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
            self.meet(Candidate::new(self.distances[i], other), ef, 0);
        }
    }

    /// The first place from `from` on whose links were not followed.
    #[inline]
    fn unfollowed(&self, from: usize) -> usize {
        let rest = self.found[from..].iter();
        from + rest.take_while(|met| met.is_followed()).count()
    }

    /// Puts a point in its place if it is among the `ef` nearest; `next` is the first place that was not followed, and
    /// is returned as it is after that.
    #[inline]
    fn meet(&mut self, met: Candidate, ef: usize, next: usize) -> usize {
        if self.found.len() == ef {
            match self.found.last() {
                Some(&last) if met < last => self.found.pop(),
                _ => return next,
            };
        }
        let at = self.found.partition_point(|&other| other < met);
        self.found.insert(at, met);
        // The place that was next moves up when a point comes before it; then that point is next.
        next.min(at)
    }
}
