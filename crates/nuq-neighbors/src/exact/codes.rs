//! Coarse distances from one byte per coordinate, by which most groups of a node are skipped.
//!
//! A point is a projected row. A node has 16 groups of 32 points (see [`partition`](super::partition)).
//!
//! The points of a node are in a cube with center m and half side 127 s. A point y has the code c with
//! `c_j = round((y_j − m_j) / s)` in column j, and the error `ε = ‖(y − m) / s − c‖`. For a query's point q, let q′
//! be the nearest point of the cube, with the code e and the error `ε′`. The cube is convex, so:
//!
//! ```text
//! ‖q − y‖² ≥ ‖q − q′‖² + ‖q′ − y‖²,    ‖q′ − y‖ / s ≥ ‖e − c‖ − ε − ε′
//! ```
//!
//! `‖e − c‖²` is an integer and is computed exactly. Codes are used on processors with byte products (AVX-512 VNNI),
//! which compare a point in about a sixth of the time of `f32` sums.

use rayon::prelude::*;

use super::lanes::{BOXES, POINTS};
use super::partition::NODE;
use crate::hnsw::CodeBlock;

/// The codes of the points of all nodes.
pub(super) struct Codes {
    width: usize,
    /// The step s of each node; zero for nodes without codes.
    steps: Vec<f32>,
    /// The largest error ε of a point of each node.
    errors: Vec<f32>,
    /// The center m of each node, with zeros after the last column.
    centers: Vec<f32>,
    /// The codes plus 128. A block has four columns of 16 points. Two consecutive blocks have the same four columns of
    /// all 32 points of a group.
    blocks: Vec<CodeBlock>,
    /// The squared norms of the codes.
    sq_norms: Vec<[i32; LANES]>,
}

const LANES: usize = 16;
/// The number of groups that are compared at the same time. Each product of a group waits for the previous product of this group, so
/// the products of several groups are computed in turn.
const TOGETHER: usize = 4;
/// The largest code.
const MAX_CODE: f32 = 127.0;
/// With fewer columns, the comparison of boxes leaves few groups, so codes would save no time.
const MIN_WIDTH: usize = 9;
/// The size of the arrays on the stack. Sums of codes and of their products over so many columns are exact.
const MAX_WIDTH: usize = 144;
/// The reciprocals of much smaller steps are outside the range of `f32`.
const MIN_STEP: f32 = 1e-30;
/// The squared norm of a position without a row. It exceeds the largest cutoff, so such a position is never near.
const NO_POINT: i32 = 1 << 29;
const MAX_CUTOFF: f64 = (1 << 28) as f64;
/// A bound on rounding errors of `f32`. It is used as the relative error of a sum, and as the absolute error of a column in steps.
const ROUNDING: f64 = 1e-4;

impl Codes {
    /// Computes the codes of points, given the boxes of their groups; `None` if codes are not supported.
    pub(super) fn new(points: &[f32], group_boxes: &[f32], width: usize) -> Option<Self> {
        if !Self::are_supported(width) {
            return None;
        }
        let (nodes, padded) = (points.len() / (NODE * width), width.next_multiple_of(LANES));
        let mut codes = Self {
            width,
            steps: vec![0.0; nodes],
            errors: vec![0.0; nodes],
            centers: vec![0.0; nodes * padded],
            blocks: vec![CodeBlock([0; 64]); nodes * BOXES * 2 * words(width)],
            sq_norms: vec![[NO_POINT; LANES]; nodes * NODE / LANES],
        };
        codes
            .steps
            .par_iter_mut()
            .zip(codes.errors.par_iter_mut())
            .zip(codes.centers.par_chunks_mut(padded))
            .zip(codes.blocks.par_chunks_mut(BOXES * 2 * words(width)))
            .zip(codes.sq_norms.par_chunks_mut(NODE / LANES))
            .zip(points.par_chunks(NODE * width).zip(group_boxes.par_chunks(2 * BOXES * width)))
            .for_each(|(((((step, error), center), blocks), sq_norms), (points, boxes))| {
                *step = fit_cube(boxes, center);
                if *step > 0.0 {
                    let groups =
                        points.chunks_exact(POINTS * width).zip(blocks.chunks_exact_mut(2 * words(width)));
                    for ((points, blocks), sq_norms) in groups.zip(sq_norms.chunks_exact_mut(2)) {
                        *error = error.max(encode(points, center, *step, blocks, sq_norms));
                    }
                }
            });
        Some(codes)
    }

