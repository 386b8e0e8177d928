//! Rows of finite numbers: what a network says of its inputs.

use std::fmt;
use std::sync::Arc;

use rayon::prelude::*;

use crate::rows::write_rows;
use crate::{Error, SharedSlice};

/// `n` embeddings of dimension `d`, row-major `f32`, every value finite.
///
/// The values are borrowed from the caller or shared behind an [`Arc`], so that a clone costs nothing and a
/// fitted model keeps no second copy. Whatever way they come in, they are checked once, here; the rest of the
/// system relies on it.
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
}

impl Embeddings<'static> {
    /// Takes a row-major buffer of rows of `dim` columns.
    pub fn new(values: Vec<f32>, dim: usize) -> Result<Self, Error> {
        Self::checked(values.into(), dim)
    }

    /// Copies rows given one by one; they must be of equal length. No rows have no dimension and are refused: an
    /// empty batch is `Embeddings::new(vec![], dim)`.
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

    /// Rounds a row-major `f64` buffer to `f32`; values beyond its range are refused, not made infinite.
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
    /// Looks at a row-major buffer of rows of `dim` columns without copying it.
    pub fn borrowed(values: &'a [f32], dim: usize) -> Result<Self, Error> {
        Self::checked(SharedSlice::borrowed(values), dim)
    }

    /// Shares a buffer that others hold too: a memory map, an array of another language.
    pub fn shared(values: Arc<dyn AsRef<[f32]> + Send + Sync + 'a>, dim: usize) -> Result<Self, Error> {
        Self::checked(SharedSlice::shared(values), dim)
    }

    /// Rows of a file that is checked before they are read.
    pub(crate) fn unread(values: SharedSlice<'a, f32>, dim: usize) -> Self {
        Self { values, dim }
    }

    fn checked(values: SharedSlice<'a, f32>, dim: usize) -> Result<Self, Error> {
        let unchecked = Self { values, dim };
        let cells = unchecked.as_slice();
        if dim == 0 {
            return Err(Error::ZeroColumns);
        }
        if !cells.len().is_multiple_of(dim) {
            return Err(Error::PartialRow { len: cells.len(), dim });
        }
        let rows = cells.len() / dim;
        if rows > u32::MAX as usize {
            return Err(Error::TooManyRows { rows });
        }
        match cells.par_iter().position_first(|v| !v.is_finite()) {
            Some(at) => {
                Err(Error::NotFinite { row: at / dim, column: at % dim, value: f64::from(cells[at]) })
            }
            None => Ok(unchecked),
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.as_slice().len() / self.dim
    }

    /// Whether there is no row at all (legal for queries, refused for training data).
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The number of columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Row `i`.
    ///
    /// # Panics
    /// When `i` is not below [`len`](Self::len).
    pub fn row(&self, i: usize) -> &[f32] {
        &self.as_slice()[i * self.dim..][..self.dim]
    }

    /// All rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.as_slice().chunks_exact(self.dim)
    }

    /// All values, row after row.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// The rows with the given ids, copied in that order.
    ///
    /// # Panics
    /// When an id is not below [`len`](Self::len).
    pub fn gather(&self, ids: &[u32]) -> Embeddings<'static> {
        let mut values = Vec::with_capacity(ids.len() * self.dim);
        for &id in ids {
            values.extend_from_slice(self.row(id as usize));
        }
        Embeddings { values: values.into(), dim: self.dim }
    }

    /// Each row divided by its Euclidean length; a row of zeros stays as it is.
    pub fn l2_normalized(&self) -> Embeddings<'static> {
        let mut values = self.as_slice().to_vec();
        values.par_chunks_mut(self.dim).for_each(|row| {
            let length = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
            if length > 0.0 {
                row.iter_mut().for_each(|v| *v = (f64::from(*v) / length) as f32);
            }
        });
        Embeddings { values: values.into(), dim: self.dim }
    }

    /// Writes rows over those of the given ids, and the rest at the end.
    pub(crate) fn write(&mut self, ids: &[u32], rows: &[f32]) {
        write_rows(self.values.to_mut(), self.dim, ids, rows);
    }

    /// Column `j` in `f64`.
    pub fn column(&self, j: usize) -> Vec<f64> {
        self.rows().map(|row| f64::from(row[j])).collect()
    }
}

impl fmt::Debug for Embeddings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embeddings({} × {})", self.len(), self.dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_make_no_sense_are_refused() {
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
    fn the_first_value_that_is_not_finite_is_named() {
        let mut values = vec![0.0f32; 12];
        values[7] = f32::NEG_INFINITY;
        values[11] = f32::NAN;
        let expected = Error::NotFinite { row: 1, column: 3, value: f64::NEG_INFINITY };
        assert_eq!(Embeddings::borrowed(&values, 4).unwrap_err(), expected);
        assert_eq!(expected.to_string(), "row 1, column 3 is -inf: every coordinate must be finite");
    }

    #[test]
    fn doubles_beyond_f32_are_refused_and_nan_is_called_nan() {
        assert_eq!(
            Embeddings::from_f64(&[0.0, 1e39], 1).unwrap_err(),
            Error::OutOfRange { row: 1, column: 0, value: 1e39 }
        );
        assert!(matches!(Embeddings::from_f64(&[f64::NAN], 1), Err(Error::NotFinite { .. })));
    }

    #[test]
    fn an_empty_set_keeps_its_dimension() {
        let x = Embeddings::new(vec![], 5).unwrap();
        assert_eq!((x.len(), x.dim(), x.is_empty()), (0, 5, true));
    }

    #[test]
    fn normalized_rows_have_length_one_at_any_scale() {
        let (huge, tiny) = (2f32.powi(100), 2f32.powi(-100));
        let rows = [[3.0 * huge, 4.0 * huge], [3.0 * tiny, 4.0 * tiny], [0.0, 0.0]];
        let x = Embeddings::from_rows(&rows).unwrap().l2_normalized();
        assert_eq!(x.as_slice(), [0.6, 0.8, 0.6, 0.8, 0.0, 0.0]);
    }
}
