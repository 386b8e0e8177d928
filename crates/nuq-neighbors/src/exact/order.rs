//! The order of rows in a partition: consecutive rows have points that are near each other.

use rayon::prelude::*;

use super::centers::Centers;
use super::lanes::{BOXES, POINTS};
use super::partition::NODE;
use crate::SeededRng;
use crate::cancel::{Checkpoint, checkpoint};

/// The direction of a split is computed from at most this many rows of the set.
const SPLIT_SAMPLE: usize = 128;
/// Iterations of Lloyd's algorithm.
const LLOYD: usize = 4;
/// Up to this number of columns, rows are always split at medians.
const MAX_MEDIAN_WIDTH: usize = 8;
/// Rows per cell (a set of near points), and the largest number of cells. The number of cells is limited because every row is compared
/// with the center of every cell.
const ROWS_PER_CELL: usize = 64;
const MAX_CELLS: usize = 1024;
/// The centers are computed from a sample with this many rows per cell.
const SAMPLE_PER_CELL: usize = 8;
/// Rows that are compared with the centers in one task.
const ROWS_PER_TASK: usize = 256;
/// Sets of at most this many rows are ordered by one thread.
const SERIAL: usize = 16 * NODE;
/// Splits are at positions that are multiples of one of these units (largest first): the first unit with a multiple
/// between the first and the last position of the set. Boxes begin and end at such multiples, so boxes of all levels have
/// little overlap.
const ROW_UNITS: [usize; 5] = [BOXES.pow(3) * NODE, BOXES.pow(2) * NODE, BOXES * NODE, NODE, POINTS];
/// The units of rows inside a cell.
const INNER_UNITS: [usize; 2] = [NODE, POINTS];
/// Cells, which are ordered by their centers, can be split at every position.
const CELL_UNITS: [usize; 1] = [1];

/// How a set of rows is split.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Splits {
    /// At the median of the widest column, which gives boxes without overlap.
    Medians,
    /// Between clusters. With many columns, a plane through a median would cut clusters.
    Clusters,
}

/// Points in row-major order.
#[derive(Clone, Copy)]
pub(super) struct Points<'p> {
    pub(super) values: &'p [f32],
    pub(super) width: usize,
}

impl<'p> Points<'p> {
    pub(super) fn get(self, id: u32) -> &'p [f32] {
        &self.values[id as usize * self.width..][..self.width]
    }
}

/// Orders the ids of points. Returns the positions at which the cells (sets of near points) begin, in ascending order.
/// With median splits, or with fewer than two cells, the result is `[0]`.
pub(super) fn order_rows(ids: &mut [u32], points: Points<'_>, splits: Splits) -> Vec<usize> {
    let here = Checkpoint::current();
    let count = (ids.len() / ROWS_PER_CELL).min(MAX_CELLS);
    let splits = if points.width <= MAX_MEDIAN_WIDTH { Splits::Medians } else { splits };
    if splits == Splits::Medians || count < 2 {
        order_by_splits(ids, 0, points, (splits, &ROW_UNITS), &here);
        return vec![0];
    }
    let centers = cell_centers(ids, points, count);
    let center_points = Points { values: &centers, width: points.width };
    let cells = nearest_cells(ids, points, center_points);
    let mut rank = vec![0u32; count];
    let mut order: Vec<u32> = (0..count as u32).collect();
    order_by_splits(&mut order, 0, center_points, (splits, &CELL_UNITS), &here);
    (0..).zip(&order).for_each(|(at, &cell)| rank[cell as usize] = at);
    let mut ranked: Vec<(u32, u32)> =
        ids.iter().zip(cells).map(|(&id, cell)| (rank[cell as usize], id)).collect();
    ranked.sort_unstable();
    ids.iter_mut().zip(&ranked).for_each(|(id, ranked)| *id = ranked.1);

    let mut starts = Vec::with_capacity(count);
    let mut sets = Vec::with_capacity(count);
    let mut rest = ids;
    let mut start = 0;
    for members in ranked.chunk_by(|a, b| a.0 == b.0) {
        let (set, after) = rest.split_at_mut(members.len());
        starts.push(start);
        sets.push((start, set));
        start += members.len();
        rest = after;
    }
    sets.into_par_iter().for_each(|(start, set)| {
        here.enter(|| order_by_splits(set, start, points, (splits, &INNER_UNITS), &here))
    });
    starts
}

