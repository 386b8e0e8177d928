//! Inserting and removing training rows of a fitted regressor.

use nuq_neighbors::Embeddings;

use super::NuqRegressor;
use super::targets::Targets;
use crate::error::check_lengths;
use crate::{Error, sample_weights};

impl NuqRegressor<'_> {
    /// Inserts training rows and returns their ids, as [`NuqClassifier::insert`](crate::NuqClassifier::insert) does. Mean and
    /// variance of all targets are computed again.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::BadTarget`], [`Error::PerPointBandwidthFixed`], or rows that the index does not
    /// accept. The model is then unchanged.
    pub fn insert(&mut self, rows: &Embeddings<'_>, targets: &[f64]) -> Result<Vec<u32>, Error> {
        self.insert_rows(rows, targets, None)
    }

    /// The same as [`insert`](Self::insert) with one sample weight per row, as
    /// [`NuqClassifier::insert_weighted`](crate::NuqClassifier::insert_weighted) does for a classifier.
    ///
    /// # Errors
    /// The errors of [`insert`](Self::insert), and the errors for invalid weights of
    /// [`Params::fit_weighted`](crate::Params::fit_weighted).
    pub fn insert_weighted(
        &mut self,
        rows: &Embeddings<'_>,
        targets: &[f64],
        sample_weights: &[f64],
    ) -> Result<Vec<u32>, Error> {
        let insert = |model: &mut Self, weights: &[f64]| model.insert_rows(rows, targets, Some(weights));
        sample_weights::insert(self, sample_weights, rows.len(), insert, Self::remove)
    }

    fn insert_rows(
        &mut self,
        rows: &Embeddings<'_>,
        targets: &[f64],
        sample_weights: Option<&[f64]>,
    ) -> Result<Vec<u32>, Error> {
        check_lengths(("targets", targets.len()), ("new rows", rows.len()))?;
        // Check the targets before the index changes, because an error must leave the model unchanged.
        Targets::new(targets, self.targets.prior_weight())?;
        let ids = self.smoother.insert(rows, sample_weights)?;
        let mut values = self.targets.take_values();
        values.resize(self.smoother.index.rows().id_bound(), 0.0);
        ids.iter().zip(targets).for_each(|(&id, &target)| values[id as usize] = target);
        self.update_derived(values)?;
        Ok(ids)
    }

    /// Removes training rows. Thresholds and rules are removed too, because they were calibrated on the model before the change.
    ///
    /// # Errors
    /// An id names no row or is listed twice, or no row would be left. The model is then unchanged.
    pub fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.smoother.remove(ids)?;
        let values = self.targets.take_values();
        self.update_derived(values)
    }

    fn update_derived(&mut self, values: Vec<f64>) -> Result<(), Error> {
        let live = self.smoother.index.rows().live_ids();
        self.targets =
            Targets::of_rows(values, &live, &self.smoother.sample_weights, self.targets.prior_weight())?;
        self.rules.clear();
        Ok(())
    }
}
