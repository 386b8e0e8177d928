//! Search of one query in the hierarchy of boxes (a walk), nearest boxes first, if the axes span the space.
//!
//! The projection of a row is called its point. If the axes span the space, the distance of two points is not only a lower bound of the
//! distance of their rows, but equal to it up to rounding. The k-th smallest distance of the points compared so far is therefore an upper
//! bound on the distance of the k-th nearest row. Only rows whose points are within this bound are measured: a few more than k, after all
//! points were compared.

use super::ExactIndex;
use super::axes::F32_ROUNDOFF;
use super::boxes::Boxes;
use super::lanes::{
    BOXES, POINTS, boxes_at_most, boxes_within, for_each_instruction_set, points_at_most, points_within,
};
use super::partition::{NODE, Partition};
use super::pruned::Work;
use crate::RowStorage;
use crate::neighbors::{Neighbor, keep_nearest};

/// The query of a walk.
pub(super) struct Target<'b> {
    pub(super) row: &'b [f32],
    pub(super) point: &'b [f32],
    /// A bound on the rounding error of the point.
    pub(super) error: f32,
    /// The position of the excluded row.
    pub(super) excluded: Option<u32>,
    /// The group with which the walk begins.
    pub(super) first_group: u32,
}

/// A squared distance in `f32` in the upper bits, and the number of a point or box in the lower bits. Keys are
/// ordered by distance, because the bits of nonnegative numbers have the order of the numbers.
type Keyed = u64;

/// The state of the walk of one query. Its memory is reused for the next query.
pub(super) struct Walk<'b> {
    index: &'b ExactIndex<'b>,
    partition: &'b Partition,
    k: usize,
    /// Points within the cutoff, with their positions.
    candidates: Vec<Keyed>,
    /// The largest rounding error of a candidate.
    error: f64,
    /// The nearest measured rows. Rows are measured when near-ties (points whose distances differ by less than their errors) fill the list
    /// of candidates, and at the end.
    measured: Vec<Neighbor>,
    /// Boxes to visit, the nearest of each block last.
    stack: Vec<Keyed>,
    /// An upper bound on the distance between the query's point and the exact point of a row that may be among the
    /// nearest.
    within: f64,
    /// Boxes at a larger squared distance are skipped.
    box_cutoff: f32,
    work: Work,
}

/// The cutoff is lowered when there are k plus this number of candidates.
const SLACK: usize = 16;
/// The candidates are measured when near-ties leave more than 2 k plus this number of them.
const MAX_TIES: usize = 256;
/// The number of bits for the number of a box in an entry of the stack. The level of the box is in the bits above
/// them.
const BOX_BITS: u32 = 28;

impl<'b> Walk<'b> {
    pub(super) fn new(index: &'b ExactIndex<'b>, partition: &'b Partition, k: usize) -> Self {
        let (candidates, measured, stack) = (Vec::with_capacity(k + SLACK + POINTS), vec![], vec![]);
        let (error, within, box_cutoff, work) = (0.0, f64::INFINITY, f32::MAX, Work::default());
        Self { index, partition, k, candidates, error, measured, stack, within, box_cutoff, work }
    }

    /// The work of all searches.
    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// The nearest rows; `None` if so many near-ties are measured that comparing all rows by a product is faster.
    pub(super) fn search(&mut self, target: &Target<'_>) -> Option<Vec<Neighbor>> {
        self.candidates.clear();
        (self.error, self.within, self.box_cutoff) = (0.0, f64::INFINITY, f32::MAX);
        self.work.queries += 1;
        let rows = self.work.rows;
        walk(self, target);
        self.lower_cutoff(target);
        self.measure(target);
        let compares_too_many = self.work.rows - rows > (self.partition.used() / 4).max(16 * self.k + NODE);
        let nearest = std::mem::take(&mut self.measured);
        (!compares_too_many).then_some(nearest)
    }

    /// Lowers the cutoff to the k-th candidate, and drops the candidates beyond it.
    fn lower_cutoff(&mut self, target: &Target<'_>) {
        if self.measured.is_empty() && self.candidates.len() >= self.k {
            let (_, &mut kth, _) = self.candidates.select_nth_unstable(self.k - 1);
            let axes = self.partition.axes();
            let kth = (f64::from(distance(kth)) * rounding(target.point) + UNDERFLOW).sqrt();
            let errors = f64::from(target.error) + self.error;
            self.set_cutoff((kth + errors) * axes.contraction() * axes.stretch(), target);
            let cutoff = squared(self.within + self.error, target.point);
            let mut len = self.k;
            for at in self.k..self.candidates.len() {
                self.candidates[len] = self.candidates[at];
                len += usize::from(distance(self.candidates[at]) <= cutoff);
            }
            self.candidates.truncate(len);
        }
        if self.candidates.len() > 2 * self.k + MAX_TIES {
            self.measure(target);
        }
    }

    /// Sets the cutoff for rows whose exact points are at most `reach` away from the exact point of the query.
    fn set_cutoff(&mut self, reach: f64, target: &Target<'_>) {
        self.within = reach + f64::from(target.error);
        self.box_cutoff = squared(self.within, target.point);
    }

