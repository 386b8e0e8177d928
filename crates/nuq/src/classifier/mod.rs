//! The classifier: labels, class probabilities and uncertainties from embeddings and labels.

mod label_issues;
mod parts;
mod predict;
mod predictions;
mod select;
mod update;

pub use label_issues::LabelIssue;
pub use parts::ClassifierParts;
pub use predictions::{Predictions, Probabilities};
pub use select::ClassificationScore;
use select::ClassificationSelector;

use nuq_neighbors::{Embeddings, Neighbors, ShardedRows};

use crate::bandwidth::SelectionCurve;
use crate::calibrate::Rules;
use crate::error::check_lengths;
use crate::labels::Label;
use crate::model::sealed;
use crate::params::{Classification, Params, Variance};
use crate::posterior::Prior;
use crate::row_source::RowSource;
use crate::sample_weights::SampleWeights;
use crate::smoother::{self, Groups, KernelSmoother};
use crate::{Classes, Error};

/// A fitted NUQ classifier.
///
/// It borrows or shares the training embeddings. It copies them if they are normalized or stored in half precision, if a covariance is
/// estimated from fewer rows than columns, and if a graph has one bandwidth per column. If the rows have other owners, the first insertion
/// copies them too.
/// [`FittedModel`](crate::FittedModel) gives its options and learned values.
///
/// ```
/// use nuq::{Embeddings, NuqClassifier};
///
/// let x = Embeddings::from_rows(&[[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 6.0]])?;
/// let model = NuqClassifier::params().n_neighbors(2).fit(&x, &["cat", "cat", "dog", "dog"])?;
///
/// let predictions = model.predict(&Embeddings::from_rows(&[[0.0, 0.5], [500.0, 500.0]])?)?;
/// assert_eq!(predictions.label(0), "cat");
/// // The second query is far from all training rows: its epistemic uncertainty is higher.
/// assert!(predictions[1].log_epistemic > predictions[0].log_epistemic + 3.0);
/// assert_eq!(predictions.neighbors().ids(1), [3, 2]);
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug)]
pub struct NuqClassifier<'a> {
    pub(crate) smoother: KernelSmoother<'a>,
    classes: Classes,
    /// The class number of each id.
    class_of_row: Vec<u32>,
    prior: Prior,
    variance: Variance,
    curve: Option<SelectionCurve<ClassificationScore>>,
    rules: Rules,
}

impl Params<Classification> {
    /// Fits a classifier to `embeddings` and their `labels`, one per row: booleans, integers or strings.
    ///
    /// # Errors
    /// Parameters out of range, no rows, [`Error::LengthMismatch`], [`Error::NoSpread`] if a bandwidth or a covariance cannot be
    /// estimated, for example because all rows are equal, or [`Error::SingularCovariance`].
    pub fn fit<'a, 'l, L>(
        &self,
        embeddings: &Embeddings<'a>,
        labels: &'l [L],
    ) -> Result<NuqClassifier<'a>, Error>
    where
        Label: From<&'l L>,
    {
        self.fit_rows(&embeddings.into(), labels, None)
    }

    /// Fits a classifier to rows with sample weights. A row of weight `s` counts as `s` equal rows in the kernel sums, the class
    /// frequencies and the density, but as one of the `K` neighbors. A row of weight 0 is removed: its id names no row.
    ///
    /// ```
    /// use nuq::{Embeddings, NuqClassifier};
    /// let x = Embeddings::from_rows(&[[0.0], [1.0], [3.0]])?;
    /// let params = NuqClassifier::params().bandwidth(1.0).prior_weight(0.0);
    /// let model = params.fit_weighted(&x, &["a", "b", "b"], &[3.0, 1.0, 0.0])?;
    /// // Both rows have the same distance to 0.5; the first counts three times.
    /// let probability = model.predict(&Embeddings::from_rows(&[[0.5]])?)?[0].probability;
    /// assert!((probability - 0.75).abs() < 1e-12);
    /// # Ok::<(), nuq::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`fit`](Self::fit), [`Error::BadSampleWeight`] for a weight that is neither 0 nor between 1e-100
    /// and 1e100, and [`Error::OutOfRange`] if all weights are 0.
    pub fn fit_weighted<'a, 'l, L>(
        &self,
        embeddings: &Embeddings<'a>,
        labels: &'l [L],
        sample_weights: &[f64],
    ) -> Result<NuqClassifier<'a>, Error>
    where
        Label: From<&'l L>,
    {
        self.fit_rows(&embeddings.into(), labels, Some(sample_weights))
    }

