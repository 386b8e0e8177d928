//! The search of one query among projected rows: its cutoffs, its survivors (the rows that are not skipped), and the nearest rows measured
//! so far. The projection of a row or query is called its point; sets of near points are defined in [`partition`](super::partition).

use super::ExactIndex;
use super::axes::F32_ROUNDOFF;
use super::centers::argmin;
use super::lanes::{BOXES, POINTS, Scan, Survivor, box_distances, groups_within, scan};
use super::nearest::Nearest;
use super::partition::{NODE, Partition};
use super::pruned::Work;
use super::row_codes::QueryBounds;
use crate::neighbors::Neighbor;

/// The state of one query.
pub(super) struct Query<'b> {
    partition: &'b Partition,
    k: usize,
    pub(super) row: &'b [f32],
    pub(super) point: &'b [f32],
    /// The rounding error of the point.
    error: f64,
    excluded: Option<u32>,
    /// Points within the cutoff, ordered by position. The distance of a point whose row was measured is NaN.
    survivors: Vec<Survivor>,
    /// The number of survivors, from the first on, that are not needed any more.
    done: usize,
    /// The positions of rows that were measured before nodes were scanned, in ascending order.
    seeds: Vec<u32>,
    nearest: Nearest<'b>,
    /// An upper bound on the distance between the exact points of the query and of a row that is at most as far as
    /// the k-th nearest.
    reach: f64,
    /// A bound on the rescaled distance of the k-th nearest row.
    radius: f64,
    /// Whether the projections exclude so few rows that the search was not continued.
    is_abandoned: bool,
    /// The number of rows that were compared in all columns.
    pub(super) compared: usize,
}

/// If a query has more survivors than this number plus a multiple of k, some are measured to lower the cutoff.
const MAX_SURVIVORS: usize = 2048;
/// The number of groups whose boxes are tested before it is known whether boxes exclude groups.
const MIN_TESTED_GROUPS: usize = 256;
/// One row takes about as long to compare by itself as this number of rows in a matrix product, or longer.
const ROWS_PER_COMPARISON: usize = 32;
/// The number of rows between the row that is prefetched and the row that is measured.
const AHEAD: usize = 8;

impl<'b> Query<'b> {
    pub(super) fn new(index: &'b ExactIndex<'b>, partition: &'b Partition, k: usize, row: &'b [f32]) -> Self {
        Self {
            partition,
            k,
            row,
            point: &[],
            error: f64::INFINITY,
            excluded: None,
            survivors: Vec::new(),
            done: 0,
            seeds: Vec::new(),
            nearest: Nearest::new(index.stored_rows(), row, k),
            radius: f64::INFINITY,
            reach: f64::INFINITY,
            is_abandoned: false,
            compared: 0,
        }
    }

    /// Sets the point of the row and its rounding error.
    pub(super) fn projected(mut self, point: &'b [f32], error: f32) -> Self {
        (self.point, self.error) = (point, f64::from(error));
        self
    }

    pub(super) fn excluding(mut self, excluded: Option<u32>) -> Self {
        self.excluded = excluded;
        self
    }

    pub(super) fn excludes(&self, id: u32) -> bool {
        self.excluded == Some(id)
    }

    /// Whether the distances of the query are within the range of `f32`.
    pub(super) fn is_in_range(&self) -> bool {
        self.error.is_finite()
    }

    /// Whether so many rows are compared that comparing all rows of the index by a matrix product is faster.
    pub(super) fn compares_too_many(&self) -> bool {
        self.is_abandoned
            || self.compared > (self.partition.used() / ROWS_PER_COMPARISON).max(16 * self.k + NODE)
    }

    /// The cutoff of a node: points with a larger squared distance, as computed in `f32`, are skipped.
    pub(super) fn cutoff(&self, node: usize) -> f32 {
        self.cutoff_with(self.partition.error(node))
    }

    /// The cutoff for boxes, which contain the exact points of their rows.
    pub(super) fn box_cutoff(&self) -> f32 {
        self.cutoff_with(0.0)
    }

    /// The cutoff for points with at most the given rounding error.
    fn cutoff_with(&self, error: f64) -> f32 {
        let within = self.within(error);
        // A sum of n squares of differences has a relative error of at most (n + 4) u, where u is the unit roundoff.
        // Squares that underflow are below 1e-40 in total.
        let rounding = 1.0 + (self.point.len() as f64 + 8.0) * 1.01 * F32_ROUNDOFF;
        ((within * within * rounding + 1e-40) as f32).next_up()
    }

