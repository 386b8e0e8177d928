//! The number `n(x)` of training rows that support the estimate at a query.
//!
//! The variance of the estimate is the variance of the labels divided by `n(x)`:
//!
//! ```text
//! effective            n(x) = n̄ p̂(x) / p̄
//! intrinsic, ambient   n(x) = N h^m p̂(x) / ‖K‖₂²
//! ```
//!
//! `N` is the number of training rows, `h` the bandwidth, `p̂` the density, and `‖K‖₂²` the integral of the squared kernel. `m` is
//! the intrinsic dimension for `intrinsic` and the number of columns for `ambient`.
//!
//! `n̄` is the median of Kish's effective sample size `(Σ_k w_k)² / Σ_k w_k²` of the kernel weights of left-out
//! training rows, and `ln p̄` is the median of `ln p̂` of the same rows. So at a typical training row the standard
//! error equals the standard error of the weighted mean of its neighbors' labels. At other points it changes with the
//! density as in the paper.
//!
//! The second formula is asymptotic. It assumes that the kernel averages over all rows in its range, but the estimate
//! averages over `K` neighbors. In tens of dimensions this `n(x)` exceeds `K` by many orders of magnitude.

use nuq_neighbors::choices;

use crate::Error;
use crate::error::out_of_range;

/// The formula of `n(x)`, the number of training rows that support an estimate.
///
/// `U_e` is the epistemic uncertainty. With the density `kde` or `auto`, the values of `ln U_e` by the three formulas differ only by a
/// constant per model (except with one bandwidth per training row). Therefore rankings by `U_e` do not depend on the formula. Total
/// uncertainties and decisions of the reject rule do depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// `n̄ p̂(x)/p̄`: the effective number of neighbors of a typical training row, times the relative density.
    #[default]
    Effective,
    /// `N h^m p̂(x)/‖K‖₂²` with the intrinsic dimension `m` of the data. It is not available for product
    /// kernels and the density `gmm`, which are densities of all coordinates.
    Intrinsic,
    /// `N h^d p̂(x)/‖K‖₂²` with the number of columns `d`, as in the paper.
    Ambient,
}

choices!(Scale, "scale", { Effective => "effective", Intrinsic => "intrinsic", Ambient => "ambient" });

/// The learned values of a [`Scale`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FittedScale {
    /// [`Scale::Effective`].
    Effective {
        /// `n̄`, the effective number of neighbors of a typical training row; between 1 and `K` without sample weights.
        sample_size: f64,
        /// `ln p̄`, the log density of a typical training row.
        log_density: f64,
    },
    /// [`Scale::Intrinsic`]. The model stores the dimension.
    Intrinsic,
    /// [`Scale::Ambient`].
    Ambient,
}

impl FittedScale {
    /// The formula.
    #[must_use]
    pub fn kind(&self) -> Scale {
        match self {
            FittedScale::Effective { .. } => Scale::Effective,
            FittedScale::Intrinsic => Scale::Intrinsic,
            FittedScale::Ambient => Scale::Ambient,
        }
    }

    /// `n̄`, for [`Scale::Effective`].
    #[must_use]
    pub fn sample_size(&self) -> Option<f64> {
        match self {
            FittedScale::Effective { sample_size, .. } => Some(*sample_size),
            FittedScale::Intrinsic | FittedScale::Ambient => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match *self {
            FittedScale::Effective { sample_size, .. } if !(sample_size.is_finite() && sample_size > 0.0) => {
                Err(out_of_range("effective sample size", sample_size, "it must be positive and finite"))
            }
            FittedScale::Effective { log_density, .. } if !log_density.is_finite() => {
                Err(out_of_range("typical log density", log_density, "it must be finite"))
            }
            _ => Ok(()),
        }
    }
}
