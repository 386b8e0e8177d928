//! An index as plain arrays, as a model file stores it.
//!
//! The arrays may be part of a mapped file. [`IndexParts::restore`] does not read the large ones; a [`Verifier`] verifies
//! them before their first use.

use crate::choice::check_graph_device;
use crate::device::{self, Device};
use crate::exact::ExactIndex;
use crate::hnsw::HnswIndex;
use crate::{
    CodeBlock, Error, HnswParams, MeasuredRecall, NeighborIndex, RowStorage, SharedSlice, StoredRows,
    Verifier,
};

/// The arrays and parameters of an index.
#[derive(Clone)]
pub struct IndexParts<'a> {
    /// The rows.
    pub rows: RowParts<'a>,
    /// The graph; `None` for an exact index.
    pub graph: Option<GraphParts<'a>>,
    /// The order of the rows of an exact index; `None` if its searches compare all rows, or if it was not recorded
    /// ([`NeighborIndex::record_order`]).
    pub order: Option<OrderParts<'a>>,
}

/// The axes and the order with which an exact search skips rows. They affect only the speed of a search: its result is the same for any
/// orthonormal axes and any order, also if rows were inserted or removed later.
#[derive(Clone)]
pub struct OrderParts<'a> {
    /// The principal axes, in row-major order with one row per column of the embeddings.
    pub axes: SharedSlice<'a, f64>,
    /// The ids of the rows. Consecutive rows are near each other.
    pub ids: SharedSlice<'a, u32>,
    /// The positions in `ids` at which sets of near rows begin, in ascending order.
    pub starts: SharedSlice<'a, u32>,
}

/// The arrays of a [`RowStorage`].
#[derive(Clone)]
pub struct RowParts<'a> {
    /// The number of columns.
    pub dim: usize,
    /// The values of all rows, in the order of their ids.
    pub values: RowValues<'a>,
    /// The ids that name no row.
    pub removed: Vec<u32>,
    /// The divisors of the coordinates, one per column, if distances are measured in a scaled space.
    pub scale: Option<Vec<f64>>,
}

/// Row values in the precision in which they are stored.
#[derive(Clone)]
pub enum RowValues<'a> {
    /// Single precision.
    F32(SharedSlice<'a, f32>),
    /// Half precision, as bits.
    F16(SharedSlice<'a, u16>),
}

/// The arrays and parameters of an HNSW graph.
#[derive(Clone)]
pub struct GraphParts<'a> {
    /// The parameters of construction and search.
    pub params: HnswParams,
    /// The last measured recall.
    pub recall: Option<MeasuredRecall>,
    /// The links; `None` when all searches are exact, for example because the index has too few rows for a graph.
    pub links: Option<LinkParts<'a>>,
    /// The quantized rows, when searches in the graph use them.
    pub codes: Option<CodeParts<'a>>,
}

/// The links of a graph.
#[derive(Clone)]
pub struct LinkParts<'a> {
    /// Per id: the number of links on the bottom layer and space for 2M ids.
    pub bottom: SharedSlice<'a, u32>,
    /// Per id and layer above the bottom one: the number of links and space for M ids.
    pub upper: SharedSlice<'a, u32>,
    /// The id at which searches in the graph start.
    pub entry: u32,
}

/// Rows quantized to one byte per coordinate.
#[derive(Clone)]
pub struct CodeParts<'a> {
    /// The center of each coordinate.
    pub center: Vec<f32>,
    /// The quantization step.
    pub step: f32,
    /// The number of inserted rows outside the range of the codes; a lower bound after removals.
    pub out_of_range: usize,
    /// The codes; each row starts a new block.
    pub blocks: SharedSlice<'a, CodeBlock>,
}

impl<'a> IndexParts<'a> {
    /// Restores the index on the device of this thread ([`Device::scope`]). The large arrays are read at the first search,
    /// after `verifier` has verified them.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::LengthMismatch`] or [`Error::BadScale`] when the parts do not fit each other;
    /// [`Error::Device`] or [`Error::GraphOnDevice`] when the device cannot be used.
    pub fn restore(self, verifier: Box<dyn Verifier>) -> Result<Box<dyn NeighborIndex + 'a>, Error> {
        let damaged =
            |problem: &str| Error::Damaged { section: "index".to_owned(), problem: problem.to_owned() };
        let rows = StoredRows::restore(self.rows, verifier)?;
        let precision = rows.precision();
        let mut exact = ExactIndex::from_rows(rows);
        if let Some(order) = self.order {
            exact = exact.with_order(order).ok_or_else(|| damaged("the order does not fit the rows"))?;
        }
        match self.graph {
            None => device::place(exact, Device::current()),
            Some(graph) if graph.params.precision != precision => {
                Err(damaged("rows have another precision than the graph"))
            }
            Some(graph) => {
                check_graph_device(Device::current())?;
                HnswIndex::restored(exact, graph)
                    .map(|index| Box::new(index) as Box<dyn NeighborIndex + 'a>)
                    .ok_or_else(|| damaged("links or codes do not fit the rows"))
            }
        }
    }
}