    /// Measures all candidates, keeps the k nearest of all measured rows, and lowers the cutoff to the k-th distance.
    fn measure(&mut self, target: &Target<'_>) {
        let rows = self.index.stored_rows();
        self.work.rows += self.candidates.len();
        let first = self.measured.len();
        self.measured.reserve(self.candidates.len());
        for candidate in self.candidates.drain(..) {
            if let Some(id) = self.partition.id(candidate as u32) {
                rows.prefetch(id);
                self.measured.push((0.0, id));
            }
        }
        for (sq_distance, id) in &mut self.measured[first..] {
            *sq_distance = rows.sq_distance(target.row, *id);
        }
        keep_nearest(&mut self.measured, self.k);
        if let Some(&(kth, _)) = self.measured.get(self.k - 1) {
            let axes = self.partition.axes();
            self.set_cutoff((kth * axes.sq_unit()).sqrt() * axes.stretch(), target);
        }
    }
}

/// Squares of differences that underflow are below this number in total.
const UNDERFLOW: f64 = 1e-40;

/// One plus a bound on the relative rounding error of a sum of squares of differences in `f32`. The error is at most
/// `(width + 4) u`.
fn rounding(point: &[f32]) -> f64 {
    1.0 + (point.len() as f64 + 8.0) * 1.01 * F32_ROUNDOFF
}

/// The largest squared distance, as computed in `f32`, of points at most `within` apart.
fn squared(within: f64, point: &[f32]) -> f32 {
    ((within * within * rounding(point) + UNDERFLOW) as f32).next_up().min(f32::MAX)
}

fn keyed(distance: f32, number: u32) -> Keyed {
    u64::from(distance.to_bits()) << 32 | u64::from(number)
}

fn distance(keyed: Keyed) -> f32 {
    f32::from_bits((keyed >> 32) as u32)
}

for_each_instruction_set!(
    walk,
    walk_avx512,
    walk_avx2,
    walk_any,
    (state: &mut Walk<'_>, target: &Target<'_>) -> ()
);
for_each_instruction_set!(
    nearest_groups,
    nearest_groups_avx512,
    nearest_groups_avx2,
    nearest_groups_any,
    (boxes: &Boxes, points: &[f32], groups: &mut [u32]) -> ()
);

/// Collects the points within the cutoff.
#[inline(always)]
fn walk_any<const FMA: bool>(state: &mut Walk<'_>, target: &Target<'_>) {
    let boxes = state.partition.boxes();
    compare_group::<FMA>(state, target, target.first_group);
    state.lower_cutoff(target);
    state.stack.clear();
    state.stack.push(keyed(0.0, (boxes.levels() as u32) << BOX_BITS));
    while let Some(entry) = state.stack.pop() {
        if distance(entry) > state.box_cutoff {
            continue;
        }
        let (level, at) = (entry as u32 >> BOX_BITS, entry as u32 & ((1 << BOX_BITS) - 1));
        if level > 0 {
            open_box::<FMA>(state, target.point, level - 1, at);
        } else if at != target.first_group {
            compare_group::<FMA>(state, target, at);
            if state.candidates.len() >= state.k + SLACK {
                state.lower_cutoff(target);
            }
        }
    }
}

/// Pushes the boxes that are inside a box and within the cutoff onto the stack.
#[inline(always)]
fn open_box<const FMA: bool>(state: &mut Walk<'_>, point: &[f32], level: u32, at: u32) {
    let block = state.partition.boxes().block(level as usize, at as usize);
    let distances = boxes_within::<FMA>(point, block, state.box_cutoff);
    let mut within = boxes_at_most(&distances, state.box_cutoff);
    state.work.blocks += 1;
    let first = state.stack.len();
    while within != 0 {
        let lane = within.trailing_zeros();
        let entry = keyed(distances[lane as usize], level << BOX_BITS | (at * BOXES as u32 + lane));
        // Few boxes are within the cutoff. Insertion keeps the nearest last.
        let mut place = state.stack.len();
        state.stack.push(entry);
        while place > first && state.stack[place - 1] < entry {
            state.stack[place] = state.stack[place - 1];
            place -= 1;
        }
        state.stack[place] = entry;
        within &= within - 1;
    }
}

/// Adds the points of a group to the candidates, if they are within the cutoff.
#[inline(always)]
fn compare_group<const FMA: bool>(state: &mut Walk<'_>, target: &Target<'_>, group: u32) {
    let error = state.partition.error(group as usize / BOXES);
    let cutoff = squared(state.within + error, target.point);
    state.work.blocks += 1;
    let Some(distances) = points_within::<FMA>(target.point, state.partition.group(group as usize), cutoff)
    else {
        return;
    };
    let mut within = points_at_most(&distances, cutoff);
    let first = group * POINTS as u32;
    if let Some(excluded) = target.excluded.filter(|position| position / POINTS as u32 == group) {
        within &= !(1 << (excluded - first));
    }
    if within != 0 {
        state.error = state.error.max(error);
    }
    while within != 0 {
        let lane = within.trailing_zeros();
        state.candidates.push(keyed(distances[lane as usize], first + lane));
        within &= within - 1;
    }
}

/// The group that is reached by the nearest box of each level, for each point.
#[inline(always)]
fn nearest_groups_any<const FMA: bool>(boxes: &Boxes, points: &[f32], groups: &mut [u32]) {
    for (point, group) in points.chunks_exact(points.len() / groups.len()).zip(groups) {
        *group = 0;
        for level in (0..boxes.levels()).rev() {
            let distances = boxes_within::<FMA>(point, boxes.block(level, *group as usize), f32::INFINITY);
            let mut smallest = distances;
            for half in [8, 4, 2, 1] {
                for lane in 0..half {
                    let (a, b) = (smallest[lane], smallest[lane + half]);
                    smallest[lane] = if b < a { b } else { a };
                }
            }
            let nearest = boxes_at_most(&distances, smallest[0]).trailing_zeros();
            *group = *group * BOXES as u32 + nearest;
        }
    }
}
