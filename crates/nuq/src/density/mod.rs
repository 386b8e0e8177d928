//! The density `p̂(x)` of the training embeddings.
//!
//! There are three estimates: a kernel density over the neighbors of the query (computed by the smoother), one Gaussian
//! per class ([`ClassGaussians`]), and a combination of both ([`AutoDensity`]).

use std::fmt;
use std::str::FromStr;

use nuq_neighbors::{UnknownChoice, choices, normalized};

use crate::Classes;

pub(crate) mod auto;
mod centered_rows;
mod class_covariances;
mod class_gaussians;
mod covariance;
mod gaussian_parts;
mod gmm;
mod kernel_log_likelihood;
mod lanes;
mod left_out;
mod logistic_tail;
mod radial_correction;
mod whitener;

pub use auto::{AutoDensity, AutoGaussians, Combination, LogLikelihoods};
pub(crate) use centered_rows::scatter_of_all;
pub use class_gaussians::ClassGaussians;
pub(crate) use covariance::check_shrinkage;
pub use covariance::{Covariance, Shrinkage};
pub use gaussian_parts::GaussianParts;
pub use gmm::GmmDensity;
pub(crate) use kernel_log_likelihood::kernel_log_likelihood;
pub(crate) use left_out::LeftOut;
pub use logistic_tail::LogisticTail;
pub use radial_correction::RadialCorrection;

/// The classes and sample weights of the rows to which Gaussians are fitted.
#[derive(Clone, Copy)]
pub(crate) struct RowClasses<'r> {
    pub(crate) classes: &'r Classes,
    /// The class number of each row.
    pub(crate) class_of_row: &'r [u32],
    /// The sample weight of each row; `None` if all are 1.
    pub(crate) weights: Option<&'r [f64]>,
}

/// The estimate of `p̂(x)`.
#[derive(Debug, Clone, PartialEq)]
pub enum Density {
    /// Kernel density over the neighbors of `x`: `p̂(x) = 1/(N h_p^m) Σ_k K((x − x_k)/h_p)` with `N` training rows.
    /// [`FittedModel::dimension`](crate::FittedModel::dimension) is `m`.
    Kde {
        /// The bandwidth `h_p`.
        bandwidth: DensityBandwidth,
    },
    /// One Gaussian per class: `p̂(x) = Σ_c π_c N(x; μ_c, Σ_c)` with class frequencies `π_c`. A regressor has one Gaussian for all
    /// rows.
    Gmm {
        /// The structure of `Σ_c`.
        covariance: Covariance,
        /// The shrinkage that makes `Σ_c` positive definite.
        shrinkage: Shrinkage,
        /// Whether the density is relative to the measure `dx/‖x‖^d′`, with the number `d′` of columns that are not
        /// constant. In many dimensions a Gaussian is densest near its center, where no row is.
        scale_free: bool,
    },
    /// A kernel density and Gaussians with one covariance. Each of them has a tail score ([`LogisticTail`]), which is high for rows that
    /// are unlike the training rows, and the higher of the two scores determines `p̂(x)`. It ranks out-of-distribution rows well if it is
    /// not known which estimate fits the data. See [`AutoDensity`].
    Auto,
}

/// The kind of a [`Density`], without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DensityKind {
    /// [`Density::Kde`].
    Kde,
    /// [`Density::Gmm`].
    Gmm,
    /// [`Density::Auto`].
    Auto,
}

choices!(DensityKind, "density", { Kde => "kde", Gmm => "gmm", Auto => "auto" });

impl Density {
    /// The kind of density.
    #[must_use]
    pub fn kind(&self) -> DensityKind {
        match self {
            Density::Kde { .. } => DensityKind::Kde,
            Density::Gmm { .. } => DensityKind::Gmm,
            Density::Auto => DensityKind::Auto,
        }
    }
}

impl Density {
    /// The kernel density with its default bandwidth.
    #[must_use]
    pub fn kde() -> Self {
        Density::Kde { bandwidth: DensityBandwidth::default() }
    }
}

/// The bandwidth of the kernel density, in the space in which neighbors are searched.
///
/// A good `h` for class probabilities is often several times too wide for a density. So each of them has its own
/// bandwidth by default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum DensityBandwidth {
    /// Half the median distance of a training row to its K-th neighbor.
    #[default]
    HalfMedian,
    /// The bandwidth of the posterior, as in the paper.
    Same,
    /// A given bandwidth.
    Fixed(f64),
}

impl DensityBandwidth {
    /// The words that are accepted in addition to a number.
    pub const NAMES: &'static [&'static str] = &["half_median", "same"];
}

/// Parses the word `half_median` or `same`, or a number. `kth` is the former name of `half_median`.
impl FromStr for DensityBandwidth {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        match (normalized(word).as_str(), word.trim().parse()) {
            ("half_median" | "kth", _) => Ok(DensityBandwidth::HalfMedian),
            ("same", _) => Ok(DensityBandwidth::Same),
            (_, Ok(h)) => Ok(DensityBandwidth::Fixed(h)),
            _ => Err(UnknownChoice::new("density_bandwidth", word, Self::NAMES.to_vec()).or_number()),
        }
    }
}

impl fmt::Display for DensityBandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DensityBandwidth::HalfMedian => f.pad("half_median"),
            DensityBandwidth::Same => f.pad("same"),
            DensityBandwidth::Fixed(h) => h.fmt(f),
        }
    }
}
