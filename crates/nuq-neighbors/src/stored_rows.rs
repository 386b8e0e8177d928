//! Storage of training rows in `f32` or `f16`, in memory or in a mapped file.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use half::f16;
use rayon::prelude::*;

use crate::cancel::ParallelCheckpoints;
use crate::hnsw::prefetch;
use crate::verified::Verified;
use crate::{Embeddings, Error, RowParts, RowStorage, RowValues, SharedSlice, Verifier};

/// The precision in which an index stores its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Single precision, without a copy of the caller's rows.
    #[default]
    F32,
    /// Half precision: half the memory, three significant digits, values up to ±65,504.
    F16,
}

crate::choices!(Precision, "precision", { F32 => "f32", F16 => "f16" });

/// The row storage of the indexes of this crate.
///
/// Rows in `f32` are borrowed or shared with the caller's [`Embeddings`] until the first update copies them. Rows in
/// `f16` are a rounded copy.
///
/// ```
/// use nuq_neighbors::{Embeddings, Precision, RowStorage, StoredRows};
/// let mut rows = StoredRows::new(&Embeddings::from_rows(&[[0.0], [1.0], [2.0]])?, Precision::F32)?;
/// rows.remove(&[1])?;
/// assert_eq!((rows.len(), rows.id_bound(), rows.live_ids()), (2, 3, vec![0, 2]));
/// assert_eq!(rows.insert(&Embeddings::from_rows(&[[5.0], [6.0]])?)?, [1, 3]);
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
#[derive(Clone)]
pub struct StoredRows<'a> {
    values: Values<'a>,
    removed: BTreeSet<u32>,
    scale: Option<Vec<f64>>,
    verified: Verified,
}

#[derive(Clone)]
enum Values<'a> {
    Floats(Embeddings<'a>),
    Halves { values: SharedSlice<'a, u16>, dim: usize },
}

/// Rows per block of parallel work.
const BLOCK: usize = 4096;

impl<'a> StoredRows<'a> {
    /// Stores at least one row.
    ///
    /// # Errors
    /// [`Error::Empty`] without rows, [`Error::OutOfHalfRange`] when `f16` cannot represent a value.
    pub fn new(embeddings: &Embeddings<'a>, precision: Precision) -> Result<Self, Error> {
        if embeddings.is_empty() {
            return Err(Error::Empty);
        }
        let values = match precision {
            Precision::F32 => Values::Floats(embeddings.clone()),
            Precision::F16 => Values::Halves { values: rounded(embeddings)?.into(), dim: embeddings.dim() },
        };
        Ok(Self { values, removed: BTreeSet::new(), scale: None, verified: Verified::default() })
    }

    /// Sets the divisors of the coordinates: distances are then measured in the scaled space.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless there is one divisor per column, [`Error::BadScale`] unless all are from 1e-100 to
    /// 1e100.
    pub fn scaled(mut self, scale: Vec<f64>) -> Result<Self, Error> {
        check_scale(&scale, self.dim())?;
        self.scale = Some(scale);
        Ok(self)
    }

    /// Restores rows from plain arrays without reading them; `verifier` verifies them before their first use.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::LengthMismatch`] or [`Error::BadScale`] when the parts do not fit each other.
    pub fn restore(parts: RowParts<'a>, verifier: Box<dyn Verifier>) -> Result<Self, Error> {
        let RowParts { dim, values, removed, scale } = parts;
        let damaged =
            |problem: &str| Error::Damaged { section: "index".to_owned(), problem: problem.to_owned() };
        let len = match &values {
            RowValues::F32(values) => values.len(),
            RowValues::F16(values) => values.len(),
        };
        if dim == 0 || len == 0 || len % dim != 0 || len / dim > u32::MAX as usize {
            return Err(damaged("rows do not fit their dimension"));
        }
        let unique: BTreeSet<u32> = removed.iter().copied().collect();
        if unique.len() != removed.len() || unique.last().is_some_and(|&id| id as usize >= len / dim) {
            return Err(damaged("removed ids are out of range or repeated"));
        }
        if let Some(scale) = &scale {
            check_scale(scale, dim)?;
        }
        let values = match values {
            RowValues::F32(values) => Values::Floats(Embeddings::unverified(values, dim)),
            RowValues::F16(values) => Values::Halves { values, dim },
        };
        Ok(Self { values, removed: unique, scale, verified: Verified::by(verifier) })
    }

    /// The ids that name no row.
    pub(crate) fn removed(&self) -> &BTreeSet<u32> {
        &self.removed
    }

    /// The values of consecutive ids, including removed ones.
    pub(crate) fn block(&self, ids: Range<usize>) -> Cow<'_, [f32]> {
        match &self.values {
            Values::Floats(rows) => {
                Cow::Borrowed(&rows.as_slice()[ids.start * rows.dim()..ids.end * rows.dim()])
            }
            Values::Halves { values, dim } => Cow::Owned(widened(&values[ids.start * dim..ids.end * dim])),
        }
    }

    /// The values of all ids in blocks of fixed size, with a check point for cancellation before each block.
    pub(crate) fn par_blocks(&self) -> impl IndexedParallelIterator<Item = Cow<'_, [f32]>> {
        let ids = self.id_bound();
        let block = move |i: usize| self.block(i * BLOCK..ids.min((i + 1) * BLOCK));
        (0..ids.div_ceil(BLOCK)).into_par_iter().with_checkpoints().map(block)
    }

    /// Prefetches a row into the cache of the processor if the rows are stored in `f32`.
    pub(crate) fn prefetch(&self, id: u32) {
        if let Values::Floats(rows) = &self.values {
            prefetch(rows.row(id as usize));
        }
    }

    /// Rows per block of [`par_blocks`](Self::par_blocks).
    pub(crate) const BLOCK: usize = BLOCK;

    /// Reverses an insertion of `ids` into rows whose id bound was `id_bound`.
    pub(crate) fn undo_insert(&mut self, ids: &[u32], id_bound: usize) {
        self.removed.extend(ids.iter().filter(|&&id| (id as usize) < id_bound));
        match &mut self.values {
            Values::Floats(rows) => rows.truncate(id_bound),
            Values::Halves { values, dim } => values.to_mut().truncate(id_bound * *dim),
        }
    }

    /// Reverses a removal of `ids`.
    pub(crate) fn undo_remove(&mut self, ids: &[u32]) {
        ids.iter().for_each(|id| {
            self.removed.remove(id);
        });
    }

    /// The values when they are stored in `f32`.
    pub(crate) fn floats(&self) -> Option<&Embeddings<'a>> {
        match &self.values {
            Values::Floats(rows) => Some(rows),
            Values::Halves { .. } => None,
        }
    }

    /// The bits of the values when they are stored in `f16`.
    pub(crate) fn halves(&self) -> Option<&[u16]> {
        match &self.values {
            Values::Floats(_) => None,
            Values::Halves { values, .. } => Some(values),
        }
    }
}

