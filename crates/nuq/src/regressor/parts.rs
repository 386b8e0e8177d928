//! Conversion of a regressor to plain data and back.

use nuq_neighbors::NeighborIndex;

use super::targets::Targets;
use super::{NuqRegressor, RegressionScore};
use crate::Error;
use crate::bandwidth::SelectionCurve;
use crate::calibrate::Rules;
use crate::error::check_lengths;
use crate::params::check_prior_weight;
use crate::smoother::{KernelSmoother, SmootherParts};

/// A regressor without its index.
#[derive(Debug, Clone, PartialEq)]
pub struct RegressorParts {
    /// Options and learned values that a classifier has too.
    pub smoother: SmootherParts,
    /// `w`, the weight of the prior.
    pub prior_weight: f64,
    /// Values that were chosen on held-out rows.
    pub rules: Rules,
    /// The target of each id. The value of an id that names no row is an arbitrary valid target.
    pub targets: Vec<f64>,
    /// The selection of the bandwidth; `None` if it was not selected by leave-one-out.
    pub curve: Option<SelectionCurve<RegressionScore>>,
}

impl<'a> NuqRegressor<'a> {
    /// The model as plain data, without its index.
    #[must_use]
    pub fn parts(&self) -> RegressorParts {
        RegressorParts {
            smoother: self.smoother.parts(),
            prior_weight: self.targets.prior_weight(),
            rules: self.rules.clone(),
            targets: self.targets.values().to_vec(),
            curve: self.curve.clone(),
        }
    }

    /// Restores a model from its parts and its index.
    ///
    /// # Errors
    /// Values out of range, or parts that do not fit together.
    pub fn from_parts(parts: RegressorParts, index: Box<dyn NeighborIndex + 'a>) -> Result<Self, Error> {
        let RegressorParts { smoother, prior_weight, rules, targets, curve } = parts;
        check_prior_weight(prior_weight)?;
        check_lengths(("targets", targets.len()), ("training rows", index.rows().id_bound()))?;
        let smoother = KernelSmoother::from_parts(smoother, index)?;
        let live = smoother.index.rows().live_ids();
        let targets = Targets::of_rows(targets, &live, &smoother.sample_weights, prior_weight)?;
        Ok(Self { smoother, targets, curve, rules })
    }
}
