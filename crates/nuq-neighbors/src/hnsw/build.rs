//! Building the graph in batches, without locks, the same for any number of threads.
//!
//! Points come in a seeded order, in batches of a fixed share of what is there already. All points of a batch look for
//! their neighbors in the graph as it was before the batch, in parallel; then their links are made, and the points they
//! chose take them into their own lists, each list by itself. Nothing depends on who finishes first.

use rayon::prelude::*;

use super::graph::Graph;
use super::params::HnswParams;
use super::simd::Distance;
use super::walk::{Beam, Met, Terrain};
use crate::{Embeddings, SeededRng};

/// A batch is this share of the points that are there already: its points do not see each other.
const BATCH_SHARE: usize = 32;
const LARGEST_BATCH: usize = 4096;

/// Builds the graph over all rows.
pub(super) fn build(embeddings: &Embeddings<'_>, params: &HnswParams, distance: Distance) -> Graph {
    let len = embeddings.len();
    let mut graph = Graph::unlinked(len, params.m, params.seed);
    let order = shuffled(len, params.seed);
    graph.entry = order[0];
    let mut done = 1;
    while done < len {
        let batch = &order[done..len.min(done + (done / BATCH_SHARE).clamp(1, LARGEST_BATCH))];
        insert(&mut graph, embeddings, params, distance, batch);
        done += batch.len();
    }
    graph
}

/// All ids in a seeded order (Fisher and Yates): data sorted by class must not build the graph class by class.
fn shuffled(len: usize, seed: u64) -> Vec<u32> {
    let mut rng = SeededRng::new(!seed);
    let mut order: Vec<u32> = (0..len as u32).collect();
    for i in (1..len).rev() {
        order.swap(i, rng.below(i + 1));
    }
    order
}

/// A link that a new point made: layer, the point it leads to, the new point.
type Link = (usize, u32, u32);

fn insert(
    graph: &mut Graph,
    embeddings: &Embeddings<'_>,
    params: &HnswParams,
    distance: Distance,
    batch: &[u32],
) {
    let terrain = Terrain::new(graph, embeddings, distance);
    let chosen: Vec<Vec<(usize, Vec<u32>)>> =
        batch.par_iter().map(|&id| Beam::with(|beam| choose_links(&terrain, params, id, beam))).collect();
    let mut links: Vec<Link> = Vec::new();
    for (&id, layers) in batch.iter().zip(&chosen) {
        for (layer, targets) in layers {
            links.extend(targets.iter().map(|&target| (*layer, target, id)));
        }
    }
    links.sort_unstable();
    let lists: Vec<&[Link]> = links.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).collect();
    let answered: Vec<Vec<u32>> = lists.par_iter().map(|list| take_in(&terrain, list)).collect();
    for (list, answer) in lists.iter().zip(&answered) {
        graph.set_links(list[0].1, list[0].0, answer);
    }
    for (&id, layers) in batch.iter().zip(&chosen) {
        for (layer, targets) in layers {
            graph.set_links(id, *layer, targets);
        }
        if graph.level(id) > graph.level(graph.entry) {
            graph.entry = id;
        }
    }
}

/// The links of a new point on each of its layers that has points already.
fn choose_links(
    terrain: &Terrain<'_>,
    params: &HnswParams,
    id: u32,
    beam: &mut Beam,
) -> Vec<(usize, Vec<u32>)> {
    let graph = terrain.graph;
    let query = terrain.row(id);
    let top = graph.level(id).min(graph.level(graph.entry));
    let mut start = terrain.descend(query, top);
    let mut layers = Vec::with_capacity(top + 1);
    for layer in (0..=top).rev() {
        terrain.search(query, start, layer, params.ef_construction, beam);
        start = (beam.found[0].0, beam.found[0].1);
        let candidates = beam.found.iter().map(|met| (met.0, met.1));
        layers.push((layer, diverse(terrain, candidates, params.m)));
    }
    layers
}

/// The list of a point that new points have linked to: the old links and the new ones, the best of them where they are
/// too many.
fn take_in(terrain: &Terrain<'_>, list: &[Link]) -> Vec<u32> {
    let (layer, id, _) = list[0];
    let old = terrain.graph.links(id, layer);
    let all = || old.iter().copied().chain(list.iter().map(|link| link.2));
    let capacity = terrain.graph.capacity(layer);
    if old.len() + list.len() <= capacity {
        return all().collect();
    }
    let row = terrain.row(id);
    let mut candidates: Vec<Met> =
        all().map(|other| ((terrain.distance)(row, terrain.row(other)), other)).collect();
    candidates.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    diverse(terrain, candidates.into_iter(), capacity)
}

/// Malkov and Yashunin's heuristic: of candidates nearest first, those nearer to the point than to any chosen before,
/// so that links lead in different directions; places left over go to the nearest that were passed over.
fn diverse(terrain: &Terrain<'_>, candidates: impl Iterator<Item = Met>, most: usize) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::with_capacity(most);
    let mut passed: Vec<u32> = Vec::new();
    for (distance, id) in candidates {
        if chosen.len() == most {
            break;
        }
        let row = terrain.row(id);
        if chosen.iter().all(|&other| (terrain.distance)(row, terrain.row(other)) >= distance) {
            chosen.push(id);
        } else {
            passed.push(id);
        }
    }
    let free = most - chosen.len();
    chosen.extend(passed.into_iter().take(free));
    chosen
}
