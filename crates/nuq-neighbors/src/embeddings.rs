//! Embeddings: a row-major matrix of finite numbers.

use std::fmt;
use std::sync::Arc;

use rayon::prelude::*;

use crate::cancel::ParallelCheckpoints;
use crate::stored_rows::write_rows;
use crate::{DeviceSlice, Error, SharedSlice};

/// `n` embeddings of dimension `d`, row-major `f32`, every value finite.
///
/// The values are borrowed from the caller or shared behind an [`Arc`]: a clone is cheap, and a fitted model needs no
/// second copy. Every constructor from values on the host checks that they are finite; all other code relies on this
/// check.
///
/// ```
/// use nuq_neighbors::{Embeddings, Error};
///
/// let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let x = Embeddings::borrowed(&values, 3)?;
/// assert_eq!((x.len(), x.dim()), (2, 3));
/// assert_eq!(x.row(1), [4.0, 5.0, 6.0]);
///
/// let bad = Embeddings::new(vec![0.0, f32::NAN], 1);
/// assert!(matches!(bad, Err(Error::NotFinite { row: 1, column: 0, .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Embeddings<'a> {
    values: SharedSlice<'a, f32>,
    dim: usize,
    /// Whether the rows are known to be divided by their norms.
    is_normalized: bool,
}

impl Embeddings<'static> {
    /// Takes ownership of a row-major buffer with `dim` columns.
    ///
    /// # Errors
    /// [`Error::ZeroColumns`], [`Error::PartialRow`], [`Error::TooManyRows`] or [`Error::NotFinite`].
    pub fn new(values: Vec<f32>, dim: usize) -> Result<Self, Error> {
        Self::checked(values.into(), dim)
    }

    /// Copies rows of equal length. Their length is the dimension, so at least one row is required; use
    /// `Embeddings::new(vec![], dim)` for an empty batch.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Ragged`], and the errors of [`new`](Self::new).
    pub fn from_rows<R: AsRef<[f32]>>(rows: &[R]) -> Result<Self, Error> {
        let dim = rows.first().ok_or(Error::Empty)?.as_ref().len();
        let mut values = Vec::with_capacity(rows.len() * dim);
        for (row, cells) in rows.iter().map(AsRef::as_ref).enumerate() {
            if cells.len() != dim {
                return Err(Error::Ragged { row, got: cells.len(), expected: dim });
            }
            values.extend_from_slice(cells);
        }
        Self::new(values, dim)
    }

    /// Rounds a row-major `f64` buffer to `f32`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a finite value outside the range of `f32`, and the errors of [`new`](Self::new).
    pub fn from_f64(values: &[f64], dim: usize) -> Result<Self, Error> {
        if dim == 0 {
            return Err(Error::ZeroColumns);
        }
        let rounded: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        if let Some(at) = rounded.iter().zip(values).position(|(r, v)| r.is_infinite() && v.is_finite()) {
            return Err(Error::OutOfRange { row: at / dim, column: at % dim, value: values[at] });
        }
        Self::new(rounded, dim)
    }
}

impl<'a> Embeddings<'a> {
    /// Borrows a row-major buffer with `dim` columns.
    ///
    /// # Errors
    /// The errors of [`new`](Embeddings::new).
    pub fn borrowed(values: &'a [f32], dim: usize) -> Result<Self, Error> {
        Self::checked(SharedSlice::borrowed(values), dim)
    }

    /// Shares a row-major buffer with other owners, for example a memory map or an array of another language.
    ///
    /// # Errors
    /// The errors of [`new`](Embeddings::new).
    pub fn shared(values: Arc<dyn AsRef<[f32]> + Send + Sync + 'a>, dim: usize) -> Result<Self, Error> {
        Self::checked(SharedSlice::shared(values), dim)
    }

    /// Takes a row-major buffer of any kind with `dim` columns.
    ///
    /// # Errors
    /// The errors of [`new`](Embeddings::new).
    pub fn from_values(values: SharedSlice<'a, f32>, dim: usize) -> Result<Self, Error> {
        Self::checked(values, dim)
    }

    /// Rows in the memory of a device. The caller has checked that all values are finite. The values are copied to
    /// the host when they are first read there; a search on their device does not need this copy.
    ///
    /// # Errors
    /// [`Error::ZeroColumns`], [`Error::PartialRow`] or [`Error::TooManyRows`].
    pub fn on_device(values: Arc<dyn DeviceSlice<f32> + 'a>, dim: usize) -> Result<Self, Error> {
        let rows = Self::unverified(SharedSlice::on_device(values), dim);
        rows.check_shape().map(|()| rows)
    }

