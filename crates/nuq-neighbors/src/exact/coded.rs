//! Comparison of many queries with all rows by codes of one byte per coordinate (see [`row_codes`](super::row_codes)). The codes are in
//! groups of 32 rows.

use std::ops::Range;

use super::ExactIndex;
use super::blocked::{LIST_BYTES, TaskSize, in_tasks};
use super::lanes::POINTS;
use super::nearest::Nearest;
use super::rescaler::Rescaler;
use super::row_codes::{Cutoffs, Extent, QUERIES, QueryBounds, QueryCodes, RowCodes, Scores};
use crate::NeighborIndex;
use crate::cancel::checkpoint;
use crate::neighbors::Neighbor;

/// Queries per task. A task reads the rows of a block from memory once.
const MAX_PER_TASK: usize = 256;
/// The codes of a block of rows have at most about this number of bytes. They are read once per eight queries, and stay in the
/// second-level cache of a core. The cache that all cores share is too slow for some processors.
const BLOCK_BYTES: usize = 1 << 20;
/// The largest number of groups of a block. Their scores stay in the cache of a core.
const MAX_GROUPS: usize = 256;
/// Queries longer than this after rescaling may have scores that overflow `f32`.
const MAX_NORM: f64 = 1e15;
/// The largest number of candidates of a query is the number of rows divided by this number, but at least
/// `CANDIDATES_PER_NEIGHBOR` per neighbor. A query with more candidates is searched without codes: the error of
/// a score grows with the length of the query, so for a query far from all rows, codes exclude few rows, and a matrix
/// product is faster.
const ROWS_PER_CANDIDATE: usize = 32;
const CANDIDATES_PER_NEIGHBOR: usize = 16;
/// While a candidate is measured (its distance is computed in `f64`), the candidate this many places after it is loaded into the cache.
const AHEAD: usize = 4;

/// The nearest rows of each query (row-major), or `None` for queries that are too long for codes or whose codes exclude too few rows.
pub(super) fn search(
    index: &ExactIndex<'_>,
    rescaler: &Rescaler,
    codes: &RowCodes,
    queries: &[f32],
    k: usize,
    excluded: Option<&[u32]>,
) -> Vec<Option<Vec<Neighbor>>> {
    let max_candidates = (index.len() / ROWS_PER_CANDIDATE).max(CANDIDATES_PER_NEIGHBOR * k);
    // The candidates of all queries of a task are in memory at the same time.
    let per_task = (LIST_BYTES / (size_of::<Scored>() * max_candidates)).clamp(QUERIES, MAX_PER_TASK);
    let size = TaskSize { max: per_task / QUERIES * QUERIES, multiple: QUERIES };
    in_tasks(index.dim(), queries, excluded, size, |block, excluded| {
        let rows = block.chunks_exact(index.dim());
        let coded = codes.encode(rows.clone(), rescaler);
        let queries = rows.enumerate().map(|(i, row)| Query {
            bounds: QueryBounds { codes, coded: &coded, query: i },
            excluded: excluded.map(|ids| ids[i]),
            k,
            max_candidates,
            limit: f64::INFINITY,
            smallest: Vec::with_capacity(MAX_GROUPS + k),
            candidates: Vec::with_capacity(16 * k),
            // The norm is NaN if the step of the query is outside the range of `f32`.
            is_abandoned: coded.norm(i).is_nan() || coded.norm(i) >= MAX_NORM,
            nearest: Nearest::new(index.stored_rows(), row, k),
            sq_unit: rescaler.sq_unit(),
            // The sum of d squares, its scaling and its root are rounded.
            rounding: 1.0 + (row.len() as f64 + 16.0) * f64::EPSILON,
        });
        let mut queries: Vec<Query<'_>> = queries.collect();
        compare(codes, &coded, &mut queries);
        queries.into_iter().map(Query::finish).collect()
    })
}

