//! Decides by expected costs whether a partition (projected rows in nodes of near rows) is used, and on how many axes.
//!
//! Costs are seconds of one core. Only their ratios matter, which are similar on different processors. Some rows are
//! used as queries and compared with all rows. With at most `MAX_WALKED_WIDTH` columns, all axes are used if there is enough memory.
//! Otherwise the number of axes is chosen by the share of a sample of rows that the projection cannot exclude from the k nearest rows
//! of these queries. Then the same queries are searched in the partition itself. The partition is dropped if this search
//! does not take clearly less work than comparing all rows.
//!
//! The projection of a row is called its point. Groups are defined in [`partition`](super::partition), blocks in
//! [`lanes`](super::lanes).

use super::ExactIndex;
use super::axes::{Axes, Spectrum};
use super::codes::Codes;
use super::lanes::POINTS;
use super::partition::{MAX_WALKED_WIDTH, Partition};
use super::pruned::{self, Work};
use super::rescaler::Rescaler;
use super::row_codes::RowCodes;
use crate::choice::{all_codes_seconds, all_rows_seconds};
use crate::neighbors::Neighbor;
use crate::{NeighborIndex, OrderParts, RowStorage, SeededRng};

/// Numbers of axes that are considered in addition to all axes.
const COUNTS: [usize; 9] = [4, 8, 16, 24, 32, 48, 64, 96, 128];
/// The number of neighbors for which costs are estimated.
const K: usize = 20;
/// The number of rows that are used as queries.
const QUERIES: usize = 64;
const PER_TASK: usize = 16;
/// With fewer rows, comparing all of them takes microseconds.
const MIN_ROWS: usize = 2048;
/// The memory of a partition is at most this share of the memory of the rows plus this many bytes.
const MEMORY_SHARE: f64 = 0.1;
const MEMORY_BYTES: f64 = (64 << 20) as f64;
/// Up to this number of columns, the boxes of a partition exclude nearly all rows, for any distribution of the rows.
const FEW_COLUMNS: usize = 8;
/// A partition is used when its expected cost is below this share of the cost of comparing all rows.
const SHARE: f64 = 0.7;

/// Codes of the rows are added if the partition takes at most this memory. The codes take a quarter of the memory of
/// the rows.
const CODED_BYTES: f64 = (128 << 20) as f64;

/// The costs of one coordinate of a point, and of one block of points without its coordinates.
const COORDINATE: f64 = 3.3e-11;
const BLOCK: f64 = 12e-9;
/// The costs of one coordinate of a point, and of one group of points, if they are compared by codes.
const CODE: f64 = 9e-12;
const GROUP: f64 = 4e-9;
/// The costs of one row that is measured: per column, and for the access to memory.
const COLUMN: f64 = 2.2e-10;
const ROW: f64 = 90e-9;
/// The cost of one column of a group of rows that are compared by codes.
const CODED_COLUMN: f64 = 2.5e-10;
/// The cost of the projection of a query per column and axis, and the other costs of one query.
const PROJECTION: f64 = 5e-11;
const QUERY: f64 = 6e-6;
/// The costs of a search in the hierarchy of boxes: of one block of boxes or points, of one of its columns, and of
/// one query. A block costs more than above, because it is read for one query only.
const WALK_BLOCK: f64 = 43e-9;
const WALK_COLUMN: f64 = 1.7e-9;
const WALK_QUERY: f64 = 3.4e-7;
/// The expected number of blocks that a query reads, with two columns and a million rows, and its factor per further
/// column. The expected number is proportional to a power of the number of rows; the last constant times the number of columns is the
/// exponent. The measured number for uniform or clustered rows differs from the expected number by a factor of up to 1.6.
const WALK_BLOCKS: f64 = 8.4;
const WALK_BLOCKS_FACTOR: f64 = 1.71;
const WALK_BLOCKS_EXPONENT: f64 = 0.03;

/// The expected time of building a partition.
pub(super) fn build_seconds(rows: usize, dim: usize) -> f64 {
    let (rows, columns) = (rows as f64, dim as f64);
    if dim <= MAX_WALKED_WIDTH {
        return 0.004 + rows * (1.4e-7 + 4.7e-8 * columns);
    }
    0.05 + 4e-4 * columns + rows * (8e-9 * columns + 6e-7)
}

