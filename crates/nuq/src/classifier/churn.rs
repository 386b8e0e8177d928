//! Rows that come and go after the fit.

use nuq_neighbors::Embeddings;

use super::NuqClassifier;
use crate::posterior::Prior;
use crate::{Classes, Error, Label};

impl NuqClassifier<'_> {
    /// Learns more rows, also of new classes, and returns their ids: those of forgotten rows first, then new ones.
    ///
    /// Bandwidths and dimension stay as they were fitted; class frequencies and Gaussian densities follow. Thresholds go: their
    /// promises were made by the model as it was.
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
    pub fn insert<'l, L>(&mut self, rows: &Embeddings<'_>, labels: &'l [L]) -> Result<Vec<u32>, Error>
    where
        Label: From<&'l L>,
    {
        if labels.len() != rows.len() {
            let (got, expected) = (labels.len(), rows.len());
            return Err(Error::LengthMismatch { what: "labels", got, counterpart: "new rows", expected });
        }
        // Those that there are, before ids are given anew.
        let mut of_row = self.labels_of_rows();
        let ids = self.smoother.insert(rows)?;
        of_row.resize(self.smoother.index.rows().id_bound(), None);
        for (&id, label) in ids.iter().zip(labels) {
            of_row[id as usize] = Some(Label::from(label));
        }
        self.encode(&of_row);
        Ok(ids)
    }

    /// Forgets training rows: all of them, or none when an id names no row or no row would be left. Thresholds go too.
    pub fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        self.smoother.remove(ids)?;
        let of_row = self.labels_of_rows();
        self.encode(&of_row);
        Ok(())
    }

    /// The label of each id that names a row.
    fn labels_of_rows(&self) -> Vec<Option<Label>> {
        let index = &*self.smoother.index;
        let label = |id: u32| self.classes.label(self.of_row[id as usize] as usize).clone();
        (0..index.rows().id_bound() as u32).map(|id| index.rows().contains(id).then(|| label(id))).collect()
    }

    fn encode(&mut self, of_row: &[Option<Label>]) {
        let live: Vec<Label> = of_row.iter().flatten().cloned().collect();
        let (classes, numbers) = Classes::encode(&live);
        let mut numbers = numbers.into_iter();
        // An id without a row keeps a class that exists; nothing reads it.
        let number = |label: &Option<Label>| label.as_ref().and_then(|_| numbers.next()).unwrap_or(0);
        self.of_row = of_row.iter().map(number).collect();
        self.prior = Prior::new(&classes, self.prior.weight());
        self.smoother.regroup(&classes, &self.of_row);
        self.classes = classes;
    }
}