/// Compares all rows with all queries, and collects the candidates of each query.
///
/// All scores of a block are computed before the first one is used: as soon as k groups were compared, the smallest scores
/// of the groups give a limit that excludes most rows. Several times as many rows would become candidates if rows were added group
/// by group.
fn compare(codes: &RowCodes, coded: &QueryCodes, queries: &mut [Query<'_>]) {
    let size = (BLOCK_BYTES / codes.group_bytes()).clamp(1, MAX_GROUPS);
    let mut block = Block::new(size.min(codes.groups()));
    for first in (0..codes.groups()).step_by(size) {
        block.groups = first..codes.groups().min(first + size);
        block.extent = codes.extent(block.groups.clone());
        for (error, group) in block.errors.as_flattened_mut().iter_mut().zip(block.groups.clone()) {
            *error = codes.group_error(group);
        }
        let chosen = (0..queries.len() as u16).filter(|&query| !queries[query as usize].is_abandoned);
        for chosen in chosen.collect::<Vec<u16>>().chunks(QUERIES) {
            checkpoint();
            block.fill(codes, coded, chosen);
            for (place, &query) in chosen.iter().enumerate() {
                queries[query as usize].add(&block, place);
            }
        }
    }
}

/// The scores of up to eight queries and the rows of consecutive groups.
struct Block {
    groups: Range<usize>,
    /// The largest norm and error of the rows.
    extent: Extent,
    /// The largest error of the rows of each group, in chunks of 32 groups.
    errors: Vec<[f32; POINTS]>,
    scores: Vec<Scores>,
    /// For each query, the smallest score of each group, in chunks of 32 groups. Scores after the last group are NaN, which is never at most
    /// a cutoff, not even an infinite one.
    smallest: [Vec<[f32; POINTS]>; QUERIES],
}

impl Block {
    fn new(groups: usize) -> Self {
        let scores = vec![[[0.0; POINTS]; QUERIES]; groups];
        let smallest = std::array::from_fn(|_| vec![[f32::NAN; POINTS]; groups.div_ceil(POINTS)]);
        let errors = vec![[0.0; POINTS]; groups.div_ceil(POINTS)];
        Self { groups: 0..0, extent: Extent::default(), errors, scores, smallest }
    }

    /// Computes the scores of the chosen queries.
    fn fill(&mut self, codes: &RowCodes, coded: &QueryCodes, chosen: &[u16]) {
        for (at, (group, scores)) in self.groups.clone().zip(&mut self.scores).enumerate() {
            let smallest = codes.scores(coded, chosen, group, scores);
            for (of_query, smallest) in self.smallest.iter_mut().zip(smallest) {
                of_query[at / POINTS][at % POINTS] = smallest;
            }
        }
        // The last block has fewer groups than the others.
        for of_query in &mut self.smallest {
            of_query.as_flattened_mut()[self.groups.len()..].fill(f32::NAN);
        }
    }

    /// The numbers of the groups in the block whose smallest score is at most the cutoff, and these scores.
    fn near_groups(&self, place: usize, cutoffs: Cutoffs) -> impl Iterator<Item = (usize, f32)> {
        let chunks = self.smallest[place].iter().zip(&self.errors).enumerate();
        chunks.flat_map(move |(chunk, (smallest, errors))| {
            bits(cutoffs.near(smallest, errors)).map(move |at| (chunk * POINTS + at, smallest[at]))
        })
    }
}

/// A score and the number of a row or group, ordered by the score.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Scored(u64);

impl Scored {
    /// The upper half is an unsigned integer that grows with the score.
    fn new(score: f32, place: usize) -> Self {
        let bits = score.to_bits();
        let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        Self(u64::from(ordered) << 32 | place as u64)
    }

    fn score(self) -> f32 {
        let ordered = (self.0 >> 32) as u32;
        f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
    }

    fn place(self) -> usize {
        self.0 as u32 as usize
    }
}

struct Query<'b> {
    bounds: QueryBounds<'b>,
    excluded: Option<u32>,
    k: usize,
    max_candidates: usize,
    /// At least k rows are at most this far, after rescaling.
    limit: f64,
    /// Groups with the smallest scores: k, and one more if a row is excluded.
    smallest: Vec<Scored>,
    /// Rows that are not provably farther than k other rows.
    candidates: Vec<Scored>,
    /// Whether the query is not searched further, because codes exclude too few rows or the query is too long for codes.
    is_abandoned: bool,
    nearest: Nearest<'b>,
    /// The square of the factor by which distances are rescaled.
    sq_unit: f64,
    /// A factor that bounds the rounding of rescaled distances that are computed in `f64`.
    rounding: f64,
}

