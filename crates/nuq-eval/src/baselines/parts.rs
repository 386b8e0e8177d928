//! A fitted baseline as named parameters and arrays, as a file stores it.
//!
//! [`Scorer::parts`] returns the parts of a baseline, and [`restore`] creates the baseline from them. A file stores the
//! parts under their names. Therefore a change of a name or of a shape changes the file format. The function `parts` of
//! each method names its parameters and arrays.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use faer::Mat;
use nuq::{Classes, Label};
use nuq_neighbors::{NeighborIndex, UnknownChoice};

use super::gaussians::{restore_ddu, restore_mahalanobis, restore_relative_mahalanobis};
use super::{
    Duq, Energy, Ensemble, Entropy, Fdbd, Gen, Huq, KnnDistance, LocalOutlierFactor, Margin, MaxLogit,
    MaxProb, NnGuide, Normalized, React, Reduction, Scorer, Sngp, Vim,
};
use crate::Error;
use crate::evaluate::MethodId;

/// A fitted baseline, without the index over training rows that some methods search.
#[derive(Debug, Clone, PartialEq)]
pub struct BaselineParts {
    /// The method.
    pub method: MethodId,
    /// The parameters of the fit, by name.
    pub params: BTreeMap<String, Param>,
    /// The labels of the classes in ascending order, for methods that predict labels; empty for all others.
    pub labels: Vec<Label>,
    /// The learned values, by name.
    pub arrays: BTreeMap<String, Array>,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// The parameter was not given, and its value depends on the data.
    Default,
    /// A count or a seed.
    Integer(u64),
    /// A finite number.
    Number(f64),
    /// The name of a choice, for example `kth`.
    Word(String),
}

/// An array in row-major order. A single value has an empty shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The size along each dimension. The product is the number of values.
    pub shape: Vec<usize>,
    /// The values.
    pub values: ArrayValues,
}

/// The values of an [`Array`].
#[derive(Debug, Clone, PartialEq)]
pub enum ArrayValues {
    /// Double precision.
    F64(Vec<f64>),
    /// Single precision.
    F32(Vec<f32>),
    /// Integers.
    U32(Vec<u32>),
}

/// Restores a baseline from its parts, and from its index if it has one. Its scores equal those of the original
/// baseline bit for bit.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::{Batch, Energy, Scorer, restore};
///
/// let energy = Energy::new(2.0)?;
/// let parts = energy.parts().expect("energy is a method of this crate");
/// let logits = Embeddings::from_rows(&[[9.0, 0.0], [0.1, 0.0]])?;
/// let batch = Batch { logits: Some(&logits), ..Batch::default() };
/// assert_eq!(restore(parts, None)?.score(&batch)?, energy.score(&batch)?);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// [`nuq_neighbors::Error::Damaged`]: a part is missing, has a wrong shape or an impossible value; the method needs an index and none
/// is given; or the method is an uncertainty of NUQ itself.
pub fn restore(
    parts: BaselineParts,
    index: Option<Box<dyn NeighborIndex>>,
) -> Result<Box<dyn Scorer>, Error> {
    restore_method(parts, index).map_err(|error| match error {
        damage @ Error::Model(nuq::Error::Neighbors(nuq_neighbors::Error::Damaged { .. })) => damage,
        // The parameters were valid when they were stored, so a value out of its range is damage, not a mistake of the caller.
        other => damaged("params", other.to_string()),
    })
}