impl RowStorage for StoredRows<'_> {
    fn len(&self) -> usize {
        self.id_bound() - self.removed.len()
    }

    fn dim(&self) -> usize {
        match &self.values {
            Values::Floats(rows) => rows.dim(),
            Values::Halves { dim, .. } => *dim,
        }
    }

    fn id_bound(&self) -> usize {
        match &self.values {
            Values::Floats(rows) => rows.len(),
            Values::Halves { values, dim } => values.len() / dim,
        }
    }

    fn contains(&self, id: u32) -> bool {
        (id as usize) < self.id_bound() && !self.removed.contains(&id)
    }

    fn row(&self, id: u32) -> Cow<'_, [f32]> {
        self.block(id as usize..id as usize + 1)
    }

    fn parts(&self) -> RowParts<'_> {
        let values = match &self.values {
            Values::Floats(rows) => RowValues::F32(rows.values().clone()),
            Values::Halves { values, .. } => RowValues::F16(values.clone()),
        };
        let removed = self.removed.iter().copied().collect();
        RowParts { dim: self.dim(), values, removed, scale: self.scale.clone() }
    }

    fn insert(&mut self, new: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        if new.dim() != self.dim() {
            return Err(Error::DimensionMismatch { got: new.dim(), expected: self.dim() });
        }
        self.verify_once()?;
        let grown = self.len() + new.len();
        if grown > u32::MAX as usize {
            return Err(Error::TooManyRows { rows: grown });
        }
        let halves = match self.values {
            Values::Floats(_) => vec![],
            Values::Halves { .. } => rounded(new)?,
        };
        let reused: Vec<u32> = self.removed.iter().copied().take(new.len()).collect();
        let first_new = self.id_bound() as u32;
        // The rows of a file are copied into memory. If the file was changed, the copy is not used: every later search is the same error.
        match &mut self.values {
            Values::Floats(rows) => rows.make_owned(),
            Values::Halves { values, .. } => drop(values.to_mut()),
        }
        self.verify_unchanged()?;
        match &mut self.values {
            Values::Floats(rows) => rows.write(&reused, new.as_slice()),
            Values::Halves { values, dim } => write_rows(values.to_mut(), *dim, &reused, &halves),
        }
        // The rows are verified and do not depend on a file any more.
        self.verified = Verified::default();
        for id in &reused {
            self.removed.remove(id);
        }
        let appended = first_new..first_new + (new.len() - reused.len()) as u32;
        Ok(reused.into_iter().chain(appended).collect())
    }

    fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.verify_once()?;
        let mut removed = BTreeSet::new();
        for (position, &id) in ids.iter().enumerate() {
            if !self.contains(id) {
                return Err(Error::CannotRemove { position, id, problem: "which names no row" });
            }
            if !removed.insert(id) {
                return Err(Error::CannotRemove { position, id, problem: "which is listed twice" });
            }
        }
        self.removed.append(&mut removed);
        Ok(())
    }

    fn precision(&self) -> Precision {
        match self.values {
            Values::Floats(_) => Precision::F32,
            Values::Halves { .. } => Precision::F16,
        }
    }

    fn scale(&self) -> Option<&[f64]> {
        self.scale.as_deref()
    }

    fn verify_once(&self) -> Result<(), Error> {
        self.verified.check()
    }

    fn verify_unchanged(&self) -> Result<(), Error> {
        self.verified.check_unchanged()
    }
}

