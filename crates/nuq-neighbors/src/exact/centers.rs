//! Centers of sets of points, and the search for the center that is nearest to a point.

use super::lanes::{BOXES, POINTS, for_each_instruction_set, point_distances};

/// Centers in blocks of 32.
pub(super) struct Centers {
    width: usize,
    count: usize,
    /// Unused places after the last center are infinite, so they are never the nearest.
    blocks: Vec<f32>,
}

impl Centers {
    /// An empty list of centers with `width` coordinates each.
    pub(super) fn new(width: usize) -> Self {
        Self { width, count: 0, blocks: vec![] }
    }

    pub(super) fn push(&mut self, center: &[f32]) {
        let size = POINTS * self.width;
        if self.count.is_multiple_of(POINTS) {
            self.blocks.resize(self.blocks.len() + size, f32::INFINITY);
        }
        let block = &mut self.blocks[self.count / POINTS * size..];
        for (column, &y) in block.chunks_exact_mut(POINTS).zip(center) {
            column[self.count % POINTS] = y;
        }
        self.count += 1;
    }

    /// Writes the squared distances of a point to all centers to `distances`, padded with infinity to a multiple of 32
    /// values.
    pub(super) fn distances(&self, point: &[f32], distances: &mut Vec<f32>) {
        distances.resize(self.count.next_multiple_of(POINTS), 0.0);
        point_distances(point, &self.blocks, distances);
    }

    /// The index of the nearest center. `distances` is overwritten.
    pub(super) fn nearest(&self, point: &[f32], distances: &mut Vec<f32>) -> usize {
        self.distances(point, distances);
        argmin(distances).unwrap_or(0)
    }
}

for_each_instruction_set!(argmin, argmin_avx512, argmin_avx2, argmin_any, (values: &[f32]) -> Option<usize>);

/// The index of the smallest number, or `None` if all are infinite. The number of values is a multiple of 16.
#[inline(always)]
fn argmin_any<const FMA: bool>(values: &[f32]) -> Option<usize> {
    let chunks = values.as_chunks::<BOXES>().0;
    let mut smallest = [f32::INFINITY; BOXES];
    for values in chunks {
        for lane in 0..BOXES {
            smallest[lane] = if values[lane] < smallest[lane] { values[lane] } else { smallest[lane] };
        }
    }
    let smallest = smallest.into_iter().fold(f32::INFINITY, f32::min);
    let has_smallest = |values: &[f32; BOXES]| values.iter().fold(false, |found, &v| found | (v == smallest));
    let first = chunks.iter().position(has_smallest)?;
    let lane = chunks[first].iter().position(|&v| v == smallest)?;
    (smallest < f32::INFINITY).then_some(first * BOXES + lane)
}
