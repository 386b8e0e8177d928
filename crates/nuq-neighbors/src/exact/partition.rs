//! Projected rows, ordered into nodes of near rows, with bounding boxes.

use rayon::prelude::*;

use super::axes::{Axes, MAX_AXES};
use super::boxes::{Boxes, empty_boxes, include_point};
use super::centers::Centers;
use super::codes::Codes;
use super::lanes::{BOXES, Node, POINTS, box_distances};
use super::order::{Points, Splits, order_rows};
use super::rescaler::Rescaler;
use super::row_codes::RowCodes;
use crate::cancel::ParallelCheckpoints;
use crate::{OrderParts, RowStorage, StoredRows};

/// The points of all rows: their projections onto the axes.
///
/// Rows are ordered so that consecutive rows are near each other (see [`order`](super::order)). 32 consecutive points form
/// a group, and 16 groups form a node. Inserted rows are appended to the last node.
pub(super) struct Partition {
    axes: Axes,
    /// The id at each position; [`NO_ROW`] for positions without a row.
    ids: Vec<u32>,
    /// The position of each id; [`NO_ROW`] for ids without one.
    positions: Vec<u32>,
    /// The number of positions in use, including those of removed rows.
    used: usize,
    /// The number of rows that were ordered by their points. The rows after them are in the order of their insertion.
    ordered: usize,
    /// Blocks of points, one per group. Positions without a row are infinitely far away.
    points: Vec<f32>,
    boxes: Boxes,
    /// The codes of the points.
    codes: Option<Codes>,
    /// Sets of consecutive groups with near points, each within one node: the first group and the center of each set.
    first_groups: Vec<u32>,
    centers: Centers,
    /// The codes of the rows in the order of their positions.
    row_codes: Option<RowCodes>,
    /// The largest rounding error of a point of each node.
    errors: Vec<f32>,
}

/// Rows per node.
pub(super) const NODE: usize = POINTS * BOXES;
/// Up to this number of columns, few boxes are near a query, and each query is searched on its own.
pub(super) const MAX_WALKED_WIDTH: usize = 16;
/// The id of a position without a row.
pub(super) const NO_ROW: u32 = u32::MAX;

impl Partition {
    /// Projects and orders all rows; `None` if a row is outside the range of `f32` after rescaling.
    pub(super) fn new(rows: &StoredRows<'_>, axes: Axes) -> Option<Self> {
        let (points, errors) = project(rows, &axes)?;
        let mut order: Vec<u32> = rows.live_ids();
        let splits = if is_walked(&axes) { Splits::Medians } else { Splits::Clusters };
        let starts = order_rows(&mut order, Points { values: &points, width: axes.width() }, splits);
        Some(Self::pack(axes, order, &starts, &points, &errors))
    }

    /// Projects all rows and puts them into a recorded order. `None` if a row is outside the range of `f32` after rescaling, if an id
    /// of the order is repeated or out of range, or if the order has fewer than half of the rows.
    pub(super) fn restored(rows: &StoredRows<'_>, axes: Axes, order: &OrderParts<'_>) -> Option<Self> {
        let mut is_ordered = vec![false; rows.id_bound()];
        for &id in order.ids.iter() {
            let is_repeated = std::mem::replace(is_ordered.get_mut(id as usize)?, true);
            if is_repeated {
                return None;
            }
        }
        let mut ids: Vec<u32> = order.ids.iter().copied().filter(|&id| rows.contains(id)).collect();
        let ordered = ids.len();
        // Rows that were inserted later are appended, as `append` does.
        ids.extend(rows.live_ids().into_iter().filter(|&id| !is_ordered[id as usize]));
        let starts: Vec<usize> = order.starts.iter().map(|&start| start as usize).collect();
        let (points, errors) = project(rows, &axes)?;
        let mut partition = Self::pack(axes, ids, &starts, &points, &errors);
        partition.ordered = ordered;
        partition.is_ordered(rows.len()).then_some(partition)
    }

