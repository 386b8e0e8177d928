//! Scalar quantization to seven bits per coordinate: a search of the graph then reads a quarter of the memory of
//! `f32` rows.
//!
//! `c_j = round((x_j − m_j) / s) + 64`, clipped to 0…127, with the mean m of a sample of rows and one step s for all
//! coordinates. Distances between codes are therefore proportional to distances between rows, up to rounding. For most
//! embeddings the final ranking by stored rows restores the lost precision; whether it does is
//! [measured](Codes::preserve_neighbors) on the training rows.

use rayon::prelude::*;

use super::vectors::{CodeBlock, Vectors};
use crate::cancel::{Checkpoint, ParallelCheckpoints, checkpoint};
use crate::exact::ExactIndex;
use crate::neighbors::{Neighbor, keep_nearest};
use crate::parts::CodeParts;
use crate::{Embeddings, NeighborIndex, Neighbors, RowStorage, SeededRng, SharedSlice};

/// The map from rows to codes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Coder {
    center: Vec<f32>,
    step: f32,
}

/// The codes of all rows.
#[derive(Clone)]
pub(crate) struct Codes<'a> {
    pub(crate) coder: Coder,
    pub(crate) blocks: SharedSlice<'a, CodeBlock>,
    /// The number of inserted rows outside the range of the codes. After removals it is a lower bound, because removed rows that were not
    /// inserted are subtracted too.
    pub(crate) inserted_out_of_range: usize,
}

/// The code of the center, and the largest code.
const MIDDLE: f32 = 64.0;
const MAX_CODE: f32 = 127.0;
/// The number of rows from which center and step are learned.
const SAMPLE: usize = 1024;
/// The share of the sampled coordinates that the codes clip.
const CLIPPED: f64 = 1e-4;
/// A row is within the range of the codes when its squared clipping error is at most this multiple of the expected
/// squared rounding error.
const MAX_CLIPPING_ERROR: f64 = 4.0;
/// With fewer columns, codes distinguish too few rows and save little memory.
const MIN_COLUMNS: usize = 32;
/// With more columns, a sum of squares may exceed a signed 32-bit integer.
const MAX_COLUMNS: usize = 1 << 17;
/// The test of [`Codes::preserve_neighbors`]: the number of probe rows, the number of neighbors of each, and the
/// required recall.
const PROBES: usize = 64;
const PROBE_NEIGHBORS: usize = 10;
const MIN_RECALL: f64 = 0.99;
/// The number of rows that are compared with a probe at a time.
const BLOCK: usize = 1024;

impl Coder {
    /// Learns center and step from a seeded sample of the rows with the ids `live`. `None` if the step would be zero,
    /// because at most a share [`CLIPPED`] of the sampled coordinates differs from the center; if the step is not finite;
    /// or if the number of columns is unsuitable.
    pub(crate) fn learn(rows: &Embeddings<'_>, live: &[u32], seed: u64) -> Option<Self> {
        if !(MIN_COLUMNS..=MAX_COLUMNS).contains(&rows.dim()) {
            return None;
        }
        let sample = SeededRng::new(seed ^ 0xC0DE).sample(live.len(), SAMPLE);
        let ids: Vec<u32> = sample.into_iter().map(|i| live[i as usize]).collect();
        let sample = rows.gather(&ids);
        let mean = |j: usize| sample.rows().map(|row| f64::from(row[j])).sum::<f64>() / sample.len() as f64;
        let center: Vec<f32> = (0..rows.dim()).map(|j| mean(j) as f32).collect();
        let mut offsets = sample.as_slice().to_vec();
        offsets.iter_mut().zip(center.iter().cycle()).for_each(|(x, m)| *x = (*x - m).abs());
        let last = offsets.len() - 1 - (offsets.len() as f64 * CLIPPED) as usize;
        let (_, &mut largest, _) = offsets.select_nth_unstable_by(last, f32::total_cmp);
        let step = largest / (MIDDLE - 1.0);
        (step > 0.0 && step.is_finite()).then_some(Self { center, step })
    }

    /// The number of blocks per row.
    pub(crate) fn width(&self) -> usize {
        self.center.len().div_ceil(64)
    }

    /// The codes of rows in a flat buffer.
    pub(crate) fn encode(&self, rows: &[f32]) -> Vec<CodeBlock> {
        let dim = self.center.len();
        let mut blocks = vec![CodeBlock([0; 64]); rows.len() / dim * self.width()];
        blocks
            .par_chunks_mut(self.width())
            .zip(rows.par_chunks(dim))
            .with_min_len(256)
            .with_checkpoints()
            .for_each(|(blocks, row)| self.encode_row(row, blocks));
        blocks
    }

