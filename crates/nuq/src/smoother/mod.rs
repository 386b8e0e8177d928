//! The kernel smoother: everything a model computes for a query before it uses labels or targets.
//!
//! For each query it gives the kernel weights of the neighbors, the log density and the effective sample size, by which the
//! variance of the labels is divided. The classifier and the regressor are built on it.

mod batch;
mod fit;
mod fit_density;
mod fitted_density;
mod gaussian_rows;
mod groups;
mod kernel_smoother;
mod parts;

pub(crate) use batch::{Batch, Neighborhood};
pub(crate) use fit::fit;
pub(crate) use groups::Groups;
pub(crate) use kernel_smoother::KernelSmoother;
pub use parts::{FittedDensityParts, SmootherParts};