fn restore_method(
    mut parts: BaselineParts,
    index: Option<Box<dyn NeighborIndex>>,
) -> Result<Box<dyn Scorer>, Error> {
    fn boxed<S: Scorer + 'static>(scorer: S, is_normalized: bool) -> Box<dyn Scorer> {
        if is_normalized { Box::new(Normalized::new(scorer)) } else { Box::new(scorer) }
    }
    let (method, l2) = parts.method.without_normalization();
    let index = || index.ok_or_else(|| damaged("index", "it is missing"));
    let parts = &mut parts;
    Ok(match method {
        MethodId::MaxProb => Box::new(MaxProb),
        MethodId::Entropy => Box::new(Entropy),
        MethodId::Margin => Box::new(Margin),
        MethodId::MaxLogit => Box::new(MaxLogit),
        MethodId::Energy => Box::new(Energy::from_parts(parts)?),
        MethodId::Gen => Box::new(Gen::from_parts(parts)?),
        MethodId::EnsembleEntropy => Box::new(Ensemble(Reduction::Entropy)),
        MethodId::EnsembleMutualInformation => Box::new(Ensemble(Reduction::MutualInformation)),
        MethodId::EnsembleMeanEntropy => Box::new(Ensemble(Reduction::MeanEntropy)),
        MethodId::EnsembleStd => Box::new(Ensemble(Reduction::Std)),
        MethodId::EnsembleMaxProb => Box::new(Ensemble(Reduction::MaxProb)),
        MethodId::Ddu => boxed(restore_ddu(parts)?, l2),
        MethodId::Mahalanobis => boxed(restore_mahalanobis(parts)?, l2),
        MethodId::RelativeMahalanobis => boxed(restore_relative_mahalanobis(parts)?, l2),
        MethodId::KnnDistance => boxed(KnnDistance::from_parts(parts, index()?)?, l2),
        MethodId::Lof => boxed(LocalOutlierFactor::from_parts(parts, index()?)?, l2),
        MethodId::Sngp => boxed(Sngp::from_parts(parts)?, l2),
        MethodId::Duq => boxed(Duq::from_parts(parts)?, l2),
        MethodId::Vim => Box::new(Vim::from_parts(parts)?),
        MethodId::Fdbd => Box::new(Fdbd::from_parts(parts)?),
        MethodId::NnGuide => Box::new(NnGuide::from_parts(parts)?),
        MethodId::React => Box::new(React::from_parts(parts)?),
        MethodId::Huq => Box::new(Huq::from_parts(parts)?),
        _ => return Err(damaged("method", format!("{method} is not a baseline"))),
    })
}

/// The error of a part that is missing or has an impossible value.
pub(super) fn damaged(part: &str, problem: impl Into<String>) -> Error {
    nuq_neighbors::Error::Damaged { section: part.to_owned(), problem: problem.into() }.into()
}

/// Functions that add parts.
impl BaselineParts {
    pub(super) fn new(method: MethodId) -> Self {
        Self { method, params: BTreeMap::new(), labels: vec![], arrays: BTreeMap::new() }
    }

    pub(super) fn param(mut self, name: &str, value: impl Into<Param>) -> Self {
        self.params.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn labels(self, classes: &Classes) -> Self {
        Self { labels: classes.labels().to_vec(), ..self }
    }

    pub(super) fn array(mut self, name: &str, array: impl Into<Array>) -> Self {
        self.arrays.insert(name.to_owned(), array.into());
        self
    }

    /// Adds a matrix with the given number of columns.
    pub(super) fn table<T>(self, name: &str, values: Vec<T>, columns: usize) -> Self
    where
        ArrayValues: From<Vec<T>>,
    {
        let shape = vec![values.len() / columns, columns];
        self.array(name, Array { shape, values: values.into() })
    }
}

/// Functions that read parts. Arrays are taken out, so that their values are not copied.
impl BaselineParts {
    fn required_param(&self, name: &str) -> Result<&Param, Error> {
        self.params.get(name).ok_or_else(|| damaged("params", format!("`{name}` is missing")))
    }

    pub(super) fn integer(&self, name: &str) -> Result<u64, Error> {
        match self.required_param(name)? {
            Param::Integer(value) => Ok(*value),
            other => Err(damaged("params", format!("`{name}` is {other}, not an integer"))),
        }
    }

    pub(super) fn count(&self, name: &str) -> Result<usize, Error> {
        let value = self.integer(name)?;
        value.try_into().map_err(|_| damaged("params", format!("`{name}` is {value}, which is too large")))
    }

    pub(super) fn number(&self, name: &str) -> Result<f64, Error> {
        match self.required_param(name)? {
            Param::Number(value) => Ok(*value),
            Param::Integer(value) => Ok(*value as f64),
            other => Err(damaged("params", format!("`{name}` is {other}, not a number"))),
        }
    }

