//! The regressor: means, variances and uncertainties from embeddings and targets.

mod estimates;
mod parts;
mod predict;
mod select;
mod targets;
mod update;

pub use estimates::Estimates;
pub use parts::RegressorParts;
pub use select::RegressionScore;
use select::RegressionSelector;

use nuq_neighbors::{Embeddings, ShardedRows};

use crate::Error;
use crate::bandwidth::SelectionCurve;
use crate::calibrate::Rules;
use crate::error::check_lengths;
use crate::model::sealed;
use crate::params::{Params, Regression};
use crate::row_source::RowSource;
use crate::sample_weights::SampleWeights;
use crate::smoother::{self, Groups, KernelSmoother};
use targets::Targets;

/// A fitted NUQ regressor. It borrows or shares the training embeddings, as [`NuqClassifier`](crate::NuqClassifier) does.
/// [`FittedModel`](crate::FittedModel) gives its options and learned values.
///
/// ```
/// use nuq::{Embeddings, NuqRegressor};
///
/// let x = Embeddings::from_rows(&[[0.0], [1.0], [2.0]])?;
/// let model = NuqRegressor::params().prior_weight(0.0).bandwidth(1.0).fit(&x, &[1.0, 3.0, 1.0])?;
/// // At the middle row, each of the outer two rows has the weight q = e^(-1/2): the mean is (3 + 2q)/(1 + 2q).
/// let q = (-0.5f64).exp();
/// let estimates = model.predict(&Embeddings::from_rows(&[[1.0]])?)?;
/// assert!((estimates[0].mean - (3.0 + 2.0 * q) / (1.0 + 2.0 * q)).abs() < 1e-12);
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug)]
pub struct NuqRegressor<'a> {
    pub(crate) smoother: KernelSmoother<'a>,
    targets: Targets,
    curve: Option<SelectionCurve<RegressionScore>>,
    rules: Rules,
}

impl Params<Regression> {
    /// Fits a regressor to `embeddings` and their `targets`, one per row.
    ///
    /// # Errors
    /// Parameters out of range, no rows, [`Error::LengthMismatch`], [`Error::BadTarget`], [`Error::NoSpread`] if a bandwidth or a
    /// covariance cannot be estimated, for example because all rows are equal, or [`Error::SingularCovariance`].
    pub fn fit<'a>(&self, embeddings: &Embeddings<'a>, targets: &[f64]) -> Result<NuqRegressor<'a>, Error> {
        self.fit_rows(&embeddings.into(), targets, None)
    }

    /// Fits a regressor to rows with sample weights, as `Params::<Classification>::fit_weighted` does for a classifier.
    ///
    /// # Errors
    /// The errors of [`fit`](Self::fit), [`Error::BadSampleWeight`] for a weight that is neither 0 nor between 1e-100
    /// and 1e100, and [`Error::OutOfRange`] if all weights are 0.
    pub fn fit_weighted<'a>(
        &self,
        embeddings: &Embeddings<'a>,
        targets: &[f64],
        sample_weights: &[f64],
    ) -> Result<NuqRegressor<'a>, Error> {
        self.fit_rows(&embeddings.into(), targets, Some(sample_weights))
    }

    /// Fits a regressor to the rows of shards, as `Params::<Classification>::fit_shards` does for a classifier.
    ///
    /// # Errors
    /// The errors of [`fit_weighted`](Self::fit_weighted), [`Error::ShardNormalization`], and errors of the neighbor
    /// search: damaged shards, a request for a graph index, or a weight of 0, because rows of shards cannot be removed.
    pub fn fit_shards(
        &self,
        shards: &ShardedRows,
        targets: &[f64],
        sample_weights: Option<&[f64]>,
    ) -> Result<NuqRegressor<'static>, Error> {
        self.fit_rows(&RowSource::of_shards(shards)?, targets, sample_weights)
    }

    fn fit_rows<'a>(
        &self,
        rows: &RowSource<'a>,
        targets: &[f64],
        sample_weights: Option<&[f64]>,
    ) -> Result<NuqRegressor<'a>, Error> {
        check_lengths(("targets", targets.len()), ("training rows", rows.len()))?;
        let (sample_weights, removed) = SampleWeights::of_rows(sample_weights, rows.len())?;
        let live: Vec<u32> =
            (0..targets.len() as u32).filter(|row| removed.binary_search(row).is_err()).collect();
        let targets = Targets::of_rows(targets.to_vec(), &live, &sample_weights, self.prior_weight)?;
        let weights = (sample_weights, &removed[..]);
        let selector = |_| RegressionSelector { targets: &targets };
        let (smoother, curve) = smoother::fit(self, rows, Groups::Single, weights, selector)?;
        let score = |error: f64| RegressionScore { squared_error: error * targets.unit().powi(2) };
        let curve = curve.map(|curve| curve.map(score));
        Ok(NuqRegressor { smoother, targets, curve, rules: Rules::default() })
    }
}

impl NuqRegressor<'_> {
    /// The default parameters.
    #[must_use]
    pub fn params() -> Params<Regression> {
        Params::default()
    }

    /// The target of a training row. The value of the id of a removed row has no meaning.
    ///
    /// # Panics
    /// If `id` is not below the number of ids, which includes the ids of removed rows.
    #[must_use]
    pub fn target(&self, id: u32) -> f64 {
        self.targets.value(id)
    }

    /// The target of each id. The value of an id that names no row has no meaning.
    #[must_use]
    pub fn targets(&self) -> &[f64] {
        self.targets.values()
    }

    /// The leave-one-out scores of all bandwidths of the grid; `None` if the bandwidth was not selected by leave-one-out.
    #[must_use]
    pub fn bandwidth_curve(&self) -> Option<&SelectionCurve<RegressionScore>> {
        self.curve.as_ref()
    }
}

impl sealed::Sealed for NuqRegressor<'_> {
    fn smoother(&self) -> &KernelSmoother<'_> {
        &self.smoother
    }

    fn groups(&self) -> Groups<'_> {
        Groups::Single
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
        self.targets.prior_weight()
    }
}
