//! Projected rows, ordered into nodes of near rows, with a bounding box of each node and of each group in it.

use rayon::prelude::*;

use super::axes::Axes;
use super::codes::Codes;
use super::lanes::{BOXES, Node, POINTS, box_distances, point_distances};
use super::rescaler::Rescaler;
use super::row_codes::RowCodes;
use crate::cancel::{Checkpoint, ParallelCheckpoints, checkpoint};
use crate::{RowStorage, StoredRows};

/// The points of all rows.
///
/// Rows are ordered by recursive splits, so that consecutive rows are near each other. 32 consecutive points form a group,
/// and 16 groups form a node. Inserted rows are appended to the last node.
pub(super) struct Partition {
    axes: Axes,
    /// The id at each position; [`NO_ROW`] for positions without a row.
    ids: Vec<u32>,
    /// The position of each id; [`NO_ROW`] for ids without one.
    positions: Vec<u32>,
    /// The number of positions in use, including those of removed rows.
    used: usize,
    /// The number of rows that were ordered; those after them are in the order of their insertion.
    ordered: usize,
    /// Blocks of points, one per group. Positions without a row are infinitely far away.
    points: Vec<f32>,
    /// Blocks of the boxes of groups, one per node.
    group_boxes: Vec<f32>,
    /// Blocks of the boxes of nodes.
    node_boxes: Vec<f32>,
    codes: Option<Codes>,
    /// Blocks of points near the middle of each node.
    centers: Vec<f32>,
    /// The codes of the rows in the order of their positions.
    row_codes: Option<RowCodes>,
    /// The largest rounding error of a point of each node.
    errors: Vec<f32>,
}

/// Rows per node.
pub(super) const NODE: usize = POINTS * BOXES;
/// The id of a position without a row.
pub(super) const NO_ROW: u32 = u32::MAX;
/// Members of a set of rows that determine the direction in which it is split.
const SPLIT_SAMPLE: usize = 128;
/// Iterations of Lloyd's algorithm per split.
const LLOYD: usize = 4;
/// Up to this number of columns, rows are split at the median of a column, which gives boxes without overlap. With more
/// columns, splits between clusters give nodes with fewer survivors.
const MAX_MEDIAN_WIDTH: usize = 8;
/// Sets of at most this many rows are ordered by one thread.
const SERIAL: usize = 16 * NODE;

impl Partition {
    /// Projects and orders all rows; `None` if a row is outside the range of `f32` after rescaling.
    pub(super) fn new(rows: &StoredRows<'_>, axes: Axes) -> Option<Self> {
        let (width, len) = (axes.width(), rows.id_bound());
        let mut points = vec![0f32; len * width];
        let mut errors = vec![0f32; len];
        let per_block = StoredRows::BLOCK;
        rows.par_blocks()
            .zip(points.par_chunks_mut(per_block * width))
            .zip(errors.par_chunks_mut(per_block))
            .for_each(|((block, points), errors)| axes.project(&block, points, errors));
        if errors.contains(&f32::INFINITY) {
            return None;
        }
        let mut order: Vec<u32> = rows.live_ids();
        let here = Checkpoint::current();
        order_by_splits(&mut order, &points, width, &here);
        Some(Self::pack(axes, order, &points, &errors))
    }

