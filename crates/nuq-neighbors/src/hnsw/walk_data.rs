//! The rows of a graph index: the stored rows, and the vectors that walks (searches in the graph) read.

use std::borrow::Cow;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::codes::{Coder, Codes};
use super::vectors::{AnyVectors, Vectors};
use crate::cancel::ParallelCheckpoints;
use crate::exact::{ExactIndex, Pruning};
use crate::stored_rows::write_rows;
use crate::{Embeddings, Error, NeighborIndex, RowStorage};

/// With larger coordinates, a sum of squared differences may overflow `f32`. If all coordinates are below the inverse
/// of this number, squared differences may be subnormal and lose precision.
pub(super) const MAX_MAGNITUDE: f32 = 1e15;
/// The codes are dropped when the inserted rows outside their range are a larger share of all rows than this.
///
/// Training rows are not counted, because the codes were tested with them: on data with heavy tails, the training rows outside
/// the range may be a larger share. The index does not know which rows were inserted, so the removal of a training row outside
/// the range also reduces the count of inserted rows.
const MAX_OUT_OF_RANGE: f64 = 0.01;

pub(super) struct WalkData<'a> {
    pub(super) exact: ExactIndex<'a>,
    /// Quantized rows that walks read instead of the stored ones, when they preserve the neighbors.
    pub(super) codes: Option<Codes<'a>>,
    /// The rows divided by the scale (one divisor per column), if there is one. Computed at the first use, because a mapped
    /// file must not be read before it is verified.
    scaled: OnceLock<Embeddings<'static>>,
    /// The ids of the rows outside the range of the codes. Computed at the first use, like the scaled rows.
    out_of_range: OnceLock<Vec<u32>>,
}

impl<'a> WalkData<'a> {
    pub(super) fn new(exact: ExactIndex<'a>, codes: Option<Codes<'a>>) -> Self {
        // No partition is needed, because the graph is searched.
        let exact = exact.pruning(Pruning::Off);
        Self { exact, codes, scaled: OnceLock::new(), out_of_range: OnceLock::new() }
    }