    /// Fits a classifier to the rows of shards, which can be mapped files. The model is bit for bit the same as the
    /// result of [`fit`](Self::fit) with an exact search on all rows in the order of their ids. Shards are always
    /// searched exactly.
    ///
    /// # Errors
    /// The errors of [`fit_weighted`](Self::fit_weighted), [`Error::ShardNormalization`], and errors of the neighbor
    /// search: damaged shards, a request for a graph index, or a weight of 0, because rows of shards cannot be removed.
    pub fn fit_shards<'l, L>(
        &self,
        shards: &ShardedRows,
        labels: &'l [L],
        sample_weights: Option<&[f64]>,
    ) -> Result<NuqClassifier<'static>, Error>
    where
        Label: From<&'l L>,
    {
        self.fit_rows(&RowSource::of_shards(shards)?, labels, sample_weights)
    }

    fn fit_rows<'a, 'l, L>(
        &self,
        rows: &RowSource<'a>,
        labels: &'l [L],
        sample_weights: Option<&[f64]>,
    ) -> Result<NuqClassifier<'a>, Error>
    where
        Label: From<&'l L>,
    {
        check_lengths(("labels", labels.len()), ("training rows", rows.len()))?;
        let (sample_weights, removed) = SampleWeights::of_rows(sample_weights, rows.len())?;
        let (mut classes, mut class_of_row) = Classes::encode(labels);
        let renumbering = classes.remove(removed.iter().map(|&row| class_of_row[row as usize]));
        removed.iter().for_each(|&row| class_of_row[row as usize] = 0);
        renumber(&mut class_of_row, renumbering);
        let live: Vec<u32> =
            (0..labels.len() as u32).filter(|row| removed.binary_search(row).is_err()).collect();
        let prior = sample_weights.prior(&classes, &class_of_row, &live, self.prior_weight);
        let groups = Groups::ByClass { classes: &classes, class_of_row: &class_of_row };
        let weights = (sample_weights, &removed[..]);
        let (smoother, curve) = smoother::fit(self, rows, groups, weights, |criterion| {
            ClassificationSelector { criterion, prior: &prior, class_of_row: &class_of_row }
        })?;
        let (variance, rules) = (self.task.variance, Rules::default());
        Ok(NuqClassifier { smoother, classes, class_of_row, prior, variance, curve, rules })
    }
}

impl NuqClassifier<'_> {
    /// The default parameters.
    #[must_use]
    pub fn params() -> Params<Classification> {
        Params::default()
    }

    /// The parameters of Algorithm 1 as printed in the paper.
    #[must_use]
    pub fn paper() -> Params<Classification> {
        Params::paper()
    }

    /// The classes, sorted, with their numbers of training rows.
    #[must_use]
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The class number of each id. The value of an id that names no row has no meaning.
    #[must_use]
    pub fn training_classes(&self) -> &[u32] {
        &self.class_of_row
    }

    /// The variance term of the epistemic uncertainty.
    #[must_use]
    pub fn variance(&self) -> Variance {
        self.variance
    }

    /// The leave-one-out scores of all bandwidths of the grid; `None` if the bandwidth was not selected by leave-one-out.
    #[must_use]
    pub fn bandwidth_curve(&self) -> Option<&SelectionCurve<ClassificationScore>> {
        self.curve.as_ref()
    }

    fn classes_of<'n>(&'n self, neighbors: &'n Neighbors, i: usize) -> impl Iterator<Item = u32> + 'n {
        neighbors.ids(i).iter().map(|&id| self.class_of_row[id as usize])
    }
}

/// Applies new class numbers to all rows.
fn renumber(class_of_row: &mut [u32], renumbering: Option<Vec<u32>>) {
    if let Some(number) = renumbering {
        class_of_row.iter_mut().for_each(|class| *class = number[*class as usize]);
    }
}

impl sealed::Sealed for NuqClassifier<'_> {
    fn smoother(&self) -> &KernelSmoother<'_> {
        &self.smoother
    }

    fn groups(&self) -> Groups<'_> {
        Groups::ByClass { classes: &self.classes, class_of_row: &self.class_of_row }
    }

    fn rules_ref(&self) -> &Rules {
        &self.rules
    }

    fn rules_mut_ref(&mut self) -> &mut Rules {
        &mut self.rules
    }

    fn column_names_mut(&mut self) -> &mut Option<Vec<String>> {
        &mut self.smoother.column_names
    }

    fn prior(&self) -> f64 {
        self.prior.weight()
    }
}
