//! Seven bits a coordinate: what a walk reads instead of rows four times as long.
//!
//! $c_j = \mathrm{round}\big((x_j - m_j)/s\big) + 64$, clipped to $0 \dots 127$, with the mean $m$ of a sample of rows and
//! one step $s$ for all coordinates, so that distances between codes are distances between rows, up to rounding. Most
//! embeddings lose nothing by it that ranking the survivors by their rows does not restore; whether these do is
//! [measured](Codes::tell_apart), not assumed.

use rayon::prelude::*;

use super::vectors::{CodeBlock, Vectors};
use crate::neighbors::{Neighbor, keep_nearest};
use crate::parts::CodeParts;
use crate::{Embeddings, NeighborIndex, Neighbors, SeededRng, SharedSlice};

/// How rows become codes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Coder {
    center: Vec<f32>,
    step: f32,
}

/// Rows in codes.
#[derive(Clone)]
pub(crate) struct Codes<'a> {
    pub(crate) coder: Coder,
    pub(crate) lines: SharedSlice<'a, CodeBlock>,
    /// Rows added later that the codes do not reach.
    pub(crate) unreached: usize,
}

/// The code of the center, and the largest.
const MIDDLE: f32 = 64.0;
const LARGEST: f32 = 127.0;
/// Rows that center and step are learned from.
const SAMPLE: usize = 1024;
/// The share of coordinates that the step leaves to be clipped.
const CLIPPED: f64 = 1e-4;
/// A query whose codes miss it by this much more than rounding would is walked on the rows.
const FARTHEST: f64 = 4.0;
/// Fewer coordinates than this hold too few codes to tell rows apart, and save little.
const FEWEST_COLUMNS: usize = 32;
/// In more than this many the sum of squares may not fit 32 bits.
const MOST_COLUMNS: usize = 1 << 17;
/// Training points whose neighbors codes must find, how many of each, and the share.
const JUDGES: usize = 64;
const JUDGED: usize = 10;
const FAITHFUL: f64 = 0.99;
/// Rows that a judge meets at a time.
const BLOCK: usize = 1024;

impl Coder {
    /// Learns center and step from a seeded sample; `None` where all rows are one, or have few columns.
    pub(crate) fn learn(rows: &Embeddings<'_>, seed: u64) -> Option<Self> {
        if !(FEWEST_COLUMNS..=MOST_COLUMNS).contains(&rows.dim()) {
            return None;
        }
        let sample = rows.gather(&SeededRng::new(seed ^ 0xC0DE).sample(rows.len(), SAMPLE));
        let mean = |j: usize| sample.rows().map(|row| f64::from(row[j])).sum::<f64>() / sample.len() as f64;
        let center: Vec<f32> = (0..rows.dim()).map(|j| mean(j) as f32).collect();
        let mut offsets = sample.as_slice().to_vec();
        offsets.iter_mut().zip(center.iter().cycle()).for_each(|(x, m)| *x = (*x - m).abs());
        let last = offsets.len() - 1 - (offsets.len() as f64 * CLIPPED) as usize;
        let (_, &mut reach, _) = offsets.select_nth_unstable_by(last, f32::total_cmp);
        let step = reach / (MIDDLE - 1.0);
        (step > 0.0 && step.is_finite()).then_some(Self { center, step })
    }

    /// Lines of one row.
    pub(crate) fn width(&self) -> usize {
        self.center.len().div_ceil(64)
    }

    /// The codes of rows that stand one after the other.
    pub(crate) fn encode(&self, rows: &[f32]) -> Vec<CodeBlock> {
        let dim = self.center.len();
        let mut lines = vec![CodeBlock([0; 64]); rows.len() / dim * self.width()];
        lines
            .par_chunks_mut(self.width())
            .zip(rows.par_chunks(dim))
            .with_min_len(256)
            .for_each(|(lines, row)| self.encode_row(row, lines));
        lines
    }

    /// Writes the codes of a row; columns beyond the last are the same in all rows.
    pub(crate) fn encode_row(&self, row: &[f32], lines: &mut [CodeBlock]) {
        let inverse = 1.0 / self.step;
        for ((line, row), center) in lines.iter_mut().zip(row.chunks(64)).zip(self.center.chunks(64)) {
            for ((code, x), m) in line.0.iter_mut().zip(row).zip(center) {
                *code = ((x - m) * inverse + (MIDDLE + 0.5)).clamp(0.0, LARGEST) as u8;
            }
        }
    }

