//! Comparison of many queries with all rows by their codes.

use super::ExactIndex;
use super::blocked::in_tasks;
use super::lanes::POINTS;
use super::rescaler::Rescaler;
use super::row_codes::{QUERIES, QueryCodes, RowCodes, Scores};
use super::shortlist::{ExactDistance, Shortlist};
use crate::cancel::checkpoint;
use crate::neighbors::Neighbor;
use crate::{NeighborIndex, RowStorage};

/// Queries per task: their codes stay in the cache.
const MAX_PER_TASK: usize = 256;
/// Groups between two check points.
const GROUPS_PER_CHECK: usize = 16;
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
                index,
                row,
                excluded,
                max_distances,
                sq_unit: rescaler.sq_unit(),
                list: fits.then(|| Shortlist::new(k, excluded)),
            }
        });
        let mut queries: Vec<Query<'_>> = queries.collect();
        compare(codes, &coded, &mut queries);
        queries.into_iter().map(Query::finish).collect()
    })
}

struct Query<'b> {
    index: &'b ExactIndex<'b>,
    row: &'b [f32],
    excluded: Option<u32>,
    max_distances: usize,
    sq_unit: f64,
    /// The candidates, with their distances as scores; `None` if codes exclude too few rows, or the query is too long for codes.
    list: Option<Shortlist>,
}

/// Compares all rows with all queries, and adds the candidates of each query to its list.
fn compare(codes: &RowCodes, coded: &QueryCodes, queries: &mut [Query<'_>]) {
    let mut chosen: Vec<u16> = (0..queries.len() as u16).collect();
    let mut scores: Scores = [[0.0; POINTS]; QUERIES];
    for group in 0..codes.groups() {
        if group % GROUPS_PER_CHECK == 0 {
            checkpoint();
            // A query for which too many distances were computed no longer has a list. Another search answers it.
            chosen.retain(|&query| queries[query as usize].list.is_some());
        }
        for chosen in chosen.chunks(QUERIES) {
            codes.scores(coded, chosen, group, &mut scores);
            for (&query, scores) in chosen.iter().zip(&scores) {
                queries[query as usize].add(codes, coded, [query as usize, group], scores);
            }
        }
    }
}

impl Query<'_> {
    /// Adds the rows of a group that are not provably farther than k other rows.
    fn add(
        &mut self,
        codes: &RowCodes,
        coded: &QueryCodes,
        [query, group]: [usize; 2],
        scores: &[f32; POINTS],
    ) {
        let Some(list) = &self.list else { return };
        let bounds = codes.bounds(coded, query, group);
        let mut near = at_most(scores, bounds.cutoff(list.limit()));
        if near == 0 {
            return;
        }
        let Some(mut list) = self.list.take() else { return };
        while near != 0 {
            let place = near.trailing_zeros() as usize;
            near &= near - 1;
            let id = (group * POINTS + place) as u32;
            if scores[place].is_finite() && Some(id) != self.excluded {
                self.with_exact_distances(|exact| list.add(id, bounds.of(scores[place]), exact));
            }
        }
        self.list = Some(list).filter(|list| list.distances() <= self.max_distances);
    }

    fn with_exact_distances<R>(&self, run: impl FnOnce(&ExactDistance<'_>) -> R) -> R {
        let (rows, dim) = (self.index.stored_rows(), self.row.len());
        let sq_distance = |id| rows.sq_distance(self.row, id);
        // The sum of d squares, its scaling and its root are rounded.
        let rounding = 1.0 + (dim as f64 + 16.0) * f64::EPSILON;
        let upper_score = |sq_distance: f64| (sq_distance * self.sq_unit).sqrt() * rounding;
        let prefetch = |id| rows.prefetch(id);
        run(&ExactDistance { sq_distance: &sq_distance, upper_score: &upper_score, prefetch: &prefetch })
    }

    fn finish(mut self) -> Option<Vec<Neighbor>> {
        checkpoint();
        let list = self.list.take()?;
        Some(self.with_exact_distances(|exact| list.finish(exact)))
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
    at_most_any(scores, cutoff)
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