/// The expected time of building a partition from a recorded order: rows are projected and coded, but not ordered.
pub(super) fn restore_seconds(rows: usize, dim: usize) -> f64 {
    0.5 * build_seconds(rows, dim)
}

/// The memory of a partition of this many rows of `dim` columns with `count` axes: points, boxes and ids, and codes unless the
/// hierarchy of boxes is searched.
fn partition_bytes(rows: usize, dim: usize, count: usize) -> f64 {
    let is_walked = count == dim && dim <= MAX_WALKED_WIDTH;
    rows as f64 * if is_walked { 4.3 * count as f64 + 8.5 } else { 5.8 * (count + 2) as f64 }
}

/// Whether a partition of this many rows with `count` axes is within the limit of its memory.
fn fits_memory(rows: usize, dim: usize, count: usize) -> bool {
    partition_bytes(rows, dim, count) <= MEMORY_SHARE * 4.0 * (rows * dim) as f64 + MEMORY_BYTES
}

/// The expected time of building a partition and of searching it, with at most [`FEW_COLUMNS`] columns; `None` with more
/// columns, because the time then depends on the rows, and `None` with too few rows or beyond the limit of the memory.
pub(crate) fn few_columns_seconds(rows: usize, dim: usize, queries: u64, k: usize) -> Option<f64> {
    let is_used = (MIN_ROWS..).contains(&rows) && dim <= FEW_COLUMNS && fits_memory(rows, dim, dim);
    let exponent = WALK_BLOCKS_EXPONENT * dim as f64;
    let blocks = WALK_BLOCKS * WALK_BLOCKS_FACTOR.powf(dim as f64 - 2.0) * (rows as f64 / 1e6).powf(exponent);
    let query = WALK_QUERY + K as f64 * row_seconds(dim) + blocks * walk_block_seconds(dim);
    let query = query * (k as f64 / K as f64).max(1.0);
    is_used.then(|| build_seconds(rows, dim) + queries as f64 * query)
}

/// The expected time of measuring one row.
fn row_seconds(dim: usize) -> f64 {
    COLUMN * dim as f64 + ROW
}

/// The expected time of one block in the hierarchy of boxes.
fn walk_block_seconds(width: usize) -> f64 {
    WALK_BLOCK + WALK_COLUMN * width as f64
}

/// The partition of an index; `None` if it is not expected to save time or cannot be computed.
pub(super) fn plan(index: &ExactIndex<'_>, rescaler: &Rescaler) -> Option<Partition> {
    let rows = index.stored_rows();
    if index.len() < MIN_ROWS {
        return None;
    }
    let spectrum = Spectrum::of(rows, rescaler)?;
    let left_out = LeftOut::new(index, rescaler, &spectrum);
    let (len, dim) = (index.len(), index.dim());
    let count = if dim <= MAX_WALKED_WIDTH && fits_memory(len, dim, dim) {
        dim
    } else {
        let (seconds, count) = cheapest(&spectrum, &left_out, len, dim);
        (seconds <= all_rows_seconds_of_query(index)).then_some(count)?
    };
    let axes = spectrum.axes(count, rescaler);
    // The samples of the spectrum take memory.
    drop(spectrum);
    let mut partition = Partition::new(rows, axes)?;
    add_row_codes(&mut partition, index, rescaler, count);
    saves_time(index, &partition, &left_out.rows, &left_out.ids).then_some(partition)
}

/// The expected time of comparing one query with all rows.
fn all_rows_seconds_of_query(index: &ExactIndex<'_>) -> f64 {
    let compare_all = if RowCodes::are_supported(index.dim()) { all_codes_seconds } else { all_rows_seconds };
    compare_all(index.len(), index.dim(), 1, K)
}

