//! Distances between queries and rows, computed from one byte per coordinate, with a bound on their error.
//!
//! A rescaled row b has the code `c_j = round(b_j / s)` in column j, with a step `s = max |b_j| / 127` of its own.
//! For `b̂ = s c`, the error `‖b − b̂‖` is computed together with the code. Let a be a query with the step t and the
//! code e. By the triangle inequality,
//!
//! ```text
//! | ‖a − b‖ − ‖â − b̂‖ | ≤ ‖a − â‖ + ‖b − b̂‖,    ‖â − b̂‖² = ‖â‖² + ‖b̂‖² − 2 t s (e·c)
//! ```
//!
//! `e·c` is an integer and is computed exactly. Codes are used on processors with byte products (AVX-512 VNNI), which
//! multiply four times as many coordinates per instruction as `f32` products.

use std::ops::{Range, RangeInclusive};

use rayon::prelude::*;

use super::axes::F32_ROUNDOFF;
use super::codes::has_byte_products;
use super::lanes::POINTS;
use super::partition::NO_ROW;
use super::rescaler::Rescaler;
use crate::cancel::Checkpoint;
use crate::hnsw::CodeBlock;
use crate::{RowStorage, StoredRows};

/// The codes of rows, in groups of 32.
pub(super) struct RowCodes {
    dim: usize,
    /// The codes plus 128. A block contains four columns of 16 rows. Two consecutive blocks contain
    /// the same four columns of the 32 rows of a group.
    blocks: Vec<CodeBlock>,
    groups: Vec<Group>,
    /// The extent of each group.
    extents: Vec<Extent>,
}

/// The values of a group of rows in addition to their codes.
#[derive(Clone)]
struct Group {
    /// The step of each row, times −2.
    factors: [f32; POINTS],
    /// `‖b̂‖²` of each row; infinite at places without a row.
    sq_norms: [f32; POINTS],
    /// An upper bound on `‖b − b̂‖` of each row.
    errors: [f32; POINTS],
}

/// The largest norm and the largest error of the codes of several rows.
#[derive(Clone, Copy, Default)]
pub(super) struct Extent {
    /// The largest `‖b̂‖`.
    norm: f64,
    /// The largest `‖b − b̂‖`.
    error: f64,
}

/// The codes of queries.
pub(super) struct QueryCodes {
    words: usize,
    /// Four codes per word.
    codes: Vec<i32>,
    queries: Vec<CodedQuery>,
}

#[derive(Clone, Copy, Default)]
struct CodedQuery {
    step: f32,
    /// 128 times the sum of the codes. It is subtracted from the products, because 128 is added to the codes of rows.
    shift: i32,
    /// `‖â‖²` and `‖â‖`.
    sq_norm: f64,
    norm: f64,
    /// `‖a − â‖`.
    error: f64,
}

/// A query whose distances to rows are bounded.
#[derive(Clone, Copy)]
pub(super) struct QueryBounds<'c> {
    pub(super) codes: &'c RowCodes,
    pub(super) coded: &'c QueryCodes,
    /// The number of the query in `coded`.
    pub(super) query: usize,
}

/// Bounds on the distance of a row, given its score `‖â − b̂‖² − ‖â‖²` in `f32`.
pub(super) struct CodedBounds {
    /// `‖â‖²`.
    sq_norm: f64,
    /// A bound on the rounding error of the score.
    rounding: f64,
    /// The error of the query's code plus the largest error of the codes of the rows.
    error: f64,
}

/// The cutoffs of rows or groups with different errors: `(base + error)² + offset` is at least the score of a row with this error whose
/// distance is at most a limit.
#[derive(Clone, Copy)]
pub(super) struct Cutoffs {
    base: f32,
    offset: f32,
}

/// The scores `‖b̂‖² − 2 â·b̂` of up to [`QUERIES`] queries and the rows of a group.
pub(super) type Scores = [[f32; POINTS]; QUERIES];

/// Queries that are compared with a group at a time.
pub(super) const QUERIES: usize = 8;
const LANES: usize = 16;
/// The largest code.
const MAX_CODE: f64 = 127.0;
/// The smallest step. The product of two such steps is still a normal number.
const MIN_STEP: f32 = 1e-18;
/// With fewer columns, scores take longer to compare than to compute. With more, sums of code products may overflow 32 bits.
pub(crate) const CODED_COLUMNS: RangeInclusive<usize> = 64..=60_000;
/// A bound on the rounding errors in the computation of `‖b − b̂‖`, relative to this norm and to
/// the step.
const ROUNDING: f64 = 1e-6;

