//! The density $\hat p(x)$ of the training embeddings: how much was seen near a query.
//!
//! Three estimates: a kernel density over the same neighbors as the posterior, with a bandwidth of its own
//! (computed in [`smoother`](crate::smoother), from the weights that are there already), or one Gaussian per
//! class ([`ClassGaussians`]), or both combined ([`AutoDensity`]).

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
    Gaussians {
        /// The shape of $\Sigma_c$.
        covariance: Covariance,
        /// How it is made positive definite.
        shrinkage: Shrinkage,
    },
    /// A kernel density and Gaussians with one covariance, combined by how alarming each finds a row: the one to rank
    /// out-of-distribution rows by, where one does not know which of them fits the data. See [`AutoDensity`].
    Auto,
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
    KthNeighbor,
    /// The posterior's, as in the paper.
    Same,
    /// A number that the user knows.
    Fixed(f64),
}