    /// The axes and the order of the rows.
    pub(super) fn order(&self) -> OrderParts<'static> {
        let ids: Vec<u32> = self.ids.iter().copied().filter(|&id| id != NO_ROW).collect();
        let starts: Vec<u32> = self.first_groups.iter().map(|group| group * POINTS as u32).collect();
        OrderParts { axes: self.axes.basis().to_vec().into(), ids: ids.into(), starts: starts.into() }
    }

    /// Writes the points into groups and nodes. `ids` is the order of the rows, and `starts` has the positions at which sets of near points
    /// begin. `rows` has the point of each id, and `row_errors` its rounding error.
    fn pack(axes: Axes, mut ids: Vec<u32>, starts: &[usize], rows: &[f32], row_errors: &[f32]) -> Self {
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
                    include_point(boxes, place / POINTS, point, row_errors[id as usize]);
                    *error = error.max(row_errors[id as usize]);
                }
            });
        let points_of_rows = Points { values: rows, width };
        let (mut first_groups, mut centers) = (vec![], Centers::new(width));
        // A set begins at the group boundary nearest to its first row. A new set begins at each node.
        let groups = used.div_ceil(POINTS);
        let begins = starts.iter().map(|start| (start + POINTS / 2) / POINTS).filter(|&group| group < groups);
        let mut begins: Vec<usize> = begins.chain((0..groups).step_by(BOXES)).collect();
        begins.sort_unstable();
        begins.dedup();
        for (i, &first) in begins.iter().enumerate() {
            let end = begins.get(i + 1).map_or(used, |group| group * POINTS);
            first_groups.push(first as u32);
            centers.push(&mean(&ids[first * POINTS..end], points_of_rows));
        }
        let boxes = Boxes::new(group_boxes, width);
        let codes = if is_walked(&axes) { None } else { Codes::new(&points, boxes.of_groups(), width) };
        Self {
            axes,
            ids,
            positions,
            used,
            ordered: used,
            points,
            boxes,
            codes,
            first_groups,
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

    /// Whether each query is searched on its own in the hierarchy of boxes (see [`walk`](super::walk)).
    pub(super) fn is_walked(&self) -> bool {
        is_walked(&self.axes)
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.errors.len()
    }

    /// The largest rounding error of a point of a node.
    pub(super) fn error(&self, node: usize) -> f64 {
        f64::from(self.errors[node])
    }

    /// The id at a position, if it has a row.
    pub(super) fn id(&self, position: u32) -> Option<u32> {
        Some(self.ids[position as usize]).filter(|&id| id != NO_ROW)
    }

    pub(super) fn node(&self, node: usize) -> Node<'_> {
        let width = self.width();
        Node {
            boxes: self.boxes.block(0, node),
            points: &self.points[node * NODE * width..][..NODE * width],
            first: (node * NODE) as u32,
        }
    }

    pub(super) fn boxes(&self) -> &Boxes {
        &self.boxes
    }

    /// The block of the points of a group.
    #[inline(always)]
    pub(super) fn group(&self, group: usize) -> &[f32] {
        &self.points[group * POINTS * self.width()..][..POINTS * self.width()]
    }

    /// The position of the row with an id.
    pub(super) fn position(&self, id: u32) -> u32 {
        self.positions[id as usize]
    }

    /// Computes the codes of the rows, on processors with suitable instructions.
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
        box_distances(point, self.boxes.of_nodes(), distances);
    }

    /// The centers of the sets of near points.
    pub(super) fn centers(&self) -> &Centers {
        &self.centers
    }

    /// The node of a set of near points, and the groups of the set in it, one bit each.
    pub(super) fn groups_of(&self, set: usize) -> (usize, u16) {
        let first = self.first_groups[set] as usize;
        let end = self.first_groups.get(set + 1).map_or(self.nodes() * BOXES, |&group| group as usize);
        let node = first / BOXES;
        (
            node,
            (node * BOXES..(node + 1) * BOXES)
                .rev()
                .fold(0, |groups, group| groups << 1 | u16::from((first..end).contains(&group))),
        )
    }

    /// Appends rows. Returns false if one of them is outside the range of `f32`. Then no row is appended, and the caller must drop the
    /// partition.
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
            self.errors.push(0.0);
            self.first_groups.push((node * BOXES) as u32);
            self.centers.push(point);
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
        self.boxes.extend(self.used / POINTS, point, error);
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

    /// Whether at least half of the positions are ordered, and at least half have a row. `len` is the number of rows of
    /// the index.
    pub(super) fn is_ordered(&self, len: usize) -> bool {
        self.used <= 2 * self.ordered && self.used <= 2 * len
    }

    /// The number of positions in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

/// Whether the arrays of an order have possible lengths: as many axes as a [`Spectrum`](super::axes::Spectrum) may have, and at most one
/// position per id.
pub(super) fn fits_rows(order: &OrderParts<'_>, rows: &StoredRows<'_>) -> bool {
    let (count, rest) = (order.axes.len() / rows.dim(), order.axes.len() % rows.dim());
    rest == 0
        && (1..=rows.dim().min(MAX_AXES)).contains(&count)
        && order.ids.len() <= rows.id_bound()
        && order.starts.len() <= rows.id_bound()
}