impl RowCodes {
    /// Computes the codes of the rows with the given ids, in this order; [`NO_ROW`] for positions without a row.
    /// `None` if the processor or the number of columns is not suitable.
    pub(super) fn new(rows: &StoredRows<'_>, rescaler: &Rescaler, ids: &[u32]) -> Option<Self> {
        let dim = rows.dim();
        if !Self::are_supported(dim) {
            return None;
        }
        let mut codes = Self { dim, blocks: vec![], groups: vec![], extents: vec![] };
        codes.reserve(ids.len().div_ceil(POINTS));
        let here = Checkpoint::current();
        let groups = codes.groups.par_iter_mut().zip(codes.extents.par_iter_mut());
        let blocks = codes.blocks.par_chunks_mut(2 * words(dim)).zip(groups);
        blocks.zip(ids.par_chunks(POINTS)).for_each(|((blocks, (group, extent)), ids)| {
            here.check();
            let mut code = vec![0i8; dim];
            for (place, &id) in ids.iter().enumerate().filter(|(_, id)| **id != NO_ROW) {
                let coded = encode(rescaler, &rows.row(id), &mut code);
                extent.add(&coded);
                group.write(blocks, place, &coded, &code);
            }
        });
        Some(codes)
    }

    /// Whether the processor and the number of columns are suitable.
    pub(super) fn are_supported(dim: usize) -> bool {
        has_byte_products() && CODED_COLUMNS.contains(&dim)
    }

    /// Adds empty groups until there are `count`.
    fn reserve(&mut self, count: usize) {
        let empty =
            Group { factors: [0.0; POINTS], sq_norms: [f32::INFINITY; POINTS], errors: [0.0; POINTS] };
        let count = count.max(self.groups.len());
        self.groups.resize(count, empty);
        self.extents.resize(count, Extent::default());
        self.blocks.resize(count * 2 * words(self.dim), CodeBlock([0; 64]));
    }

    /// Writes the code of the row at a position.
    pub(super) fn write(&mut self, position: usize, row: &[f32], rescaler: &Rescaler) {
        let (group, place, size) = (position / POINTS, position % POINTS, 2 * words(self.dim));
        self.reserve(group + 1);
        let mut code = vec![0i8; self.dim];
        let coded = encode(rescaler, row, &mut code);
        self.extents[group].add(&coded);
        self.groups[group].write(&mut self.blocks[group * size..][..size], place, &coded, &code);
    }

    /// Removes the row at a position.
    pub(super) fn remove(&mut self, position: usize) {
        self.groups[position / POINTS].sq_norms[position % POINTS] = f32::INFINITY;
    }

    /// The number of bytes of the codes of a group.
    pub(super) fn group_bytes(&self) -> usize {
        2 * words(self.dim) * size_of::<CodeBlock>()
    }

