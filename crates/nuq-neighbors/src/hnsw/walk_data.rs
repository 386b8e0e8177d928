//! The rows of a graph index: as they are kept for measuring, and in the form that walks read.

use std::sync::OnceLock;

use rayon::prelude::*;

use super::codes::{Coder, Codes};
use super::params::HnswParams;
use super::vectors::{AnyVectors, Vectors};
use crate::exact::ExactIndex;
use crate::rows::{Rows, write_rows};
use crate::{Embeddings, Error, NeighborIndex};

/// Coordinates beyond this, or all below its inverse, have squares that `f32` cannot hold well.
pub(super) const LARGEST: f32 = 1e15;
/// When more than this share of the rows is beyond the reach of codes, walks no longer read them.
const LARGEST_UNREACHED: f64 = 0.01;

pub(super) struct WalkData<'a> {
    pub(super) exact: ExactIndex<'a>,
    /// What walks read instead of the rows, where it tells them apart.
    pub(super) codes: Option<Codes<'a>>,
    /// The rows divided by the scale, when there is one; made when first needed, for a file may not be read before it
    /// was found whole.
    scaled: OnceLock<Embeddings<'static>>,
}

impl<'a> WalkData<'a> {
    pub(super) fn new(
        embeddings: &Embeddings<'a>,
        scale: Option<Vec<f64>>,
        params: &HnswParams,
    ) -> Result<Self, Error> {
        let rows = Rows::new(embeddings, params.precision)?;
        Ok(Self::over(ExactIndex::over(rows, scale), None))
    }

    /// Rows and codes that are there already.
    pub(super) fn over(exact: ExactIndex<'a>, codes: Option<Codes<'a>>) -> Self {
        Self { exact, codes, scaled: OnceLock::new() }
    }

    fn scaled(&self) -> Option<&Embeddings<'static>> {
        let scale = self.exact.scale()?;
        if self.scaled.get().is_none() {
            let blocks = self.exact.rows().par_blocks();
            let values = blocks.flat_map_iter(|block| divided(&block, scale)).collect();
            let rows = Embeddings::new(values, self.exact.dim()).expect("divided rows are finite");
            let _ = self.scaled.set(rows);
        }
        self.scaled.get()
    }

    /// Learns codes, and keeps them where they tell the rows apart.
    pub(super) fn learn_codes(&mut self, seed: u64) {
        let Some(rows) = self.scaled().or(self.exact.rows().floats()) else { return };
        let codes = Coder::learn(rows, seed).map(|coder| Codes::of(rows, coder));
        self.codes = codes.filter(|codes| codes.tell_apart(&self.exact, seed));
    }

    /// Whether the squares of all coordinates are numbers that `f32` holds.
    pub(super) fn can_be_walked(&self) -> bool {
        let largest = (0..self.exact.ids() as u32)
            .into_par_iter()
            .with_min_len(1024)
            .filter(|&id| self.exact.contains(id))
            .map(|id| largest(&self.scaled_query(&self.exact.row(id))))
            .reduce(|| 0.0, f32::max);
        largest < LARGEST && largest > 1.0 / LARGEST
    }

    /// The form in which links are made.
    pub(super) fn vectors(&self) -> AnyVectors<'_> {
        match &self.codes {
            Some(codes) => AnyVectors::Codes(codes.vectors()),
            None => self.row_vectors(),
        }
    }

    /// The rows themselves, for queries beyond the reach of codes.
    pub(super) fn row_vectors(&self) -> AnyVectors<'_> {
        let rows = self.exact.rows();
        match (self.scaled(), rows.floats(), rows.halves()) {
            (Some(floats), ..) | (None, Some(floats), _) => {
                AnyVectors::Floats(Vectors::new(floats.as_slice(), floats.dim()))
            }
            (None, None, Some(halves)) => AnyVectors::Halves(Vectors::new(halves, rows.dim())),
            (None, None, None) => unreachable!("rows are floats or halves"),
        }
    }

    /// A query as walks on the rows see it.
    pub(super) fn scaled_query<'q>(&self, query: &'q [f32]) -> std::borrow::Cow<'q, [f32]> {
        match self.exact.scale() {
            Some(scale) => divided(query, scale).into(),
            None => query.into(),
        }
    }

    pub(super) fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        let before = self.exact.ids();
        let ids = self.exact.insert(rows)?;
        // As they are kept: rounded, it may be.
        let kept: Vec<f32> = ids.iter().flat_map(|&id| self.exact.row(id).into_owned()).collect();
        let over = &ids[..ids.iter().filter(|&&id| (id as usize) < before).count()];
        let scaled = self.scaled_query(&kept).into_owned();
        if let Some(rows) = self.scaled.get_mut() {
            rows.write(over, &scaled);
        }
        if let Some(codes) = &mut self.codes {
            let coder = &codes.coder;
            codes.unreached += scaled.chunks_exact(rows.dim()).filter(|row| !coder.reaches(row)).count();
            write_rows(codes.lines.to_mut(), coder.width(), over, &coder.encode(&scaled));
        }
        let limit = LARGEST_UNREACHED * self.exact.ids() as f64;
        if self.codes.as_ref().is_some_and(|codes| codes.unreached as f64 > limit) {
            self.codes = None;
        }
        Ok(ids)
    }

    pub(super) fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.exact.remove(ids)?;
        let Some(mut codes) = self.codes.take() else { return Ok(()) };
        let is_beyond = |id: &&u32| !codes.coder.reaches(&self.scaled_query(&self.exact.row(**id)));
        codes.unreached = codes.unreached.saturating_sub(ids.iter().filter(is_beyond).count());
        self.codes = Some(codes);
        Ok(())
    }
}

/// The largest size of a coordinate.
pub(super) fn largest(values: &[f32]) -> f32 {
    values.iter().copied().map(f32::abs).fold(0.0, f32::max)
}

/// Rows with each coordinate divided by its scale, kept finite.
fn divided(rows: &[f32], scale: &[f64]) -> Vec<f32> {
    let largest = f64::from(f32::MAX);
    let divide = |(x, s): (&f32, &f64)| (f64::from(*x) / s).clamp(-largest, largest) as f32;
    rows.iter().zip(scale.iter().cycle()).map(divide).collect()
}
