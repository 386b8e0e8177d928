//! The pictures that all experiments on MNIST share: digits, their rotated selves, and outliers.

use super::Lab;
use super::networks::Base;
use crate::data::get::MNIST;
use crate::data::outliers::{self, Outliers};
use crate::data::rotate::{DEGREES, rotated};
use crate::data::sets::{self, Set};
use crate::{Images, LabError, Labeled};

/// The pictures.
pub(super) struct Digits {
    pub(super) train: Labeled,
    pub(super) test: Labeled,
    pub(super) rotated: Images,
    pub(super) outliers: Vec<Outliers>,
}

impl Digits {
    pub(super) fn load(lab: &Lab) -> Result<Self, LabError> {
        let Set { train, test } = sets::read(lab.cache(), &MNIST)?;
        let (n_train, n_test) = lab.size.pick((60_000, 10_000), (10_000, 2000), (1500, 300));
        let (train, test) = (train.first(n_train), test.first(n_test));
        let outliers = outliers::all(lab.cache(), lab.user_data(), lab.size.pick(10_000, 1000, 100))?;
        Ok(Self { rotated: rotated(&test.images, DEGREES, 0), train, test, outliers })
    }

    /// Test digits, rotated digits, then each set of outliers.
    pub(super) fn views(&self) -> impl Iterator<Item = &Images> {
        [&self.test.images, &self.rotated].into_iter().chain(self.outliers.iter().map(|set| &set.images))
    }
}

/// Which rows a score is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Test,
    Rotated,
    Outliers(usize),
}

impl View {
    pub(super) fn place(self) -> usize {
        match self {
            View::Test => 0,
            View::Rotated => 1,
            View::Outliers(i) => 2 + i,
        }
    }
}

/// What a reader must know of the data.
pub(super) fn note(lab: &Lab) -> Result<String, LabError> {
    let digits = lab.digits()?;
    let sets: Vec<String> =
        digits.outliers.iter().map(|set| format!("{} of {}", set.images.len(), set.name)).collect();
    let (train, test, epochs) =
        (digits.train.len(), digits.test.len(), Base::plain(0).recipe(lab.size).epochs);
    Ok(format!(
        "Networks: three 3 × 3 convolutions with batch normalization, no spectral normalization where nothing else is said, trained for {epochs} epochs on {train} digits; {test} test digits; \
         outliers: {}.",
        sets.join(", ")
    ))
}
