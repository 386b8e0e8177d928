//! The layered graph: who is linked to whom.
//!
//! Every point is on layer 0; each higher layer holds about one in $M$ of the points below. Lists of links are blocks
//! of fixed size in two flat arrays, one for the bottom layer and one for all above it, so that a walk reads one
//! stretch of memory per point and the whole can be written and mapped as it is.

use rayon::prelude::*;

use super::kernels::prefetch;
use crate::exact::ExactIndex;
use crate::parts::LinkParts;
use crate::{NeighborIndex, SeededRng, SharedSlice};

/// The links of all points on all layers.
#[derive(Clone)]
pub(crate) struct Graph<'a> {
    m: usize,
    seed: u64,
    /// For each point a count and up to $2M$ ids.
    pub(crate) bottom: SharedSlice<'a, u32>,
    /// For each point and layer above 0 a count and up to $M$ ids.
    pub(crate) upper: SharedSlice<'a, u32>,
    /// The highest layer of each point.
    levels: Vec<u8>,
    /// Where a point's blocks begin among the upper ones, one block per layer above 0.
    first_upper: Vec<u32>,
    /// The point that a walk starts from, on the highest layer there is.
    pub(crate) entry: u32,
}

/// No layer beyond this: $16^{12}$ points would not fit anywhere.
const HIGHEST: f64 = 12.0;

/// The highest layer of a point: drawn from the seed and its id, so that whoever takes the id takes the layer.
fn level(seed: u64, m: usize, id: u32) -> u8 {
    let mut rng = SeededRng::new(seed ^ u64::from(id).wrapping_mul(0xD6E8_FEB8_6659_FD93));
    (-(1.0 - rng.uniform()).ln() / (m as f64).ln()).min(HIGHEST) as u8
}

impl<'a> Graph<'a> {
    /// Points without links.
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

    /// Links that were written elsewhere; `None` when their number does not fit the points.
    pub(super) fn restored(len: usize, m: usize, seed: u64, parts: LinkParts<'a>) -> Option<Self> {
        let LinkParts { bottom, upper, entry } = parts;
        let mut graph = Self { m, seed, bottom, upper, levels: vec![], first_upper: vec![], entry };
        let blocks = graph.number(len);
        let fits = graph.bottom.len() == len * (2 * m + 1)
            && graph.upper.len() == blocks * (m + 1)
            && (entry as usize) < len;
        fits.then_some(graph)
    }

    /// Whether every list is within its bounds and names rows that are there and on its layer: what makes a walk safe.
    pub(super) fn is_sound(&self, rows: &ExactIndex<'_>) -> bool {
        let links = self.links();
        let sound = |id: usize, layer: usize| {
            let count = links.count(id as u32, layer);
            count <= links.capacity(layer)
                && links.of(id as u32, layer).iter().all(|&to| rows.contains(to) && self.level(to) >= layer)
        };
        (0..self.len()).into_par_iter().all(|id| (0..=self.level(id as u32)).all(|layer| sound(id, layer)))
    }

    /// Draws the layers of all points up to `len`; returns how many blocks above the bottom there are.
    fn number(&mut self, len: usize) -> usize {
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

    /// Makes room for points up to `len`, without links.
    pub(super) fn grow(&mut self, len: usize) {
        let blocks = self.number(len);
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

    /// The links for reading.
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

    /// Bytes that the links take.
    pub(super) fn bytes(&self) -> usize {
        4 * (self.bottom.len() + self.upper.len() + self.first_upper.len()) + self.levels.len()
    }
}

/// A graph as a walk sees it: plain slices.
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

    /// How many links a point may have on a layer.
    pub(super) fn capacity(&self, layer: usize) -> usize {
        if layer == 0 { 2 * self.m } else { self.m }
    }

    /// The links of a point on a layer it is on.
    #[inline]
    pub(super) fn of(&self, id: u32, layer: usize) -> &'g [u32] {
        let block = self.block(id, layer);
        let links = if layer == 0 { &self.bottom[block] } else { &self.upper[block] };
        &links[1..1 + links[0] as usize]
    }

    /// Asks for a point's links before they are needed.
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