    /// The number of groups.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Computes the codes of queries.
    pub(super) fn encode<'q>(
        &self,
        queries: impl ExactSizeIterator<Item = &'q [f32]>,
        rescaler: &Rescaler,
    ) -> QueryCodes {
        let words = words(self.dim);
        let mut coded =
            QueryCodes { words, codes: Vec::with_capacity(queries.len() * words), queries: vec![] };
        let mut code = vec![0i8; 4 * words];
        for row in queries {
            let Coded { step, sq_norm, error } = encode(rescaler, row, &mut code[..self.dim]);
            let shift = 128 * code.iter().map(|&c| i32::from(c)).sum::<i32>();
            coded.queries.push(CodedQuery { step, shift, sq_norm, norm: sq_norm.sqrt(), error });
            let bytes = code.as_chunks::<4>().0.iter();
            coded.codes.extend(bytes.map(|bytes| i32::from_le_bytes(bytes.map(|c| c as u8))));
        }
        coded
    }

    /// The largest norm and error of the rows of several groups.
    pub(super) fn extent(&self, groups: Range<usize>) -> Extent {
        self.extents[groups]
            .iter()
            .fold(Extent::default(), |a, b| Extent { norm: a.norm.max(b.norm), error: a.error.max(b.error) })
    }

    /// An upper bound on the errors of the rows of a group.
    pub(super) fn group_error(&self, group: usize) -> f32 {
        (self.extents[group].error as f32).next_up()
    }

    /// Upper bounds on the errors of the rows of a group.
    pub(super) fn row_errors(&self, group: usize) -> &[f32; POINTS] {
        &self.groups[group].errors
    }

    /// Writes the scores of up to eight queries and the rows of a group. Scores of places without a row are infinite.
    /// Returns the smallest score of each query.
    pub(super) fn scores(
        &self,
        queries: &QueryCodes,
        chosen: &[u16],
        group: usize,
        scores: &mut Scores,
    ) -> [f32; QUERIES] {
        #[cfg(target_arch = "x86_64")]
        {
            let size = 2 * queries.words;
            let (blocks, group) = (&self.blocks[group * size..][..size], &self.groups[group]);
            let mut smallest = [f32::INFINITY; QUERIES];
            // Consecutive products of one query wait for each other. Products of other queries fill the waiting times.
            macro_rules! compare {
                ($($count:literal)*) => {
                    match chosen.len() {
                        $($count => if let Ok(chosen) = <[u16; $count]>::try_from(chosen) {
                            // SAFETY: codes exist only on processors with these instructions, see `are_supported`.
                            let of_queries = unsafe { scores_vnni::<$count, { chains($count) }>(queries, chosen, blocks, group, scores) };
                            smallest[..$count].copy_from_slice(&of_queries);
                        },)*
                        _ => unreachable!("at most {QUERIES} queries are compared at a time"),
                    }
                };
            }
            compare!(0 1 2 3 4 5 6 7 8);
            smallest
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (queries, chosen, group, scores);
            unreachable!("codes exist only on processors with byte products");
        }
    }
}

impl Extent {
    fn add(&mut self, coded: &Coded) {
        *self = Self { norm: self.norm.max(coded.sq_norm.sqrt()), error: self.error.max(coded.error) };
    }
}

impl Group {
    fn write(&mut self, blocks: &mut [CodeBlock], place: usize, coded: &Coded, code: &[i8]) {
        self.factors[place] = -2.0 * coded.step;
        self.sq_norms[place] = coded.sq_norm as f32;
        self.errors[place] = (coded.error as f32).next_up();
        let (half, lane) = (place / LANES, place % LANES);
        for (j, &code) in code.iter().enumerate() {
            blocks[j / 4 * 2 + half].0[lane * 4 + j % 4] = (i16::from(code) + 128) as u8;
        }
    }
}

impl QueryCodes {
    /// An upper bound on the norm of a query.
    pub(super) fn norm(&self, query: usize) -> f64 {
        self.queries[query].norm + self.queries[query].error
    }
}

impl QueryBounds<'_> {
    /// The bounds for rows with at most the given norm and error.
    ///
    /// A score has four rounding errors: in `‖b̂‖²`, in the conversion of `e·c` to `f32`, in the product of the steps, and
    /// in the sum.
    pub(super) fn of_rows(&self, rows: Extent) -> CodedBounds {
        let query = &self.coded.queries[self.query];
        let size = rows.norm * (rows.norm + query.norm);
        CodedBounds {
            sq_norm: query.sq_norm,
            rounding: 16.0 * F32_ROUNDOFF * size + 1e-35,
            error: query.error + rows.error,
        }
    }

    /// The bounds for the rows of a group.
    pub(super) fn of_group(&self, group: usize) -> CodedBounds {
        self.of_rows(self.codes.extents[group])
    }

    /// The bounds for the row at a position. They are narrower than those of its group.
    pub(super) fn of_row(&self, position: usize) -> CodedBounds {
        let (group, place) = (position / POINTS, position % POINTS);
        let Extent { norm, .. } = self.codes.extents[group];
        self.of_rows(Extent { norm, error: f64::from(self.codes.groups[group].errors[place]) })
    }
}

impl QueryBounds<'_> {
    /// The cutoffs of rows with at most the given norm and error.
    pub(super) fn cutoffs(&self, rows: Extent, limit: f64) -> Cutoffs {
        let bounds = self.of_rows(rows);
        let base = limit + self.coded.queries[self.query].error;
        let offset = bounds.rounding - bounds.sq_norm;
        // The sum of base and error, its square, and the sum with the offset are rounded.
        let slack = 8.0 * F32_ROUNDOFF * ((limit + bounds.error).powi(2) + offset.abs());
        Cutoffs { base: (base as f32).next_up(), offset: ((offset + slack) as f32).next_up() }
    }
}