/// Whether searches in a partition take clearly less work than comparing all rows. `ids` are the ids of the rows `queries`.
fn saves_time(index: &ExactIndex<'_>, partition: &Partition, queries: &[f32], ids: &[u32]) -> bool {
    let all_rows = all_rows_seconds_of_query(index);
    // The decision must not depend on the number of threads, so the number of queries per task does not.
    let (found, work) = pruned::search_in_tasks(index, partition, (queries, PER_TASK), K, Some(ids));
    let without_result = found.iter().filter(|nearest| nearest.is_none()).count();
    let seconds = work_seconds(&work, partition, index.dim()) + without_result as f64 * all_rows;
    seconds < SHARE * all_rows * ids.len() as f64
}

/// The partition with a recorded order; `None` if it cannot be computed or does not save time, for example because most rows were replaced.
pub(super) fn restore(
    index: &ExactIndex<'_>,
    rescaler: &Rescaler,
    order: &OrderParts<'_>,
) -> Option<Partition> {
    if index.len() < MIN_ROWS {
        return None;
    }
    let partition = ordered_partition(index, rescaler, order)?;
    let live = index.rows().live_ids();
    let ids: Vec<u32> =
        SeededRng::new(0).sample(live.len(), QUERIES).into_iter().map(|at| live[at as usize]).collect();
    let queries: Vec<f32> = ids.iter().flat_map(|&id| index.stored_rows().row(id).into_owned()).collect();
    saves_time(index, &partition, &queries, &ids).then_some(partition)
}

/// The partition with a recorded order; `None` if the order or its axes are not valid for the rows of the index.
pub(super) fn ordered_partition(
    index: &ExactIndex<'_>,
    rescaler: &Rescaler,
    order: &OrderParts<'_>,
) -> Option<Partition> {
    let count = order.axes.len() / index.dim();
    if !fits_memory(index.len(), index.dim(), count) {
        return None;
    }
    let axes = Axes::new(order.axes.to_vec(), rescaler);
    if !axes.are_orthonormal() {
        return None;
    }
    let mut partition = Partition::restored(index.stored_rows(), axes, order)?;
    add_row_codes(&mut partition, index, rescaler, count);
    Some(partition)
}

/// Adds the codes of the rows to a partition with `count` axes, if there is enough memory.
fn add_row_codes(partition: &mut Partition, index: &ExactIndex<'_>, rescaler: &Rescaler, count: usize) {
    if partition_bytes(index.len(), index.dim(), count) <= CODED_BYTES {
        partition.add_row_codes(index.stored_rows(), rescaler);
    }
}

/// Rows that are used as queries. They were left out of the computation of the axes.
struct LeftOut {
    /// Their indices in the sample of the spectrum.
    places: Vec<usize>,
    ids: Vec<u32>,
    rows: Vec<f32>,
    /// The rescaled squared distances to their k-th neighbors.
    sq_radii: Vec<f64>,
}

impl LeftOut {
    fn new(index: &ExactIndex<'_>, rescaler: &Rescaler, spectrum: &Spectrum) -> Self {
        let places: Vec<usize> =
            (0..spectrum.ids.len()).step_by(spectrum.ids.len().div_ceil(QUERIES)).collect();
        let ids: Vec<u32> = places.iter().map(|&place| spectrum.ids[place]).collect();
        let rows: Vec<f32> = ids.iter().flat_map(|&id| index.stored_rows().row(id).into_owned()).collect();
        let nearest = index.search_all(&rows, K, Some(&ids));
        let sq_radius = |nearest: &Vec<Neighbor>| nearest.last().map_or(f64::INFINITY, |neighbor| neighbor.0);
        let sq_radii = nearest.iter().map(|nearest| sq_radius(nearest) * rescaler.sq_unit()).collect();
        Self { places, ids, rows, sq_radii }
    }
}

fn work_seconds(work: &Work, partition: &Partition, dim: usize) -> f64 {
    let (queries, rows) = (work.queries as f64, work.rows as f64 * row_seconds(dim));
    let projection = PROJECTION * (dim * partition.width()) as f64;
    if partition.is_walked() {
        let blocks = work.blocks as f64 * walk_block_seconds(partition.width());
        return queries * (WALK_QUERY + projection) + blocks + rows;
    }
    let block = COORDINATE * (POINTS * partition.width()) as f64 + BLOCK;
    let per_query = QUERY + projection + 4.0 * COORDINATE * (partition.nodes() * partition.width()) as f64;
    let group = CODE * (POINTS * partition.width()) as f64 + GROUP;
    let blocks = work.blocks as f64 * block + work.coded_groups as f64 * group;
    let coded_rows = work.coded_row_groups as f64 * CODED_COLUMN * dim as f64;
    blocks + coded_rows + rows + queries * per_query
}

