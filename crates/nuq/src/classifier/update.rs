//! Inserting and removing training rows of a fitted classifier.

use nuq_neighbors::Embeddings;

use super::{NuqClassifier, renumber};
use crate::error::check_lengths;
use crate::{Error, Label, sample_weights};

impl NuqClassifier<'_> {
    /// Inserts training rows, also of new classes, and returns their ids. Ids of removed rows are used first.
    ///
    /// Without sample weights, the time is proportional to the number of inserted rows plus the number of classes. A
    /// new class also changes the class numbers of all rows. Bandwidths and dimension are not fitted again. Class
    /// frequencies are updated. Gaussian densities are fitted again at the next prediction. Thresholds, rules for sets
    /// and rules for intervals are removed, because they were calibrated on the model before the change.
    ///
    /// ```
    /// use nuq::{Embeddings, NuqClassifier};
    /// let x = Embeddings::from_rows(&[[0.0], [0.1], [1.0], [1.1]])?;
    /// let mut model = NuqClassifier::params().n_neighbors(2).bandwidth(0.1).fit(&x, &["a", "a", "b", "b"])?;
    /// let far = Embeddings::from_rows(&[[9.0]])?;
    /// assert_eq!(model.insert(&far, &["new"])?, [4]);
    /// assert_eq!(model.predict(&far)?.label(0), "new");
    /// model.remove(&[4])?;
    /// assert!(model.predict(&far)?.label(0) != "new");
    /// # Ok::<(), nuq::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::PerPointBandwidthFixed`], or an index that does not accept the rows: for example because of
    /// another number of columns, or because the training rows are in shards or are not stored in the model. The model is then unchanged.
    pub fn insert<'l, L>(&mut self, rows: &Embeddings<'_>, labels: &'l [L]) -> Result<Vec<u32>, Error>
    where
        Label: From<&'l L>,
    {
        self.insert_rows(rows, labels, None)
    }

    /// The same as [`insert`](Self::insert) with one sample weight per row. Rows of weight 0 are not inserted: their ids name no
    /// row.
    ///
    /// # Errors
    /// The errors of [`insert`](Self::insert), and the errors for invalid weights of
    /// [`Params::fit_weighted`](crate::Params::fit_weighted).
    pub fn insert_weighted<'l, L>(
        &mut self,
        rows: &Embeddings<'_>,
        labels: &'l [L],
        sample_weights: &[f64],
    ) -> Result<Vec<u32>, Error>
    where
        Label: From<&'l L>,
    {
        let insert = |model: &mut Self, weights: &[f64]| model.insert_rows(rows, labels, Some(weights));
        sample_weights::insert(self, sample_weights, rows.len(), insert, Self::remove)
    }

    fn insert_rows<'l, L>(
        &mut self,
        rows: &Embeddings<'_>,
        labels: &'l [L],
        sample_weights: Option<&[f64]>,
    ) -> Result<Vec<u32>, Error>
    where
        Label: From<&'l L>,
    {
        check_lengths(("labels", labels.len()), ("new rows", rows.len()))?;
        let ids = self.smoother.insert(rows, sample_weights)?;
        let labels: Vec<Label> = labels.iter().map(|label| self.classes.convert(label.into())).collect();
        let (renumbering, inserted) = self.classes.insert(&labels);
        renumber(&mut self.class_of_row, renumbering);
        self.class_of_row.resize(self.smoother.index.rows().id_bound(), 0);
        for (&id, class) in ids.iter().zip(inserted) {
            self.class_of_row[id as usize] = class;
        }
        self.update_derived();
        Ok(ids)
    }

    /// Removes training rows. Classes without rows are removed too. Thresholds and rules are removed as in
    /// [`insert`](Self::insert).
    ///
    /// # Errors
    /// An id names no row or is listed twice, no row would be left, or the rows are in shards or are not stored in the model. The model is
    /// then unchanged.
    pub fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.smoother.remove(ids)?;
        let renumbering = self.classes.remove(ids.iter().map(|&id| self.class_of_row[id as usize]));
        // The class of an id that names no row is not used, but it must be a valid class number.
        ids.iter().for_each(|&id| self.class_of_row[id as usize] = 0);
        renumber(&mut self.class_of_row, renumbering);
        self.update_derived();
        Ok(())
    }

    /// Replaces the labels of training rows, also by new classes. The rows keep their ids. Classes without rows are
    /// removed. Thresholds and rules are removed as in [`insert`](Self::insert).
    ///
    /// ```
    /// use nuq::{Embeddings, NuqClassifier};
    /// let x = Embeddings::from_rows(&[[0.0], [0.1], [1.0], [1.1]])?;
    /// let mut model = NuqClassifier::params().n_neighbors(2).bandwidth(0.1).fit(&x, &["a", "a", "a", "b"])?;
    /// model.relabel(&[2], &["b"])?;
    /// assert_eq!(model.predict(&Embeddings::from_rows(&[[1.0]])?)?.label(0), "b");
    /// # Ok::<(), nuq::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], an id that names no row or is listed twice, or a model without stored rows whose density has Gaussians.
    /// The model is then unchanged.
    pub fn relabel<'l, L>(&mut self, ids: &[u32], labels: &'l [L]) -> Result<(), Error>
    where
        Label: From<&'l L>,
    {
        check_lengths(("labels", labels.len()), ("ids", ids.len()))?;
        self.smoother.check_ids(ids)?;
        self.smoother.check_refit()?;
        let labels: Vec<Label> = labels.iter().map(|label| self.classes.convert(label.into())).collect();
        let (renumbering, inserted) = self.classes.insert(&labels);
        renumber(&mut self.class_of_row, renumbering);
        let former: Vec<u32> = ids.iter().map(|&id| self.class_of_row[id as usize]).collect();
        ids.iter().zip(inserted).for_each(|(&id, class)| self.class_of_row[id as usize] = class);
        let renumbering = self.classes.remove(former.into_iter());
        renumber(&mut self.class_of_row, renumbering);
        self.smoother.invalidate_density();
        self.update_derived();
        Ok(())
    }

    /// Computes the prior again and removes the rules, because both depend on the training rows.
    fn update_derived(&mut self) {
        let smoother = &self.smoother;
        // Without sample weights the prior depends on the numbers of rows per class only, and the ids are not needed.
        let live = smoother.sample_weights.by_id().map_or(vec![], |_| smoother.index.rows().live_ids());
        let weight = self.prior.weight();
        self.prior = smoother.sample_weights.prior(&self.classes, &self.class_of_row, &live, weight);
        self.rules.clear();
    }
}