    fn pack(axes: Axes, mut ids: Vec<u32>, rows: &[f32], row_errors: &[f32]) -> Self {
        let (width, used) = (axes.width(), ids.len());
        let nodes = used.div_ceil(NODE);
        let mut positions = vec![NO_ROW; row_errors.len()];
        ids.iter().enumerate().for_each(|(position, &id)| positions[id as usize] = position as u32);
        ids.resize(nodes * NODE, NO_ROW);
        let mut points = vec![f32::INFINITY; nodes * NODE * width];
        let mut group_boxes = empty_boxes(nodes, width);
        let mut errors = vec![0f32; nodes];
        points
            .par_chunks_mut(NODE * width)
            .zip(group_boxes.par_chunks_mut(2 * BOXES * width))
            .zip(errors.par_iter_mut())
            .zip(ids.par_chunks(NODE))
            .with_checkpoints()
            .for_each(|(((points, boxes), error), ids)| {
                let ids = ids.iter().filter(|&&id| id != NO_ROW);
                for (place, &id) in ids.enumerate() {
                    let point = &rows[id as usize * width..][..width];
                    write_point(points, place, point);
                    include(boxes, place / POINTS, point, point);
                    *error = error.max(row_errors[id as usize]);
                }
            });
        let mut node_boxes = empty_boxes(nodes.div_ceil(BOXES), width);
        for (node, boxes) in group_boxes.chunks_exact(2 * BOXES * width).enumerate() {
            include_node(&mut node_boxes, node, boxes, width);
        }
        let mut centers = vec![f32::INFINITY; nodes.next_multiple_of(POINTS) * width];
        for (node, ids) in ids.chunks(NODE).enumerate() {
            let points =
                ids.iter().filter(|&&id| id != NO_ROW).map(|&id| &rows[id as usize * width..][..width]);
            let mut center = vec![0f32; width];
            points.for_each(|point| center.iter_mut().zip(point).for_each(|(sum, y)| *sum += y));
            let n = ids.iter().filter(|&&id| id != NO_ROW).count().max(1) as f32;
            center.iter_mut().for_each(|sum| *sum /= n);
            write_point(&mut centers, node, &center);
        }
        let codes = Codes::new(&points, &group_boxes, width);
        Self {
            axes,
            ids,
            positions,
            used,
            ordered: used,
            points,
            group_boxes,
            node_boxes,
            codes,
            centers,
            row_codes: None,
            errors,
        }
    }

    pub(super) fn axes(&self) -> &Axes {
        &self.axes
    }

    /// The number of coordinates of a point.
    pub(super) fn width(&self) -> usize {
        self.axes.width()
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.errors.len()
    }

    /// The largest rounding error of a point of a node.
    pub(super) fn error(&self, node: usize) -> f64 {
        f64::from(self.errors[node])
    }

    /// The largest rounding error of all points.
    pub(super) fn largest_error(&self) -> f64 {
        f64::from(self.errors.iter().copied().fold(0.0, f32::max))
    }

    /// The id at a position, if it has a row.
    pub(super) fn id(&self, position: u32) -> Option<u32> {
        Some(self.ids[position as usize]).filter(|&id| id != NO_ROW)
    }