    fn scaled(&self) -> Option<&Embeddings<'static>> {
        let rows = self.exact.stored_rows();
        let scale = rows.scale()?;
        if self.scaled.get().is_none() {
            let values = rows.par_blocks().flat_map_iter(|block| divided(&block, scale)).collect();
            let rows =
                Embeddings::new(values, rows.dim()).expect("divided rows are clamped to finite values");
            let _ = self.scaled.set(rows);
        }
        self.scaled.get()
    }

    /// The memory of the scaled copy of the rows, in bytes; 0 if there is none.
    pub(super) fn scaled_bytes(&self) -> usize {
        self.scaled.get().map_or(0, |rows| size_of_val(rows.as_slice()))
    }

    /// Learns codes of the rows; `None` when they do not preserve the neighbors.
    pub(super) fn learn_codes(&self, seed: u64) -> Option<Codes<'static>> {
        let rows = self.scaled().or(self.exact.stored_rows().floats())?;
        let codes = Codes::encode(rows, Coder::learn(rows, &self.exact.stored_rows().live_ids(), seed)?);
        codes.preserve_neighbors(&self.exact, seed).then_some(codes)
    }

    /// Replaces the codes. The rows outside the range of the new codes may be different rows, so their list is computed again.
    pub(super) fn replace_codes(&mut self, codes: Option<Codes<'a>>) {
        self.codes = codes;
        self.out_of_range = OnceLock::new();
    }

    /// Whether the largest absolute coordinate is in the range in which squared distances in `f32` are precise.
    pub(super) fn fits_f32_squares(&self) -> bool {
        let rows = self.exact.stored_rows();
        let largest = (0..rows.id_bound() as u32)
            .into_par_iter()
            .with_min_len(1024)
            .with_checkpoints()
            .filter(|&id| rows.contains(id))
            .map(|id| max_magnitude(&self.scaled_rows(&rows.row(id))))
            .reduce(|| 0.0, f32::max);
        largest < MAX_MAGNITUDE && largest > 1.0 / MAX_MAGNITUDE
    }

    /// The vectors with which the graph is built: the codes, or the rows when there are none.
    pub(super) fn vectors(&self) -> AnyVectors<'_> {
        match &self.codes {
            Some(codes) => AnyVectors::Codes(codes.vectors()),
            None => self.row_vectors(),
        }
    }

    /// The rows as vectors. Walks read them if there are no codes, or if the query is outside the range of the codes.
    pub(super) fn row_vectors(&self) -> AnyVectors<'_> {
        let rows = self.exact.stored_rows();
        match (self.scaled(), rows.floats(), rows.halves()) {
            (Some(floats), ..) | (None, Some(floats), _) => {
                AnyVectors::Floats(Vectors::new(floats.as_slice(), floats.dim()))
            }
            (None, None, Some(halves)) => AnyVectors::Halves(Vectors::new(halves, rows.dim())),
            (None, None, None) => unreachable!("rows are stored as floats or halves"),
        }
    }

    /// The ids of the rows outside the range of the codes; empty without codes.
    ///
    /// The codes of such rows are clipped. Links between them, and links that lead to them, are therefore arbitrary, and a
    /// walk may not reach them. A query near such a row is outside the range too, and is compared with all such rows.
    pub(super) fn out_of_range(&self) -> &[u32] {
        let Some(codes) = &self.codes else { return &[] };
        // One thread computes the list. With parallel work, it could execute another search meanwhile, which would wait for this
        // list forever.
        self.out_of_range.get_or_init(|| {
            let rows = self.exact.stored_rows();
            let is_in_range = |id: u32| codes.coder.is_in_range(&self.scaled_rows(&rows.row(id)));
            (0..rows.id_bound() as u32).filter(|&id| rows.contains(id) && !is_in_range(id)).collect()
        })
    }

    /// Rows or queries divided by the scale, if there is one.
    pub(super) fn scaled_rows<'q>(&self, rows: &'q [f32]) -> Cow<'q, [f32]> {
        match self.exact.stored_rows().scale() {
            Some(scale) => divided(rows, scale).into(),
            None => rows.into(),
        }
    }

    /// Inserts rows. The caller runs this without check points for cancellation, because a partial insertion cannot be undone.
    pub(super) fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Insertion<'a>, Error> {
        let id_bound = self.exact.stored_rows().id_bound();
        let inserted_out_of_range = self.codes.as_ref().map_or(0, |codes| codes.inserted_out_of_range);
        let ids = self.exact.insert(rows)?;
        // The stored rows are read back, because they may be rounded.
        let stored: Vec<f32> =
            ids.iter().flat_map(|&id| self.exact.stored_rows().row(id).into_owned()).collect();
        let reused = &ids[..ids.iter().filter(|&&id| (id as usize) < id_bound).count()];
        let scaled = self.scaled_rows(&stored).into_owned();
        if let Some(rows) = self.scaled.get_mut() {
            rows.write(reused, &scaled);
        }
        if let Some(codes) = &mut self.codes {
            let coder = &codes.coder;
            let rows = ids.iter().zip(scaled.chunks_exact(rows.dim()));
            let inserted: Vec<u32> =
                rows.filter(|(_, row)| !coder.is_in_range(row)).map(|(&id, _)| id).collect();
            codes.inserted_out_of_range += inserted.len();
            if let Some(ids) = self.out_of_range.get_mut() {
                ids.extend(inserted);
            }
            write_rows(codes.blocks.to_mut(), coder.width(), reused, &coder.encode(&scaled));
        }
        let limit = MAX_OUT_OF_RANGE * self.exact.stored_rows().id_bound() as f64;
        let dropped = self.codes.take_if(|codes| codes.inserted_out_of_range as f64 > limit);
        Ok(Insertion { ids, id_bound, inserted_out_of_range, dropped })
    }

    pub(super) fn undo_insert(&mut self, insertion: Insertion<'a>) {
        let Insertion { ids, id_bound, inserted_out_of_range, dropped } = insertion;
        self.exact.undo_insert(&ids, id_bound);
        self.scaled = OnceLock::new();
        self.out_of_range = OnceLock::new();
        self.codes = self.codes.take().or(dropped);
        if let Some(codes) = &mut self.codes {
            codes.inserted_out_of_range = inserted_out_of_range;
            codes.blocks.to_mut().truncate(id_bound * codes.coder.width());
        }
    }

    /// Removes rows. Returns the previous [`Codes::inserted_out_of_range`], which [`undo_remove`](Self::undo_remove) restores.
    pub(super) fn remove(&mut self, ids: &[u32]) -> Result<usize, Error> {
        self.exact.remove(ids)?;
        let Some(mut codes) = self.codes.take() else { return Ok(0) };
        let (rows, previous) = (self.exact.stored_rows(), codes.inserted_out_of_range);
        let is_out_of_range = |id: &&u32| !codes.coder.is_in_range(&self.scaled_rows(&rows.row(**id)));
        codes.inserted_out_of_range = previous.saturating_sub(ids.iter().filter(is_out_of_range).count());
        self.codes = Some(codes);
        if let Some(remaining) = self.out_of_range.get_mut() {
            let rows = self.exact.stored_rows();
            remaining.retain(|&id| rows.contains(id));
        }
        Ok(previous)
    }

    pub(super) fn undo_remove(&mut self, ids: &[u32], inserted_out_of_range: usize) {
        self.exact.undo_remove(ids);
        self.out_of_range = OnceLock::new();
        if let Some(codes) = &mut self.codes {
            codes.inserted_out_of_range = inserted_out_of_range;
        }
    }
}

