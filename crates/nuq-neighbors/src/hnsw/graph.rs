//! The layered graph and its links.
//!
//! Every node is on layer 0; each higher layer contains about one in M nodes of the layer below. Lists of links are
//! blocks of fixed size in two flat arrays, one for the bottom layer and one for all layers above it. A walk (a search along
//! the links) therefore reads one contiguous block per node, and the arrays can be written to a file and mapped without conversion.

use rayon::prelude::*;

use super::kernels::prefetch;
use crate::cancel::ParallelCheckpoints;
use crate::parts::LinkParts;
use crate::{RowStorage, SeededRng, SharedSlice, StoredRows};

/// The links of all nodes on all layers.
#[derive(Clone)]
pub(crate) struct Graph<'a> {
    m: usize,
    seed: u64,
    /// Per node: the number of links and up to 2M ids.
    pub(crate) bottom: SharedSlice<'a, u32>,
    /// Per node and layer above 0: the number of links and up to M ids.
    pub(crate) upper: SharedSlice<'a, u32>,
    /// The highest layer of each node.
    levels: Vec<u8>,
    /// The number of the first upper block of each node; a node has one block per layer above 0.
    first_upper: Vec<u32>,
    /// The node at which walks start, on the highest layer.
    pub(crate) entry: u32,
}

/// The upper limit of the layers of any graph. With M = 16, about one in 16¹² nodes would reach this layer.
const MAX_LEVEL: f64 = 12.0;

/// The highest layer of a node. It is a function of seed and id, so a row that reuses an id has the same layers. It
/// is computed with `libm`, because a restored graph must have the same layers on every platform.
fn level(seed: u64, m: usize, id: u32) -> u8 {
    let mut rng = SeededRng::new(seed ^ u64::from(id).wrapping_mul(0xD6E8_FEB8_6659_FD93));
    (-libm::log(1.0 - rng.uniform()) / libm::log(m as f64)).min(MAX_LEVEL) as u8
}

impl<'a> Graph<'a> {
    /// A graph of nodes without links.
    pub(super) fn unlinked(len: usize, m: usize, seed: u64) -> Self {
        let (bottom, upper) = (vec![].into(), vec![].into());
        let mut graph = Self { m, seed, bottom, upper, levels: vec![], first_upper: vec![], entry: 0 };
        graph.grow(len);
        graph
    }

    pub(super) fn parts(&self) -> LinkParts<'_> {
        let (bottom, upper) =
            (SharedSlice::borrowed(&self.bottom[..]), SharedSlice::borrowed(&self.upper[..]));
        LinkParts { bottom, upper, entry: self.entry }
    }

    /// Restores stored links; `None` when their number does not fit the nodes, or the entry is not a node.
    pub(super) fn restored(len: usize, m: usize, seed: u64, parts: LinkParts<'a>) -> Option<Self> {
        let LinkParts { bottom, upper, entry } = parts;
        let mut graph = Self { m, seed, bottom, upper, levels: vec![], first_upper: vec![], entry };
        let blocks = graph.assign_levels(len);
        let fits = graph.bottom.len() == len * (2 * m + 1)
            && graph.upper.len() == blocks * (m + 1)
            && (entry as usize) < len;
        fits.then_some(graph)
    }

    /// Whether every list is within its capacity and contains only stored rows that are on its layer. Walks rely on this.
    pub(super) fn is_within_bounds(&self, rows: &StoredRows<'_>) -> bool {
        let links = self.links();
        let is_valid = |id: usize, layer: usize| {
            let count = links.count(id as u32, layer);
            count <= links.capacity(layer)
                && links.of(id as u32, layer).iter().all(|&to| rows.contains(to) && self.level(to) >= layer)
        };
        let is_valid_node = |id: usize| (0..=self.level(id as u32)).all(|layer| is_valid(id, layer));
        (0..self.len()).into_par_iter().with_checkpoints().all(is_valid_node)
    }

    /// Computes the layers of all nodes up to `len`; returns the number of upper blocks.
    fn assign_levels(&mut self, len: usize) -> usize {
        let mut blocks = match (self.first_upper.last(), self.levels.last()) {
            (Some(&first), Some(&level)) => first + u32::from(level),
            _ => 0,
        };
        for id in self.levels.len()..len {
            let level = level(self.seed, self.m, id as u32);
            self.levels.push(level);
            self.first_upper.push(blocks);
            blocks += u32::from(level);
        }
        blocks as usize
    }

    /// Adds nodes without links until there are `len`.
    pub(super) fn grow(&mut self, len: usize) {
        let blocks = self.assign_levels(len);
        let (bottom, upper) = (len * (2 * self.m + 1), blocks * (self.m + 1));
        self.bottom.to_mut().resize(bottom, 0);
        self.upper.to_mut().resize(upper, 0);
    }

    pub(super) fn len(&self) -> usize {
        self.levels.len()
    }

    pub(super) fn level(&self, id: u32) -> usize {
        usize::from(self.levels[id as usize])
    }

    /// A view of the links for walks.
    pub(super) fn links(&self) -> Links<'_> {
        let Self { m, bottom, upper, levels, first_upper, entry, .. } = self;
        Links { m: *m, bottom, upper, levels, first_upper, entry: *entry }
    }

    pub(super) fn set_links(&mut self, id: u32, layer: usize, links: &[u32]) {
        let block = self.links().block(id, layer);
        let stored =
            if layer == 0 { &mut self.bottom.to_mut()[block] } else { &mut self.upper.to_mut()[block] };
        stored[0] = links.len() as u32;
        stored[1..1 + links.len()].copy_from_slice(links);
    }

    /// The memory of the links, in bytes.
    pub(super) fn bytes(&self) -> usize {
        4 * (self.bottom.len() + self.upper.len() + self.first_upper.len()) + self.levels.len()
    }
}

/// A read-only view of the links as plain slices.
#[derive(Clone, Copy)]
pub(super) struct Links<'g> {
    m: usize,
    bottom: &'g [u32],
    upper: &'g [u32],
    levels: &'g [u8],
    first_upper: &'g [u32],
    pub(super) entry: u32,
}

impl<'g> Links<'g> {
    pub(super) fn len(&self) -> usize {
        self.levels.len()
    }

    pub(super) fn level(&self, id: u32) -> usize {
        usize::from(self.levels[id as usize])
    }

    /// The largest number of links of a node on a layer.
    pub(super) fn capacity(&self, layer: usize) -> usize {
        if layer == 0 { 2 * self.m } else { self.m }
    }

    /// The links of a node on one of its layers.
    #[inline]
    pub(super) fn of(&self, id: u32, layer: usize) -> &'g [u32] {
        let block = self.block(id, layer);
        let links = if layer == 0 { &self.bottom[block] } else { &self.upper[block] };
        &links[1..1 + links[0] as usize]
    }

    /// Prefetches the links of a node.
    #[inline]
    pub(super) fn prefetch(&self, id: u32, layer: usize) {
        let block = self.block(id, layer);
        prefetch(if layer == 0 { &self.bottom[block] } else { &self.upper[block] });
    }

    #[inline]
    fn block(&self, id: u32, layer: usize) -> std::ops::Range<usize> {
        let size = self.capacity(layer) + 1;
        let number =
            if layer == 0 { id as usize } else { self.first_upper[id as usize] as usize + layer - 1 };
        number * size..(number + 1) * size
    }

    fn count(&self, id: u32, layer: usize) -> usize {
        let block = self.block(id, layer);
        (if layer == 0 { self.bottom[block.start] } else { self.upper[block.start] }) as usize
    }
}