/// The points of all rows and bounds on their rounding errors; `None` if a row is outside the range of `f32` after rescaling.
fn project(rows: &StoredRows<'_>, axes: &Axes) -> Option<(Vec<f32>, Vec<f32>)> {
    let (width, len) = (axes.width(), rows.id_bound());
    let mut points = vec![0f32; len * width];
    let mut errors = vec![0f32; len];
    let per_block = StoredRows::BLOCK;
    rows.par_blocks()
        .zip(points.par_chunks_mut(per_block * width))
        .zip(errors.par_chunks_mut(per_block))
        .for_each(|((block, points), errors)| axes.project(&block, points, errors));
    (!errors.contains(&f32::INFINITY)).then_some((points, errors))
}

fn is_walked(axes: &Axes) -> bool {
    axes.span_the_space() && axes.width() <= MAX_WALKED_WIDTH
}

/// Writes the point at a place of a node.
fn write_point(node: &mut [f32], place: usize, point: &[f32]) {
    let group = &mut node[place / POINTS * POINTS * point.len()..];
    for (column, &y) in group.chunks_exact_mut(POINTS).zip(point) {
        column[place % POINTS] = y;
    }
}

/// The mean of the points of some ids.
fn mean(ids: &[u32], points: Points<'_>) -> Vec<f32> {
    let mut mean = vec![0f32; points.width];
    for &id in ids {
        mean.iter_mut().zip(points.get(id)).for_each(|(sum, y)| *sum += y);
    }
    mean.iter_mut().for_each(|sum| *sum /= ids.len() as f32);
    mean
}

#[cfg(test)]
mod tests {
    use super::super::Pruning;
    use super::*;
    use crate::{Embeddings, ExactIndex, NeighborIndex, Precision, SeededRng};

    fn normal(rows: usize, dim: usize, seed: u64) -> Embeddings<'static> {
        let mut rng = SeededRng::new(seed);
        let values = (0..rows * dim).map(|i| (rng.normal() / (1 + i % dim) as f64) as f32);
        Embeddings::new(values.collect::<Vec<f32>>(), dim).unwrap()
    }

    /// The axes are orthonormal, but the order is random, and rows are removed, replaced and added before the order is used.
    #[test]
    fn neighbors_do_not_depend_on_the_order() {
        const ROWS: usize = 1500;
        for (dim, axes, precision, is_scaled) in [
            (3, 3, Precision::F32, false),
            (12, 12, Precision::F32, true),
            (12, 5, Precision::F16, false),
            (20, 20, Precision::F32, true),
            (70, 16, Precision::F16, true),
        ] {
            let (x, new, queries) = (normal(ROWS, dim, 1), normal(300, dim, 2), normal(100, dim, 3));
            let index = |pruning| {
                let mut rows = StoredRows::new(&x, precision).unwrap();
                if is_scaled {
                    rows = rows.scaled((0..dim).map(|j| 0.5 + j as f64).collect()).unwrap();
                }
                ExactIndex::from_rows(rows).pruning(pruning)
            };
            let ordered = index(Pruning::On(axes));
            let order = ordered.partition(1).unwrap().order();
            let mut rng = SeededRng::new(4);
            let mut ids = order.ids.to_vec();
            for last in (1..ids.len()).rev() {
                ids.swap(last, rng.below(last + 1));
            }
            let starts: Vec<u32> = (0..40).map(|_| rng.below(2 * ROWS) as u32).collect();
            let order = OrderParts { ids: ids.into(), starts: starts.into(), ..order };

            let mut restored = index(Pruning::On(axes)).with_order(order).unwrap();
            let mut all = index(Pruning::Off);
            let removed: Vec<u32> = (0..ROWS as u32).step_by(7).collect();
            for index in [&mut restored, &mut all] {
                index.remove(&removed).unwrap();
                index.insert(&new).unwrap();
                index.remove(&[3, ROWS as u32 + 2]).unwrap();
            }
            assert!(restored.search(&queries, 9).unwrap() == all.search(&queries, 9).unwrap(), "{dim}");
            assert!(restored.partition(1).is_some_and(|partition| partition.ordered < ROWS), "{dim}");
            let live = all.rows().live_ids();
            assert!(restored.leave_one_out(&live, 4).unwrap() == all.leave_one_out(&live, 4).unwrap());
        }
    }
}