impl Query<'_> {
    /// Adds the rows of a block that are not provably farther than k other rows. `place` is the place of the query in the
    /// block.
    fn add(&mut self, block: &Block, place: usize) {
        self.lower_limit(block, place);
        let mut cutoffs = self.bounds.cutoffs(block.extent, self.limit);
        for (at, _) in block.near_groups(place, cutoffs) {
            let (group, scores) = (block.groups.start + at, &block.scores[at][place]);
            for at in bits(cutoffs.near(scores, self.bounds.codes.row_errors(group))) {
                let id = group * POINTS + at;
                if scores[at].is_finite() && self.excluded != Some(id as u32) {
                    self.candidates.push(Scored::new(scores[at], id));
                }
            }
            if self.candidates.len() > self.max_candidates + POINTS {
                self.drop_farther();
                if self.is_abandoned {
                    return;
                }
                cutoffs = self.bounds.cutoffs(block.extent, self.limit);
            }
        }
    }

    /// Lowers the limit to a bound on the distances of k rows: the rows with the smallest scores in the k groups with the smallest scores.
    /// These rows are distinct, because each group is in one block. If a row is excluded, one more group is used, because at most one of
    /// these rows is the excluded row.
    fn lower_limit(&mut self, block: &Block, place: usize) {
        let (first, cutoffs) = (block.groups.start, self.bounds.cutoffs(block.extent, self.limit));
        let near = block.near_groups(place, cutoffs);
        self.smallest.extend(near.map(|(at, score)| Scored::new(score, first + at)));
        let count = self.k + usize::from(self.excluded.is_some());
        if self.smallest.len() >= count {
            self.smallest.select_nth_unstable(count - 1);
            self.smallest.truncate(count);
            let farthest =
                self.smallest.iter().map(|group| self.bounds.of_group(group.place()).of(group.score())[1]);
            self.limit = farthest.fold(0.0, f64::max).min(self.limit);
        }
    }

    /// Drops the candidates that are provably farther than the k candidates with the smallest scores. If too many remain, the query is
    /// abandoned.
    fn drop_farther(&mut self) {
        let (nearest, ..) = self.candidates.select_nth_unstable(self.k);
        let upper = |row: &Scored| self.bounds.of_row(row.place()).of(row.score())[1];
        self.limit = nearest.iter().map(upper).fold(0.0, f64::max).min(self.limit);
        let (bounds, limit) = (self.bounds, self.limit);
        self.candidates.retain(|row| row.score() <= bounds.of_row(row.place()).cutoff(limit));
        self.is_abandoned = self.candidates.len() > self.max_candidates;
        if self.is_abandoned {
            self.candidates = vec![];
        }
    }

    /// The nearest rows; `None` if the query was abandoned. The k candidates with the smallest scores are measured first. Most others are
    /// then provably too far.
    fn finish(mut self) -> Option<Vec<Neighbor>> {
        checkpoint();
        if self.is_abandoned {
            return None;
        }
        let mut rows = std::mem::take(&mut self.candidates);
        if rows.len() > self.k {
            rows.select_nth_unstable(self.k - 1);
        }
        let others = rows.split_off(self.k.min(rows.len()));
        self.measure(&rows);
        let others: Vec<Scored> = others.into_iter().filter(|&row| self.is_within_limit(row)).collect();
        self.measure(&others);
        Some(self.nearest.into_sorted())
    }

    /// Whether a row may be within the limit.
    fn is_within_limit(&self, row: Scored) -> bool {
        row.score() <= self.bounds.of_row(row.place()).cutoff(self.limit)
    }

    /// Measures the candidates that may be within the limit, and lowers the limit to the k-th distance.
    fn measure(&mut self, rows: &[Scored]) {
        for (i, &row) in rows.iter().enumerate() {
            if let Some(next) = rows.get(i + AHEAD) {
                self.nearest.prefetch(next.place() as u32);
            }
            if self.is_within_limit(row) && self.nearest.compare(row.place() as u32) {
                let kth = self.nearest.kth_sq_distance();
                self.limit = ((kth * self.sq_unit).sqrt() * self.rounding).min(self.limit);
            }
        }
    }
}

/// The places of the bits that are set, in ascending order.
fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = set.trailing_zeros() as usize;
        let is_set = set != 0;
        set &= set.wrapping_sub(1);
        is_set.then_some(place)
    })
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
                // The first 45 % of the rows, which include all rows of the first block, and every ninth of the others.
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
    fn codes_of_several_blocks_give_the_same_neighbors_as_products() {
        assert_equal_neighbors(20_000, 64);
        // With more columns, a block has fewer rows.
        assert_equal_neighbors(5000, 1024);
    }

    #[test]
    fn queries_far_from_all_rows_are_left_to_matrix_products() {
        const DIM: usize = 64;
        let mut rng = SeededRng::new(5);
        let mut draw =
            |rows: usize| -> Vec<f32> { (0..rows * DIM).map(|_| 1e-4 * rng.normal() as f32).collect() };
        let rows = Embeddings::new(draw(6000), DIM).unwrap();
        let near = draw(9);
        let mut far: Vec<f32> = near.iter().map(|value| 1000.0 * value).collect();
        // The last query has a coordinate that exceeds the range of `f32` after rescaling.
        far[8 * DIM] = 3e38;
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