    /// Whether the codes of a query are about as near to it as those of training rows are to them: far from the data
    /// they are not.
    pub(crate) fn reaches(&self, query: &[f32]) -> bool {
        let inverse = 1.0 / self.step;
        let missed = |(x, m): (&f32, &f32)| {
            let place = (x - m) * inverse;
            f64::from(place - place.clamp(-MIDDLE, LARGEST - MIDDLE)).powi(2)
        };
        let missed: f64 = query.iter().zip(&self.center).map(missed).sum();
        missed <= FARTHEST * self.center.len() as f64 / 12.0
    }
}

impl Codes<'static> {
    /// The codes of all rows.
    pub(crate) fn of(rows: &Embeddings<'_>, coder: Coder) -> Self {
        let lines = coder.encode(rows.as_slice()).into();
        Self { coder, lines, unreached: 0 }
    }
}

impl<'a> Codes<'a> {
    pub(super) fn parts(&self) -> CodeParts<'_> {
        let Self { coder: Coder { center, step }, lines, unreached } = self;
        let lines = SharedSlice::borrowed(&lines[..]);
        CodeParts { center: center.clone(), step: *step, unreached: *unreached, lines }
    }

    /// Codes that were written elsewhere; `None` when they are not those of `ids` rows of `dim` columns.
    pub(super) fn restored(parts: CodeParts<'a>, ids: usize, dim: usize) -> Option<Self> {
        let CodeParts { center, step, unreached, lines } = parts;
        let coder = Coder { center, step };
        let makes_sense = coder.center.len() == dim
            && dim <= MOST_COLUMNS
            && coder.center.iter().all(|m| m.is_finite())
            && step.is_normal()
            && step > 0.0
            && lines.len() == ids * coder.width();
        makes_sense.then_some(Self { coder, lines, unreached })
    }

    /// Whether all codes are of 7 bits, as the leaves expect.
    pub(super) fn are_sound(&self) -> bool {
        self.lines.par_iter().all(|line| line.0.iter().all(|&code| code < 128))
    }

    pub(super) fn vectors(&self) -> Vectors<'_, CodeBlock> {
        Vectors::new(&self.lines, self.coder.width())
    }

    /// Whether the nearest rows by codes, twice as many as asked for, hold nearly all the truly nearest: of a seeded
    /// sample of training points, against exact search.
    pub(super) fn tell_apart(&self, index: &dyn NeighborIndex, seed: u64) -> bool {
        let present: Vec<u32> = (0..index.ids() as u32).filter(|&id| index.contains(id)).collect();
        let judges = SeededRng::new(seed ^ 0x1D6E).sample(present.len(), JUDGES);
        let judges: Vec<u32> = judges.into_iter().map(|i| present[i as usize]).collect();
        let Ok(truth) = index.leave_one_out(&judges, JUDGED) else { return false };
        let found: usize = judges
            .par_iter()
            .enumerate()
            .map(|(i, &judge)| self.found_among_nearest(index, &present, judge, i, &truth))
            .sum();
        found as f64 >= FAITHFUL * (judges.len() * truth.k()) as f64
    }

    /// How many of the nearest by codes are as near as the truly nearest.
    fn found_among_nearest(
        &self,
        index: &dyn NeighborIndex,
        present: &[u32],
        judge: u32,
        i: usize,
        truth: &Neighbors,
    ) -> usize {
        let vectors = self.vectors();
        let mut nearest: Vec<Neighbor> = Vec::new();
        let mut distances = [0f32; BLOCK];
        for block in present.chunks(BLOCK) {
            let ids: Vec<u32> = block.iter().copied().filter(|&id| id != judge).collect();
            vectors.measure(vectors.row(judge), &ids, &mut distances[..ids.len()]);
            nearest.extend(distances.iter().map(|&d| f64::from(d)).zip(ids));
            keep_nearest(&mut nearest, 2 * truth.k());
        }
        let ids: Vec<u32> = nearest.iter().map(|neighbor| neighbor.1).collect();
        let row = Embeddings::new(index.row(judge).into_owned(), index.dim()).expect("a finite row");
        let measured = index.measure(&row, ids.len(), &ids).expect("known ids");
        let limit = truth.sq_distances(i)[truth.k() - 1];
        measured.sq_distances(0).iter().filter(|&&sq| sq <= limit).count().min(truth.k())
    }
}
