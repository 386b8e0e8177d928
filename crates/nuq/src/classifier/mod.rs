//! The classifier: embeddings and labels in; labels, probabilities and uncertainties out.

mod churn;
mod label_issues;
mod predictions;
mod select;

pub use label_issues::LabelIssue;
pub use predictions::{Predictions, Probabilities};
pub use select::ClassificationScore;

use nuq_neighbors::{Embeddings, NeighborIndex, Neighbors};
use rayon::prelude::*;

use crate::bandwidth::SelectionCurve;
use crate::labels::Label;
use crate::params::{Classification, Params, Variance};
use crate::parts::{ClassifierParts, SmootherParts, check_length};
use crate::posterior::{Prior, Scratch};
use crate::smoother::{self, Groups, Smoother};
use crate::uncertainty::Prediction;
use crate::{Classes, Error};

/// A fitted NUQ classifier. It borrows or shares the training embeddings; it holds no copy of them, but of the
/// normalized rows when it was told to normalize.
///
/// ```
/// use nuq::{Embeddings, NuqClassifier};
///
/// let x = Embeddings::from_rows(&[[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 6.0]])?;
/// let model = NuqClassifier::params().n_neighbors(2).fit(&x, &["cat", "cat", "dog", "dog"])?;
///
/// let found = model.predict(&Embeddings::from_rows(&[[0.0, 0.5], [500.0, 500.0]])?)?;
/// assert_eq!(found.label(0), "cat");
/// // The far query is much less certain, and says which training rows it was compared with.
/// assert!(found[1].log_epistemic > found[0].log_epistemic + 3.0);
/// assert_eq!(found.neighbors().ids(1), [3, 2]);
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug)]
pub struct NuqClassifier<'a> {
    pub(crate) smoother: Smoother<'a>,
    classes: Classes,
    /// The class of each training row.
    of_row: Vec<u32>,
    prior: Prior,
    variance: Variance,
    curve: Option<SelectionCurve<ClassificationScore>>,
}

impl Params<Classification> {
    /// Fits a classifier to `embeddings` and their `labels`, one per row: integers or strings.
    pub fn fit<'a, 'l, L>(
        &self,
        embeddings: &Embeddings<'a>,
        labels: &'l [L],
    ) -> Result<NuqClassifier<'a>, Error>
    where
        Label: From<&'l L>,
    {
        if labels.len() != embeddings.len() {
            let (got, expected) = (labels.len(), embeddings.len());
            return Err(Error::LengthMismatch {
                what: "labels",
                got,
                counterpart: "training rows",
                expected,
            });
        }
        let (classes, of_row) = Classes::encode(labels);
        let prior = Prior::new(&classes, self.prior_weight);
        let groups = Groups { classes: &classes, of_row: &of_row };
        let (smoother, curve) = smoother::fit(self, embeddings, &groups, |table, criterion, grid| {
            select::select(table, *criterion, grid, &prior, &of_row)
        })?;
        Ok(NuqClassifier { smoother, classes, of_row, prior, variance: self.task.variance, curve })
    }
}

smoother::learned!(NuqClassifier);

impl<'a> NuqClassifier<'a> {
    /// What the model is made of, index aside.
    pub fn parts(&self) -> ClassifierParts {
        ClassifierParts {
            smoother: self.smoother_parts(),
            labels: self.classes.labels().to_vec(),
            of_row: self.of_row.clone(),
            variance: self.variance,
            curve: self.curve.clone(),
        }
    }

    /// Puts a model together.
    pub fn from_parts(parts: ClassifierParts, index: Box<dyn NeighborIndex + 'a>) -> Result<Self, Error> {
        let ClassifierParts { smoother, labels, of_row, variance, curve } = parts;
        check_length("labels", of_row.len(), &*index)?;
        let live: Vec<u32> = index.rows().live_ids().iter().map(|&id| of_row[id as usize]).collect();
        let is_known = of_row.iter().all(|&class| (class as usize) < labels.len());
        let classes = Classes::restored(labels, &live).filter(|_| is_known).ok_or_else(|| {
            let problem = "labels are not sorted, or a row is of no class".to_owned();
            nuq_neighbors::Error::Damaged { section: "model".to_owned(), problem }
        })?;
        let prior = Prior::new(&classes, smoother.prior_weight);
        let smoother = Smoother::restored(smoother, index, classes.clone(), &of_row)?;
        Ok(Self { smoother, classes, of_row, prior, variance, curve })
    }
}

