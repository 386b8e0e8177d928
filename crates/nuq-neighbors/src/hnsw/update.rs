//! Insertion and removal of nodes without a rebuild of the graph.

use rayon::prelude::*;

use super::build::{link, select_links};
use super::graph::Graph;
use super::params::HnswParams;
use super::vectors::{Element, Vectors};
use crate::cancel::ParallelCheckpoints;

/// Links new nodes into a graph of `linked` nodes.
pub(super) fn insert<T: Element>(
    graph: &mut Graph<'_>,
    vectors: Vectors<'_, T>,
    params: &HnswParams,
    linked: usize,
    ids: &[u32],
) {
    if let Some(&last) = ids.iter().max() {
        graph.grow(graph.len().max(last as usize + 1));
        link(graph, vectors, params, linked, ids);
    }
}

/// Removes nodes from the graph.
///
/// A node with links to removed nodes gets the best links among its remaining links and the links of its removed
/// neighbors. Afterwards no link leads to a removed node, so a search never visits one. If the entry node is removed, the
/// caller selects another one.
///
/// All check points for cancellation are before the first change, so a cancelled removal leaves the graph unchanged.
pub(super) fn remove<T: Element>(graph: &mut Graph<'_>, vectors: Vectors<'_, T>, removed: &[u32]) {
    let mut is_removed = vec![false; graph.len()];
    removed.iter().for_each(|&id| is_removed[id as usize] = true);
    let links = graph.links();
    let repaired: Vec<(u32, usize, Vec<u32>)> = (0..graph.len() as u32)
        .into_par_iter()
        .with_checkpoints()
        .filter(|&id| !is_removed[id as usize])
        .flat_map_iter(|id| (0..=links.level(id)).map(move |layer| (id, layer)))
        .filter(|&(id, layer)| links.of(id, layer).iter().any(|&to| is_removed[to as usize]))
        .map(|(id, layer)| {
            let mut others: Vec<u32> = Vec::new();
            for to in links.of(id, layer) {
                let reachable =
                    if is_removed[*to as usize] { links.of(*to, layer) } else { std::slice::from_ref(to) };
                others.extend(reachable.iter().filter(|&&other| other != id && !is_removed[other as usize]));
            }
            others.sort_unstable();
            others.dedup();
            (id, layer, select_links(vectors, id, others, links.capacity(layer)))
        })
        .collect();
    for (id, layer, list) in repaired {
        graph.set_links(id, layer, &list);
    }
    for &id in removed {
        (0..=graph.level(id)).for_each(|layer| graph.set_links(id, layer, &[]));
    }
}
