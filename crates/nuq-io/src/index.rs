//! Writes a neighbor index to sections of a model file, and restores it.

use nuq::nuq_neighbors::cancel::Checkpoint;
use nuq::nuq_neighbors::{
    AbsentIndex, CodeBlock, CodeParts, Error as IndexError, GraphParts, IndexParts, LinkParts, NeighborIndex,
    OrderParts, RowParts, RowValues, Verifier,
};
use rayon::prelude::*;

use crate::Error;
use crate::container::{Container, Section};
use crate::meta::{GraphMeta, IndexMeta};
use crate::model::numbers;

pub(crate) const ROWS_F32: &str = "index.rows.f32";
const ROWS_F16: &str = "index.rows.f16";
/// The section of a model whose rows are in a vector database: one number as `u64`, the exclusive upper bound of the ids of these rows.
pub(crate) const ROWS_ABSENT: &str = "index.rows.absent";
const BOTTOM: &str = "index.links.bottom";
const UPPER: &str = "index.links.upper";
const CODES: &str = "index.codes";
const CENTER: &str = "index.codes.center";
const ORDER_AXES: &str = "index.order.axes";
const ORDER_IDS: &str = "index.order.ids";
const ORDER_STARTS: &str = "index.order.starts";

/// The sections to write: one for each array of the index.
pub(crate) fn sections<'p>(parts: &'p IndexParts<'_>) -> Vec<Section<'p>> {
    let mut sections = vec![match &parts.rows.values {
        RowValues::F32(values) => Section { name: ROWS_F32, bytes: bytemuck::cast_slice(values) },
        RowValues::F16(values) => Section { name: ROWS_F16, bytes: bytemuck::cast_slice(values) },
    }];
    if let Some(OrderParts { axes, ids, starts }) = &parts.order {
        sections.push(Section { name: ORDER_AXES, bytes: bytemuck::cast_slice(axes) });
        sections.push(Section { name: ORDER_IDS, bytes: bytemuck::cast_slice(ids) });
        sections.push(Section { name: ORDER_STARTS, bytes: bytemuck::cast_slice(starts) });
    }
    let Some(graph) = &parts.graph else { return sections };
    if let Some(links) = &graph.links {
        sections.push(Section { name: BOTTOM, bytes: bytemuck::cast_slice(&links.bottom) });
        sections.push(Section { name: UPPER, bytes: bytemuck::cast_slice(&links.upper) });
    }
    if let Some(codes) = &graph.codes {
        sections.push(Section { name: CENTER, bytes: bytemuck::cast_slice(&codes.center) });
        sections.push(Section { name: CODES, bytes: bytemuck::cast_slice(&codes.blocks) });
    }
    sections
}

/// Restores an index. The large arrays are mapped, not read.
pub(crate) fn restore(
    container: &Container,
    meta: &IndexMeta,
) -> Result<Box<dyn NeighborIndex + 'static>, Error> {
    if container.has(ROWS_ABSENT) {
        return restore_absent(container, meta);
    }
    let values = if container.has(ROWS_F16) {
        RowValues::F16(container.values(ROWS_F16)?)
    } else {
        RowValues::F32(container.values(ROWS_F32)?)
    };
    let graph = match &meta.graph {
        None => None,
        Some(graph) => Some(restore_graph(container, graph)?),
    };
    let rows = RowParts { dim: meta.dim, values, removed: meta.removed.clone(), scale: meta.scale.clone() };
    let order = match container.has(ORDER_AXES) {
        true => Some(OrderParts {
            axes: container.values(ORDER_AXES)?,
            ids: container.values(ORDER_IDS)?,
            starts: container.values(ORDER_STARTS)?,
        }),
        false => None,
    };
    IndexParts { rows, graph, order }
        .restore(Box::new(ContainerVerifier(container.clone())))
        .map_err(|source| restore_error(container, source))
}

/// The index of a file without rows.
fn restore_absent(
    container: &Container,
    meta: &IndexMeta,
) -> Result<Box<dyn NeighborIndex + 'static>, Error> {
    let bound = match numbers::<u64>(container, ROWS_ABSENT)?[..] {
        [bound] => usize::try_from(bound).ok(),
        _ => None,
    };
    let bound = bound.ok_or_else(|| Error::damaged(container.path(), ROWS_ABSENT, "it is not one number"))?;
    let index = AbsentIndex::new(meta.dim, bound, &meta.removed, meta.scale.clone());
    Ok(Box::new(index.map_err(|source| restore_error(container, source))?))
}

fn restore_graph(container: &Container, meta: &GraphMeta) -> Result<GraphParts<'static>, Error> {
    let links = match meta.entry {
        None => None,
        Some(entry) => {
            Some(LinkParts { bottom: container.values(BOTTOM)?, upper: container.values(UPPER)?, entry })
        }
    };
    let codes = match &meta.codes {
        None => None,
        Some(codes) => {
            container.verify(CENTER)?;
            let center = container.values::<f32>(CENTER)?.to_vec();
            let blocks = container.values::<CodeBlock>(CODES)?;
            Some(CodeParts { center, step: codes.step, out_of_range: codes.out_of_range, blocks })
        }
    };
    Ok(GraphParts { params: meta.params, recall: meta.recall.map(|recall| recall.0), links, codes })
}

pub(crate) fn restore_error(container: &Container, source: IndexError) -> Error {
    match source {
        IndexError::Damaged { section, problem } => Error::damaged(container.path(), &section, problem),
        source => Error::Model { path: container.path().to_owned(), source: source.into() },
    }
}

/// Verifies mapped arrays before their first use (their checksums, and that all coordinates are finite), and that their file is unchanged
/// afterwards.
pub(crate) struct ContainerVerifier(pub(crate) Container);

impl Verifier for ContainerVerifier {
    fn verify_unchanged(&self) -> Result<(), IndexError> {
        self.0.verify_unchanged().map_err(|error| IndexError::FileChanged { problem: error.to_string() })
    }

    fn verify(&self) -> Result<(), IndexError> {
        let Self(container) = self;
        let damaged = |section: &str, problem: String| {
            let problem = format!("{problem} ({})", container.path().display());
            IndexError::Damaged { section: section.to_owned(), problem }
        };
        let large = [ROWS_F32, ROWS_F16, BOTTOM, UPPER, CODES, ORDER_AXES, ORDER_IDS, ORDER_STARTS];
        let here = Checkpoint::current();
        large.into_par_iter().filter(|name| container.has(name)).try_for_each(|name| {
            here.enter(|| container.verify(name)).map_err(|error| match error {
                Error::Damaged { problem, .. } => damaged(name, problem),
                other => damaged(name, other.to_string()),
            })
        })?;
        let not_finite = |section| Err(damaged(section, "a coordinate is not finite".to_owned()));
        match container.has(ROWS_F32).then(|| container.values::<f32>(ROWS_F32)) {
            Some(Ok(values)) if !values.par_iter().all(|v| v.is_finite()) => return not_finite(ROWS_F32),
            _ => {}
        }
        // An `f16` is infinite or NaN if all its exponent bits are set.
        match container.has(ROWS_F16).then(|| container.values::<u16>(ROWS_F16)) {
            Some(Ok(values)) if !values.par_iter().all(|bits| bits & 0x7C00 != 0x7C00) => {
                not_finite(ROWS_F16)
            }
            _ => Ok(()),
        }
    }
}