    /// Whether the processor and the number of columns are suitable.
    pub(super) fn are_supported(width: usize) -> bool {
        has_byte_products() && (MIN_WIDTH..=MAX_WIDTH).contains(&width)
    }

    /// Drops the codes of a node whose points have changed, or adds a node without codes.
    pub(super) fn clear(&mut self, node: usize) {
        let nodes = self.steps.len().max(node + 1);
        self.steps.resize(nodes, 0.0);
        self.errors.resize(nodes, 0.0);
        self.centers.resize(nodes * self.width.next_multiple_of(LANES), 0.0);
        self.blocks.resize(nodes * BOXES * 2 * words(self.width), CodeBlock([0; 64]));
        self.sq_norms.resize(nodes * NODE / LANES, [NO_POINT; LANES]);
        self.steps[node] = 0.0;
    }

    /// The members of `groups`, one bit each, that may have a point within the distance `within` of the query's
    /// point.
    pub(super) fn groups_within(&self, node: usize, point: &[f32], within: f64, groups: u16) -> u16 {
        #[cfg(target_arch = "x86_64")]
        if self.steps[node] > 0.0 {
            // SAFETY: codes exist only on processors with these instructions, see `are_supported`.
            return unsafe { self.groups_within_vnni(node, point, within, groups) };
        }
        groups
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn groups_within_vnni(&self, node: usize, point: &[f32], within: f64, mut groups: u16) -> u16 {
        use std::arch::x86_64::{
            _mm512_cmple_epi32_mask, _mm512_dpbusd_epi32, _mm512_loadu_ps, _mm512_loadu_si512,
            _mm512_reduce_add_ps, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_slli_epi32,
            _mm512_sub_epi32,
        };
        let padded = self.width.next_multiple_of(LANES);
        let (mut query, mut codes) = ([0f32; MAX_WIDTH], [0i8; MAX_WIDTH]);
        query[..self.width].copy_from_slice(point);
        let center = &self.centers[node * padded..][..padded];
        let inverse = 1.0 / self.steps[node];
        // `sum` and `squares` are integers below 2²⁴, which `f32` represents exactly.
        let (mut outside, mut sum, mut squares, mut residual) =
            ([0f32; LANES], [0f32; LANES], [0f32; LANES], [0f32; LANES]);
        let chunks = query.as_chunks::<LANES>().0.iter().zip(center.as_chunks::<LANES>().0);
        for ((query, center), codes) in chunks.zip(codes.as_chunks_mut::<LANES>().0) {
            for lane in 0..LANES {
                let offset = (query[lane] - center[lane]) * inverse;
                let inside = if offset > MAX_CODE { MAX_CODE } else { offset };
                let inside = if inside < -MAX_CODE { -MAX_CODE } else { inside };
                outside[lane] += (offset - inside) * (offset - inside);
                // Adding `SHIFT` rounds the number to an integer, which is then in the lowest bits of the sum.
                const SHIFT: f32 = 12_582_912.0;
                let shifted = inside + SHIFT;
                let code = shifted - SHIFT;
                codes[lane] = shifted.to_bits() as u8 as i8;
                sum[lane] += code;
                squares[lane] += code * code;
                residual[lane] += (inside - code) * (inside - code);
            }
        }
        // SAFETY: the sixteen lanes have 64 bytes.
        let total =
            |lanes: [f32; LANES]| f64::from(_mm512_reduce_add_ps(unsafe { _mm512_loadu_ps(lanes.as_ptr()) }));
        let (outside, sum, squares) = (total(outside), total(sum), total(squares));
        let error = total(residual).sqrt() + f64::from(self.errors[node]) + columns_rounding(self.width);
        if !outside.is_finite() {
            return groups;
        }
        let columns = self.width as f64;
        let within = within / f64::from(self.steps[node]);
        let left = within * within * (1.0 + ROUNDING) - outside * (1.0 - ROUNDING) + columns * ROUNDING;
        if left < 0.0 {
            return 0;
        }
        let cutoff = (left.sqrt() + error).powi(2) + 1.0;
        // ‖e − c‖² = ‖c‖² − 2 Σ e (c + 128) + ‖e‖² + 256 Σ e
        let cutoff = cutoff.min(MAX_CUTOFF) - (squares + 256.0 * sum);
        let cutoff = _mm512_set1_epi32(cutoff as i32);
        let (words, mut near) = (words(self.width), 0);
        let mut query_words = [0i32; MAX_WIDTH / 4];
        for (word, code) in query_words.iter_mut().zip(codes.as_chunks::<4>().0) {
            *word = i32::from_le_bytes([code[0] as u8, code[1] as u8, code[2] as u8, code[3] as u8]);
        }
        let query_words = &query_words[..words];
        let blocks = &self.blocks[node * BOXES * 2 * words..][..BOXES * 2 * words];
        let sq_norms = self.sq_norms[node * NODE / LANES..][..NODE / LANES].as_chunks::<2>().0;
        while groups != 0 {
            // The last group fills unused places.
            let (mut chosen, mut last) = ([0; TOGETHER], 0);
            for place in &mut chosen {
                if groups != 0 {
                    last = groups.trailing_zeros() as usize;
                    groups &= groups - 1;
                }
                *place = last;
            }
            let pairs = |place: usize| blocks[chosen[place] * 2 * words..][..2 * words].as_chunks::<2>().0;
            let pairs = pairs(0).iter().zip(pairs(1)).zip(pairs(2).iter().zip(pairs(3)));
            let mut products = [[_mm512_setzero_si512(); 2]; TOGETHER];
            for (&word, ((a, b), (c, d))) in query_words.iter().zip(pairs) {
                let code = _mm512_set1_epi32(word);
                for (products, pair) in products.iter_mut().zip([a, b, c, d]) {
                    for (product, block) in products.iter_mut().zip(pair) {
                        // SAFETY: a block has 64 bytes.
                        let points = unsafe { _mm512_loadu_si512(block.0.as_ptr().cast()) };
                        *product = _mm512_dpbusd_epi32(*product, points, code);
                    }
                }
            }
            for (&group, products) in chosen.iter().zip(&products) {
                let is_near = |half: usize| {
                    // SAFETY: sixteen norms have 64 bytes.
                    let sq_norms = unsafe { _mm512_loadu_si512(sq_norms[group][half].as_ptr().cast()) };
                    let distances = _mm512_sub_epi32(sq_norms, _mm512_slli_epi32::<1>(products[half]));
                    _mm512_cmple_epi32_mask(distances, cutoff)
                };
                near |= u16::from(is_near(0) | is_near(1) != 0) << group;
            }
        }
        near
    }
}

/// A bound, in steps, on what rounding adds to the error ε′ of a query. Its coordinates are at most 127 steps from the center.
fn columns_rounding(width: usize) -> f64 {
    (width as f64).sqrt() * ROUNDING
}

/// The number of blocks that contain the columns of a point, four columns per block.
fn words(width: usize) -> usize {
    width.div_ceil(4)
}

pub(super) fn has_byte_products() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Writes the center of the smallest cube around the boxes of a node. Returns the step, or zero for a node without
/// codes.
fn fit_cube(boxes: &[f32], center: &mut [f32]) -> f32 {
    let mut half_side = 0f32;
    for (column, center) in boxes.chunks_exact(2 * BOXES).zip(center) {
        let (lower, upper) = column.split_at(BOXES);
        let lower = lower.iter().copied().fold(f32::INFINITY, f32::min);
        let upper = upper.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        *center = 0.5 * lower + 0.5 * upper;
        half_side = half_side.max(upper - *center).max(*center - lower);
    }
    let step = half_side / (MAX_CODE - 0.01);
    if step.is_finite() && step > MIN_STEP { step } else { 0.0 }
}

/// Writes the codes of the points of a group and their squared norms. Returns the largest error.
fn encode(
    points: &[f32],
    center: &[f32],
    step: f32,
    blocks: &mut [CodeBlock],
    sq_norms: &mut [[i32; LANES]],
) -> f32 {
    let mut largest = 0f64;
    let columns = points.as_chunks::<POINTS>().0;
    for at in 0..POINTS {
        if columns[0][at].is_infinite() {
            // The position has no row.
            continue;
        }
        let (half, lane) = (at / LANES, at % LANES);
        let (mut sq_norm, mut sq_error) = (0, 0.0);
        for (j, (column, center)) in columns.iter().zip(center).enumerate() {
            let offset = (f64::from(column[at]) - f64::from(*center)) / f64::from(step);
            let code = offset.round() as i32;
            sq_error += (offset - f64::from(code)).powi(2);
            sq_norm += code * code;
            blocks[j / 4 * 2 + half].0[lane * 4 + j % 4] = (code + 128) as u8;
        }
        sq_norms[half][lane] = sq_norm;
        largest = largest.max(sq_error.sqrt());
    }
    (largest as f32).next_up()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRng;

    /// Queries inside and far outside of the cube, and distances from zero to beyond all points.
    #[test]
    fn groups_with_a_point_within_the_distance_are_not_skipped() {
        let mut rng = SeededRng::new(1);
        let mut skipped = 0;
        for width in [9, 16, 33, 137] {
            let mut points = vec![0f32; NODE * width];
            points.iter_mut().for_each(|y| *y = rng.normal() as f32);
            // The last groups are far from the others, and the last point has no row.
            points[12 * POINTS * width..].iter_mut().for_each(|y| *y += 20.0);
            (0..width).for_each(|j| points[(15 * width + j) * POINTS + POINTS - 1] = f32::INFINITY);
            let mut boxes = vec![0f32; 2 * BOXES * width];
            for (j, column) in boxes.chunks_exact_mut(2 * BOXES).enumerate() {
                for group in 0..BOXES {
                    let values = &points[(group * width + j) * POINTS..][..POINTS];
                    let values = || values.iter().copied().filter(|y| y.is_finite());
                    column[group] = values().fold(f32::INFINITY, f32::min);
                    column[BOXES + group] = values().fold(f32::NEG_INFINITY, f32::max);
                }
            }
            let Some(codes) = Codes::new(&points, &boxes, width) else { continue };
            for spread in [1.0, 30.0, 1e4] {
                let query: Vec<f32> = (0..width).map(|_| (spread * rng.normal()) as f32).collect();
                let sq_distance = |group: usize, lane: usize| {
                    let column = |j: usize| points[(group * width + j) * POINTS + lane];
                    (0..width).map(|j| (f64::from(query[j]) - f64::from(column(j))).powi(2)).sum::<f64>()
                };
                let nearest: Vec<f64> = (0..BOXES)
                    .map(|group| {
                        let distances = (0..POINTS).map(|lane| sq_distance(group, lane).sqrt());
                        distances.fold(f64::INFINITY, f64::min)
                    })
                    .collect();
                for within in nearest.iter().flat_map(|d| [0.0, 0.9 * d, *d, 1.1 * d, f64::INFINITY]) {
                    let groups = codes.groups_within(0, &query, within, u16::MAX);
                    for (group, &distance) in nearest.iter().enumerate() {
                        assert!(distance > within || groups >> group & 1 == 1, "{width} {spread} {within}");
                    }
                    skipped += groups.count_zeros();
                }
            }
        }
        assert!(skipped > 0 || !has_byte_products());
    }
}