impl Cutoffs {
    /// The scores that are at most the cutoffs, one bit each.
    pub(super) fn near(self, scores: &[f32; POINTS], errors: &[f32; POINTS]) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if has_byte_products() {
            // SAFETY: processors with byte products have AVX-512F, the only requirement of the function.
            return unsafe { self.near_avx512(scores, errors) };
        }
        let of_place = |place: usize| {
            let within = self.base + errors[place];
            u32::from(scores[place] <= within * within + self.offset) << place
        };
        (0..POINTS).map(of_place).sum()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn near_avx512(self, scores: &[f32; POINTS], errors: &[f32; POINTS]) -> u32 {
        use std::arch::x86_64::{
            _CMP_LE_OQ, _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps,
        };
        let half = |at: usize| {
            // SAFETY: a half has 16 scores and 16 errors.
            let (scores, errors) =
                unsafe { (_mm512_loadu_ps(scores[at..].as_ptr()), _mm512_loadu_ps(errors[at..].as_ptr())) };
            let within = _mm512_add_ps(_mm512_set1_ps(self.base), errors);
            let cutoffs = _mm512_fmadd_ps(within, within, _mm512_set1_ps(self.offset));
            u32::from(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(scores, cutoffs))
        };
        half(0) | half(LANES) << LANES
    }
}

impl CodedBounds {
    /// The largest score of a row whose distance is at most the limit.
    pub(super) fn cutoff(&self, limit: f64) -> f32 {
        let within = limit + self.error;
        ((within * within - self.sq_norm + self.rounding) as f32).next_up()
    }

    /// The lower and the upper bound on the distance of a row with the given score.
    pub(super) fn of(&self, score: f32) -> [f64; 2] {
        let sq_distance = f64::from(score) + self.sq_norm;
        [
            (sq_distance - self.rounding).max(0.0).sqrt() - self.error,
            (sq_distance + self.rounding).max(0.0).sqrt() + self.error,
        ]
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn scores_vnni<const Q: usize, const CHAINS: usize>(
    queries: &QueryCodes,
    chosen: [u16; Q],
    blocks: &[CodeBlock],
    group: &Group,
    scores: &mut [[f32; POINTS]],
) -> [f32; Q] {
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_ps,
        _mm512_loadu_si512, _mm512_min_ps, _mm512_mul_ps, _mm512_reduce_min_ps, _mm512_set1_epi32,
        _mm512_set1_ps, _mm512_setzero_si512, _mm512_storeu_ps, _mm512_sub_epi32,
    };
    let words = queries.words;
    let mut codes = [&queries.codes[..0]; Q];
    for (codes, query) in codes.iter_mut().zip(chosen) {
        *codes = &queries.codes[query as usize * words..][..words];
    }
    let (pairs, mut sums) = (blocks.as_chunks::<2>().0, [[_mm512_setzero_si512(); 2]; Q]);
    // A sum has `CHAINS` parts, which are added to in turn: each addition waits for the previous one to the same part.
    let mut parts = [[[_mm512_setzero_si512(); 2]; CHAINS]; Q];
    let mut add = |word: usize, chain: usize| {
        // SAFETY: a block has 64 bytes.
        let rows = unsafe {
            [
                _mm512_loadu_si512(pairs[word][0].0.as_ptr().cast()),
                _mm512_loadu_si512(pairs[word][1].0.as_ptr().cast()),
            ]
        };
        for q in 0..Q {
            // SAFETY: a query has as many words as a group has pairs of blocks.
            let code = _mm512_set1_epi32(unsafe { *codes[q].get_unchecked(word) });
            let part = &mut parts[q][chain];
            *part =
                [_mm512_dpbusd_epi32(part[0], rows[0], code), _mm512_dpbusd_epi32(part[1], rows[1], code)];
        }
    };
    let whole = words / CHAINS * CHAINS;
    for first in (0..whole).step_by(CHAINS) {
        (0..CHAINS).for_each(|chain| add(first + chain, chain));
    }
    (whole..words).for_each(|word| add(word, 0));
    for (sums, parts) in sums.iter_mut().zip(parts) {
        for part in parts {
            *sums = [_mm512_add_epi32(sums[0], part[0]), _mm512_add_epi32(sums[1], part[1])];
        }
    }
    let mut smallest = [f32::INFINITY; Q];
    for q in 0..Q {
        let query = &queries.queries[chosen[q] as usize];
        let (shift, step) = (_mm512_set1_epi32(query.shift), _mm512_set1_ps(query.step));
        let mut nearest = _mm512_set1_ps(f32::INFINITY);
        for half in 0..2 {
            let product = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums[q][half], shift));
            // SAFETY: a group has 32 values of each kind, and a query has 32 scores, 16 per half.
            unsafe {
                let factors = _mm512_loadu_ps(group.factors[half * LANES..].as_ptr());
                let sq_norms = _mm512_loadu_ps(group.sq_norms[half * LANES..].as_ptr());
                let score = _mm512_fmadd_ps(product, _mm512_mul_ps(factors, step), sq_norms);
                _mm512_storeu_ps(scores[q][half * LANES..].as_mut_ptr(), score);
                nearest = _mm512_min_ps(nearest, score);
            }
        }
        smallest[q] = _mm512_reduce_min_ps(nearest);
    }
    smallest
}