/// Overwrites the rows with the given ids by the first rows of `rows`, one per id, and appends the other rows.
pub(crate) fn write_rows<T: Copy>(values: &mut Vec<T>, dim: usize, ids: &[u32], rows: &[T]) {
    let (over, rest) = rows.split_at(ids.len() * dim);
    for (&id, row) in ids.iter().zip(over.chunks_exact(dim)) {
        values[id as usize * dim..][..dim].copy_from_slice(row);
    }
    values.extend_from_slice(rest);
}

fn rounded(embeddings: &Embeddings<'_>) -> Result<Vec<u16>, Error> {
    let halves: Vec<f16> = embeddings.as_slice().par_iter().map(|&v| f16::from_f32(v)).collect();
    if let Some(at) = halves.iter().position(|h| !h.is_finite()) {
        let (row, column) = (at / embeddings.dim(), at % embeddings.dim());
        let value = f64::from(embeddings.as_slice()[at]);
        return Err(Error::OutOfHalfRange { row, column, value });
    }
    Ok(halves.into_iter().map(f16::to_bits).collect())
}

/// Converts the bits of halves to `f32`.
#[doc(hidden)]
#[must_use]
pub fn widened(halves: &[u16]) -> Vec<f32> {
    halves.iter().map(|&bits| f16::from_bits(bits).to_f32()).collect()
}

pub(crate) fn check_scale(scale: &[f64], dim: usize) -> Result<(), Error> {
    if scale.len() != dim {
        let (what, counterpart) = ("scales", "columns");
        return Err(Error::LengthMismatch { what, got: scale.len(), counterpart, expected: dim });
    }
    // With scales s in this range, `(x / s)²` is finite and positive for every nonzero `f32` number x.
    let usable = |s: f64| (1e-100..=1e100).contains(&s);
    match scale.iter().position(|&s| !usable(s)) {
        Some(column) => Err(Error::BadScale { column, value: scale[column] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_rows_are_copied_only_if_necessary() {
        let x = Embeddings::from_rows(&[[0.5f32], [1.5], [2.5]]).unwrap();
        let mut rows = StoredRows::new(&x, Precision::F32).unwrap();
        assert_eq!(rows.live_rows().unwrap().as_slice().as_ptr(), x.as_slice().as_ptr());
        assert_eq!(rows.rows_with_ids(&[0, 1, 2]).unwrap().as_slice().as_ptr(), x.as_slice().as_ptr());
        assert_eq!(rows.rows_with_ids(&[2, 1, 0]).unwrap().as_slice(), [2.5, 1.5, 0.5]);
        rows.remove(&[1]).unwrap();
        assert_eq!(rows.live_rows().unwrap().as_slice(), [0.5, 2.5]);
        let halves = StoredRows::new(&x, Precision::F16).unwrap();
        assert_eq!(halves.live_rows().unwrap().as_slice(), x.as_slice());
    }
}
