//! A hierarchy of bounding boxes of projected rows, called points: of each group of 32 points, of 16 consecutive groups (a node), of 16
//! consecutive nodes, and so on up to one block of 16 boxes. For each column, a block has the lower ends of its 16 boxes and then their
//! upper ends. The lane of a box is its place in the block.
//!
//! A box contains the exact points of its rows: it is extended by the rounding error of each stored point. It does
//! not shrink when rows are removed.

use super::lanes::BOXES;

/// The boxes of all levels. Block i of a level holds the boxes inside box i of the level above.
pub(super) struct Boxes {
    width: usize,
    /// The blocks of each level, from the boxes of groups to a single block. There are at least two levels.
    levels: Vec<Vec<f32>>,
}

impl Boxes {
    /// Builds all levels from the boxes of groups, which are in blocks of one node each.
    pub(super) fn new(group_boxes: Vec<f32>, width: usize) -> Self {
        let mut boxes = Self { width, levels: vec![group_boxes] };
        boxes.add_levels();
        boxes
    }

    /// Adds levels until the last one is a single block.
    fn add_levels(&mut self) {
        let size = 2 * BOXES * self.width;
        while self.levels.len() < 2 || self.levels[self.levels.len() - 1].len() > size {
            let below = &self.levels[self.levels.len() - 1];
            let mut level = empty_boxes((below.len() / size).div_ceil(BOXES), self.width);
            for (i, block) in below.chunks_exact(size).enumerate() {
                let (lower, upper) = hull(block);
                include(&mut level[i / BOXES * size..], i % BOXES, &lower, &upper);
            }
            self.levels.push(level);
        }
    }

    /// Blocks with the boxes of groups, one per node.
    pub(super) fn of_groups(&self) -> &[f32] {
        &self.levels[0]
    }

    /// Blocks with the boxes of nodes.
    pub(super) fn of_nodes(&self) -> &[f32] {
        &self.levels[1]
    }

    /// The number of levels.
    pub(super) fn levels(&self) -> usize {
        self.levels.len()
    }

    /// A block of a level. Level 0 has the boxes of groups.
    #[inline(always)]
    pub(super) fn block(&self, level: usize, block: usize) -> &[f32] {
        &self.levels[level][block * 2 * BOXES * self.width..][..2 * BOXES * self.width]
    }

    /// Extends the boxes around a group by a point and its rounding error. The group may be a new one after the last
    /// group.
    pub(super) fn extend(&mut self, group: usize, point: &[f32], error: f32) {
        let size = 2 * BOXES * self.width;
        let (mut lane, mut block) = (group % BOXES, group / BOXES);
        for level in &mut self.levels {
            if block * size == level.len() {
                level.extend(empty_boxes(1, self.width));
            }
            include_point(&mut level[block * size..], lane, point, error);
            (lane, block) = (block % BOXES, block / BOXES);
        }
        self.add_levels();
    }
}

/// Blocks of boxes without points.
pub(super) fn empty_boxes(blocks: usize, width: usize) -> Vec<f32> {
    let column = [[f32::INFINITY; BOXES], [f32::NEG_INFINITY; BOXES]].concat();
    column.repeat(blocks * width)
}

/// Extends the box in a lane of a block by a point and its rounding error.
pub(super) fn include_point(block: &mut [f32], lane: usize, point: &[f32], error: f32) {
    for (column, &y) in block.chunks_exact_mut(2 * BOXES).zip(point) {
        column[lane] = column[lane].min((y - error).next_down());
        column[BOXES + lane] = column[BOXES + lane].max((y + error).next_up());
    }
}

/// Extends the box in a lane of a block by the box from `lower` to `upper`.
fn include(block: &mut [f32], lane: usize, lower: &[f32], upper: &[f32]) {
    for ((column, &lower), &upper) in block.chunks_exact_mut(2 * BOXES).zip(lower).zip(upper) {
        column[lane] = column[lane].min(lower);
        column[BOXES + lane] = column[BOXES + lane].max(upper);
    }
}

/// The smallest box around the boxes of a block.
fn hull(block: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let ends = |from: usize, end: fn(f32, f32) -> f32| -> Vec<f32> {
        let columns = block.chunks_exact(2 * BOXES);
        columns.map(|c| c[from..from + BOXES].iter().copied().reduce(end).expect("sixteen boxes")).collect()
    };
    (ends(0, f32::min), ends(BOXES, f32::max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRng;

    /// Boxes that are built at once and boxes that are extended point by point are equal, and contain their points.
    #[test]
    fn boxes_of_all_levels_contain_their_points() {
        let (width, groups) = (3, 700);
        let mut rng = SeededRng::new(1);
        let points: Vec<f32> = (0..groups * width).map(|_| rng.normal() as f32).collect();
        let size = 2 * BOXES * width;
        let mut group_boxes = empty_boxes(groups.div_ceil(BOXES), width);
        let mut extended = Boxes::new(empty_boxes(1, width), width);
        for (group, point) in points.chunks_exact(width).enumerate() {
            include_point(&mut group_boxes[group / BOXES * size..], group % BOXES, point, 1e-3);
            extended.extend(group, point, 1e-3);
        }
        let boxes = Boxes::new(group_boxes, width);
        assert_eq!(boxes.levels, extended.levels);
        assert_eq!(boxes.levels.iter().map(|level| level.len() / size).collect::<Vec<_>>(), [44, 3, 1]);
        for (group, point) in points.chunks_exact(width).enumerate() {
            let mut at = group;
            for level in 0..boxes.levels() {
                let block = boxes.block(level, at / BOXES);
                for (column, &y) in block.chunks_exact(2 * BOXES).zip(point) {
                    assert!(column[at % BOXES] <= y - 1e-3 && y + 1e-3 <= column[BOXES + at % BOXES]);
                }
                at /= BOXES;
            }
        }
    }
}
