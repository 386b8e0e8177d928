//! The covariances of class Gaussians: one per class, or one for all classes.

use std::ops::Range;

use faer::Mat;
use nuq_neighbors::cancel::Checkpoint;
use rayon::prelude::*;

use super::centered_rows::{AllRows, ClassRows, are_zero, mean, sq_sum};
use super::whitener::Whitener;
use super::{Covariance, RowClasses, Shrinkage};
use crate::Error;
use crate::error::no_covariance;
use crate::row_source::RowSource;

pub(super) enum ClassCovariances {
    /// One covariance per class, with the training rows of each class.
    Separate { whiteners: Vec<Whitener>, members: Vec<Vec<u32>> },
    /// One covariance for all classes, the whitened class means minus the whitened mean of the first class (as columns), and the class
    /// of each row.
    Tied { whitener: Whitener, whitened_means: Mat<f64>, class_of_row: Vec<u32> },
}

impl ClassCovariances {
    /// The covariance of one class.
    pub(super) fn whitener(&self, class: usize) -> &Whitener {
        match self {
            ClassCovariances::Separate { whiteners, .. } => &whiteners[class],
            ClassCovariances::Tied { whitener, .. } => whitener,
        }
    }

    /// The covariances: one per class, or one for all classes.
    pub(super) fn whiteners(&self) -> &[Whitener] {
        match self {
            ClassCovariances::Separate { whiteners, .. } => whiteners,
            ClassCovariances::Tied { whitener, .. } => std::slice::from_ref(whitener),
        }
    }

    /// Whether the rows are needed after the fit.
    pub(super) fn need_rows(&self) -> bool {
        self.whiteners().iter().any(Whitener::needs_rows)
    }

    /// The number of stored `f64` values.
    pub(super) fn n_values(&self) -> usize {
        match self {
            ClassCovariances::Separate { whiteners, .. } => whiteners.iter().map(Whitener::n_values).sum(),
            ClassCovariances::Tied { whitener, whitened_means, .. } => {
                whitener.n_values() + whitened_means.nrows() * whitened_means.ncols()
            }
        }
    }
}

/// A fit of one covariance per class.
pub(super) struct SeparateFit<'f> {
    rows: &'f RowSource<'f>,
    classes: RowClasses<'f>,
    /// The rows of each class.
    members: &'f [Vec<u32>],
    means: &'f [Vec<f64>],
    covariance: Covariance,
    shrinkage: Shrinkage,
    /// The sum of the squared distances of the rows of each class to their mean.
    sums: Vec<f64>,
    /// The variance of a class whose rows are all equal; `None` if the rows of all classes are equal.
    fallback: Option<f64>,
}

impl<'f> SeparateFit<'f> {
    pub(super) fn new(
        rows: &'f RowSource<'f>,
        classes: RowClasses<'f>,
        members: &'f [Vec<u32>],
        means: &'f [Vec<f64>],
        covariance: Covariance,
        shrinkage: Shrinkage,
    ) -> Self {
        let (sums, fallback) = (vec![], None);
        let fit = Self { rows, classes, members, means, covariance, shrinkage, sums, fallback };
        let here = Checkpoint::current();
        let sum = |class: usize| here.enter(|| sq_sum(&fit.class_rows(class)));
        let sums: Vec<f64> = (0..members.len()).into_par_iter().map(sum).collect();
        let fallback = mean_variance(rows, classes.weights, sums.iter().sum());
        Self { sums, fallback, ..fit }
    }

    /// The covariances of some classes.
    pub(super) fn whiteners(&self, classes: Range<usize>) -> Result<Vec<Whitener>, Error> {
        let here = Checkpoint::current();
        classes.into_par_iter().map(|class| here.enter(|| self.whitener(class))).collect()
    }

    fn whitener(&self, class: usize) -> Result<Whitener, Error> {
        let class_rows = self.class_rows(class);
        // All rows of the class are equal.
        if self.sums[class] == 0.0 {
            let variance = self.fallback.ok_or_else(|| no_covariance(self.rows.len()))?;
            return Ok(Whitener::isotropic(self.rows.dim(), variance));
        }
        let whitener = match self.covariance {
            Covariance::Diagonal => Whitener::diagonal(&class_rows, self.shrinkage),
            _ => Whitener::full(&class_rows, self.shrinkage),
        };
        whitener
            .ok_or_else(|| singular(format!("class {}", self.classes.classes.label(class)), self.shrinkage))
    }

    fn class_rows(&self, class: usize) -> ClassRows<'f> {
        let Self { rows, members, means, .. } = *self;
        ClassRows { rows, ids: &members[class], mean: &means[class], weights: self.classes.weights }
    }
}

pub(super) fn fit_tied(
    rows: &RowSource<'_>,
    RowClasses { class_of_row, weights, .. }: RowClasses<'_>,
    means: &[Vec<f64>],
    shrinkage: Shrinkage,
) -> Result<ClassCovariances, Error> {
    let centered = AllRows { rows, class_of_row, means, weights };
    let whitener = if are_zero(&centered) {
        let variance = mean_variance(rows, weights, 0.0).ok_or_else(|| no_covariance(rows.len()))?;
        Whitener::isotropic(rows.dim(), variance)
    } else {
        Whitener::full(&centered, shrinkage).ok_or_else(|| singular("all classes".to_owned(), shrinkage))?
    };
    let whitened_means = whitened_means(&whitener, &centered);
    Ok(ClassCovariances::Tied { whitener, whitened_means, class_of_row: class_of_row.to_vec() })
}

/// The whitened differences between the class means and the mean of the first class, as columns.
pub(super) fn whitened_means(whitener: &Whitener, rows: &AllRows<'_>) -> Mat<f64> {
    let from_first = |j: usize, class: usize| rows.means[class][j] - rows.means[0][j];
    whitener.whiten(Mat::from_fn(rows.rows.dim(), rows.means.len(), from_first), rows)
}

fn singular(classes: String, shrinkage: Shrinkage) -> Error {
    let shrinkage = match shrinkage {
        Shrinkage::Fixed(amount) => amount,
        Shrinkage::LedoitWolf => 0.0,
    };
    Error::SingularCovariance { classes, shrinkage }
}

/// The mean variance per column. `within` is the sum of the squared distances of all rows to their class means. If it
/// is zero, distances to the overall mean are used instead. `None` if these are zero too.
fn mean_variance(rows: &RowSource<'_>, weights: Option<&[f64]>, within: f64) -> Option<f64> {
    let sum = if within > 0.0 {
        within
    } else {
        let ids: Vec<u32> = (0..rows.len() as u32).collect();
        let mean = mean(rows, &ids, weights);
        sq_sum(&ClassRows { rows, ids: &ids, mean: &mean, weights })
    };
    let total = weights.map_or(rows.len() as f64, |weights| weights.iter().sum());
    (sum > 0.0).then(|| sum / (total * rows.dim() as f64))
}
