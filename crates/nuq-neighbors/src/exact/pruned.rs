//! Search among projected rows: nodes and rows that are provably too far are skipped, the others are measured in `f64`.
//!
//! A row whose distance, computed in `f64`, is at most r has a point within `r · stretch` of the query's point, up to the
//! rounding errors of both points (see [`axes`](super::axes)). A row is skipped when its point, or a box that contains
//! its point, is farther than that from the query's point, with r the k-th smallest distance measured so far.

use std::collections::BinaryHeap;

use rayon::prelude::*;

use super::ExactIndex;
use super::axes::U32;
use super::lanes::{BOXES, POINTS, Scan, Survivor, box_distances, exceeds, scan};
use super::partition::{NODE, Partition};
use crate::cancel::{Checkpoint, checkpoint};
use crate::neighbors::Neighbor;
use crate::progress::Steps;
use crate::{NeighborIndex, RowStorage};

/// Queries per task: one bit of a word each.
const TILE: usize = 64;
/// Queries that are projected and ordered together.
const BATCH: usize = 1 << 15;
/// Nodes between two check points.
const NODES_PER_CHECK: usize = 16;
/// Survivors of a query, apart from a multiple of k, before they are measured to lower the cutoff.
const MAX_SURVIVORS: usize = 2048;
/// With fewer columns, `f64` distances are as fast as `f32` distances.
const MIN_ROUGH: usize = 32;

/// Counts of the comparisons of a search.
#[derive(Default, Clone, Copy)]
pub(super) struct Work {
    pub(super) queries: usize,
    /// Blocks of boxes or points.
    pub(super) blocks: usize,
    /// Rows that were compared with a query in all columns.
    pub(super) rows: usize,
}

/// The nearest rows of each query, or `None` for queries whose bounds exclude too few rows; and the work of the search.
pub(super) fn search(
    index: &ExactIndex<'_>,
    partition: &Partition,
    queries: &[f32],
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
        let of_batch = batch.search(&mut found[first..first + n]);
        work.add(of_batch);
    }
    (found, work)
}

impl Work {
    fn add(&mut self, other: Self) {
        self.queries += other.queries;
        self.blocks += other.blocks;
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

    fn search(&self, found: &mut [Option<Vec<Neighbor>>]) -> Work {
        let (here, steps) = (Checkpoint::current(), Steps::current());
        let homes = self.home_nodes();
        // The queries of a task have nodes in common.
        let mut order: Vec<u32> = (0..homes.len() as u32).collect();
        order.sort_by_key(|&query| homes[query as usize]);
        let tile = order.len().div_ceil(rayon::current_num_threads()).clamp(1, TILE);
        let tiles: Vec<(Vec<Option<Vec<Neighbor>>>, Work)> = order
            .par_chunks(tile)
            .map(|queries| {
                let nearest = here.enter(|| self.search_tile(queries, &homes));
                steps.add(queries.len());
                nearest
            })
            .collect();
        let mut work = Work::default();
        tiles.iter().for_each(|tile| work.add(tile.1));
        for (query, nearest) in order.iter().zip(tiles.into_iter().flat_map(|tile| tile.0)) {
            found[*query as usize] = nearest;
        }
        work
    }

    /// The node with the nearest center, for each query.
    fn home_nodes(&self) -> Vec<u32> {
        let padded = self.partition.nodes().next_multiple_of(POINTS);
        let mut nodes = vec![0u32; self.errors.len()];
        let here = Checkpoint::current();
        nodes.par_chunks_mut(TILE).enumerate().for_each(|(tile, nodes)| {
            here.check();
            let mut distances = vec![0f32; padded];
            for (i, node) in nodes.iter_mut().enumerate() {
                self.partition.center_distances(self.point(tile * TILE + i), &mut distances);
                *node = argmin(&distances) as u32;
            }
        });
        nodes
    }

    /// Collects the survivors of all queries node by node, then measures them node by node: the points and the rows of a
    /// node are read once for all queries.
    fn search_tile(&self, queries: &[u32], homes: &[u32]) -> (Vec<Option<Vec<Neighbor>>>, Work) {
        let mut work = Work { queries: queries.len(), ..Work::default() };
        let nodes = self.partition.nodes();
        let padded = nodes.next_multiple_of(BOXES);
        let mut distances = vec![0f32; padded * queries.len()];
        let largest_error = self.partition.largest_error();
        let mut active = vec![0u64; nodes];
        let mut tile: Vec<Query<'_>> = Vec::with_capacity(queries.len());
        for (i, (&at, distances)) in queries.iter().zip(distances.chunks_exact_mut(padded)).enumerate() {
            checkpoint();
            let mut query = Query::new(self, at as usize);
            if query.error.is_finite() {
                self.partition.node_distances(query.point, distances);
                query.seed(homes[at as usize] as usize, distances);
                let cutoff = query.cutoff_with(largest_error);
                for (active, &distance) in active.iter_mut().zip(distances.iter()) {
                    *active |= u64::from(distance <= cutoff) << i;
                }
            }
            tile.push(query);
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
                    .filter_map(|(_, (query, &distance))| query.scan(node, distance))
                    .collect();
                work.blocks += scan(&self.partition.node(node), &mut scans);
                tile.iter_mut().for_each(Query::tighten_if_full);
            }
        }
        tile.iter_mut().for_each(Query::tighten);
        // Long rows are measured group by group, so that the rows of a group stay in the cache for all queries.
        let parts = if self.index.dim() > MIN_ROUGH { BOXES } else { 1 };
        for (node, _) in active.iter().enumerate().filter(|(_, active)| **active != 0) {
            checkpoint();
            for part in 1..=parts {
                let end = node * NODE + part * (NODE / parts);
                tile.iter_mut().for_each(|query| query.measure_before(end as u32));
            }
        }
        work.rows = tile.iter().map(|query| query.compared).sum();
        (tile.into_iter().map(Query::finish).collect(), work)
    }
}

