//! A smoother as plain data, without its index.

use nuq_neighbors::{IndexChoice, NeighborIndex};

use crate::bandwidth::check_scalar;
use crate::density::{AutoDensity, GaussianParts, GmmDensity};
use crate::error::{check_lengths, out_of_range};
use crate::{Bandwidth, Error, FittedScale, Kernel};

/// Options and learned values that a classifier and a regressor have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct SmootherParts {
    /// The kernel.
    pub kernel: Kernel,
    /// The bandwidth of class probabilities or of the regression mean.
    pub bandwidth: Bandwidth,
    /// The density estimate.
    pub density: FittedDensityParts,
    /// The dimension d in the volume `h^d` and in the constants K(0) and ‖K‖₂² of the kernel.
    pub dimension: f64,
    /// The formula of `n(x)`, with its learned values.
    pub scale: FittedScale,
    /// `K`, the number of neighbors.
    pub n_neighbors: usize,
    /// Whether rows and queries are divided by their Euclidean norm.
    pub normalize: bool,
    /// The kind of the index, with the reason for the choice.
    pub choice: IndexChoice,
    /// The names of the columns; `None` if they have none.
    pub column_names: Option<Vec<String>>,
    /// The sample weight of each id; `None` if all are 1. The value of an id that names no row is an arbitrary valid weight.
    pub sample_weights: Option<Vec<f64>>,
    /// The Gaussians of the density, as a model file stores them. `None` if they are fitted to the training rows again
    /// when they are needed; a model without rows cannot fit them. The parts that a model returns always have `None` here;
    /// [`FittedModel::gaussian_parts`](crate::FittedModel::gaussian_parts) returns the Gaussians.
    pub gaussians: Option<GaussianParts>,
}

/// A fitted density estimate without its Gaussians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FittedDensityParts {
    /// Kernel density with [`SmootherParts::bandwidth`].
    Same,
    /// Kernel density with its own bandwidth.
    Kde(f64),
    /// Kernel density combined with Gaussians.
    Auto(AutoDensity),
    /// Gaussians of the classes.
    Gmm(GmmDensity),
}

impl SmootherParts {
    /// Checks the ranges of the values, and that their lengths and the bandwidths per dimension agree with the index. Sample
    /// weights are checked when they are restored.
    pub(super) fn check(&self, index: &dyn NeighborIndex) -> Result<(), Error> {
        let rows = index.rows();
        self.bandwidth.check(rows.id_bound(), rows.dim())?;
        let scale = match &self.bandwidth {
            Bandwidth::PerDimension(scale) => Some(&scale[..]),
            _ => None,
        };
        if scale != rows.scale() {
            let problem =
                "the scale of the index differs from the bandwidths per dimension of the model".to_owned();
            return Err(nuq_neighbors::Error::Damaged { section: "model".to_owned(), problem }.into());
        }
        if let FittedDensityParts::Kde(h) | FittedDensityParts::Auto(AutoDensity { bandwidth: h, .. }) =
            self.density
        {
            check_scalar(h, "density bandwidth")?;
        }
        if let Some(names) = &self.column_names {
            check_lengths(("column names", names.len()), ("columns", rows.dim()))?;
        }
        if self.n_neighbors == 0 {
            return Err(nuq_neighbors::Error::ZeroNeighbors.into());
        }
        if !(self.dimension.is_finite() && self.dimension > 0.0) {
            return Err(out_of_range("dimension", self.dimension, "it must be positive and finite"));
        }
        self.check_gaussians(index)?;
        self.scale.check()
    }

    /// Checks that the Gaussians fit the rows, and that a model without rows has everything that predictions need.
    fn check_gaussians(&self, index: &dyn NeighborIndex) -> Result<(), Error> {
        let damaged = |problem: &str| {
            let (section, problem) = ("gaussians".to_owned(), problem.to_owned());
            Err(nuq_neighbors::Error::Damaged { section, problem }.into())
        };
        match &self.gaussians {
            Some(gaussians) if gaussians.dim != index.dim() => {
                return damaged("their number of columns differs from that of the rows");
            }
            Some(_) if !self.density.has_gaussians() => return damaged("the density has no Gaussians"),
            None if !index.rows().is_stored() && self.density.has_gaussians() => {
                return damaged("they are missing, and there are no rows to which they could be fitted");
            }
            _ => {}
        }
        if index.rows().is_stored() { Ok(()) } else { self.kernel.check_without_rows() }
    }
}

impl FittedDensityParts {
    /// Whether densities are computed from Gaussians.
    #[must_use]
    pub fn has_gaussians(&self) -> bool {
        match self {
            Self::Same | Self::Kde(_) => false,
            Self::Auto(auto) => auto.gaussians.is_some(),
            Self::Gmm(_) => true,
        }
    }
}
