//! Options of class covariances.

use nuq_neighbors::{UnknownChoice, choices, normalized};

use crate::Error;

/// The structure of the class covariances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Covariance {
    /// One full matrix per class.
    #[default]
    Full,
    /// One full matrix for all classes, from the differences between all rows and their class means.
    Tied,
    /// One variance per class and column.
    Diagonal,
}

choices!(Covariance, "covariance", { Full => "full", Tied => "tied", Diagonal => "diagonal" });

/// The share `ρ` of a covariance that is replaced by a multiple of the identity.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Shrinkage {
    /// The asymptotically optimal amount of Ledoit and Wolf (2004), but at least 1e-6, so that the result is positive
    /// definite even if a column is constant.
    #[default]
    LedoitWolf,
    /// A given amount in `[0, 1]`.
    Fixed(f64),
}

impl Shrinkage {
    /// The words that are accepted in addition to a number.
    pub const NAMES: &'static [&'static str] = &["ledoit_wolf"];
}

/// Parses the word `ledoit_wolf` (`auto` is accepted too), or a number.
impl std::str::FromStr for Shrinkage {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        match (normalized(word).as_str(), word.trim().parse()) {
            ("ledoit_wolf" | "auto", _) => Ok(Shrinkage::LedoitWolf),
            (_, Ok(amount)) => Ok(Shrinkage::Fixed(amount)),
            _ => Err(UnknownChoice::new("shrinkage", word, Self::NAMES.to_vec()).or_number()),
        }
    }
}

impl std::fmt::Display for Shrinkage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Shrinkage::LedoitWolf => f.pad("ledoit_wolf"),
            Shrinkage::Fixed(amount) => amount.fmt(f),
        }
    }
}

pub(crate) fn check_shrinkage(shrinkage: Shrinkage) -> Result<(), Error> {
    match shrinkage {
        Shrinkage::Fixed(amount) if !(0.0..=1.0).contains(&amount) => {
            Err(crate::error::out_of_range("shrinkage", amount, "it must lie in [0, 1]"))
        }
        _ => Ok(()),
    }
}