/// The state of one query.
struct Query<'b> {
    batch: &'b Batch<'b>,
    row: &'b [f32],
    point: &'b [f32],
    error: f64,
    excluded: Option<u32>,
    /// Points within the cutoff that are not measured yet.
    survivors: Vec<Survivor>,
    /// The k nearest measured rows: the bits of their squared distances, and their ids.
    nearest: BinaryHeap<(u64, u32)>,
    /// The distance within which the points of all rows at most as far as the k-th nearest are, without rounding errors.
    reach: f64,
    /// The number of survivors that are measured.
    done: usize,
    /// The squared distance, as computed in `f32`, above which a row is farther than the k-th nearest.
    row_cutoff: f32,
    /// The number of rows that were compared in all columns.
    compared: usize,
}

impl<'b> Query<'b> {
    fn new(batch: &'b Batch<'b>, query: usize) -> Self {
        let dim = batch.index.dim();
        Self {
            batch,
            row: &batch.queries[query * dim..][..dim],
            point: batch.point(query),
            error: f64::from(batch.errors[query]),
            excluded: batch.excluded.map(|ids| ids[query]),
            survivors: Vec::new(),
            nearest: BinaryHeap::with_capacity(batch.k + 1),
            reach: f64::INFINITY,
            done: 0,
            row_cutoff: f32::INFINITY,
            compared: 0,
        }
    }

    /// Whether so many rows were compared that comparing all of them by a product is faster.
    fn is_hopeless(&self) -> bool {
        self.compared > (self.batch.partition.used() / 4).max(16 * self.batch.k + NODE)
    }

    /// The largest squared distance, as computed in `f32`, to a point or a box of the node that is not skipped.
    ///
    /// The sum of `width` squares of differences has a relative error of at most `(width + 4) u`; squares that underflow
    /// are below 1e-40 in total.
    fn cutoff(&self, node: usize) -> f32 {
        self.cutoff_with(self.batch.partition.error(node))
    }

    /// The cutoff for points with at most the given rounding error.
    fn cutoff_with(&self, error: f64) -> f32 {
        let within = self.reach + self.error + error;
        let rounding = 1.0 + (self.point.len() as f64 + 8.0) * 1.01 * U32;
        ((within * within * rounding + 1e-40) as f32).next_up()
    }

    /// Measures rows of the home node, and of further nodes until k rows are measured.
    fn seed(&mut self, home: usize, distances: &[f32]) {
        let partition = self.batch.partition;
        // With few columns, the nearest groups hold most of the nearest rows.
        let wanted = (self.batch.k + POINTS * partition.width().min(BOXES)).div_ceil(POINTS).min(BOXES);
        let mut visited = vec![];
        while self.nearest.len() < self.batch.k && visited.len() < partition.nodes() {
            let at = match visited.len() {
                0 => home,
                _ => {
                    let left = (0..partition.nodes()).filter(|node| !visited.contains(node));
                    let nearest = left.min_by(|&a, &b| distances[a].total_cmp(&distances[b]));
                    nearest.expect("some node is not visited")
                }
            };
            visited.push(at);
            let node = partition.node(at);
            let mut groups = [0f32; BOXES];
            box_distances(self.point, node.boxes, &mut groups);
            let mut order: [u8; BOXES] = std::array::from_fn(|group| group as u8);
            order.sort_unstable_by(|&a, &b| groups[a as usize].total_cmp(&groups[b as usize]));
            let mask = order[..wanted].iter().fold(0u16, |mask, group| mask | 1 << group);
            let survivors = &mut self.survivors;
            let query = Scan { point: self.point, groups: mask, cutoff: f32::INFINITY, survivors };
            scan(&node, &mut [query]);
            self.measure_nearest();
            self.survivors.clear();
        }
    }