    pub(super) fn node(&self, node: usize) -> Node<'_> {
        let width = self.width();
        Node {
            boxes: &self.group_boxes[node * 2 * BOXES * width..][..2 * BOXES * width],
            points: &self.points[node * NODE * width..][..NODE * width],
            first: (node * NODE) as u32,
        }
    }

    /// Codes the rows, on processors with suitable instructions.
    pub(super) fn add_row_codes(&mut self, rows: &StoredRows<'_>, rescaler: &Rescaler) {
        self.row_codes = RowCodes::new(rows, rescaler, &self.ids);
    }

    /// The codes of the rows.
    pub(super) fn row_codes(&self) -> Option<&RowCodes> {
        self.row_codes.as_ref()
    }

    /// The codes of points, on processors with suitable instructions.
    pub(super) fn codes(&self) -> Option<&Codes> {
        self.codes.as_ref()
    }

    /// The squared distances of a point to the boxes of all nodes; `distances` has a multiple of 16 entries.
    pub(super) fn node_distances(&self, point: &[f32], distances: &mut [f32]) {
        box_distances(point, &self.node_boxes, distances);
    }

    /// The squared distances of a point to the centers of all nodes; `distances` has a multiple of 32 entries.
    pub(super) fn center_distances(&self, point: &[f32], distances: &mut [f32]) {
        point_distances(point, &self.centers, distances);
    }

    /// Appends rows. Returns false if one of them is outside the range of `f32`; then the partition is incomplete.
    #[must_use]
    pub(super) fn insert(&mut self, ids: &[u32], rows: &[f32], rescaler: Option<&Rescaler>) -> bool {
        let width = self.width();
        let (mut points, mut errors) = (vec![0f32; ids.len() * width], vec![0f32; ids.len()]);
        self.axes.project(rows, &mut points, &mut errors);
        if errors.contains(&f32::INFINITY) {
            return false;
        }
        for ((&id, point), &error) in ids.iter().zip(points.chunks_exact(width)).zip(&errors) {
            self.append(id, point, error);
        }
        let first = self.used - ids.len();
        if let (Some(codes), Some(rescaler)) = (&mut self.row_codes, rescaler) {
            let each = (first..).zip(rows.chunks_exact(rescaler.map().0.len()));
            each.for_each(|(position, row)| codes.write(position, row, rescaler));
        }
        true
    }

    fn append(&mut self, id: u32, point: &[f32], error: f32) {
        let width = self.width();
        let (node, place) = (self.used / NODE, self.used % NODE);
        if node == self.nodes() {
            self.ids.resize(self.ids.len() + NODE, NO_ROW);
            self.points.resize(self.points.len() + NODE * width, f32::INFINITY);
            self.group_boxes.extend(empty_boxes(1, width));
            self.errors.push(0.0);
            if node.is_multiple_of(POINTS) {
                self.centers.resize(self.centers.len() + POINTS * width, f32::INFINITY);
            }
            write_point(&mut self.centers, node, point);
            if node.is_multiple_of(BOXES) {
                self.node_boxes.extend(empty_boxes(1, width));
            }
        }
        if let Some(codes) = &mut self.codes {
            codes.clear(node);
        }
        self.ids[self.used] = id;
        if self.positions.len() <= id as usize {
            self.positions.resize(id as usize + 1, NO_ROW);
        }
        self.positions[id as usize] = self.used as u32;
        write_point(&mut self.points[node * NODE * width..][..NODE * width], place, point);
        include(&mut self.group_boxes[node * 2 * BOXES * width..], place / POINTS, point, point);
        let block = &mut self.node_boxes[node / BOXES * 2 * BOXES * width..];
        include(block, node % BOXES, point, point);
        self.errors[node] = self.errors[node].max(error);
        self.used += 1;
    }

    /// Removes rows. Boxes do not shrink.
    pub(super) fn remove(&mut self, removed: &[u32]) {
        let width = self.width();
        let far_away = vec![f32::INFINITY; width];
        for &id in removed {
            let position = std::mem::replace(&mut self.positions[id as usize], NO_ROW) as usize;
            self.ids[position] = NO_ROW;
            if let Some(codes) = &mut self.row_codes {
                codes.remove(position);
            }
            let (node, place) = (position / NODE, position % NODE);
            write_point(&mut self.points[node * NODE * width..][..NODE * width], place, &far_away);
        }
    }

    /// Whether most positions of an index of `len` rows are ordered and have a row.
    pub(super) fn is_ordered(&self, len: usize) -> bool {
        self.used <= 2 * self.ordered && self.used <= 2 * len
    }

    /// The number of positions in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

fn empty_boxes(blocks: usize, width: usize) -> Vec<f32> {
    let column = [[f32::INFINITY; BOXES], [f32::NEG_INFINITY; BOXES]].concat();
    column.repeat(blocks * width)
}

/// Writes the point at a place of a node.
fn write_point(node: &mut [f32], place: usize, point: &[f32]) {
    let group = &mut node[place / POINTS * POINTS * point.len()..];
    for (column, &y) in group.chunks_exact_mut(POINTS).zip(point) {
        column[place % POINTS] = y;
    }
}

/// Extends the box in a lane of a block by the box from `lower` to `upper`.
fn include(block: &mut [f32], lane: usize, lower: &[f32], upper: &[f32]) {
    for ((column, &lower), &upper) in block.chunks_exact_mut(2 * BOXES).zip(lower).zip(upper) {
        column[lane] = column[lane].min(lower);
        column[BOXES + lane] = column[BOXES + lane].max(upper);
    }
}

/// Extends the box of a node by the boxes of its groups.
fn include_node(node_boxes: &mut [f32], node: usize, group_boxes: &[f32], width: usize) {
    let ends = |from: usize, end: fn(f32, f32) -> f32| -> Vec<f32> {
        let columns = group_boxes.chunks_exact(2 * BOXES);
        columns.map(|c| c[from..from + BOXES].iter().copied().reduce(end).expect("sixteen boxes")).collect()
    };
    let (lower, upper) = (ends(0, f32::min), ends(BOXES, f32::max));
    include(&mut node_boxes[node / BOXES * 2 * BOXES * width..], node % BOXES, &lower, &upper);
}