impl NuqClassifier<'_> {
    /// The parameters, at their defaults.
    pub fn params() -> Params<Classification> {
        Params::default()
    }

    /// The parameters of Algorithm 1 as printed in the paper.
    pub fn paper() -> Params<Classification> {
        Params::paper()
    }

    /// Label, probability and uncertainties of each query.
    pub fn predict(&self, queries: &Embeddings<'_>) -> Result<Predictions<'_>, Error> {
        let queries = self.smoother.prepare(queries);
        let neighbors = self.smoother.search(&queries)?;
        self.predict_prepared(&queries, neighbors)
    }

    /// The same from neighbors that something else found: a vector database, another machine.
    ///
    /// Their squared distances are taken as they are and must be those of the space that this model searches: rows of
    /// length one under `normalize`, each coordinate divided by its bandwidth where there is one per dimension.
    /// [`measure`](Self::measure) gives them for any ids.
    pub fn predict_from(
        &self,
        queries: &Embeddings<'_>,
        neighbors: &Neighbors,
    ) -> Result<Predictions<'_>, Error> {
        self.predict_prepared(&self.smoother.prepare(queries), neighbors.clone())
    }

    fn predict_prepared(
        &self,
        queries: &Embeddings<'_>,
        neighbors: Neighbors,
    ) -> Result<Predictions<'_>, Error> {
        let batch = self.smoother.batch(queries, &neighbors)?.with_density()?;
        let rows = (0..batch.len())
            .into_par_iter()
            .map_init(Scratch::default, |scratch, i| {
                let local = batch.local(i);
                let summary = self.prior.summarize(self.classes_of(&neighbors, i), &local.weights, scratch);
                Prediction::new(&summary, &local, self.variance)
            })
            .collect();
        drop(batch);
        Ok(Predictions::new(rows, neighbors, &self.classes))
    }

    /// The probabilities of all classes for each query.
    pub fn predict_proba(&self, queries: &Embeddings<'_>) -> Result<Probabilities, Error> {
        let queries = self.smoother.prepare(queries);
        let neighbors = self.smoother.search(&queries)?;
        self.proba_prepared(&queries, &neighbors)
    }

    /// The same from neighbors that something else found; see [`predict_from`](Self::predict_from).
    pub fn predict_proba_from(
        &self,
        queries: &Embeddings<'_>,
        neighbors: &Neighbors,
    ) -> Result<Probabilities, Error> {
        self.proba_prepared(&self.smoother.prepare(queries), neighbors)
    }

    fn proba_prepared(
        &self,
        queries: &Embeddings<'_>,
        neighbors: &Neighbors,
    ) -> Result<Probabilities, Error> {
        let batch = self.smoother.batch(queries, neighbors)?;
        let classes = self.classes.len();
        let mut values = vec![0.0; queries.len() * classes];
        values.par_chunks_mut(classes).enumerate().for_each_init(Scratch::default, |scratch, (i, row)| {
            self.prior.probabilities(self.classes_of(neighbors, i), &batch.weights(i), scratch, row);
        });
        Ok(Probabilities::new(values, classes))
    }

    fn classes_of<'n>(&'n self, neighbors: &'n Neighbors, i: usize) -> impl Iterator<Item = u32> + 'n {
        neighbors.ids(i).iter().map(|&id| self.of_row[id as usize])
    }

    /// The classes, sorted, with their numbers of training rows.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The class number of each training row.
    pub fn training_classes(&self) -> &[u32] {
        &self.of_row
    }

    /// The variance term of the epistemic uncertainty.
    #[must_use]
    pub fn variance(&self) -> Variance {
        self.variance
    }

    /// The options and learned values that a classifier shares with a regressor, without a copy of the labels.
    #[must_use]
    pub fn smoother_parts(&self) -> SmootherParts {
        self.smoother.parts(self.prior.weight())
    }

    /// What leave-one-out said of each bandwidth, when it was asked.
    pub fn bandwidth_curve(&self) -> Option<&SelectionCurve<ClassificationScore>> {
        self.curve.as_ref()
    }
}
