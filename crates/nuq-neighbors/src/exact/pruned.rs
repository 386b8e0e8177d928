//! Search among projected rows: nodes and rows that are provably too far are skipped, the others are measured in `f64`.
//!
//! The projection of a row or query is called its point (see [`axes`](super::axes)). Nodes, groups
//! and sets of points are defined in [`partition`](super::partition). If the rescaled distance of a
//! row, computed in `f64`, is at most r, its point is within `r · stretch` of the query's point, up to
//! the rounding errors of both points. The factor `stretch` is slightly above 1 (`Axes::stretch`). Let
//! r be the k-th smallest rescaled distance measured so far. A row is skipped when its point, or a box
//! that contains its point, is farther than `r · stretch` plus these errors from the query's point.

use rayon::prelude::*;

use super::ExactIndex;
use super::lanes::{BOXES, POINTS, Scan, scan};
use super::partition::{NODE, Partition};
use super::query::Query;
use super::row_codes::{QUERIES, QueryBounds, QueryCodes, RowCodes, Scores};
use super::walk::{Target, Walk, nearest_groups};
use crate::NeighborIndex;
use crate::cancel::{Checkpoint, checkpoint};
use crate::neighbors::Neighbor;
use crate::progress::Steps;

/// Queries per task. Each query has one bit of a 64-bit word.
const TILE: usize = 64;
/// Queries that are projected and ordered together.
const BATCH: usize = 1 << 15;
/// Nodes between two check points.
const NODES_PER_CHECK: usize = 16;

/// Counts of the comparisons of a search.
#[derive(Default, Clone, Copy)]
pub(super) struct Work {
    pub(super) queries: usize,
    /// Blocks of boxes or points.
    pub(super) blocks: usize,
    /// Groups whose boxes were compared, and how many of them were within the cutoff.
    pub(super) tested_groups: usize,
    pub(super) near_groups: usize,
    /// Groups of points that were compared by the codes of the points.
    pub(super) coded_groups: usize,
    /// Groups of rows that were compared by the codes of the rows.
    pub(super) coded_row_groups: usize,
    /// Rows that were compared with a query in all columns.
    pub(super) rows: usize,
}

/// The nearest rows of each query, and the work of the search. The rows are `None` for a query
/// whose bounds exclude too few rows, or whose distances are outside the range of `f32`.
pub(super) fn search(
    index: &ExactIndex<'_>,
    partition: &Partition,
    queries: &[f32],
    k: usize,
    excluded: Option<&[u32]>,
) -> (Vec<Option<Vec<Neighbor>>>, Work) {
    let per_thread = (queries.len() / index.dim()).div_ceil(rayon::current_num_threads());
    search_in_tasks(index, partition, (queries, per_thread.clamp(1, TILE)), k, excluded)
}

/// As [`search`], with the given number of queries per task, at most 64. The work depends on this number.
pub(super) fn search_in_tasks(
    index: &ExactIndex<'_>,
    partition: &Partition,
    (queries, per_task): (&[f32], usize),
    k: usize,
    excluded: Option<&[u32]>,
) -> (Vec<Option<Vec<Neighbor>>>, Work) {
    let (dim, count) = (index.dim(), queries.len() / index.dim());
    let (mut found, mut work) = (vec![None; count], Work::default());
    for first in (0..count).step_by(BATCH) {
        let n = BATCH.min(count - first);
        let queries = &queries[first * dim..][..n * dim];
        let excluded = excluded.map(|ids| &ids[first..][..n]);
        let batch = Batch::new(index, partition, queries, k, excluded);
        let of_batch = batch.search(&mut found[first..first + n], per_task);
        work.add(of_batch);
    }
    (found, work)
}

impl Work {
    fn add(&mut self, other: Self) {
        self.queries += other.queries;
        self.blocks += other.blocks;
        self.tested_groups += other.tested_groups;
        self.near_groups += other.near_groups;
        self.coded_groups += other.coded_groups;
        self.coded_row_groups += other.coded_row_groups;
        self.rows += other.rows;
    }
}

/// Projected queries.
struct Batch<'b> {
    index: &'b ExactIndex<'b>,
    partition: &'b Partition,
    queries: &'b [f32],
    k: usize,
    excluded: Option<&'b [u32]>,
    points: Vec<f32>,
    /// A bound on the rounding error of each point; infinite if the query is outside the range of `f32`.
    errors: Vec<f32>,
}

impl<'b> Batch<'b> {
    fn new(
        index: &'b ExactIndex<'b>,
        partition: &'b Partition,
        queries: &'b [f32],
        k: usize,
        excluded: Option<&'b [u32]>,
    ) -> Self {
        let (dim, width) = (index.dim(), partition.width());
        let count = queries.len() / dim;
        let (mut points, mut errors) = (vec![0f32; count * width], vec![0f32; count]);
        let here = Checkpoint::current();
        queries
            .par_chunks(TILE * dim)
            .zip(points.par_chunks_mut(TILE * width))
            .zip(errors.par_chunks_mut(TILE))
            .for_each(|((queries, points), errors)| {
                here.check();
                partition.axes().project(queries, points, errors);
            });
        Self { index, partition, queries, k, excluded, points, errors }
    }

