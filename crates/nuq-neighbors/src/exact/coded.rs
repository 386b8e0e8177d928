//! Comparison of many queries with all rows by their codes.

use std::ops::Range;

use super::ExactIndex;
use super::blocked::in_tasks;
use super::lanes::POINTS;
use super::rescaler::Rescaler;
use super::row_codes::{CodedBounds, Extent, QUERIES, QueryCodes, RowCodes, Scores};
use super::shortlist::{ExactDistance, Shortlist};
use crate::cancel::checkpoint;
use crate::neighbors::Neighbor;
use crate::{NeighborIndex, RowStorage};

/// Queries per task. A task reads the rows of a block from memory once.
const MAX_PER_TASK: usize = 256;
/// The codes of a block of rows have about this number of bytes. They are read once per eight queries, and stay in the cache
/// that all cores share.
const BLOCK_BYTES: usize = 1 << 22;
/// The largest number of groups of a block. Their scores stay in the cache of a core.
const MAX_GROUPS: usize = 256;
/// Queries longer than this after rescaling may have scores that overflow `f32`.
const MAX_NORM: f64 = 1e15;
/// The largest number of distances computed for a query is the number of rows divided by this number,
/// but at least `DISTANCES_PER_NEIGHBOR` per neighbor. A query that exceeds this limit is searched
/// without codes: the error of a score grows with the length of the query, so for a query far from
/// all rows, codes exclude few rows, and a matrix product is faster.
const ROWS_PER_DISTANCE: usize = 32;
const DISTANCES_PER_NEIGHBOR: usize = 16;

/// The nearest rows of each query (row-major), or `None` for queries whose codes exclude too few rows.
pub(super) fn search(
    index: &ExactIndex<'_>,
    rescaler: &Rescaler,
    codes: &RowCodes,
    queries: &[f32],
    k: usize,
    excluded: Option<&[u32]>,
) -> Vec<Option<Vec<Neighbor>>> {
    let max_distances = (index.len() / ROWS_PER_DISTANCE).max(DISTANCES_PER_NEIGHBOR * k);
    in_tasks(index.dim(), queries, excluded, MAX_PER_TASK, |block, excluded| {
        let rows = block.chunks_exact(index.dim());
        let coded = codes.encode(rows.clone(), rescaler);
        let queries = rows.enumerate().map(|(i, row)| {
            let excluded = excluded.map(|ids| ids[i]);
            let fits = rescaler.sq_norm(row) < MAX_NORM * MAX_NORM;
            Query {
                row: QueryRow { index, row, sq_unit: rescaler.sq_unit() },
                excluded,
                k,
                has_enough_groups: codes.groups() > k,
                max_distances,
                nearest: vec![],
                list: fits.then(|| Shortlist::new(k, excluded)),
            }
        });
        let mut queries: Vec<Query<'_>> = queries.collect();
        compare(codes, &coded, &mut queries);
        queries.into_iter().map(Query::finish).collect()
    })
}

struct Query<'b> {
    row: QueryRow<'b>,
    excluded: Option<u32>,
    k: usize,
    /// Whether there are more than k groups.
    has_enough_groups: bool,
    max_distances: usize,
    /// Upper bounds on the distances of the nearest rows of groups: the k smallest, and one more if a row is excluded.
    nearest: Vec<f64>,
    /// The candidates, with their distances as scores; `None` if codes exclude too few rows, or the query is too long for codes.
    list: Option<Shortlist>,
}

/// Compares all rows with all queries, and adds the candidates of each query to its list.
///
/// All scores of a block are computed before the first one is used: as soon as k groups were compared, the smallest scores
/// of the groups give a limit that few rows pass. Several times as many rows would become candidates if rows were added group
/// by group.
fn compare(codes: &RowCodes, coded: &QueryCodes, queries: &mut [Query<'_>]) {
    let size = (BLOCK_BYTES / codes.group_bytes()).clamp(1, MAX_GROUPS);
    let mut block = Block::new(size.min(codes.groups()));
    for first in (0..codes.groups()).step_by(size) {
        block.groups = first..codes.groups().min(first + size);
        let extent = codes.extent(block.groups.clone());
        // A query for which too many distances were computed no longer has a list. Another search answers it.
        let chosen = (0..queries.len() as u16).filter(|&query| queries[query as usize].list.is_some());
        for chosen in chosen.collect::<Vec<u16>>().chunks(QUERIES) {
            checkpoint();
            block.fill(codes, coded, chosen);
            for (place, &query) in chosen.iter().enumerate() {
                let bounds = Bounds { codes, coded, query: query as usize, extent };
                queries[query as usize].add(&block, place, &bounds);
            }
        }
    }
}

/// The scores of up to eight queries and the rows of consecutive groups.
struct Block {
    groups: Range<usize>,
    scores: Vec<Scores>,
    /// The smallest score of each group and query.
    smallest: Vec<[f32; QUERIES]>,
}

impl Block {
    fn new(groups: usize) -> Self {
        let scores = vec![[[0.0; POINTS]; QUERIES]; groups];
        Self { groups: 0..0, scores, smallest: vec![[0.0; QUERIES]; groups] }
    }

    /// Computes the scores of the chosen queries.
    fn fill(&mut self, codes: &RowCodes, coded: &QueryCodes, chosen: &[u16]) {
        let places = self.scores.iter_mut().zip(&mut self.smallest);
        for (group, (scores, smallest)) in self.groups.clone().zip(places) {
            *smallest = codes.scores(coded, chosen, group, scores);
        }
    }
}

/// The bounds on the distances between a query and the rows of a block.
struct Bounds<'c> {
    codes: &'c RowCodes,
    coded: &'c QueryCodes,
    query: usize,
    extent: Extent,
}