/// The centers of cells (row-major), by Lloyd's algorithm over a sample.
fn cell_centers(ids: &[u32], points: Points<'_>, count: usize) -> Vec<f32> {
    let width = points.width;
    let sample = SeededRng::new(0).sample(ids.len(), SAMPLE_PER_CELL * count);
    let sample: Vec<u32> = sample.into_iter().map(|at| ids[at as usize]).collect();
    let first = sample.iter().step_by(sample.len() / count).take(count);
    let mut centers: Vec<f32> = first.flat_map(|&id| points.get(id)).copied().collect();
    for _ in 0..LLOYD {
        let cells = nearest_cells(&sample, points, Points { values: &centers, width });
        let mut sums = vec![0f32; count * width];
        let mut counts = vec![0f32; count];
        for (&id, cell) in sample.iter().zip(cells) {
            counts[cell as usize] += 1.0;
            let sum = &mut sums[cell as usize * width..][..width];
            sum.iter_mut().zip(points.get(id)).for_each(|(sum, y)| *sum += y);
        }
        let each = centers.chunks_exact_mut(width).zip(sums.chunks_exact(width)).zip(&counts);
        for ((center, sum), &count) in each.filter(|(_, count)| **count > 0.0) {
            center.iter_mut().zip(sum).for_each(|(center, sum)| *center = sum / count);
        }
    }
    centers
}

/// For each point, the index of its nearest center.
fn nearest_cells(ids: &[u32], points: Points<'_>, centers: Points<'_>) -> Vec<u32> {
    let mut blocks = Centers::new(points.width);
    centers.values.chunks_exact(points.width).for_each(|center| blocks.push(center));
    let here = Checkpoint::current();
    let mut cells = vec![0u32; ids.len()];
    cells.par_chunks_mut(ROWS_PER_TASK).zip(ids.par_chunks(ROWS_PER_TASK)).for_each(|(cells, ids)| {
        here.check();
        let mut distances = vec![];
        for (cell, &id) in cells.iter_mut().zip(ids) {
            *cell = blocks.nearest(points.get(id), &mut distances) as u32;
        }
    });
    cells
}

/// Orders ids by recursive splits. Each split is along one direction, at a multiple of one of the units. The first id
/// is at position `start`.
fn order_by_splits(
    ids: &mut [u32],
    start: usize,
    points: Points<'_>,
    (splits, units): (Splits, &[usize]),
    here: &Checkpoint,
) {
    let Some((unit, first, last)) = units.iter().find_map(|&unit| {
        let (first, last) = (start / unit + 1, (start + ids.len()).saturating_sub(1) / unit);
        (first <= last).then_some((unit, first, last))
    }) else {
        return;
    };
    checkpoint();
    let mut keys: Vec<(f32, u32)>;
    let cut;
    if splits == Splits::Medians {
        let column = widest_column(ids, points);
        keys = ids.iter().map(|&id| (points.get(id)[column], id)).collect();
        cut = (first + last) / 2;
    } else {
        let (direction, threshold) = separate(ids, points);
        let key = |id: u32| points.get(id).iter().zip(&direction).map(|(y, d)| y * d).sum::<f32>();
        keys = ids.iter().map(|&id| (key(id), id)).collect();
        let below = keys.iter().filter(|key| key.0 < threshold).count();
        let margin = (last - first) / 8;
        cut = ((start + below + unit / 2) / unit).clamp(first + margin, last - margin);
    }
    let cut = cut * unit - start;
    keys.select_nth_unstable_by(cut, |a, b| a.0.total_cmp(&b.0));
    ids.iter_mut().zip(keys).for_each(|(id, key)| *id = key.1);
    let (left, right) = ids.split_at_mut(cut);
    let order =
        |ids: &mut [u32], start| here.enter(|| order_by_splits(ids, start, points, (splits, units), here));
    if left.len() + right.len() > SERIAL {
        rayon::join(|| order(left, start), || order(right, start + cut));
    } else {
        order_by_splits(left, start, points, (splits, units), here);
        order_by_splits(right, start + cut, points, (splits, units), here);
    }
}

