//! The Gaussians of a density in a model file. A file without training rows and the manifest of a sharded model always
//! contain them. A file with rows contains them only if they are small, because they can be fitted to the rows again.

use nuq::parts::GaussianParts;

use crate::Error;
use crate::container::{Container, Section};
use crate::meta::GaussiansMeta;
use crate::model::numbers;

// The names of the sections. The fields of [`GaussianParts`] with the same names describe the values.
const MEANS: &str = "gaussians.means";
const LOG_WEIGHTS: &str = "gaussians.log_weights";
const FORMS: &str = "gaussians.forms";
const FACTORS: &str = "gaussians.factors";
const SHRINKAGES: &str = "gaussians.shrinkages";
const ROWS: &str = "gaussians.rows";
const CLASS_OF_ROW: &str = "gaussians.class_of_row";
const ROW_WEIGHTS: &str = "gaussians.row_weights";

/// The sections to write: one for each array.
pub(crate) fn sections(parts: &GaussianParts) -> Vec<Section<'_>> {
    let mut sections = vec![
        Section { name: MEANS, bytes: bytemuck::cast_slice(&parts.means) },
        Section { name: LOG_WEIGHTS, bytes: bytemuck::cast_slice(&parts.log_weights) },
        Section { name: FORMS, bytes: bytemuck::cast_slice(&parts.forms) },
        Section { name: FACTORS, bytes: bytemuck::cast_slice(&parts.factors) },
        Section { name: SHRINKAGES, bytes: bytemuck::cast_slice(&parts.shrinkages) },
        Section { name: ROWS, bytes: bytemuck::cast_slice(&parts.rows) },
        Section { name: CLASS_OF_ROW, bytes: bytemuck::cast_slice(&parts.class_of_row) },
    ];
    if let Some(weights) = &parts.row_weights {
        sections.push(Section { name: ROW_WEIGHTS, bytes: bytemuck::cast_slice(weights) });
    }
    sections
}

/// Reads the arrays, after verifying their checksums. Their values are checked when the model is restored.
pub(crate) fn read(container: &Container, meta: &GaussiansMeta, dim: usize) -> Result<GaussianParts, Error> {
    Ok(GaussianParts {
        dim,
        means: numbers(container, MEANS)?,
        log_weights: numbers(container, LOG_WEIGHTS)?,
        is_tied: meta.tied,
        forms: numbers(container, FORMS)?,
        factors: numbers(container, FACTORS)?,
        shrinkages: numbers(container, SHRINKAGES)?,
        rows: numbers(container, ROWS)?,
        class_of_row: numbers(container, CLASS_OF_ROW)?,
        row_weights: container.has(ROW_WEIGHTS).then(|| numbers(container, ROW_WEIGHTS)).transpose()?,
    })
}