    /// An upper bound on the distance between the stored points of the query and of a row that is at most as far as
    /// the k-th nearest. `error` is a bound on the rounding error of the row's point.
    fn within(&self, error: f64) -> f64 {
        self.reach + self.error + error
    }

    /// Measures rows of the sets with the nearest centers, `nearest_set` first, until k rows give a first cutoff.
    pub(super) fn seed(&mut self, nearest_set: usize) {
        // With few columns, the nearest groups of a set contain most of the nearest rows. With many columns, the
        // groups overlap, so more of them are scanned.
        let wanted = (self.k + POINTS * self.point.len().min(BOXES)).div_ceil(POINTS).min(BOXES);
        let mut scanned = self.scan_groups_of(nearest_set, wanted);
        let mut distances = vec![];
        loop {
            if scanned >= wanted {
                self.measure_seeds();
                if self.nearest.is_full() {
                    break;
                }
                scanned = 0;
            }
            if distances.is_empty() {
                self.partition.centers().distances(self.point, &mut distances);
                distances[nearest_set] = f32::INFINITY;
            }
            let Some(set) = argmin(&distances) else {
                self.measure_seeds();
                break;
            };
            distances[set] = f32::INFINITY;
            scanned += self.scan_groups_of(set, wanted - scanned);
        }
        self.seeds.sort_unstable();
    }

    /// Collects the points of the nearest groups of a set, at most `wanted` groups. Returns the number of groups.
    fn scan_groups_of(&mut self, set: usize, wanted: usize) -> usize {
        let (node, mut groups) = self.partition.groups_of(set);
        let node = self.partition.node(node);
        if groups.count_ones() as usize > wanted {
            let mut distances = [0f32; BOXES];
            box_distances(self.point, node.boxes, &mut distances);
            let mut order: Vec<u8> = (0..BOXES as u8).filter(|group| groups >> group & 1 == 1).collect();
            order.sort_unstable_by(|&a, &b| distances[a as usize].total_cmp(&distances[b as usize]));
            groups = order[..wanted].iter().fold(0, |groups, group| groups | 1 << group);
        }
        let survivors = &mut self.survivors;
        scan(&node, &mut [Scan { point: self.point, groups, cutoff: f32::INFINITY, survivors }]);
        groups.count_ones() as usize
    }

    /// Measures the rows of the k nearest collected points.
    fn measure_seeds(&mut self) {
        self.measure_nearest();
        let measured = self.survivors.drain(..).filter(|survivor| survivor.0.is_nan());
        self.seeds.extend(measured.map(|survivor| survivor.1));
    }