    /// `None` if the parameter was not given.
    pub(super) fn optional<T>(
        &self,
        name: &str,
        read: impl Fn(&Self, &str) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match self.required_param(name)? {
            Param::Default => Ok(None),
            _ => read(self, name).map(Some),
        }
    }

    /// A parameter that is stored as a word; a shrinkage may also be stored as a number.
    pub(super) fn choice<T: FromStr<Err = UnknownChoice>>(&self, name: &str) -> Result<T, Error> {
        let unknown = |unknown: UnknownChoice| damaged("params", unknown.to_string());
        self.required_param(name)?.to_string().parse().map_err(unknown)
    }

    /// The classes of a method that needs at least two classes.
    pub(super) fn classes(&self) -> Result<Classes, Error> {
        let classes = Classes::encode(&self.labels).0;
        if classes.len() < 2 || classes.labels() != self.labels {
            return Err(damaged("labels", "they are not two or more different labels in ascending order"));
        }
        Ok(classes)
    }

    fn take(&mut self, name: &str) -> Result<Array, Error> {
        let array = self.arrays.remove(name).ok_or_else(|| damaged(name, "it is missing"))?;
        let size = array.shape.iter().try_fold(1usize, |size, &n| size.checked_mul(n));
        if size != Some(array.values.len()) {
            return Err(damaged(
                name,
                format!("{} values are not of shape {:?}", array.values.len(), array.shape),
            ));
        }
        Ok(array)
    }

    /// Finite numbers of any shape.
    fn finite(&mut self, name: &str) -> Result<(Vec<f64>, Vec<usize>), Error> {
        match self.take(name)? {
            Array { values: ArrayValues::F64(values), shape } if values.iter().all(|v| v.is_finite()) => {
                Ok((values, shape))
            }
            Array { values: ArrayValues::F64(_), .. } => Err(damaged(name, "a value is not finite")),
            _ => Err(damaged(name, "its values are not of type f64")),
        }
    }

    /// Finite numbers of the given shape.
    pub(super) fn finite_of_shape(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>, Error> {
        let (values, got) = self.finite(name)?;
        if got == shape { Ok(values) } else { Err(wrong_shape(name, &got, &format!("{shape:?}"))) }
    }

    /// One finite number.
    pub(super) fn scalar(&mut self, name: &str) -> Result<f64, Error> {
        Ok(self.finite_of_shape(name, &[])?[0])
    }

    /// At least one finite number, in one dimension.
    pub(super) fn vector(&mut self, name: &str) -> Result<Vec<f64>, Error> {
        match self.finite(name)? {
            (values, shape) if shape.len() == 1 && shape[0] > 0 => Ok(values),
            (_, shape) => Err(wrong_shape(name, &shape, "one dimension with at least one value")),
        }
    }

    /// Numbers and infinities in one dimension, in ascending order.
    pub(super) fn ascending(&mut self, name: &str) -> Result<Vec<f64>, Error> {
        match self.take(name)? {
            Array { values: ArrayValues::F64(values), shape } if shape.len() == 1 => {
                let is_ascending = values.windows(2).all(|pair| pair[0] <= pair[1]);
                if is_ascending && values.iter().all(|v| !v.is_nan()) {
                    return Ok(values);
                }
                Err(damaged(name, "its values are not in ascending order"))
            }
            array => Err(wrong_shape(name, &array.shape, "one dimension of type f64")),
        }
    }

    /// A matrix of finite numbers with at least one row and one column.
    pub(super) fn matrix(&mut self, name: &str) -> Result<Mat<f64>, Error> {
        match self.finite(name)? {
            (values, shape) if shape.len() == 2 && !values.is_empty() => {
                Ok(Mat::from_fn(shape[0], shape[1], |i, j| values[i * shape[1] + j]))
            }
            (_, shape) => Err(wrong_shape(name, &shape, "a matrix with at least one row and one column")),
        }
    }

    /// A matrix of finite numbers of the given shape.
    pub(super) fn matrix_of_shape(
        &mut self,
        name: &str,
        rows: usize,
        columns: usize,
    ) -> Result<Mat<f64>, Error> {
        let values = self.finite_of_shape(name, &[rows, columns])?;
        Ok(Mat::from_fn(rows, columns, |i, j| values[i * columns + j]))
    }

    /// A matrix in single precision: values and number of columns, which is positive. There may be no rows.
    pub(super) fn rows(&mut self, name: &str) -> Result<(Vec<f32>, usize), Error> {
        match self.take(name)? {
            Array { values: ArrayValues::F32(values), shape } if shape.len() == 2 && shape[1] > 0 => {
                Ok((values, shape[1]))
            }
            array => Err(wrong_shape(name, &array.shape, "a matrix of type f32 with at least one column")),
        }
    }

    /// Integers in one dimension.
    pub(super) fn integers(&mut self, name: &str) -> Result<Vec<u32>, Error> {
        match self.take(name)? {
            Array { values: ArrayValues::U32(values), shape } if shape.len() == 1 => Ok(values),
            array => Err(wrong_shape(name, &array.shape, "one dimension of type u32")),
        }
    }

    /// One positive integer.
    pub(super) fn positive(&mut self, name: &str) -> Result<usize, Error> {
        match self.take(name)? {
            Array { values: ArrayValues::U32(values), shape } if shape.is_empty() && values[0] > 0 => {
                Ok(values[0] as usize)
            }
            _ => Err(damaged(name, "it is not a positive integer")),
        }
    }
}

fn wrong_shape(name: &str, got: &[usize], needed: &str) -> Error {
    damaged(name, format!("its shape is {got:?}; needed: {needed}"))
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Param::Default => f.pad("default"),
            Param::Integer(value) => value.fmt(f),
            Param::Number(value) => value.fmt(f),
            Param::Word(word) => f.pad(word),
        }
    }
}

