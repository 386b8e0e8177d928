//! The training rows to which Gaussians are fitted.

use nuq_neighbors::{NeighborIndex, Precision};

use super::Groups;
use crate::density::RowClasses;
use crate::row_source::RowSource;
use crate::sample_weights::SampleWeights;
use crate::{Classes, Error};

/// The rows of the index, in its precision, with their classes and sample weights. Gaussians are fitted to the rows in
/// this precision, so that they are the same after the model was saved and opened.
pub(super) struct GaussianRows<'a> {
    pub(super) rows: RowSource<'a>,
    class_of_row: Vec<u32>,
    weights: Option<Vec<f64>>,
}

impl<'a> GaussianRows<'a> {
    /// The rows of `index` during a fit. `original` are the rows from which the index was built. They are used without
    /// a copy if the index has the same rows.
    pub(super) fn of(
        original: &RowSource<'a>,
        index: &dyn NeighborIndex,
        groups: Groups<'_>,
        sample_weights: &SampleWeights,
    ) -> Result<Self, Error> {
        let ids = index.rows().live_ids();
        let is_same = index.rows().precision() != Precision::F16 && ids.len() == original.len();
        let rows = match index.rows().sharded() {
            _ if is_same => original.clone(),
            Some(shards) => RowSource::of_shards(shards)?,
            None => RowSource::from(&index.rows().gather(&ids)?),
        };
        Ok(Self::new(rows, ids, groups, sample_weights))
    }

    /// The rows of `index` after the fit. They are copied only if rows were removed, or are stored in half precision.
    pub(super) fn of_index(
        index: &'a dyn NeighborIndex,
        groups: Groups<'_>,
        sample_weights: &SampleWeights,
    ) -> Result<Self, Error> {
        let rows = match index.rows().sharded() {
            Some(shards) => RowSource::of_shards(shards)?,
            None => RowSource::Matrix(index.rows().live_rows()?),
        };
        Ok(Self::new(rows, index.rows().live_ids(), groups, sample_weights))
    }

    fn new(rows: RowSource<'a>, ids: Vec<u32>, groups: Groups<'_>, sample_weights: &SampleWeights) -> Self {
        let weights = sample_weights.by_id().map(|_| sample_weights.gather(&ids));
        Self { rows, class_of_row: groups.of_ids(ids.into_iter()), weights }
    }

    pub(super) fn classes<'r>(&'r self, classes: &'r Classes) -> RowClasses<'r> {
        RowClasses { classes, class_of_row: &self.class_of_row, weights: self.weights.as_deref() }
    }
}