impl Bounds<'_> {
    /// Bounds that hold for all rows of the block.
    fn of_all(&self) -> CodedBounds {
        self.coded.bounds(self.query, self.extent)
    }

    fn of_group(&self, group: usize) -> CodedBounds {
        self.codes.bounds(self.coded, self.query, group)
    }
}

impl Query<'_> {
    /// Adds the rows of a block that are not provably farther than k other rows. `place` is the place of the query in the
    /// block.
    fn add(&mut self, block: &Block, place: usize, bounds: &Bounds<'_>) {
        let all = bounds.of_all();
        self.lower_limit(block, place, &all, bounds);
        let Some(list) = &mut self.list else { return };
        let (excluded, max_distances) = (self.excluded, self.max_distances);
        let mut limit = list.limit();
        let mut cutoff = all.cutoff(limit);
        let excludes_most_rows = self.row.with_exact_distances(|exact| {
            let places = block.scores.iter().zip(&block.smallest);
            for (group, (scores, smallest)) in block.groups.clone().zip(places) {
                if smallest[place] > cutoff {
                    continue;
                }
                let (scores, bounds) = (&scores[place], bounds.of_group(group));
                let mut near = at_most(scores, bounds.cutoff(limit));
                while near != 0 {
                    let at = near.trailing_zeros() as usize;
                    near &= near - 1;
                    let id = (group * POINTS + at) as u32;
                    if scores[at].is_finite() && Some(id) != excluded {
                        list.add(id, bounds.of(scores[at]), exact);
                    }
                }
                if list.distances() > max_distances {
                    return false;
                }
                if list.limit() < limit {
                    limit = list.limit();
                    cutoff = all.cutoff(limit);
                }
            }
            true
        });
        if !excludes_most_rows {
            self.list = None;
        }
    }

    /// Lowers the limit to the k-th smallest upper bound on the distances of the rows with the smallest score of each group, or
    /// to the next one if a row is excluded. These rows are distinct, because each group is in one block.
    fn lower_limit(&mut self, block: &Block, place: usize, all: &CodedBounds, bounds: &Bounds<'_>) {
        let (Some(list), true) = (&mut self.list, self.has_enough_groups) else { return };
        let cutoff = all.cutoff(list.limit());
        self.nearest.reserve_exact(block.groups.len());
        let smallest = block.groups.clone().zip(block.smallest.iter().map(|scores| scores[place]));
        let near = smallest.filter(|(_, score)| *score <= cutoff);
        self.nearest.extend(near.map(|(group, score)| bounds.of_group(group).of(score)[1]));
        // At most one of these rows is the excluded row.
        let count = self.k + usize::from(self.excluded.is_some());
        if self.nearest.len() >= count {
            list.lower_limit(*self.nearest.select_nth_unstable_by(count - 1, f64::total_cmp).1);
            self.nearest.truncate(count);
        }
    }

    fn finish(mut self) -> Option<Vec<Neighbor>> {
        checkpoint();
        let list = self.list.take()?;
        Some(self.row.with_exact_distances(|exact| list.finish(exact)))
    }
}

/// A query whose distances to rows can be computed.
struct QueryRow<'b> {
    index: &'b ExactIndex<'b>,
    row: &'b [f32],
    sq_unit: f64,
}

