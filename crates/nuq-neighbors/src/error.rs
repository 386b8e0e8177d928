//! Errors of embeddings, searches and neighbor tables.

/// An error of this crate. Rows, columns and queries are numbered from zero.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are no rows, or a search can return none because it excludes the only row.
    #[error("there are no rows: at least one embedding is needed")]
    Empty,
    /// Rows without columns.
    #[error("embeddings have zero columns: each row needs at least one coordinate")]
    ZeroColumns,
    /// The length of a flat buffer is not a multiple of the row length.
    #[error("{len} values do not fill rows of {}: {} are left over", columns(*dim), len % dim)]
    PartialRow {
        /// The number of values in the buffer.
        len: usize,
        /// The number of values per row.
        dim: usize,
    },
    /// The number of ids of a neighbor table is not a multiple of the number of neighbors per query.
    #[error("{len} ids are not a multiple of k = {k}: give k ids per query")]
    PartialQuery {
        /// The number of ids.
        len: usize,
        /// The number of neighbors per query.
        k: usize,
    },
    /// Rows of different lengths.
    #[error("row {row} has {}, row 0 has {expected}", columns(*got))]
    Ragged {
        /// The first row with another length.
        row: usize,
        /// Its number of columns.
        got: usize,
        /// The number of columns of row 0.
        expected: usize,
    },
    /// A value that is NaN or infinite.
    #[error("row {row}, column {column} is {value}: every coordinate must be finite")]
    NotFinite {
        /// The row of the value.
        row: usize,
        /// The column of the value.
        column: usize,
        /// The value itself.
        value: f64,
    },
    /// A finite `f64` value beyond the range of `f32`, in which embeddings are stored.
    #[error("row {row}, column {column} is {value:e}, beyond the range of f32 (±3.4e38): rescale the data")]
    OutOfRange {
        /// The row of the value.
        row: usize,
        /// The column of the value.
        column: usize,
        /// The value itself.
        value: f64,
    },
    /// A value beyond the range of `f16`.
    #[error(
        "row {row}, column {column} is {value:e}, beyond the range of f16 (±65,504): store the rows in f32 or rescale them"
    )]
    OutOfHalfRange {
        /// The row of the value.
        row: usize,
        /// The column of the value.
        column: usize,
        /// The value itself.
        value: f64,
    },
    /// More rows than 32-bit ids can number.
    #[error("{rows} rows exceed the limit of {} rows per index or sharded model", u32::MAX)]
    TooManyRows {
        /// The number of rows; in a sharded model, of all shards together. If only some of the shards are known, it is their largest id
        /// plus one.
        rows: usize,
    },
    /// Queries or inserted rows of another dimension than the index.
    #[error(
        "the given rows have {}, and the training rows have {expected}: use embeddings of the same layer",
        columns(*got)
    )]
    DimensionMismatch {
        /// The dimension of the queries or inserted rows.
        got: usize,
        /// The dimension of the index.
        expected: usize,
    },
    /// A search with k = 0.
    #[error("k is 0: at least one neighbor must be requested")]
    ZeroNeighbors,
    /// Two lists that must have equal lengths but do not.
    #[error("{got} {what} for {expected} {counterpart}: give one for each")]
    LengthMismatch {
        /// Name of the list with the wrong length.
        what: &'static str,
        /// Length of that list.
        got: usize,
        /// Name of the list that it belongs to.
        counterpart: &'static str,
        /// Length of the list that it belongs to.
        expected: usize,
    },
    /// An id that names no row of the index.
    #[error("query {query}: neighbor id {id} is not among the {len} training rows")]
    UnknownId {
        /// The query with this id among its neighbors.
        query: usize,
        /// The id.
        id: u32,
        /// The number of rows of the index.
        len: usize,
    },
    /// An id that occurs twice among the neighbors of a query.
    #[error("query {query}: neighbor id {id} is listed twice")]
    RepeatedId {
        /// The query with this id among its neighbors.
        query: usize,
        /// The id.
        id: u32,
    },
    /// A row that cannot be removed. No row was removed.
    #[error("entry {position} of the ids to remove is {id}, {problem}: no row was removed")]
    CannotRemove {
        /// The position in the list of ids.
        position: usize,
        /// The id.
        id: u32,
        /// The reason.
        problem: &'static str,
    },
    /// A squared distance that is negative or not finite.
    #[error("query {query}: squared distance {value} is not a finite number of at least 0")]
    BadDistance {
        /// The query with this distance among its neighbors.
        query: usize,
        /// The squared distance.
        value: f64,
    },
    /// A graph parameter outside its range.
    #[error("{name} is {value}: it must be {range}")]
    BadGraphParameter {
        /// The name of the parameter.
        name: &'static str,
        /// Its value.
        value: usize,
        /// The valid range.
        range: &'static str,
    },
    /// A requested recall outside (0, 1].
    #[error("the requested recall is {value}: it must be above 0 and at most 1")]
    BadRecall {
        /// The requested recall.
        value: f64,
    },
    /// Stored arrays that differ from what was written.
    #[error("section `{section}` is damaged: {problem}")]
    Damaged {
        /// The name of the section.
        section: String,
        /// What is wrong with the section.
        problem: String,
    },
    /// The file of mapped arrays was changed since it was opened, or cannot be read any more; the search has no result.
    #[error("{problem}")]
    FileChanged {
        /// The file, and what has happened to it.
        problem: String,
    },
    /// A device other than the CPU failed or cannot be used; the search has no result.
    #[error("{problem}")]
    Device {
        /// What failed, and what to do.
        problem: String,
    },
    /// A graph was requested on a device other than the CPU.
    #[error(
        "device `{device}`: a graph is searched on the CPU, choose the index `exact` or the device `cpu`"
    )]
    GraphOnDevice {
        /// The requested device.
        device: crate::Device,
    },
    /// Rows of shards cannot be inserted or removed. A fit with sample weights removes rows of weight 0.
    #[error(
        "the rows of a sharded model are fixed: fit it again with the changed rows and without rows of weight 0, or save it as one \
         file, which can be changed"
    )]
    FixedShards,
    /// The values of training rows are needed, and the model holds none.
    #[error(
        "the model was saved without its training rows: pass neighbors from the database that holds them to `predict_from`, or use \
         the model with rows"
    )]
    RowsNotStored,
    /// A search of shards by other processes failed.
    #[error("the shards could not be searched: {problem}")]
    ShardSearch {
        /// What failed.
        problem: String,
    },
    /// A graph was requested for rows in shards.
    #[error(
        "shards are searched exactly: choose the index `exact` or `auto`, or fit one file without shards"
    )]
    GraphOverShards,
    /// A scale of a column outside 1e-100 to 1e100.
    #[error("scale of column {column} is {value:?}: it must lie between 1e-100 and 1e100")]
    BadScale {
        /// The column.
        column: usize,
        /// Its scale.
        value: f64,
    },
}

fn columns(number: usize) -> String {
    if number == 1 { "1 column".to_owned() } else { format!("{number} columns") }
}
