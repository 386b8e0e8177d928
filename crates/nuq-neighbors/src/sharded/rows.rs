//! Storage of training rows in several shards.

use std::borrow::Cow;
use std::sync::Arc;

use super::ShardSearch;
use crate::{Embeddings, Error, Precision, RowParts, RowStorage, RowValues, StoredRows};

/// A part of the training rows. Their ids are consecutive.
#[derive(Clone)]
pub struct Shard {
    /// The name of the shard: its file in the folder of a model.
    pub name: String,
    /// The rows, in `f32` and without removed rows. [`ShardedRows::new`] accepts only rows without a scale; after
    /// [`ShardedRows::scaled`] the rows of all shards have the same scale.
    pub rows: StoredRows<'static>,
}

/// Training rows in several shards, for example one mapped file each. The ids of a shard follow the ids of the shard
/// before it. Clones share the rows.
///
/// The rows cannot be changed: [`insert`](RowStorage::insert) and [`remove`](RowStorage::remove) are errors.
///
/// ```
/// use nuq_neighbors::{Embeddings, Precision, Shard, ShardedRows, StoredRows};
///
/// let shard = |name: &str, values: &[f32]| -> Result<Shard, nuq_neighbors::Error> {
///     let rows = StoredRows::new(&Embeddings::new(values.to_vec(), 1)?, Precision::F32)?;
///     Ok(Shard { name: name.to_owned(), rows })
/// };
/// let rows = ShardedRows::new(vec![shard("a", &[0.0, 5.0])?, shard("b", &[1.0])?], false)?;
/// assert_eq!((rows.len(), rows.row(1), rows.row(2)), (3, &[5.0][..], &[1.0][..]));
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
#[derive(Clone)]
pub struct ShardedRows {
    shards: Arc<[Shard]>,
    /// The id of the first row of each shard, ascending.
    firsts: Arc<[u32]>,
    len: usize,
    scale: Option<Vec<f64>>,
    is_normalized: bool,
    searcher: Option<Arc<dyn ShardSearch>>,
}

impl ShardedRows {
    /// Rows of at least one shard. `is_normalized` states that every row was divided by its Euclidean norm.
    ///
    /// # Errors
    /// [`Error::Empty`] without shards, [`Error::DimensionMismatch`], [`Error::TooManyRows`], and [`Error::Damaged`] for a
    /// shard whose rows are scaled or not in `f32`, or from which rows were removed.
    pub fn new(shards: Vec<Shard>, is_normalized: bool) -> Result<Self, Error> {
        let dim = shards.first().ok_or(Error::Empty)?.rows.dim();
        let (mut firsts, mut len) = (Vec::with_capacity(shards.len()), 0usize);
        for Shard { name, rows } in &shards {
            if rows.dim() != dim {
                return Err(Error::DimensionMismatch { got: rows.dim(), expected: dim });
            }
            if rows.floats().is_none() || !rows.removed().is_empty() || rows.scale().is_some() {
                let problem = "its rows are scaled or not in f32, or some of them are removed".to_owned();
                return Err(Error::Damaged { section: name.clone(), problem });
            }
            firsts.push(len as u32);
            len += rows.len();
            if len > u32::MAX as usize {
                return Err(Error::TooManyRows { rows: len });
            }
        }
        let (shards, firsts) = (shards.into(), firsts.into());
        Ok(Self { shards, firsts, len, scale: None, is_normalized, searcher: None })
    }

    /// Sets the way in which the shards are searched. By default they are searched one after the other by this process.
    #[must_use]
    pub fn searched_by(self, searcher: Arc<dyn ShardSearch>) -> Self {
        Self { searcher: Some(searcher), ..self }
    }

    pub(super) fn searcher(&self) -> Option<&dyn ShardSearch> {
        self.searcher.as_deref()
    }

    /// Sets the divisors of the coordinates: distances are then measured in the scaled space.
    ///
    /// # Errors
    /// The errors of [`StoredRows::scaled`].
    pub fn scaled(self, scale: Vec<f64>) -> Result<Self, Error> {
        let scaled = |shard: &Shard| {
            let rows = shard.rows.clone().scaled(scale.clone())?;
            Ok(Shard { name: shard.name.clone(), rows })
        };
        let shards: Vec<Shard> = self.shards.iter().map(scaled).collect::<Result<_, Error>>()?;
        Ok(Self { shards: shards.into(), scale: Some(scale), ..self })
    }

    /// The shards, each with the id of its first row.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (u32, &Shard)> {
        self.firsts.iter().copied().zip(self.shards.iter())
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no row. It is always false, because every shard has at least one row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of columns.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.shards[0].rows.dim()
    }

    /// Whether every row was divided by its Euclidean norm.
    #[must_use]
    pub fn is_normalized(&self) -> bool {
        self.is_normalized
    }

    /// The values of a row. The rows must have been [verified](RowStorage::verify_once).
    ///
    /// # Panics
    /// When `id` is not below [`len`](Self::len).
    #[must_use]
    pub fn row(&self, id: u32) -> &[f32] {
        let shard = self.firsts.partition_point(|&first| first <= id) - 1;
        let rows = self.shards[shard].rows.floats().expect("shards hold rows of f32");
        rows.row((id - self.firsts[shard]) as usize)
    }
}

impl RowStorage for ShardedRows {
    fn len(&self) -> usize {
        self.len
    }

    fn dim(&self) -> usize {
        self.dim()
    }

    fn id_bound(&self) -> usize {
        self.len
    }

    fn contains(&self, id: u32) -> bool {
        (id as usize) < self.len
    }

    fn row(&self, id: u32) -> Cow<'_, [f32]> {
        Cow::Borrowed(self.row(id))
    }

    /// A copy of all rows in one array, as a model in a single file stores them.
    fn parts(&self) -> RowParts<'_> {
        let mut values = Vec::with_capacity(self.len * self.dim());
        self.shards.iter().for_each(|shard| values.extend_from_slice(&shard.rows.block(0..shard.rows.len())));
        let values = RowValues::F32(values.into());
        RowParts { dim: self.dim(), values, removed: vec![], scale: self.scale.clone() }
    }

    fn insert(&mut self, _: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        Err(Error::FixedShards)
    }

    fn remove(&mut self, _: &[u32]) -> Result<(), Error> {
        Err(Error::FixedShards)
    }

    fn precision(&self) -> Precision {
        Precision::F32
    }

    fn scale(&self) -> Option<&[f64]> {
        self.scale.as_deref()
    }

    fn verify_once(&self) -> Result<(), Error> {
        self.shards.iter().try_for_each(|shard| shard.rows.verify_once())
    }

    fn verify_unchanged(&self) -> Result<(), Error> {
        // Shards that other processes search are not read here.
        match self.searcher() {
            Some(_) => Ok(()),
            None => self.shards.iter().try_for_each(|shard| shard.rows.verify_unchanged()),
        }
    }

    fn sharded(&self) -> Option<&ShardedRows> {
        Some(self)
    }
}