/// A sample of the points, at regular steps.
fn some_points<'p>(ids: &[u32], points: Points<'p>) -> Vec<&'p [f32]> {
    let step = ids.len().div_ceil(SPLIT_SAMPLE);
    ids.iter().step_by(step).map(|&id| points.get(id)).collect()
}

/// The column with the largest variance over some of the points.
fn widest_column(ids: &[u32], points: Points<'_>) -> usize {
    let sample = some_points(ids, points);
    let variance = |j: usize| {
        let values = || sample.iter().map(|point| f64::from(point[j]));
        let mean = values().sum::<f64>() / sample.len() as f64;
        values().map(|y| (y - mean) * (y - mean)).sum::<f64>()
    };
    let variances: Vec<f64> = (0..points.width).map(variance).collect();
    (0..points.width).max_by(|&a, &b| variances[a].total_cmp(&variances[b])).unwrap_or(0)
}

/// Separates a sample of the points into two clusters by Lloyd's algorithm. Returns the direction from one center to
/// the other, and the projection of the midpoint of both centers onto this direction.
fn separate(ids: &[u32], points: Points<'_>) -> (Vec<f32>, f32) {
    let sample = some_points(ids, points);
    let sq_distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
    let farthest = |from: &[f32]| {
        let by_distance = |a: &&&[f32], b: &&&[f32]| sq_distance(a, from).total_cmp(&sq_distance(b, from));
        sample.iter().max_by(by_distance).map_or(from.to_vec(), |point| point.to_vec())
    };
    let first = farthest(sample[0]);
    let mut centers = [farthest(&first), first];
    for _ in 0..LLOYD {
        let mut sums = [vec![0f32; points.width], vec![0f32; points.width]];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_cluster_are_consecutive() {
        const CLUSTERS: usize = 50;
        let (width, rows) = (16, 100 * CLUSTERS);
        let mut rng = SeededRng::new(1);
        let centers: Vec<f64> = (0..CLUSTERS * width).map(|_| 10.0 * rng.normal()).collect();
        let mut values = Vec::with_capacity(rows * width);
        for row in 0..rows {
            let center = &centers[row % CLUSTERS * width..][..width];
            values.extend(center.iter().map(|c| (c + rng.normal()) as f32));
        }
        let mut ids: Vec<u32> = (0..rows as u32).collect();
        let starts = order_rows(&mut ids, Points { values: &values, width }, Splits::Clusters);
        let changes =
            ids.windows(2).filter(|pair| pair[0] as usize % CLUSTERS != pair[1] as usize % CLUSTERS);
        assert!(changes.count() < 2 * CLUSTERS);
        assert!(starts.is_sorted() && starts[0] == 0 && starts.len() > CLUSTERS / 2);
        ids.sort_unstable();
        assert_eq!(ids, (0..rows as u32).collect::<Vec<_>>());
    }

    #[test]
    fn splits_are_between_groups() {
        let mut rng = SeededRng::new(1);
        let values: Vec<f32> = (0..1000).map(|_| rng.uniform() as f32).collect();
        let points = Points { values: &values, width: 1 };
        // A group has POINTS = 32 positions. The first id is at position 20, so the first group contains the first twelve
        // ids.
        let mut ids: Vec<u32> = (0..1000).collect();
        order_by_splits(&mut ids, 20, points, (Splits::Medians, &ROW_UNITS), &Checkpoint::current());
        let groups = std::iter::once(&ids[..12]).chain(ids[12..].chunks(POINTS));
        let ends: Vec<[f32; 2]> = groups
            .map(|group| {
                let values = || group.iter().map(|&id| values[id as usize]);
                [values().fold(f32::INFINITY, f32::min), values().fold(f32::NEG_INFINITY, f32::max)]
            })
            .collect();
        assert!(ends.windows(2).all(|pair| pair[0][1] <= pair[1][0]), "{ends:?}");
    }
}
