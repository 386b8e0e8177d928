//! The density $\hat p(x)$ of the training embeddings: how much was seen near a query.
//!
//! Three estimates: a kernel density over the same neighbors as the posterior, with a bandwidth of its own
//! (computed in [`smoother`](crate::smoother), from the weights that are there already), or one Gaussian per
//! class ([`ClassGaussians`]), or both combined ([`AutoDensity`]).

use std::fmt;
use std::str::FromStr;

use nuq_neighbors::{UnknownChoice, choices, normalized};

pub(crate) mod auto;
mod class_gaussians;
mod covariance;

pub use auto::{AutoDensity, Tail};
pub use class_gaussians::ClassGaussians;
pub(crate) use class_gaussians::class_rows_scatter;
pub(crate) use covariance::check_shrinkage;
pub use covariance::{Covariance, Shrinkage};

/// How $\hat p(x)$ is estimated.
#[derive(Debug, Clone, PartialEq)]
pub enum Density {
    /// $\hat p(x) = \frac{1}{N h_p^d} \sum_k K((x - x_k)/h_p)$ over the neighbors of $x$.
    Kde {
        /// $h_p$.
        bandwidth: DensityBandwidth,
    },
    /// $\hat p(x) = \sum_c \pi_c N(x; \mu_c, \Sigma_c)$, one Gaussian per class and no iteration. A regressor,
    /// which has no classes, uses one Gaussian for all rows.
    Gmm {
        /// The shape of $\Sigma_c$.
        covariance: Covariance,
        /// How it is made positive definite.
        shrinkage: Shrinkage,
    },
    /// A kernel density and Gaussians with one covariance, combined by how alarming each finds a row: the one to rank
    /// out-of-distribution rows by, where one does not know which of them fits the data. See [`AutoDensity`].
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

impl Default for Density {
    fn default() -> Self {
        Density::Kde { bandwidth: DensityBandwidth::default() }
    }
}

/// The bandwidth of the kernel density, in the space that neighbors are searched in.
///
/// A good h for class probabilities is often several times too wide for the density, so by default each has
/// its own.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum DensityBandwidth {
    /// Half the median distance of a training point to its K-th neighbor.
    #[default]
    HalfMedian,
    /// The posterior's, as in the paper.
    Same,
    /// A given bandwidth.
    Fixed(f64),
}

impl DensityBandwidth {
    /// The words that are accepted besides a number.
    pub const NAMES: &'static [&'static str] = &["half_median", "same"];
}

/// The word `half_median` or `same`, or a number. `kth` is the former name of `half_median`.
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