    /// Writes the codes of a row. The padding after the last column is not written; it is 0 in all rows.
    pub(crate) fn encode_row(&self, row: &[f32], blocks: &mut [CodeBlock]) {
        let inverse = 1.0 / self.step;
        for ((block, row), center) in blocks.iter_mut().zip(row.chunks(64)).zip(self.center.chunks(64)) {
            for ((code, x), m) in block.0.iter_mut().zip(row).zip(center) {
                *code = ((x - m) * inverse + (MIDDLE + 0.5)).clamp(0.0, MAX_CODE) as u8;
            }
        }
    }

    /// Whether a row is within the range of the codes: clipping must not add much error to rounding. Rows far from the
    /// training data are outside.
    pub(crate) fn is_in_range(&self, row: &[f32]) -> bool {
        let inverse = 1.0 / self.step;
        let clipped = |(x, m): (&f32, &f32)| {
            let offset = (x - m) * inverse;
            f64::from(offset - offset.clamp(-MIDDLE, MAX_CODE - MIDDLE)).powi(2)
        };
        let sq_error: f64 = row.iter().zip(&self.center).map(clipped).sum();
        // The rounding error of a coordinate is uniform in ±½, with variance 1/12.
        sq_error <= MAX_CLIPPING_ERROR * self.center.len() as f64 / 12.0
    }
}

impl Codes<'static> {
    /// Encodes all rows.
    pub(crate) fn encode(rows: &Embeddings<'_>, coder: Coder) -> Self {
        let blocks = coder.encode(rows.as_slice()).into();
        Self { coder, blocks, inserted_out_of_range: 0 }
    }
}

impl<'a> Codes<'a> {
    pub(super) fn parts(&self) -> CodeParts<'_> {
        let Self { coder: Coder { center, step }, blocks, inserted_out_of_range } = self;
        let blocks = SharedSlice::borrowed(&blocks[..]);
        CodeParts { center: center.clone(), step: *step, out_of_range: *inserted_out_of_range, blocks }
    }

    /// Restores stored codes; `None` when they do not fit `ids` rows of `dim` columns.
    pub(super) fn restored(parts: CodeParts<'a>, ids: usize, dim: usize) -> Option<Self> {
        let CodeParts { center, step, out_of_range, blocks } = parts;
        let coder = Coder { center, step };
        let is_valid = coder.center.len() == dim
            && dim <= MAX_COLUMNS
            && coder.center.iter().all(|m| m.is_finite())
            && step.is_normal()
            && step > 0.0
            && blocks.len() == ids * coder.width();
        is_valid.then_some(Self { coder, blocks, inserted_out_of_range: out_of_range })
    }

    /// Whether all codes have 7 bits, as the kernels require.
    pub(super) fn are_within_bounds(&self) -> bool {
        self.blocks.par_iter().all(|block| block.0.iter().all(|&code| code < 128))
    }

    pub(super) fn vectors(&self) -> Vectors<'_, CodeBlock> {
        Vectors::new(&self.blocks, self.coder.width())
    }

    /// Whether codes preserve the neighbors: the nearest rows by codes, twice as many as needed, must contain nearly all
    /// true neighbors of a seeded sample of training rows.
    pub(super) fn preserve_neighbors(&self, index: &ExactIndex<'_>, seed: u64) -> bool {
        let live = index.stored_rows().live_ids();
        let sample = SeededRng::new(seed ^ 0x1D6E).sample(live.len(), PROBES);
        let probes: Vec<u32> = sample.into_iter().map(|i| live[i as usize]).collect();
        let Ok(truth) = index.leave_one_out(&probes, PROBE_NEIGHBORS) else { return false };
        let here = Checkpoint::current();
        let hits: usize = probes
            .par_iter()
            .enumerate()
            .map(|(i, &probe)| here.enter(|| self.count_hits(index, &live, probe, i, &truth)))
            .sum();
        hits as f64 >= MIN_RECALL * (probes.len() * truth.k()) as f64
    }

    /// The number of nearest rows by codes whose exact distance is not larger than that of the true k-th neighbor,
    /// limited to k.
    fn count_hits(
        &self,
        index: &ExactIndex<'_>,
        live: &[u32],
        probe: u32,
        i: usize,
        truth: &Neighbors,
    ) -> usize {
        let vectors = self.vectors();
        let mut nearest: Vec<Neighbor> = Vec::new();
        let mut distances = [0f32; BLOCK];
        for block in live.chunks(BLOCK) {
            checkpoint();
            let ids: Vec<u32> = block.iter().copied().filter(|&id| id != probe).collect();
            vectors.measure(vectors.row(probe), &ids, &mut distances[..ids.len()]);
            nearest.extend(distances.iter().map(|&d| f64::from(d)).zip(ids));
            keep_nearest(&mut nearest, 2 * truth.k());
        }
        let rows = index.stored_rows();
        let row = rows.row(probe);
        let limit = truth.sq_distances(i)[truth.k() - 1];
        let is_hit = |neighbor: &&Neighbor| rows.sq_distance(&row, neighbor.1) <= limit;
        nearest.iter().filter(is_hit).count().min(truth.k())
    }
}