impl From<usize> for Param {
    fn from(value: usize) -> Self {
        Param::Integer(value as u64)
    }
}

impl From<u64> for Param {
    fn from(value: u64) -> Self {
        Param::Integer(value)
    }
}

impl From<f64> for Param {
    fn from(value: f64) -> Self {
        Param::Number(value)
    }
}

impl From<&str> for Param {
    fn from(word: &str) -> Self {
        Param::Word(word.to_owned())
    }
}

impl From<nuq::Shrinkage> for Param {
    fn from(shrinkage: nuq::Shrinkage) -> Self {
        match shrinkage {
            nuq::Shrinkage::LedoitWolf => Param::Word(shrinkage.to_string()),
            nuq::Shrinkage::Fixed(amount) => Param::Number(amount),
        }
    }
}

impl<T: Into<Param>> From<Option<T>> for Param {
    fn from(value: Option<T>) -> Self {
        value.map_or(Param::Default, Into::into)
    }
}

impl ArrayValues {
    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            ArrayValues::F64(values) => values.len(),
            ArrayValues::F32(values) => values.len(),
            ArrayValues::U32(values) => values.len(),
        }
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<f64>> for ArrayValues {
    fn from(values: Vec<f64>) -> Self {
        ArrayValues::F64(values)
    }
}

impl From<Vec<f32>> for ArrayValues {
    fn from(values: Vec<f32>) -> Self {
        ArrayValues::F32(values)
    }
}

impl From<Vec<u32>> for ArrayValues {
    fn from(values: Vec<u32>) -> Self {
        ArrayValues::U32(values)
    }
}

/// An array of one dimension.
impl<T> From<Vec<T>> for Array
where
    ArrayValues: From<Vec<T>>,
{
    fn from(values: Vec<T>) -> Self {
        Array { shape: vec![values.len()], values: values.into() }
    }
}

impl From<f64> for Array {
    fn from(value: f64) -> Self {
        Array { shape: vec![], values: vec![value].into() }
    }
}

impl From<u32> for Array {
    fn from(value: u32) -> Self {
        Array { shape: vec![], values: vec![value].into() }
    }
}

impl From<&Mat<f64>> for Array {
    fn from(matrix: &Mat<f64>) -> Self {
        let (rows, columns) = (matrix.nrows(), matrix.ncols());
        let values: Vec<f64> = (0..rows).flat_map(|i| (0..columns).map(move |j| matrix[(i, j)])).collect();
        Array { shape: vec![rows, columns], values: values.into() }
    }
}