/// The lowest expected cost of one query and its number of axes. The estimate assumes that boxes exclude no block.
fn cheapest(spectrum: &Spectrum, left_out: &LeftOut, rows: usize, dim: usize) -> (f64, usize) {
    let (len, all) = (spectrum.sample.nrows(), spectrum.count());
    let mut counts: Vec<usize> = COUNTS.into_iter().filter(|&count| count < all).collect();
    counts.push(if all == dim { dim } else { *COUNTS.last().expect("some counts").min(&all) });
    counts.dedup();
    counts.retain(|&count| fits_memory(rows, dim, count));

    let sq = |i: usize| spectrum.sample.row(i).squared_norm_l2();
    let norms: Vec<f64> = (0..len).map(sq).collect();
    // For each number of axes, the share of rows whose lower bound is at most the distance of the k-th nearest row.
    let mut near = vec![0f64; all + 1];
    for (&i, &radius) in left_out.places.iter().zip(&left_out.sq_radii) {
        for j in (0..len).filter(|&j| j != i) {
            let (mut inside, mut rest) = (0.0, [norms[i], norms[j]]);
            for (count, near) in near.iter_mut().enumerate() {
                if inside > radius {
                    break;
                }
                // Only these numbers of axes are used below.
                if count % 8 == 0 || count == all || COUNTS.contains(&count) {
                    let outside = rest[0].max(0.0).sqrt() - rest[1].max(0.0).sqrt();
                    *near += f64::from(u8::from(inside + outside * outside <= radius));
                }
                if count < all {
                    let (a, b) = (spectrum.projected[(i, count)], spectrum.projected[(j, count)]);
                    inside += (a - b) * (a - b);
                    rest = [rest[0] - a * a, rest[1] - b * b];
                }
            }
        }
    }
    near.iter_mut().for_each(|n| *n /= (left_out.ids.len() * (len - 1)).max(1) as f64);
    let cost = |count: usize| {
        // Near points are together in few blocks. The comparison with a block ends when none of its points is near.
        let share_of_blocks = |near: f64| 1.0 - (1.0 - near).powi(8);
        let row = row_seconds(dim);
        let point = if Codes::are_supported(count + 1) {
            let coded = CODE * (count + 1) as f64 + GROUP / POINTS as f64;
            coded + share_of_blocks(near[count]) * (count + 1) as f64 * COORDINATE
        } else {
            (0..=count).map(|c| share_of_blocks(near[c / 8 * 8])).sum::<f64>() * COORDINATE
        };
        rows as f64 * (point + near[count] * row) + QUERY
    };
    let best = counts.into_iter().map(|count| (cost(count), count));
    best.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embeddings, SeededRng};

    /// With few rows per cluster, the sample of a spectrum has no near neighbor for most of its rows.
    #[test]
    fn many_small_clusters_have_a_partition() {
        const CLUSTERS: usize = 800;
        let (rows, dim) = (25 * CLUSTERS, 128);
        let mut rng = SeededRng::new(1);
        let centers: Vec<f32> = (0..CLUSTERS * 24).map(|_| rng.normal() as f32).collect();
        let axes: Vec<f32> = (0..24 * dim).map(|_| rng.normal() as f32).collect();
        let mut values = vec![0f32; rows * dim];
        for (row, values) in values.chunks_exact_mut(dim).enumerate() {
            let center = &centers[row % CLUSTERS * 24..][..24];
            for (c, axis) in center.iter().zip(axes.chunks_exact(dim)) {
                let coordinate = c + 0.3 * rng.normal() as f32;
                values.iter_mut().zip(axis).for_each(|(y, a)| *y += coordinate * a);
            }
        }
        let index = ExactIndex::new(&Embeddings::new(values, dim).unwrap()).unwrap();
        let rescaler = index.rescaler().expect("rows in the range of f32");
        assert!(plan(&index, rescaler).is_some());
    }
}
