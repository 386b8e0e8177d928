//! Training rows as an index keeps them: in full or in half precision, with room for those that come and go.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use half::f16;
use rayon::prelude::*;

use crate::parts::Verified;
use crate::{Embeddings, Error, SharedSlice};

/// How the rows of an index are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// As they came.
    #[default]
    F32,
    /// Rounded to IEEE halves: half the memory, three significant digits, numbers up to ±65,504.
    F16,
}

crate::choices!(Precision, "precision", { F32 => "f32", F16 => "f16" });

/// Rows by id. Ids of removed rows name nothing until new rows take them.
#[derive(Clone)]
pub(crate) struct Rows<'a> {
    kept: Kept<'a>,
    removed: BTreeSet<u32>,
    verifier: Verified,
}

#[derive(Clone)]
enum Kept<'a> {
    Floats(Embeddings<'a>),
    Halves { values: SharedSlice<'a, u16>, dim: usize },
}

/// Rows of a block that is read at a time.
const BLOCK: usize = 4096;

impl<'a> Rows<'a> {
    /// Rows as they are, borrowed or shared, or a rounded copy of them.
    pub(crate) fn new(embeddings: &Embeddings<'a>, precision: Precision) -> Result<Self, Error> {
        if embeddings.is_empty() {
            return Err(Error::Empty);
        }
        let kept = match precision {
            Precision::F32 => Kept::Floats(embeddings.clone()),
            Precision::F16 => Kept::Halves { values: rounded(embeddings)?.into(), dim: embeddings.dim() },
        };
        Ok(Self { kept, removed: BTreeSet::new(), verifier: Verified::default() })
    }

    /// Halves that were written elsewhere, the ids without a row, and who vouches for them.
    pub(crate) fn restored_halves(
        values: SharedSlice<'a, u16>,
        dim: usize,
        removed: BTreeSet<u32>,
        verifier: Verified,
    ) -> Self {
        Self { kept: Kept::Halves { values, dim }, removed, verifier }
    }

    /// The same for floats.
    pub(crate) fn restored_floats(
        embeddings: Embeddings<'a>,
        removed: BTreeSet<u32>,
        verifier: Verified,
    ) -> Self {
        Self { kept: Kept::Floats(embeddings), removed, verifier }
    }

    /// Whether the rows may be read: those of a file only after it was found whole.
    pub(crate) fn verify_once(&self) -> Result<(), Error> {
        self.verifier.check()
    }

    pub(crate) fn precision(&self) -> Precision {
        match self.kept {
            Kept::Floats(_) => Precision::F32,
            Kept::Halves { .. } => Precision::F16,
        }
    }

    pub(crate) fn dim(&self) -> usize {
        match &self.kept {
            Kept::Floats(rows) => rows.dim(),
            Kept::Halves { dim, .. } => *dim,
        }
    }

    /// One more than the largest id there ever was.
    pub(crate) fn ids(&self) -> usize {
        match &self.kept {
            Kept::Floats(rows) => rows.len(),
            Kept::Halves { values, dim } => values.len() / dim,
        }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.ids() - self.removed.len()
    }

    /// Whether an id names a row.
    pub(crate) fn contains(&self, id: u32) -> bool {
        (id as usize) < self.ids() && !self.removed.contains(&id)
    }

    /// The ids that name nothing.
    pub(crate) fn removed(&self) -> &BTreeSet<u32> {
        &self.removed
    }

    /// The row of an id, also of one that was removed.
    pub(crate) fn row(&self, id: u32) -> Cow<'_, [f32]> {
        self.block(id as usize..id as usize + 1)
    }

    /// Rows one after the other.
    pub(crate) fn block(&self, ids: Range<usize>) -> Cow<'_, [f32]> {
        match &self.kept {
            Kept::Floats(rows) => {
                Cow::Borrowed(&rows.as_slice()[ids.start * rows.dim()..ids.end * rows.dim()])
            }
            Kept::Halves { values, dim } => Cow::Owned(widened(&values[ids.start * dim..ids.end * dim])),
        }
    }

    /// All rows, in blocks, for several threads.
    pub(crate) fn par_blocks(&self) -> impl IndexedParallelIterator<Item = Cow<'_, [f32]>> {
        let ids = self.ids();
        (0..ids.div_ceil(BLOCK)).into_par_iter().map(move |i| self.block(i * BLOCK..ids.min((i + 1) * BLOCK)))
    }

    /// The rows as they are in memory, in one of two forms.
    pub(crate) fn floats(&self) -> Option<&Embeddings<'a>> {
        match &self.kept {
            Kept::Floats(rows) => Some(rows),
            Kept::Halves { .. } => None,
        }
    }

    pub(crate) fn halves(&self) -> Option<&[u16]> {
        match &self.kept {
            Kept::Floats(_) => None,
            Kept::Halves { values, .. } => Some(values),
        }
    }

    /// Gives ids to new rows, those of removed rows first, and returns them.
    pub(crate) fn insert(&mut self, new: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        if new.dim() != self.dim() {
            return Err(Error::DimensionMismatch { got: new.dim(), expected: self.dim() });
        }
        self.verify_once()?;
        let grown = self.len() + new.len();
        if grown > u32::MAX as usize {
            return Err(Error::TooManyRows { rows: grown });
        }
        let halves = match self.kept {
            Kept::Floats(_) => vec![],
            Kept::Halves { .. } => rounded(new)?,
        };
        let free: Vec<u32> = self.removed.iter().copied().take(new.len()).collect();
        let taken = free.len();
        let first = self.ids() as u32;
        match &mut self.kept {
            Kept::Floats(rows) => rows.write(&free, new.as_slice()),
            Kept::Halves { values, dim } => {
                write_rows(values.to_mut(), *dim, &free, &halves);
            }
        }
        free.iter().for_each(|id| {
            self.removed.remove(id);
        });
        let appended = first..first + (new.len() - taken) as u32;
        Ok(free.into_iter().chain(appended).collect())
    }

    /// Takes the rows of some ids away: all of them, or none when one names no row or comes twice.
    pub(crate) fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.verify_once()?;
        let mut gone = BTreeSet::new();
        for (place, &id) in ids.iter().enumerate() {
            if !self.contains(id) {
                return Err(Error::CannotRemove { place, id, problem: "which names no row" });
            }
            if !gone.insert(id) {
                return Err(Error::CannotRemove { place, id, problem: "which was listed before" });
            }
        }
        self.removed.append(&mut gone);
        Ok(())
    }
}

/// Writes rows over those of the given ids, and the rest at the end.
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

/// Halves as the numbers they stand for.
pub(crate) fn widened(halves: &[u16]) -> Vec<f32> {
    halves.iter().map(|&bits| f16::from_bits(bits).to_f32()).collect()
}
