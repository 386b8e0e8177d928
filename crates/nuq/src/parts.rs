//! A fitted model taken apart into plain data, and put together again: what a model file holds beside the index.

use std::collections::BTreeMap;

use nuq_neighbors::{IndexChoice, NeighborIndex};

use crate::bandwidth::SelectionCurve;
use crate::calibrate::Threshold;
use crate::density::{AutoDensity, Covariance, Shrinkage};
use crate::params::Variance;
use crate::{
    Bandwidth, ClassificationScore, Error, Kernel, Label, NuqClassifier, NuqRegressor, RegressionScore,
};

/// What classifier and regressor share.
#[derive(Debug, Clone, PartialEq)]
pub struct SmootherParts {
    /// The kernel.
    pub kernel: Kernel,
    /// The bandwidth of class probabilities, or of the mean.
    pub bandwidth: Bandwidth,
    /// The density.
    pub density: FittedDensityParts,
    /// The dimension in the constants.
    pub dimension: f64,
    /// $K$.
    pub n_neighbors: usize,
    /// Whether queries are divided by their length, as the rows were.
    pub normalize: bool,
    /// What the prior counts for.
    pub prior_weight: f64,
    /// Which index was taken, and why.
    pub choice: IndexChoice,
    /// Thresholds by name.
    pub thresholds: BTreeMap<String, Threshold>,
}

/// A density as it was fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FittedDensityParts {
    /// Kernel density with the posterior's bandwidth.
    Same,
    /// Kernel density with this bandwidth.
    Kde(f64),
    /// Kernel density and Gaussians combined; the Gaussians follow from the rows.
    Auto(AutoDensity),
    /// Gaussians of the classes, which follow from the rows.
    Gmm {
        /// The shape of their covariances.
        covariance: Covariance,
        /// How those are made positive definite.
        shrinkage: Shrinkage,
    },
}

/// A classifier without its index.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifierParts {
    /// What it shares with a regressor.
    pub smoother: SmootherParts,
    /// The labels of the classes, sorted.
    pub labels: Vec<Label>,
    /// The class of each row.
    pub of_row: Vec<u32>,
    /// The variance term.
    pub variance: Variance,
    /// How the bandwidth was chosen.
    pub curve: Option<SelectionCurve<ClassificationScore>>,
}

/// A regressor without its index.
#[derive(Debug, Clone, PartialEq)]
pub struct RegressorParts {
    /// What it shares with a classifier.
    pub smoother: SmootherParts,
    /// The target of each row.
    pub targets: Vec<f64>,
    /// How the bandwidth was chosen.
    pub curve: Option<SelectionCurve<RegressionScore>>,
}

impl SmootherParts {
    /// Refuses numbers that no fit can have left.
    pub(crate) fn check(&self, index: &dyn NeighborIndex) -> Result<(), Error> {
        self.bandwidth.check(index.rows().id_bound(), index.dim())?;
        if let FittedDensityParts::Kde(h) | FittedDensityParts::Auto(AutoDensity { bandwidth: h, .. }) =
            self.density
        {
            crate::bandwidth::check_scalar(h, "density bandwidth")?;
        }
        if self.n_neighbors == 0 {
            return Err(nuq_neighbors::Error::ZeroNeighbors.into());
        }
        if !(self.dimension.is_finite() && self.dimension > 0.0) {
            return Err(crate::error::out_of_range(
                "dimension",
                self.dimension,
                "it must be positive and finite",
            ));
        }
        if !(self.prior_weight >= 0.0 && self.prior_weight.is_finite()) {
            let range = "it must be finite and at least 0";
            return Err(crate::error::out_of_range("prior weight", self.prior_weight, range));
        }
        Ok(())
    }
}

/// Refuses a list that does not have an entry per id.
pub(crate) fn check_length(what: &'static str, got: usize, index: &dyn NeighborIndex) -> Result<(), Error> {
    let (counterpart, expected) = ("training rows", index.rows().id_bound());
    if got == expected { Ok(()) } else { Err(Error::LengthMismatch { what, got, counterpart, expected }) }
}

/// A model of either kind, as a file may hold.
#[derive(Debug)]
pub enum Model<'a> {
    /// Classes.
    Classifier(NuqClassifier<'a>),
    /// Numbers.
    Regressor(NuqRegressor<'a>),
}

impl<'a> Model<'a> {
    /// The index, taken out of the model.
    pub fn into_index(self) -> Box<dyn NeighborIndex + 'a> {
        match self {
            Model::Classifier(model) => model.smoother.index,
            Model::Regressor(model) => model.smoother.index,
        }
    }
}

impl Model<'_> {
    /// The index over the training rows.
    pub fn index(&self) -> &dyn NeighborIndex {
        match self {
            Model::Classifier(model) => model.index(),
            Model::Regressor(model) => model.index(),
        }
    }

    /// $K$, the neighbors that every sum runs over.
    pub fn n_neighbors(&self) -> usize {
        match self {
            Model::Classifier(model) => model.n_neighbors(),
            Model::Regressor(model) => model.n_neighbors(),
        }
    }

    /// The thresholds, by name.
    pub fn thresholds(&self) -> &BTreeMap<String, Threshold> {
        match self {
            Model::Classifier(model) => model.thresholds(),
            Model::Regressor(model) => model.thresholds(),
        }
    }

    /// Keeps a threshold with the model under a name; the one that had this name before is returned.
    pub fn set_threshold(&mut self, name: impl Into<String>, threshold: Threshold) -> Option<Threshold> {
        match self {
            Model::Classifier(model) => model.set_threshold(name, threshold),
            Model::Regressor(model) => model.set_threshold(name, threshold),
        }
    }
}