    fn point(&self, query: usize) -> &[f32] {
        &self.points[query * self.partition.width()..][..self.partition.width()]
    }

    fn query(&self, at: usize) -> Query<'_> {
        let (index, partition, dim) = (self.index, self.partition, self.index.dim());
        Query::new(index, partition, self.k, &self.queries[at * dim..][..dim])
            .projected(self.point(at), self.errors[at])
            .excluding(self.excluded.map(|ids| ids[at]))
    }

    fn search(&self, found: &mut [Option<Vec<Neighbor>>], per_task: usize) -> Work {
        let (here, steps) = (Checkpoint::current(), Steps::current());
        let is_walked = self.partition.is_walked();
        // Queries are sorted by the group, or the set of near points, with which their search begins. A task has
        // consecutive queries, which therefore read many of the same nodes.
        let starts = if is_walked { self.nearest_groups() } else { self.nearest_sets() };
        let mut order: Vec<(u32, u32)> = starts.into_iter().zip(0..).collect();
        order.sort_unstable();
        let search = if is_walked { Self::walk_tile } else { Self::search_tile };
        let tiles: Vec<(Vec<Option<Vec<Neighbor>>>, Work)> = order
            .par_chunks(per_task)
            .map(|queries| {
                let nearest = here.enter(|| search(self, queries));
                steps.add(queries.len());
                nearest
            })
            .collect();
        let mut work = Work::default();
        tiles.iter().for_each(|tile| work.add(tile.1));
        for (&(_, query), nearest) in order.iter().zip(tiles.into_iter().flat_map(|tile| tile.0)) {
            found[query as usize] = nearest;
        }
        work
    }

    /// For each query, the group that is reached from the top of the hierarchy of boxes if the
    /// nearest box is chosen at each level.
    fn nearest_groups(&self) -> Vec<u32> {
        let mut groups = vec![0u32; self.errors.len()];
        let here = Checkpoint::current();
        let points = self.points.par_chunks(TILE * self.partition.width());
        groups.par_chunks_mut(TILE).zip(points).for_each(|(groups, points)| {
            here.check();
            nearest_groups(self.partition.boxes(), points, groups);
        });
        groups
    }

    /// Searches the hierarchy of boxes for each query, given the groups with which the searches begin.
    fn walk_tile(&self, queries: &[(u32, u32)]) -> (Vec<Option<Vec<Neighbor>>>, Work) {
        let dim = self.index.dim();
        let mut walk = Walk::new(self.index, self.partition, self.k);
        let search = |&(first_group, at): &(u32, u32)| {
            checkpoint();
            let at = at as usize;
            let row = &self.queries[at * dim..][..dim];
            let excluded = self.excluded.map(|ids| self.partition.position(ids[at]));
            let (point, error) = (self.point(at), self.errors[at]);
            let target = Target { row, point, error, excluded, first_group };
            if error.is_finite() { walk.search(&target) } else { None }
        };
        let found = queries.iter().map(search).collect();
        (found, walk.work())
    }

    /// For each query, the set of points whose center is nearest to the query's point.
    fn nearest_sets(&self) -> Vec<u32> {
        let mut sets = vec![0u32; self.errors.len()];
        let here = Checkpoint::current();
        sets.par_chunks_mut(TILE).enumerate().for_each(|(tile, sets)| {
            here.check();
            let mut distances = vec![];
            for (i, set) in sets.iter_mut().enumerate() {
                *set = self.partition.centers().nearest(self.point(tile * TILE + i), &mut distances) as u32;
            }
        });
        sets
    }

    /// Collects the survivors of all queries (the rows that are not skipped) node by node, given
    /// the nearest set of each query. Then measures the survivors node by node. Thereby the points
    /// and the rows of a node are read once for all queries.
    fn search_tile(&self, queries: &[(u32, u32)]) -> (Vec<Option<Vec<Neighbor>>>, Work) {
        let mut work = Work { queries: queries.len(), ..Work::default() };
        let nodes = self.partition.nodes();
        let padded = nodes.next_multiple_of(BOXES);
        let mut distances = vec![0f32; padded * queries.len()];
        let mut active = vec![0u64; nodes];
        let mut tile: Vec<Query<'_>> = queries.iter().map(|query| self.query(query.1 as usize)).collect();
        let each = tile.iter_mut().zip(queries).zip(distances.chunks_exact_mut(padded));
        for (i, ((query, &(nearest_set, _)), distances)) in each.enumerate() {
            checkpoint();
            if query.is_in_range() {
                self.partition.node_distances(query.point, distances);
                query.seed(nearest_set as usize);
                let cutoff = query.box_cutoff();
                for (active, &distance) in active.iter_mut().zip(distances.iter()) {
                    *active |= u64::from(distance <= cutoff) << i;
                }
            }
        }
        for (node, &active) in active.iter().enumerate() {
            if node % NODES_PER_CHECK == 0 {
                checkpoint();
            }
            if active != 0 {
                let distances = distances.iter().skip(node).step_by(padded);
                let in_reach = tile.iter_mut().zip(distances).enumerate();
                let mut scans: Vec<Scan<'_>> = in_reach
                    .filter(|(i, _)| active >> i & 1 == 1)
                    .filter_map(|(_, (query, &distance))| query.scan(node, distance, &mut work))
                    .collect();
                work.blocks += scan(&self.partition.node(node), &mut scans);
                tile.iter_mut().for_each(Query::tighten_if_full);
            }
        }
        tile.iter_mut().for_each(Query::tighten);
        if !tile.iter().all(Query::compares_too_many) {
            work.coded_row_groups += self.measure_survivors(&mut tile, &active);
        }
        work.rows = tile.iter().map(|query| query.compared).sum();
        (tile.into_iter().map(Query::finish).collect(), work)
    }

    /// Measures the survivors of all queries in the active nodes. Returns the number of groups that were compared by codes.
    fn measure_survivors(&self, tile: &mut [Query<'_>], active: &[u64]) -> usize {
        let rescaler = self.index.rescaler();
        let codes = self
            .partition
            .row_codes()
            .zip(rescaler)
            .map(|(codes, rescaler)| (codes, codes.encode(tile.iter().map(|query| query.row), rescaler)));
        let mut coded_groups = 0;
        for (node, _) in active.iter().enumerate().filter(|(_, active)| **active != 0) {
            checkpoint();
            match &codes {
                Some((codes, coded)) => coded_groups += measure_by_codes(codes, coded, tile, node),
                None => {
                    tile.iter_mut().for_each(|query| query.measure_before(((node + 1) * NODE) as u32, None))
                }
            }
        }
        coded_groups
    }
}