/// The number of parts of each sum for a number of queries. Each query has two sums, one for each half of a group. No addition must wait
/// if there are at least eight parts in total, so one part per sum is enough from four queries on.
const fn chains(queries: usize) -> usize {
    match queries {
        0 | 1 => 4,
        2 | 3 => 2,
        _ => 1,
    }
}

/// The number of words of a row, with four columns per word.
fn words(dim: usize) -> usize {
    dim.div_ceil(4)
}

/// The step of a row, `‖b̂‖²` and `‖b − b̂‖`.
struct Coded {
    step: f32,
    sq_norm: f64,
    error: f64,
}

/// Writes the code of a row.
fn encode(rescaler: &Rescaler, row: &[f32], code: &mut [i8]) -> Coded {
    #[cfg(target_arch = "x86_64")]
    if has_byte_products() {
        // SAFETY: processors with byte products have AVX-512F, the only requirement of the function.
        return unsafe { encode_avx512(rescaler, row, code) };
    }
    encode_any(rescaler, row, code)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn encode_avx512(rescaler: &Rescaler, row: &[f32], code: &mut [i8]) -> Coded {
    encode_any(rescaler, row, code)
}

#[inline(always)]
fn encode_any(rescaler: &Rescaler, row: &[f32], code: &mut [i8]) -> Coded {
    const LANES: usize = 8;
    let mut rescaled: Vec<f64> = Vec::with_capacity(row.len().next_multiple_of(LANES));
    rescaled.extend(rescaler.exact(row));
    // Zeros have the code 0 and no error.
    rescaled.resize(row.len().next_multiple_of(LANES), 0.0);
    let chunks = rescaled.as_chunks::<LANES>().0;
    let mut largest = [0f64; LANES];
    for chunk in chunks {
        for (largest, b) in largest.iter_mut().zip(chunk) {
            *largest = if b.abs() > *largest { b.abs() } else { *largest };
        }
    }
    let largest = largest.into_iter().fold(0.0, f64::max);
    let step = ((largest / MAX_CODE) as f32).max(MIN_STEP);
    let (inverse, step64) = (1.0 / f64::from(step), f64::from(step));
    let (mut sq_errors, mut squares) = ([0f64; LANES], [0f64; LANES]);
    for (chunk, code) in chunks.iter().zip(code.chunks_mut(LANES)) {
        let mut codes = [0i8; LANES];
        for lane in 0..LANES {
            // Adding `SHIFT` rounds a number to an integer, and the lowest byte of the sum is that of the integer.
            const SHIFT: f64 = 6_755_399_441_055_744.0;
            let scaled = chunk[lane] * inverse;
            let scaled = if scaled > MAX_CODE { MAX_CODE } else { scaled };
            let scaled = if scaled < -MAX_CODE { -MAX_CODE } else { scaled };
            let shifted = scaled + SHIFT;
            let rounded = shifted - SHIFT;
            let error = chunk[lane] - rounded * step64;
            sq_errors[lane] += error * error;
            squares[lane] += rounded * rounded;
            codes[lane] = shifted.to_bits() as i8;
        }
        code.copy_from_slice(&codes[..code.len()]);
    }
    let error = sq_errors.iter().sum::<f64>().sqrt();
    let sq_norm = squares.iter().sum::<f64>() * step64 * step64;
    Coded { step, sq_norm, error: error * (1.0 + ROUNDING) + ROUNDING * step64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embeddings, Precision, SeededRng};

    #[test]
    fn bounds_contain_the_distances() {
        let mut rng = SeededRng::new(1);
        for (dim, spread) in [(64, 1.0), (67, 1e-20), (300, 1e10), (1001, 30.0)] {
            let mut rows: Vec<f32> = (0..50 * dim).map(|_| (spread * rng.normal()) as f32).collect();
            // A row with one large coordinate, a row of zeros, and a duplicate.
            rows[3 * dim] = (100.0 * spread) as f32;
            rows[4 * dim..5 * dim].fill(0.0);
            rows.copy_within(5 * dim..6 * dim, 6 * dim);
            let stored =
                StoredRows::new(&Embeddings::new(rows.clone(), dim).unwrap(), Precision::F32).unwrap();
            let rescaler = Rescaler::fit(&stored).expect("rows in the range of f32");
            let ids: Vec<u32> = (0..50).map(|id| if id == 7 { NO_ROW } else { id }).collect();
            let Some(codes) = RowCodes::new(&stored, &rescaler, &ids) else { continue };
            let queries: Vec<&[f32]> = rows.chunks_exact(dim).take(13).collect();
            let coded = codes.encode(queries.iter().copied(), &rescaler);
            for (chosen, group) in [([0u16, 1, 2, 3, 4, 5, 6, 7].as_slice(), 0), (&[8, 9, 10, 11, 12], 1)] {
                let mut scores: Scores = [[0.0; POINTS]; QUERIES];
                let smallest = codes.scores(&coded, chosen, group, &mut scores);
                for (smallest, scores) in smallest.iter().zip(&scores).take(chosen.len()) {
                    assert_eq!(*smallest, scores.iter().copied().fold(f32::INFINITY, f32::min));
                }
                // The number of parts of each sum depends on the number of queries; the scores do not.
                for count in 1..chosen.len() {
                    let mut of_fewer: Scores = [[0.0; POINTS]; QUERIES];
                    codes.scores(&coded, &chosen[..count], group, &mut of_fewer);
                    assert_eq!(of_fewer[..count], scores[..count]);
                }
                for (&query, scores) in chosen.iter().zip(&scores) {
                    let bounds = QueryBounds { codes: &codes, coded: &coded, query: query as usize };
                    for (place, &score) in scores.iter().enumerate() {
                        let id = ids.get(group * POINTS + place).copied().filter(|&id| id != NO_ROW);
                        let Some(id) = id else {
                            assert_eq!(score, f32::INFINITY);
                            continue;
                        };
                        let (a, b) = (queries[query as usize], stored.row(id));
                        let differences = rescaler.exact(a).zip(rescaler.exact(&b));
                        let distance = differences.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                        for bounds in [bounds.of_group(group), bounds.of_row(group * POINTS + place)] {
                            let [lower, upper] = bounds.of(score);
                            assert!(
                                lower <= distance && distance <= upper,
                                "{dim} {lower} {distance} {upper}"
                            );
                            assert!(score <= bounds.cutoff(distance), "{dim} {score} {distance}");
                        }
                        let is_near = |limit: f64, errors: &[f32; POINTS]| {
                            let cutoffs = bounds.cutoffs(codes.extent(0..2), limit);
                            cutoffs.near(scores, errors) >> place & 1 == 1
                        };
                        let (of_row, of_group) =
                            (codes.row_errors(group), [codes.group_error(group); POINTS]);
                        assert!(
                            is_near(distance, of_row) && is_near(distance, &of_group),
                            "{dim} {distance}"
                        );
                        let of_this_row = bounds.of_row(group * POINTS + place);
                        // Cutoffs allow for rounding errors that are relative to the norms, so they are slightly above the bound of a row.
                        let below = 0.99 * of_this_row.of(score)[0];
                        assert!(below <= 0.0 || !is_near(below, of_row), "{dim} {distance} {below}");
                        let [lower, upper] = bounds.of_group(group).of(score);
                        // The row with the large coordinate, in the first group, has a large error.
                        let norms = rescaler.sq_norm(&b).sqrt() + rescaler.sq_norm(a).sqrt();
                        assert!(group == 0 || upper - lower < 0.1 * norms, "{dim} {lower} {upper}");
                    }
                }
            }
        }
    }
}
