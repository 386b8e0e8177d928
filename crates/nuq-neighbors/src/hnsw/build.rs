//! Linking points in batches, without locks, the same for any number of threads.
//!
//! Points come in a seeded order, in batches of a fixed share of what is there already. All points of a batch look for
//! their neighbors in the graph as it was before the batch, and among each other, in parallel; then the points they chose
//! take them into their own lists, each list by itself. Nothing depends on who finishes first.

use rayon::prelude::*;

use super::graph::Graph;
use super::params::HnswParams;
use super::vectors::{Element, Vectors};
use super::walk::{Beam, Candidate, SearchView};
use crate::SeededRng;

/// A batch is this share of the points that are there already: each of its points is compared with all others of it.
const BATCH_SHARE: usize = 32;
const LARGEST_BATCH: usize = 1024;
/// Links that a new point makes on the bottom layer, in quarters of M; the lists of its neighbors have room for 2M.
const FIRST_LINKS: usize = 7;
/// Lists that take new points in at a time.
const LISTS: usize = 2048;

/// Links points that have rows and no links yet into a graph that has `present` linked points, in a seeded order: data
/// sorted by class must not build the graph class by class.
pub(super) fn link<T: Element>(
    graph: &mut Graph<'_>,
    vectors: Vectors<'_, T>,
    params: &HnswParams,
    present: usize,
    ids: &[u32],
) {
    let order = shuffled(ids, params.seed);
    let mut done = 0;
    if present == 0 {
        graph.entry = order[0];
        done = 1;
    }
    while done < order.len() {
        let size = ((present + done) / BATCH_SHARE).clamp(1, LARGEST_BATCH);
        let batch = &order[done..order.len().min(done + size)];
        insert(graph, vectors, params, batch);
        done += batch.len();
    }
}

/// Ids in a seeded order (Fisher and Yates).
fn shuffled(ids: &[u32], seed: u64) -> Vec<u32> {
    let mut rng = SeededRng::new(!seed);
    let mut order = ids.to_vec();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i + 1));
    }
    order
}

/// A link that a new point made: layer, the point it leads to, the new point.
type Link = (u8, u32, u32);

fn insert<T: Element>(graph: &mut Graph<'_>, vectors: Vectors<'_, T>, params: &HnswParams, batch: &[u32]) {
    let view = SearchView { links: graph.links(), vectors };
    let choose = |&id: &u32| Beam::with(|beam| choose_links(&view, params, id, batch, beam));
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
    // No list depends on another: portions keep few of them in memory.
    for portion in lists.chunks(LISTS) {
        let view = SearchView { links: graph.links(), vectors };
        let answered: Vec<Vec<u32>> =
            portion.par_iter().with_min_len(16).map(|list| take_in(&view, list)).collect();
        for (list, answer) in portion.iter().zip(&answered) {
            graph.set_links(list[0].1, usize::from(list[0].0), answer);
        }
    }
    for &id in batch {
        if graph.level(id) > graph.level(graph.entry) {
            graph.entry = id;
        }
    }
}

/// The links of a new point on each of its layers that has points already, from the bottom up.
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
        start = Candidate::new(beam.found[0].distance(), beam.found[0].id());
        beam.meet_all(view, id, batch, layer, params.ef_construction);
        let most = if layer == 0 { FIRST_LINKS * params.m / 4 } else { params.m };
        layers.push(diverse(view.vectors, &beam.found, most));
    }
    layers.reverse();
    layers
}

/// The list of a point that new points have linked to: the old links and the new ones, the best of them where they are
/// too many.
fn take_in<T: Element>(view: &SearchView<'_, T>, list: &[Link]) -> Vec<u32> {
    let (layer, id, _) = list[0];
    let old = view.links.of(id, usize::from(layer));
    // Two of one batch may have chosen each other.
    let new = list.iter().map(|link| link.2).filter(|id| !old.contains(id));
    let all: Vec<u32> = old.iter().copied().chain(new).collect();
    best(view.vectors, id, all, view.links.capacity(usize::from(layer)))
}

/// The links of a point among some that it could have: all of them, or the most diverse.
pub(super) fn best<T: Element>(vectors: Vectors<'_, T>, id: u32, others: Vec<u32>, most: usize) -> Vec<u32> {
    if others.len() <= most {
        return others;
    }
    let mut distances = vec![0f32; others.len()];
    vectors.measure(vectors.row(id), &others, &mut distances);
    let mut met: Vec<Candidate> =
        others.iter().zip(&distances).map(|(&other, &distance)| Candidate::new(distance, other)).collect();
    met.sort_unstable();
    diverse(vectors, &met, most)
}

/// Malkov and Yashunin's heuristic: of candidates nearest first, those nearer to the point than to any chosen before,
/// so that links lead in different directions; places left over go to the nearest that were passed over.
fn diverse<T: Element>(vectors: Vectors<'_, T>, candidates: &[Candidate], most: usize) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::with_capacity(most);
    let mut passed: Vec<u32> = Vec::with_capacity(most);
    for met in candidates {
        if chosen.len() == most {
            break;
        }
        let (row, limit) = (vectors.row(met.id()), met.distance());
        if !chosen.iter().any(|&other| vectors.distance(row, other) <= limit) {
            chosen.push(met.id());
        } else if passed.len() < most {
            passed.push(met.id());
        }
    }
    let free = most - chosen.len();
    chosen.extend(passed.into_iter().take(free));
    chosen
}