impl QueryRow<'_> {
    fn with_exact_distances<R>(&self, run: impl FnOnce(&ExactDistance<'_>) -> R) -> R {
        let (rows, dim) = (self.index.stored_rows(), self.row.len());
        let sq_distance = |id| rows.sq_distance(self.row, id);
        // The sum of d squares, its scaling and its root are rounded.
        let rounding = 1.0 + (dim as f64 + 16.0) * f64::EPSILON;
        let upper_score = |sq_distance: f64| (sq_distance * self.sq_unit).sqrt() * rounding;
        let prefetch = |id| rows.prefetch(id);
        run(&ExactDistance { sq_distance: &sq_distance, upper_score: &upper_score, prefetch: &prefetch })
    }
}

/// The scores that are at most the cutoff, one bit each.
fn at_most(scores: &[f32; POINTS], cutoff: f32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor supports AVX-512F, the only requirement of the function.
        return unsafe { at_most_avx512(scores, cutoff) };
    }
    at_most_any(scores, cutoff)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn at_most_avx512(scores: &[f32; POINTS], cutoff: f32) -> u32 {
    use std::arch::x86_64::{_CMP_LE_OQ, _mm512_cmp_ps_mask, _mm512_loadu_ps, _mm512_set1_ps};
    let half = |at: usize| {
        // SAFETY: a half has 16 scores.
        let scores = unsafe { _mm512_loadu_ps(scores[at..at + 16].as_ptr()) };
        u32::from(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(scores, _mm512_set1_ps(cutoff)))
    };
    half(0) | half(16) << 16
}

#[inline(always)]
fn at_most_any(scores: &[f32; POINTS], cutoff: f32) -> u32 {
    let mut near = 0;
    for (place, &score) in scores.iter().enumerate() {
        near |= u32::from(score <= cutoff) << place;
    }
    near
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embeddings, Pruning, SeededRng};

    /// Searches rows of several blocks by codes and by products, before and after rows are removed.
    fn assert_equal_neighbors(rows: usize, dim: usize) {
        let mut rng = SeededRng::new(6);
        let mut values: Vec<f32> = (0..rows * dim).map(|_| rng.normal() as f32).collect();
        // Duplicates in different blocks, and a long row with a large error.
        values.copy_within(0..30 * dim, (rows - 60) * dim);
        values[rows / 2 * dim] = 1e4;
        let rows = Embeddings::new(values, dim).unwrap();
        let ids: Vec<u32> = [rows.len() - 1, rows.len() - 59, rows.len() / 2, rows.len() - 10]
            .iter()
            .flat_map(|&id| [id as u32; 3])
            .collect();
        let queries = rows.gather(&ids);
        let index = |pruning| ExactIndex::new(&rows).unwrap().pruning(pruning);
        let (mut coded, mut all) = (index(Pruning::Codes), index(Pruning::Off));
        for is_removed in [false, true] {
            if is_removed {
                // All rows of the first block and some others.
                let removed = (0..rows.len() as u32)
                    .filter(|id| (*id < rows.len() as u32 * 45 / 100 || id % 9 == 0) && !ids.contains(id));
                let removed: Vec<u32> = removed.collect();
                coded.remove(&removed).unwrap();
                all.remove(&removed).unwrap();
            }
            for k in [1, 20, 400] {
                for excluded in [None, Some(&ids[..])] {
                    let found = coded.search_excluding(&queries, k, excluded).unwrap();
                    assert_eq!(found, all.search_excluding(&queries, k, excluded).unwrap(), "{dim} {k}");
                }
            }
        }
    }

    #[test]
    fn several_blocks_give_the_neighbors_of_products() {
        assert_equal_neighbors(20_000, 64);
        // With more columns, a block has fewer rows.
        assert_equal_neighbors(5000, 1024);
    }

    #[test]
    fn queries_far_from_all_rows_are_left_to_matrix_products() {
        const DIM: usize = 64;
        let mut rng = SeededRng::new(5);
        let mut draw = |rows: usize| -> Vec<f32> { (0..rows * DIM).map(|_| rng.normal() as f32).collect() };
        let rows = Embeddings::new(draw(6000), DIM).unwrap();
        let near = draw(9);
        let far: Vec<f32> = near.iter().map(|value| 1000.0 * value).collect();
        let index = ExactIndex::new(&rows).unwrap().pruning(Pruning::Codes);
        let (Some(codes), Some(rescaler)) = (index.codes(), index.rescaler()) else {
            return; // The processor has no instructions for codes.
        };
        let found = |queries: &[f32]| search(&index, rescaler, codes, queries, 5, None);
        assert!(found(&near).iter().all(Option::is_some));
        assert!(found(&far).iter().all(Option::is_none));

        let queries = Embeddings::new([near, far].concat(), DIM).unwrap();
        let expected = ExactIndex::new(&rows).unwrap().pruning(Pruning::Off).search(&queries, 5).unwrap();
        assert_eq!(index.search(&queries, 5).unwrap(), expected);
    }
}