/// Orders ids so that consecutive ones have near points: by recursive splits along one direction each. The first part of
/// a split has a whole number of nodes; within a node it has a whole number of groups.
fn order_by_splits(ids: &mut [u32], points: &[f32], width: usize, here: &Checkpoint) {
    if ids.len() <= POINTS {
        return;
    }
    checkpoint();
    let unit = if ids.len() > NODE { NODE } else { POINTS };
    let parts = ids.len().div_ceil(unit);
    let mut keys: Vec<(f32, u32)>;
    let mut cut = parts / 2;
    if width <= MAX_MEDIAN_WIDTH {
        let column = widest_column(ids, points, width);
        keys = ids.iter().map(|&id| (points[id as usize * width + column], id)).collect();
    } else {
        let (direction, threshold) = separate(ids, points, width);
        let key = |id: u32| {
            let point = &points[id as usize * width..][..width];
            point.iter().zip(&direction).map(|(y, d)| y * d).sum::<f32>()
        };
        keys = ids.iter().map(|&id| (key(id), id)).collect();
        let below = keys.iter().filter(|key| key.0 < threshold).count();
        cut = ((below + unit / 2) / unit).clamp(parts.div_ceil(8), parts - parts.div_ceil(8));
    }
    let cut = cut.clamp(1, parts - 1) * unit;
    keys.select_nth_unstable_by(cut, |a, b| a.0.total_cmp(&b.0));
    ids.iter_mut().zip(keys).for_each(|(id, key)| *id = key.1);
    let (left, right) = ids.split_at_mut(cut);
    let order = |ids: &mut [u32]| here.enter(|| order_by_splits(ids, points, width, here));
    if left.len() + right.len() > SERIAL {
        rayon::join(|| order(left), || order(right));
    } else {
        order_by_splits(left, points, width, here);
        order_by_splits(right, points, width, here);
    }
}

/// Points at regular steps.
fn some_points<'p>(ids: &[u32], points: &'p [f32], width: usize) -> Vec<&'p [f32]> {
    let step = ids.len().div_ceil(SPLIT_SAMPLE);
    ids.iter().step_by(step).map(|&id| &points[id as usize * width..][..width]).collect()
}

/// The column with the largest variance over some of the points.
fn widest_column(ids: &[u32], points: &[f32], width: usize) -> usize {
    let sample = some_points(ids, points, width);
    let variance = |j: usize| {
        let values = || sample.iter().map(|point| f64::from(point[j]));
        let mean = values().sum::<f64>() / sample.len() as f64;
        values().map(|y| (y - mean) * (y - mean)).sum::<f64>()
    };
    let variances: Vec<f64> = (0..width).map(variance).collect();
    (0..width).max_by(|&a, &b| variances[a].total_cmp(&variances[b])).unwrap_or(0)
}

/// Two clusters of some of the points, by Lloyd's algorithm: the direction from one center to the other, and the value
/// halfway between them.
fn separate(ids: &[u32], points: &[f32], width: usize) -> (Vec<f32>, f32) {
    let sample = some_points(ids, points, width);
    let sq_distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
    let farthest = |from: &[f32]| {
        let by_distance = |a: &&&[f32], b: &&&[f32]| sq_distance(a, from).total_cmp(&sq_distance(b, from));
        sample.iter().max_by(by_distance).map_or(from.to_vec(), |point| point.to_vec())
    };
    let first = farthest(sample[0]);
    let mut centers = [farthest(&first), first];
    for _ in 0..LLOYD {
        let mut sums = [vec![0f32; width], vec![0f32; width]];
        let mut counts = [0f32; 2];
        for point in &sample {
            let nearest = usize::from(sq_distance(point, &centers[1]) < sq_distance(point, &centers[0]));
            counts[nearest] += 1.0;
            sums[nearest].iter_mut().zip(*point).for_each(|(sum, y)| *sum += y);
        }
        for ((center, sum), count) in centers.iter_mut().zip(sums).zip(counts) {
            if count > 0.0 {
                *center = sum.iter().map(|s| s / count).collect();
            }
        }
    }
    let [a, b] = &centers;
    let direction: Vec<f32> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let threshold = direction.iter().zip(a.iter().zip(b)).map(|(d, (a, b))| 0.5 * d * (a + b)).sum();
    (direction, threshold)
}
