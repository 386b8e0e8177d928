//! Conversion of a classifier to plain data and back.

use nuq_neighbors::NeighborIndex;

use super::{ClassificationScore, NuqClassifier};
use crate::bandwidth::SelectionCurve;
use crate::calibrate::Rules;
use crate::error::check_lengths;
use crate::params::{Variance, check_prior_weight};
use crate::smoother::{KernelSmoother, SmootherParts};
use crate::{Classes, Error, Label};

/// A classifier without its index.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifierParts {
    /// Options and learned values that a regressor has too.
    pub smoother: SmootherParts,
    /// `w`, the weight of the prior.
    pub prior_weight: f64,
    /// Values that were chosen on held-out rows.
    pub rules: Rules,
    /// The labels of the classes, sorted.
    pub labels: Vec<Label>,
    /// The class number of each id. The value of an id that names no row is an arbitrary class number.
    pub class_of_row: Vec<u32>,
    /// The variance term of the epistemic uncertainty.
    pub variance: Variance,
    /// The selection of the bandwidth; `None` if it was not selected by leave-one-out.
    pub curve: Option<SelectionCurve<ClassificationScore>>,
}

impl<'a> NuqClassifier<'a> {
    /// The model as plain data, without its index.
    #[must_use]
    pub fn parts(&self) -> ClassifierParts {
        ClassifierParts {
            smoother: self.smoother.parts(),
            prior_weight: self.prior.weight(),
            rules: self.rules.clone(),
            labels: self.classes.labels().to_vec(),
            class_of_row: self.class_of_row.clone(),
            variance: self.variance,
            curve: self.curve.clone(),
        }
    }

    /// Restores a model from its parts and its index.
    ///
    /// # Errors
    /// Values out of range, or parts that do not fit together.
    pub fn from_parts(parts: ClassifierParts, index: Box<dyn NeighborIndex + 'a>) -> Result<Self, Error> {
        let ClassifierParts { smoother, prior_weight, rules, labels, class_of_row, variance, curve } = parts;
        check_prior_weight(prior_weight)?;
        check_lengths(("labels", class_of_row.len()), ("training rows", index.rows().id_bound()))?;
        let live_classes: Vec<u32> =
            index.rows().live_ids().iter().map(|&id| class_of_row[id as usize]).collect();
        let has_known_classes = class_of_row.iter().all(|&class| (class as usize) < labels.len());
        let classes =
            Classes::restored(labels, &live_classes).filter(|_| has_known_classes).ok_or_else(|| {
                let problem = "labels are not sorted and distinct, a class has no rows, or the class number of a row has no label"
                    .to_owned();
                nuq_neighbors::Error::Damaged { section: "model".to_owned(), problem }
            })?;
        let smoother = KernelSmoother::from_parts(smoother, index)?;
        let live = smoother.index.rows().live_ids();
        let prior = smoother.sample_weights.prior(&classes, &class_of_row, &live, prior_weight);
        Ok(Self { smoother, classes, class_of_row, prior, variance, curve, rules })
    }
}