/// Measures the survivors in a node that their codes do not exclude. Returns the number of compared groups.
fn measure_by_codes(codes: &RowCodes, coded: &QueryCodes, tile: &mut [Query<'_>], node: usize) -> usize {
    let mut compared = 0;
    let mut scores: Scores = [[0.0; POINTS]; QUERIES];
    let has_survivors = |query: &mut Query<'_>, end: usize| query.has_survivors_before(end as u32, node);
    let in_node = (0u16..)
        .zip(tile.iter_mut())
        .filter_map(|(i, query)| has_survivors(query, (node + 1) * NODE).then_some(i));
    let in_node: Vec<u16> = in_node.collect();
    for group in node * BOXES..(node + 1) * BOXES {
        let end = (group + 1) * POINTS;
        let chosen: Vec<u16> =
            in_node.iter().copied().filter(|&i| has_survivors(&mut tile[i as usize], end)).collect();
        compared += chosen.len();
        for chosen in chosen.chunks(QUERIES) {
            codes.scores(coded, chosen, group, &mut scores);
            for (&query, scores) in chosen.iter().zip(&scores) {
                let query = query as usize;
                let bounds = QueryBounds { codes, coded, query };
                tile[query].measure_before(end as u32, Some((scores, bounds)));
            }
        }
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embeddings, NeighborIndex, Pruning, SeededRng};

    #[test]
    fn queries_far_from_all_rows_are_left_to_matrix_products() {
        const DIM: usize = 256;
        const LATENT: usize = 4;
        let mut rng = SeededRng::new(7);
        let mut normal = |count: usize| -> Vec<f32> { (0..count).map(|_| rng.normal() as f32).collect() };
        let map = normal(LATENT * DIM);
        let draw = |latent: Vec<f32>, noise: Vec<f32>| -> Vec<f32> {
            let value = |(i, noise): (usize, f32)| {
                let (row, column) = (i / DIM, i % DIM);
                let sum: f32 = (0..LATENT).map(|j| latent[row * LATENT + j] * map[j * DIM + column]).sum();
                sum + 0.5 * noise
            };
            noise.into_iter().enumerate().map(value).collect()
        };
        let rows = Embeddings::new(draw(normal(6000 * LATENT), normal(6000 * DIM)), DIM).unwrap();
        let near = draw(normal(9 * LATENT), normal(9 * DIM));
        let far: Vec<f32> = normal(9 * DIM).iter().map(|value| 1e4 * value).collect();
        let index = ExactIndex::new(&rows).unwrap().pruning(Pruning::On(LATENT));
        let partition = index.partition(1).expect("a partition was requested");
        let search = |queries: &[f32]| search(&index, partition, queries, 5, None);
        assert!(search(&near).0.iter().all(Option::is_some));
        let (found, work) = search(&far);
        assert!(found.iter().all(Option::is_none));
        assert!(work.rows < 9 * 6000 / 16, "{} rows were compared one by one", work.rows);

        let queries = Embeddings::new([near, far].concat(), DIM).unwrap();
        let expected = ExactIndex::new(&rows).unwrap().pruning(Pruning::Off).search(&queries, 5).unwrap();
        assert_eq!(index.search(&queries, 5).unwrap(), expected);
    }
}
