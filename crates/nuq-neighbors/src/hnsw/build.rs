//! Construction of the graph in batches, without locks, with the same result for any number of threads.
//!
//! Nodes are inserted in a seeded order, in batches of a fixed share of the graph. All nodes of a batch select their
//! neighbors in parallel, from the graph before the batch and from the batch itself. Then the selected nodes add the new
//! nodes to their own lists, each list independently. The result does not depend on the order in which threads finish.

use rayon::prelude::*;

use super::graph::Graph;
use super::params::HnswParams;
use super::vectors::{Element, Vectors};
use super::walk::{Beam, Candidate, SearchView};
use crate::SeededRng;
use crate::cancel::{Checkpoint, ParallelCheckpoints, checkpoint};
use crate::progress::{self, Steps};

/// The size of a batch is the number of linked nodes divided by this. It is limited, because each node of a batch is
/// compared with all other nodes of the batch.
const BATCH_DIVISOR: usize = 32;
const MAX_BATCH: usize = 1024;
/// The number of links that a new node selects on the bottom layer, in quarters of M. A list has space for 2M links,
/// so later nodes can be added.
const INITIAL_LINKS: usize = 7;
/// The number of lists that are updated at a time.
const LISTS: usize = 2048;

/// Links nodes that have no links yet into a graph of `linked` nodes. The seeded order avoids a graph that is built class
/// by class when the rows are sorted by class.
pub(super) fn link<T: Element>(
    graph: &mut Graph<'_>,
    vectors: Vectors<'_, T>,
    params: &HnswParams,
    linked: usize,
    ids: &[u32],
) {
    progress::start("building the graph", ids.len());
    let steps = Steps::current();
    let order = shuffled(ids, params.seed);
    let mut done = 0;
    if linked == 0 {
        graph.entry = order[0];
        done = 1;
    }
    while done < order.len() {
        checkpoint();
        let size = ((linked + done) / BATCH_DIVISOR).clamp(1, MAX_BATCH);
        let batch = &order[done..order.len().min(done + size)];
        insert(graph, vectors, params, batch);
        done += batch.len();
        steps.add(batch.len());
    }
}

/// The ids in a seeded random order (Fisher-Yates shuffle).
fn shuffled(ids: &[u32], seed: u64) -> Vec<u32> {
    let mut rng = SeededRng::new(!seed);
    let mut order = ids.to_vec();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i + 1));
    }
    order
}

/// A link to add from `target` to a new node: (layer, target, new node).
type Link = (u8, u32, u32);

fn insert<T: Element>(graph: &mut Graph<'_>, vectors: Vectors<'_, T>, params: &HnswParams, batch: &[u32]) {
    let view = SearchView { links: graph.links(), vectors };
    let here = Checkpoint::current();
    let choose = |&id: &u32| here.enter(|| Beam::with(|beam| choose_links(&view, params, id, batch, beam)));
    let chosen: Vec<Vec<Vec<u32>>> = batch.par_iter().map(choose).collect();
    let mut links: Vec<Link> = Vec::new();
    for (&id, layers) in batch.iter().zip(&chosen) {
        for (layer, targets) in layers.iter().enumerate() {
            graph.set_links(id, layer, targets);
            links.extend(targets.iter().map(|&target| (layer as u8, target, id)));
        }
    }
    links.par_sort_unstable();
    let lists: Vec<&[Link]> = links.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).collect();
    // The lists are independent. They are updated in portions to limit memory.
    for portion in lists.chunks(LISTS) {
        let view = SearchView { links: graph.links(), vectors };
        let updated: Vec<Vec<u32>> = portion
            .par_iter()
            .with_min_len(16)
            .with_checkpoints()
            .map(|list| add_links(&view, list))
            .collect();
        for (list, links) in portion.iter().zip(&updated) {
            graph.set_links(list[0].1, usize::from(list[0].0), links);
        }
    }
    for &id in batch {
        if graph.level(id) > graph.level(graph.entry) {
            graph.entry = id;
        }
    }
}

/// The links of a new node on each layer that both the node and the graph have, from the bottom up.
fn choose_links<T: Element>(
    view: &SearchView<'_, T>,
    params: &HnswParams,
    id: u32,
    batch: &[u32],
    beam: &mut Beam,
) -> Vec<Vec<u32>> {
    let query = view.vectors.row(id);
    let top = view.links.level(id).min(view.links.level(view.links.entry));
    let mut start = view.descend(query, top, None, beam);
    let mut layers = Vec::with_capacity(top + 1);
    for layer in (0..=top).rev() {
        view.search(query, start, layer, params.ef_construction, None, beam);
        start = Candidate::new(beam.nearest[0].distance(), beam.nearest[0].id());
        beam.add_batch(view, id, batch, layer, params.ef_construction);
        let max_links = if layer == 0 { INITIAL_LINKS * params.m / 4 } else { params.m };
        layers.push(select_diverse(view.vectors, &beam.nearest, max_links));
    }
    layers.reverse();
    layers
}

/// The updated list of a node: its links and the links to add, or the best of them when they are too many.
fn add_links<T: Element>(view: &SearchView<'_, T>, list: &[Link]) -> Vec<u32> {
    let (layer, id, _) = list[0];
    let old = view.links.of(id, usize::from(layer));
    // Two nodes of one batch may have selected each other; then the link exists already.
    let new = list.iter().map(|link| link.2).filter(|id| !old.contains(id));
    let all: Vec<u32> = old.iter().copied().chain(new).collect();
    select_links(view.vectors, id, all, view.links.capacity(usize::from(layer)))
}

/// The links of a node among `others`: all of them, or `max_links` diverse ones.
pub(super) fn select_links<T: Element>(
    vectors: Vectors<'_, T>,
    id: u32,
    others: Vec<u32>,
    max_links: usize,
) -> Vec<u32> {
    if others.len() <= max_links {
        return others;
    }
    let mut distances = vec![0f32; others.len()];
    vectors.measure(vectors.row(id), &others, &mut distances);
    let mut candidates: Vec<Candidate> =
        others.iter().zip(&distances).map(|(&other, &distance)| Candidate::new(distance, other)).collect();
    candidates.sort_unstable();
    select_diverse(vectors, &candidates, max_links)
}

/// The selection heuristic of Malkov and Yashunin. The nearest candidates are considered first. A candidate is
/// selected if it is nearer to the node than to every selected candidate; links therefore lead in different
/// directions. If fewer than `max_links` are selected, the nearest skipped candidates are added.
fn select_diverse<T: Element>(
    vectors: Vectors<'_, T>,
    candidates: &[Candidate],
    max_links: usize,
) -> Vec<u32> {
    let mut selected: Vec<u32> = Vec::with_capacity(max_links);
    let mut skipped: Vec<u32> = Vec::with_capacity(max_links);
    for candidate in candidates {
        if selected.len() == max_links {
            break;
        }
        let (row, limit) = (vectors.row(candidate.id()), candidate.distance());
        if !selected.iter().any(|&other| vectors.distance(row, other) <= limit) {
            selected.push(candidate.id());
        } else if skipped.len() < max_links {
            skipped.push(candidate.id());
        }
    }
    let free = max_links - selected.len();
    selected.extend(skipped.into_iter().take(free));
    selected
}