    /// The scan of a node for the points within the cutoff, if the node may have any.
    fn scan(&mut self, node: usize, distance: f32) -> Option<Scan<'_>> {
        let cutoff = self.cutoff(node);
        (!self.is_hopeless() && distance <= cutoff).then_some(Scan {
            point: self.point,
            groups: u16::MAX,
            cutoff,
            survivors: &mut self.survivors,
        })
    }

    fn tighten_if_full(&mut self) {
        if self.survivors.len() > MAX_SURVIVORS + 8 * self.batch.k {
            self.tighten();
            if self.survivors.len() > MAX_SURVIVORS / 2 {
                self.measure_all();
            }
        }
    }

    /// Measures the k survivors with the nearest points, and drops those that are then provably too far.
    fn tighten(&mut self) {
        self.measure_nearest();
        let mut survivors = std::mem::take(&mut self.survivors);
        survivors.retain(|&survivor| self.is_near(survivor));
        self.survivors = survivors;
    }

    /// Measures the k survivors with the nearest points. Their order does not change.
    fn measure_nearest(&mut self) {
        let k = self.batch.k;
        let mut nearest = self.survivors.clone();
        if nearest.len() > k {
            nearest.select_nth_unstable_by(k - 1, |a, b| a.0.total_cmp(&b.0));
            nearest.truncate(k);
        }
        nearest.into_iter().for_each(|survivor| self.measure(survivor));
    }

    fn measure_all(&mut self) {
        std::mem::take(&mut self.survivors).into_iter().for_each(|survivor| self.measure(survivor));
    }

    /// Measures the next survivors at positions before `end`.
    fn measure_before(&mut self, end: u32) {
        while let Some(&survivor) = self.survivors.get(self.done)
            && survivor.1 < end
        {
            self.measure(survivor);
            self.done += 1;
        }
    }

    fn is_near(&self, (distance, position): Survivor) -> bool {
        distance <= self.cutoff(position as usize / NODE)
    }

    fn measure(&mut self, survivor: Survivor) {
        let (index, k) = (self.batch.index, self.batch.k);
        let Some(id) = self.batch.partition.id(survivor.1) else { return };
        if Some(id) == self.excluded || !self.is_near(survivor) {
            return;
        }
        // A survivor may have been measured before, to lower the cutoff.
        if self.nearest.iter().any(|row| row.1 == id) {
            return;
        }
        self.compared += 1;
        if self.is_provably_farther(id) {
            return;
        }
        // The bits of nonnegative numbers have the order of the numbers.
        let measured = (index.stored_rows().sq_distance(self.row, id).to_bits(), id);
        let is_full = self.nearest.len() == k;
        if is_full && self.nearest.peek().is_some_and(|farthest| measured >= *farthest) {
            return;
        }
        if is_full {
            self.nearest.pop();
        }
        self.nearest.push(measured);
        if self.nearest.len() == k {
            self.update_reach();
        }
    }

    /// Whether an `f32` distance proves that a row is farther than the k-th nearest.
    fn is_provably_farther(&self, id: u32) -> bool {
        let rows = self.batch.index.stored_rows();
        match (rows.floats(), rows.scale()) {
            (Some(floats), None) if self.row.len() >= MIN_ROUGH => {
                exceeds(self.row, floats.row(id as usize), self.row_cutoff)
            }
            _ => false,
        }
    }

    fn update_reach(&mut self) {
        if let Some(&(farthest, _)) = self.nearest.peek() {
            let axes = self.batch.partition.axes();
            // A sum of d squares of differences has a relative error of at most (d + 4) u. Small sums may have underflowed.
            let rounding = 1.0 + (self.row.len() as f64 + 8.0) * 1.01 * U32;
            self.row_cutoff = (f64::from_bits(farthest) * rounding + 1e-30) as f32;
            self.row_cutoff = if self.row_cutoff < 1e30 { self.row_cutoff.next_up() } else { f32::INFINITY };
            self.reach = (f64::from_bits(farthest) * axes.sq_unit()).sqrt() * axes.stretch();
        }
    }

    fn finish(self) -> Option<Vec<Neighbor>> {
        if !self.error.is_finite() || self.is_hopeless() {
            return None;
        }
        let nearest = self.nearest.into_sorted_vec();
        Some(nearest.into_iter().map(|(bits, id)| (f64::from_bits(bits), id)).collect())
    }
}

/// The index of the smallest number.
fn argmin(values: &[f32]) -> usize {
    let mut smallest = [f32::INFINITY; BOXES];
    for values in values.as_chunks::<BOXES>().0 {
        for lane in 0..BOXES {
            smallest[lane] = if values[lane] < smallest[lane] { values[lane] } else { smallest[lane] };
        }
    }
    let smallest = smallest.into_iter().fold(f32::INFINITY, f32::min);
    values.iter().position(|&v| v == smallest).unwrap_or(0)
}
