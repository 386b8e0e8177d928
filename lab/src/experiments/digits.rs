//! Images of the MNIST experiments: digits, rotated digits and outliers.

use super::Context;
use super::networks::NetworkId;
use crate::data::get::MNIST;
use crate::data::outliers::{self, Outliers};
use crate::data::rotate::{DEGREES, rotated};
use crate::data::sets::{self, Set};
use crate::{Images, LabError, Labeled};

/// Images of the MNIST experiments.
pub(super) struct Digits {
    pub(super) train: Labeled,
    pub(super) test: Labeled,
    /// The test images, rotated. Their labels are those of `test`.
    pub(super) rotated: Images,
    pub(super) outliers: Vec<Outliers>,
}

impl Digits {
    pub(super) fn load(context: &Context) -> Result<Self, LabError> {
        let Set { train, test } = sets::read(context.cache(), &MNIST)?;
        let (n_train, n_test) = context.size.pick((60_000, 10_000), (10_000, 2000), (1500, 300));
        let (train, test) = (train.first(n_train), test.first(n_test));
        let outliers =
            outliers::for_mnist(context.cache(), context.user_data(), context.size.pick(10_000, 1000, 100))?;
        Ok(Self { rotated: rotated(&test.images, DEGREES, 0), train, test, outliers })
    }

    /// All evaluated image sets in the order of [`View::index`].
    pub(super) fn views(&self) -> impl Iterator<Item = &Images> {
        [&self.test.images, &self.rotated].into_iter().chain(self.outliers.iter().map(|set| &set.images))
    }
}

/// An evaluated image set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Test,
    Rotated,
    Outliers(usize),
}

impl View {
    /// Position in lists of views: test digits, rotated digits, then each outlier set.
    pub(super) fn index(self) -> usize {
        match self {
            View::Test => 0,
            View::Rotated => 1,
            View::Outliers(i) => 2 + i,
        }
    }
}

/// Describes networks and data for the notes of an experiment.
pub(super) fn note(context: &Context) -> Result<String, LabError> {
    let digits = context.digits()?;
    let sets: Vec<String> =
        digits.outliers.iter().map(|set| format!("{} {}", set.images.len(), set.name)).collect();
    let (train, test, epochs) =
        (digits.train.len(), digits.test.len(), NetworkId::plain(0).recipe(context.size).epochs);
    Ok(format!(
        "Networks: three 3 × 3 convolutions with batch normalization, without spectral normalization unless stated otherwise, trained for {epochs} epochs on \
         {train} digits. Test set: {test} digits. Outliers: {}.",
        sets.join(", ")
    ))
}