/// The ids of inserted rows, and the state before the insertion.
pub(super) struct Insertion<'a> {
    pub(super) ids: Vec<u32>,
    id_bound: usize,
    inserted_out_of_range: usize,
    /// Codes that were dropped because too many rows are outside their range.
    dropped: Option<Codes<'a>>,
}

/// The largest absolute value.
pub(super) fn max_magnitude(values: &[f32]) -> f32 {
    values.iter().copied().map(f32::abs).fold(0.0, f32::max)
}

/// Rows with each coordinate divided by its scale, clamped to finite values.
fn divided(rows: &[f32], scale: &[f64]) -> Vec<f32> {
    let largest = f64::from(f32::MAX);
    let divide = |(x, s): (&f32, &f64)| (f64::from(*x) / s).clamp(-largest, largest) as f32;
    rows.iter().zip(scale.iter().cycle()).map(divide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRng;

    #[test]
    fn the_rows_outside_the_range_are_those_of_the_current_codes() {
        let mut rng = SeededRng::new(1);
        let normal: Vec<f32> = (0..200 * 32).map(|_| rng.normal() as f32).collect();
        let far = normal[..5 * 32].iter().map(|value| 1000.0 * value);
        let rows = Embeddings::new(normal.iter().copied().chain(far).collect(), 32).unwrap();
        let codes = |factor: f32| {
            let sample = Embeddings::new(normal.iter().map(|value| factor * value).collect(), 32).unwrap();
            Some(Codes::encode(&rows, Coder::learn(&sample, &(0..200).collect::<Vec<u32>>(), 0).unwrap()))
        };
        let mut data = WalkData::new(ExactIndex::new(&rows).unwrap(), codes(1e4));
        assert!(data.out_of_range().is_empty());
        data.replace_codes(codes(1.0));
        assert_eq!(data.out_of_range(), [200, 201, 202, 203, 204]);
        data.replace_codes(None);
        assert!(data.out_of_range().is_empty());
    }
}