    /// Embeddings whose values are not checked here: they were checked before, or they are verified before they are read, such as the
    /// values of a mapped file.
    pub(crate) fn unverified(values: SharedSlice<'a, f32>, dim: usize) -> Self {
        Self { values, dim, is_normalized: false }
    }

    fn checked(values: SharedSlice<'a, f32>, dim: usize) -> Result<Self, Error> {
        let unchecked = Self::unverified(values, dim);
        unchecked.check_shape()?;
        let cells = unchecked.as_slice();
        match first_not_finite(cells) {
            Some(at) => {
                Err(Error::NotFinite { row: at / dim, column: at % dim, value: f64::from(cells[at]) })
            }
            None => Ok(unchecked),
        }
    }

    fn check_shape(&self) -> Result<(), Error> {
        let (len, dim) = (self.values.len(), self.dim);
        if dim == 0 {
            return Err(Error::ZeroColumns);
        }
        if !len.is_multiple_of(dim) {
            return Err(Error::PartialRow { len, dim });
        }
        let rows = len / dim;
        if rows > u32::MAX as usize { Err(Error::TooManyRows { rows }) } else { Ok(()) }
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len() / self.dim
    }

    /// Whether there is no row. An empty batch of queries is valid; empty training data are an error.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of columns.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Row `i`.
    ///
    /// # Panics
    /// When `i` is not below [`len`](Self::len).
    #[must_use]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.as_slice()[i * self.dim..][..self.dim]
    }

    /// All rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.as_slice().chunks_exact(self.dim)
    }

    /// All values, row after row. Values on a device are copied to the host first.
    ///
    /// # Panics
    /// When this copy fails; [`load`](Self::load) returns an error instead.
    #[must_use]
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// The memory of the values.
    #[must_use]
    pub fn values(&self) -> &SharedSlice<'a, f32> {
        &self.values
    }

    /// Copies values on a device to the host, unless a copy is already there.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn load(&self) -> Result<(), Error> {
        self.values.load()
    }

    /// The rows with the given ids, copied in that order.
    ///
    /// # Panics
    /// When an id is not below [`len`](Self::len).
    #[must_use]
    pub fn gather(&self, ids: &[u32]) -> Embeddings<'static> {
        let mut values = Vec::with_capacity(ids.len() * self.dim);
        for &id in ids {
            values.extend_from_slice(self.row(id as usize));
        }
        Embeddings::unverified(values.into(), self.dim)
    }

    /// The rows divided by their Euclidean norms; a row of zeros is unchanged. Rows that were already normalized by
    /// this function are returned without a copy.
    #[must_use]
    pub fn l2_normalized(&self) -> Embeddings<'a> {
        self.clone().into_l2_normalized()
    }

    /// The same as [`l2_normalized`](Self::l2_normalized), without a copy if the rows are in memory and have no other owner.
    #[must_use]
    pub fn into_l2_normalized(mut self) -> Embeddings<'a> {
        if self.is_normalized {
            return self;
        }
        let dim = self.dim;
        self.values.to_mut().par_chunks_mut(dim).with_checkpoints().for_each(|row| {
            let length = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
            if length > 0.0 {
                row.iter_mut().for_each(|v| *v = (f64::from(*v) / length) as f32);
            }
        });
        Self { is_normalized: true, ..self }
    }

    /// Overwrites the rows with the given ids by the first rows of `rows`, one per id, and appends the other rows.
    pub(crate) fn write(&mut self, ids: &[u32], rows: &[f32]) {
        self.is_normalized = false;
        write_rows(self.values.to_mut(), self.dim, ids, rows);
    }

    /// Copies values that are borrowed, shared or mapped.
    pub(crate) fn make_owned(&mut self) {
        self.values.to_mut();
    }

    /// Drops all rows except the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.values.to_mut().truncate(len * self.dim);
    }

    /// Column `j` in `f64`.
    ///
    /// # Panics
    /// When `j` is not below [`dim`](Self::dim).
    #[must_use]
    pub fn column(&self, j: usize) -> Vec<f64> {
        self.rows().map(|row| f64::from(row[j])).collect()
    }
}

impl fmt::Debug for Embeddings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embeddings({} × {})", self.len(), self.dim)
    }
}

