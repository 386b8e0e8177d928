//! The layered graph: who is linked to whom.
//!
//! Every point is on layer 0; each higher layer holds about one in $M$ of the points below. Lists of links are blocks
//! of fixed size in two flat arrays, one for the bottom layer and one for all above it, so that a walk reads one
//! stretch of memory per point and the whole can be written and mapped as it is.

use crate::SeededRng;

/// The links of all points on all layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Graph {
    m: usize,
    /// The highest layer of each point.
    levels: Vec<u8>,
    /// For each point a count and up to $2M$ ids.
    bottom: Vec<u32>,
    /// Where a point's blocks begin among the upper ones, one block per layer above 0.
    first_upper: Vec<u32>,
    /// For each point and layer above 0 a count and up to $M$ ids.
    upper: Vec<u32>,
    /// The point that a walk starts from, on the highest layer there is.
    pub(super) entry: u32,
}

/// No layer beyond this: $16^{12}$ points would not fit anywhere.
const HIGHEST: f64 = 12.0;

impl Graph {
    /// Points without links, their layers drawn from the seed.
    pub(super) fn unlinked(len: usize, m: usize, seed: u64) -> Self {
        let scale = 1.0 / (m as f64).ln();
        let mut rng = SeededRng::new(seed);
        let level = |_| (-(1.0 - rng.uniform()).ln() * scale).min(HIGHEST) as u8;
        let levels: Vec<u8> = (0..len).map(level).collect();
        let mut blocks = 0;
        let first_upper = levels
            .iter()
            .map(|&level| {
                let first = blocks;
                blocks += u32::from(level);
                first
            })
            .collect();
        Self {
            m,
            bottom: vec![0; len * (2 * m + 1)],
            upper: vec![0; blocks as usize * (m + 1)],
            first_upper,
            levels,
            entry: 0,
        }
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
    pub(super) fn links(&self, id: u32, layer: usize) -> &[u32] {
        let block = self.block(id, layer);
        let links = if layer == 0 { &self.bottom[block] } else { &self.upper[block] };
        &links[1..1 + links[0] as usize]
    }

    pub(super) fn set_links(&mut self, id: u32, layer: usize, links: &[u32]) {
        let block = self.block(id, layer);
        let stored = if layer == 0 { &mut self.bottom[block] } else { &mut self.upper[block] };
        stored[0] = links.len() as u32;
        stored[1..1 + links.len()].copy_from_slice(links);
    }

    #[inline]
    fn block(&self, id: u32, layer: usize) -> std::ops::Range<usize> {
        let size = self.capacity(layer) + 1;
        let number =
            if layer == 0 { id as usize } else { self.first_upper[id as usize] as usize + layer - 1 };
        number * size..(number + 1) * size
    }

    /// Bytes that the links take.
    pub(super) fn bytes(&self) -> usize {
        4 * (self.bottom.len() + self.upper.len() + self.first_upper.len()) + self.levels.len()
    }
}