    /// The scan of a node for points within the cutoff; `None` if no group can have such a point, or if too many rows
    /// were compared. Counts the comparisons in `work`.
    pub(super) fn scan(&mut self, node: usize, distance: f32, work: &mut Work) -> Option<Scan<'_>> {
        let (cutoff, box_cutoff) = (self.cutoff(node), self.box_cutoff());
        if distance > box_cutoff || self.compares_too_many() {
            return None;
        }
        work.blocks += 1;
        let mut groups = self.groups_within(node, box_cutoff, work);
        if let Some(codes) = self.partition.codes()
            && groups != 0
        {
            work.coded_groups += groups.count_ones() as usize;
            groups = codes.groups_within(node, self.point, self.within(self.partition.error(node)), groups);
        }
        let (point, survivors) = (self.point, &mut self.survivors);
        (groups != 0).then_some(Scan { point, groups, cutoff, survivors })
    }

    /// The groups of a node whose boxes are within the cutoff. The boxes are not compared, and all groups are returned, if codes are
    /// compared next and the boxes have excluded few groups of all queries that `work` counts.
    fn groups_within(&self, node: usize, cutoff: f32, work: &mut Work) -> u16 {
        let excludes_few = work.near_groups > work.tested_groups * 15 / 16;
        // Only the last node may have groups without rows.
        let is_full = node + 1 < self.partition.nodes();
        if work.tested_groups >= MIN_TESTED_GROUPS
            && excludes_few
            && is_full
            && self.partition.codes().is_some()
        {
            return u16::MAX;
        }
        let groups = groups_within(self.point, self.partition.node(node).boxes, cutoff);
        work.tested_groups += BOXES;
        work.near_groups += groups.count_ones() as usize;
        groups
    }

    /// If there are many survivors, lowers the cutoff and drops or measures survivors. Abandons the query if too many remain.
    pub(super) fn tighten_if_full(&mut self) {
        if self.survivors.len() > MAX_SURVIVORS + 8 * self.k {
            self.tighten();
            if self.survivors.len() > self.partition.used() / 8 {
                // The projections exclude too few rows, for example because the query is far from all rows.
                self.is_abandoned = true;
                self.survivors.clear();
            } else if self.survivors.len() > MAX_SURVIVORS / 2 {
                std::mem::take(&mut self.survivors).into_iter().for_each(|survivor| self.measure(survivor));
            }
        }
    }

    /// Measures the k survivors with the nearest points, and drops the survivors that are then provably too far.
    pub(super) fn tighten(&mut self) {
        self.measure_nearest();
        let mut survivors = std::mem::take(&mut self.survivors);
        survivors.retain(|&survivor| self.is_near(survivor));
        self.survivors = survivors;
    }

    /// Measures the k survivors with the nearest points and sets their distances to NaN.
    fn measure_nearest(&mut self) {
        // A key has the bits of the distance in its upper half and the number of the survivor in its lower half. Keys are ordered by
        // distance, because the bits of nonnegative numbers have the order of the numbers.
        let key = |(at, survivor): (u32, &Survivor)| u64::from(survivor.0.to_bits()) << 32 | u64::from(at);
        let mut order: Vec<u64> = (0..).zip(&self.survivors).map(key).collect();
        if order.len() > self.k {
            order.select_nth_unstable(self.k - 1);
            order.truncate(self.k);
        }
        let at = |key: u64| key as u32 as usize;
        for (i, &key) in order.iter().enumerate() {
            if let Some(&next) = order.get(i + AHEAD) {
                self.prefetch(self.survivors[at(next)].1);
            }
            self.measure(self.survivors[at(key)]);
            self.survivors[at(key)].0 = f32::NAN;
        }
    }

    /// Whether a survivor in `node`, at a position before `end`, may be among the nearest rows. Drops the survivors
    /// before it.
    pub(super) fn has_survivors_before(&mut self, end: u32, node: usize) -> bool {
        let cutoff = self.cutoff(node);
        while let Some(survivor) = self.survivors.get(self.done).filter(|survivor| survivor.1 < end) {
            if survivor.0 <= cutoff {
                return true;
            }
            self.done += 1;
        }
        false
    }

    /// Measures the survivors at positions before `end`, except for those that codes exclude. `codes` has the scores
    /// of the group that ends at `end`, and the bounds of the query.
    pub(super) fn measure_before(&mut self, end: u32, codes: Option<(&[f32; POINTS], QueryBounds<'_>)>) {
        while let Some(&survivor) = self.survivors.get(self.done).filter(|survivor| survivor.1 < end) {
            self.done += 1;
            if let Some((scores, bounds)) = codes {
                let position = survivor.1 as usize;
                if scores[position % POINTS] <= bounds.of_row(position).cutoff(self.radius) {
                    self.measure_as(survivor, true);
                }
            } else {
                if let Some(next) = self.survivors.get(self.done + AHEAD) {
                    self.prefetch(next.1);
                }
                self.measure(survivor);
            }
        }
    }

    fn prefetch(&self, position: u32) {
        if let Some(id) = self.partition.id(position) {
            self.nearest.prefetch(id);
        }
    }

    fn is_near(&self, (distance, position): Survivor) -> bool {
        distance <= self.cutoff(position as usize / NODE)
    }

    fn measure(&mut self, survivor: Survivor) {
        self.measure_as(survivor, false);
    }

    /// Measures a survivor. With `is_candidate`, the row was already compared in all columns by its code, and is not
    /// compared in `f32` before it is measured.
    fn measure_as(&mut self, survivor: Survivor, is_candidate: bool) {
        let Some(id) = self.partition.id(survivor.1) else { return };
        let is_new = !self.excludes(id) && self.seeds.binary_search(&survivor.1).is_err();
        if !is_new || !self.is_near(survivor) {
            return;
        }
        self.compared += 1;
        let is_nearest = if is_candidate { self.nearest.measure(id) } else { self.nearest.compare(id) };
        if is_nearest {
            self.update_reach();
        }
    }

    fn update_reach(&mut self) {
        let (kth, axes) = (self.nearest.kth_sq_distance(), self.partition.axes());
        self.radius = (kth * axes.sq_unit()).sqrt() * axes.rounding();
        self.reach = (kth * axes.sq_unit()).sqrt() * axes.stretch();
    }

    /// The nearest rows; `None` if too many rows would have to be compared.
    pub(super) fn finish(self) -> Option<Vec<Neighbor>> {
        if !self.is_in_range() || self.compares_too_many() {
            return None;
        }
        Some(self.nearest.into_sorted())
    }
}