/// The position of the first value that is not finite.
fn first_not_finite(values: &[f32]) -> Option<usize> {
    /// Values per task. A task reads its whole block without a branch per value, which is faster.
    const BLOCK: usize = 1 << 14;
    let has_any = |block: &[f32]| block.iter().fold(false, |any, v| any | !v.is_finite());
    let block = values.par_chunks(BLOCK).position_first(has_any)?;
    let first = block * BLOCK;
    values[first..].iter().position(|v| !v.is_finite()).map(|at| first + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_that_is_not_finite_is_found_in_any_block() {
        let mut values = vec![1.0; 40_000];
        assert_eq!(first_not_finite(&values), None);
        values[39_999] = f32::NAN;
        assert_eq!(first_not_finite(&values), Some(39_999));
        values[20_000] = f32::INFINITY;
        assert_eq!(first_not_finite(&values), Some(20_000));
    }

    #[test]
    fn invalid_shapes_are_errors() {
        assert_eq!(Embeddings::new(vec![], 0).unwrap_err(), Error::ZeroColumns);
        assert_eq!(Embeddings::from_rows(&[[0f32; 0]; 3]).unwrap_err(), Error::ZeroColumns);
        assert_eq!(Embeddings::from_rows(&[[0f32; 4]; 0]).unwrap_err(), Error::Empty);
        assert_eq!(Embeddings::from_f64(&[1e300], 0).unwrap_err(), Error::ZeroColumns);
        assert_eq!(Embeddings::new(vec![0.0; 5], 2).unwrap_err(), Error::PartialRow { len: 5, dim: 2 });
        let ragged = [vec![0.0, 1.0], vec![0.0]];
        assert_eq!(
            Embeddings::from_rows(&ragged).unwrap_err(),
            Error::Ragged { row: 1, got: 1, expected: 2 }
        );
    }

    #[test]
    fn the_first_value_that_is_not_finite_is_reported() {
        let mut values = vec![0.0f32; 12];
        values[7] = f32::NEG_INFINITY;
        values[11] = f32::NAN;
        let expected = Error::NotFinite { row: 1, column: 3, value: f64::NEG_INFINITY };
        assert_eq!(Embeddings::borrowed(&values, 4).unwrap_err(), expected);
        assert_eq!(expected.to_string(), "row 1, column 3 is -inf: every coordinate must be finite");
    }

    #[test]
    fn f64_values_outside_the_range_of_f32_are_errors() {
        assert_eq!(
            Embeddings::from_f64(&[0.0, 1e39], 1).unwrap_err(),
            Error::OutOfRange { row: 1, column: 0, value: 1e39 }
        );
        assert!(matches!(Embeddings::from_f64(&[f64::NAN], 1), Err(Error::NotFinite { .. })));
    }

    #[test]
    fn an_empty_batch_has_a_dimension() {
        let x = Embeddings::new(vec![], 5).unwrap();
        assert_eq!((x.len(), x.dim(), x.is_empty()), (0, 5, true));
    }

    #[test]
    fn normalized_rows_have_norm_1_at_any_scale() {
        let (huge, tiny) = (2f32.powi(100), 2f32.powi(-100));
        let rows = [[3.0 * huge, 4.0 * huge], [3.0 * tiny, 4.0 * tiny], [0.0, 0.0]];
        let x = Embeddings::from_rows(&rows).unwrap().l2_normalized();
        assert_eq!(x.as_slice(), [0.6, 0.8, 0.6, 0.8, 0.0, 0.0]);
    }

    #[test]
    fn rows_without_another_owner_are_normalized_in_place() {
        let rows = Embeddings::from_rows(&[[3.0, 4.0], [0.1, 0.7]]).unwrap();
        let (address, copy) = (rows.as_slice().as_ptr(), rows.l2_normalized());
        assert_eq!(rows.as_slice(), [3.0, 4.0, 0.1, 0.7], "another owner sees no change");
        let normalized = rows.into_l2_normalized();
        assert_eq!((normalized.as_slice().as_ptr(), normalized.as_slice()), (address, copy.as_slice()));
        // Normalizing again would change the last digits of some rows.
        assert_eq!(normalized.l2_normalized().as_slice().as_ptr(), address);
    }

    #[test]
    fn written_rows_are_normalized_again() {
        let mut rows = Embeddings::from_rows(&[[3.0, 4.0]]).unwrap().into_l2_normalized();
        rows.write(&[], &[6.0, 8.0]);
        assert_eq!(rows.l2_normalized().row(1), [0.6, 0.8]);
    }
}
