//! Converts the baselines that use class Gaussians to the arrays of a file, and back.

use nuq::parts::GaussianParts;
use nuq::{ClassGaussians, Shrinkage};

use super::parts::{BaselineParts, damaged};
use super::{Ddu, Mahalanobis, RelativeMahalanobis};
use crate::Error;
use crate::error::out_of_range;

impl BaselineParts {
    /// Adds the arrays of a mixture of Gaussians, under names that begin with `prefix`.
    pub(super) fn gaussians(self, prefix: &str, gaussians: &ClassGaussians<'_>) -> Self {
        let GaussianParts { dim, means, log_weights, forms, factors, shrinkages, rows, class_of_row, .. } =
            gaussians.parts();
        let name = |array: &str| format!("{prefix}{array}");
        self.table(&name("means"), means, dim)
            .array(&name("log_weights"), log_weights)
            .array(&name("forms"), forms)
            .array(&name("factors"), factors)
            .array(&name("shrinkages"), shrinkages)
            .table(&name("rows"), rows, dim)
            .array(&name("class_of_row"), class_of_row)
    }

    /// Reads the arrays that [`gaussians`](Self::gaussians) added. With `is_tied`, all classes have the same covariance.
    fn take_gaussians(&mut self, prefix: &str, is_tied: bool) -> Result<ClassGaussians<'static>, Error> {
        let name = |array: &str| format!("{prefix}{array}");
        let means = self.matrix(&name("means"))?;
        let (rows, dim) = self.rows(&name("rows"))?;
        if dim != means.ncols() {
            return Err(damaged(&name("rows"), "its rows have another dimension than the means"));
        }
        let parts = GaussianParts {
            dim,
            means: means.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<f64>>()).collect(),
            log_weights: self.vector(&name("log_weights"))?,
            is_tied,
            forms: self.integers(&name("forms"))?,
            factors: self.vector(&name("factors"))?,
            shrinkages: self.vector(&name("shrinkages"))?,
            rows,
            class_of_row: self.integers(&name("class_of_row"))?,
            row_weights: None,
        };
        ClassGaussians::from_parts(parts).map_err(|error| match error {
            nuq::Error::Neighbors(nuq_neighbors::Error::Damaged { section, problem }) => {
                damaged(&name(&section), problem)
            }
            other => damaged(&name("rows"), other.to_string()),
        })
    }

    fn shrinkage(&self) -> Result<Shrinkage, Error> {
        match self.choice("shrinkage")? {
            Shrinkage::Fixed(amount) if !(0.0..=1.0).contains(&amount) => {
                Err(out_of_range("shrinkage", amount, "it must lie in [0, 1]"))
            }
            shrinkage => Ok(shrinkage),
        }
    }
}

pub(super) fn restore_ddu(parts: &mut BaselineParts) -> Result<Ddu<'static>, Error> {
    Ok(Ddu { gaussians: parts.take_gaussians("", false)?, shrinkage: parts.shrinkage()? })
}

pub(super) fn restore_mahalanobis(parts: &mut BaselineParts) -> Result<Mahalanobis<'static>, Error> {
    Ok(Mahalanobis { gaussians: parts.take_gaussians("", true)?, shrinkage: parts.shrinkage()? })
}

pub(super) fn restore_relative_mahalanobis(
    parts: &mut BaselineParts,
) -> Result<RelativeMahalanobis<'static>, Error> {
    let shrinkage = parts.shrinkage()?;
    let classes = Mahalanobis { gaussians: parts.take_gaussians("classes.", true)?, shrinkage };
    let all = parts.take_gaussians("all.", false)?;
    if all.dim() != classes.gaussians.dim() {
        return Err(damaged("all.means", "it has another number of columns than classes.means"));
    }
    Ok(RelativeMahalanobis { classes, all })
}
