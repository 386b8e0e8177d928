//! Points that come and go without a rebuild.

use rayon::prelude::*;

use super::build::{best, link};
use super::graph::Graph;
use super::params::HnswParams;
use super::vectors::{Element, Vectors};

/// Links new points into a graph of `present` others.
pub(super) fn insert<T: Element>(
    graph: &mut Graph<'_>,
    vectors: Vectors<'_, T>,
    params: &HnswParams,
    present: usize,
    ids: &[u32],
) {
    if let Some(&last) = ids.iter().max() {
        graph.grow(graph.len().max(last as usize + 1));
        link(graph, vectors, params, present, ids);
    }
}

/// Takes points out of the graph: whoever was linked to one is linked to the best of its own remaining links and those
/// of the points that go. What is left has no link to them, so that they take no place in any beam.
pub(super) fn remove<T: Element>(graph: &mut Graph<'_>, vectors: Vectors<'_, T>, gone: &[u32]) {
    let mut leaves = vec![false; graph.len()];
    gone.iter().for_each(|&id| leaves[id as usize] = true);
    let links = graph.links();
    let mended: Vec<(u32, usize, Vec<u32>)> = (0..graph.len() as u32)
        .into_par_iter()
        .filter(|&id| !leaves[id as usize])
        .flat_map_iter(|id| (0..=links.level(id)).map(move |layer| (id, layer)))
        .filter(|&(id, layer)| links.of(id, layer).iter().any(|&to| leaves[to as usize]))
        .map(|(id, layer)| {
            let mut others: Vec<u32> = Vec::new();
            for to in links.of(id, layer) {
                let through =
                    if leaves[*to as usize] { links.of(*to, layer) } else { std::slice::from_ref(to) };
                others.extend(through.iter().filter(|&&other| other != id && !leaves[other as usize]));
            }
            others.sort_unstable();
            others.dedup();
            (id, layer, best(vectors, id, others, links.capacity(layer)))
        })
        .collect();
    for (id, layer, list) in mended {
        graph.set_links(id, layer, &list);
    }
    for &id in gone {
        (0..=graph.level(id)).for_each(|layer| graph.set_links(id, layer, &[]));
    }
}
