//! What can be wrong with embeddings, queries and neighbor tables.

/// Why embeddings were refused or a search could not run. Rows and columns count from zero.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no row to search among.
    #[error("there are no rows: at least one embedding is needed")]
    Empty,
    /// Rows without a single coordinate.
    #[error("embeddings have zero columns: each row needs at least one coordinate")]
    ZeroColumns,
    /// A flat buffer that is not a whole number of rows.
    #[error("{len} values do not fill rows of {dim} columns: {} are left over", len % dim)]
    PartialRow {
        /// SharedSlice in the buffer.
        len: usize,
        /// Columns a row should have.
        dim: usize,
    },
    /// Rows of different lengths.
    #[error("row {row} has {got} columns, row 0 has {expected}")]
    Ragged {
        /// The first row that differs.
        row: usize,
        /// Its number of columns.
        got: usize,
        /// The columns of row 0.
        expected: usize,
    },
    /// A NaN or an infinity.
    #[error("row {row}, column {column} is {value}: every coordinate must be finite")]
    NotFinite {
        /// The row of the value.
        row: usize,
        /// The column of the value.
        column: usize,
        /// The value itself.
        value: f64,
    },
    /// A finite f64 beyond the range of f32, in which embeddings are stored.
    #[error("row {row}, column {column} is {value:e}, beyond the range of f32 (±3.4e38): rescale the data")]
    OutOfRange {
        /// The row of the value.
        row: usize,
        /// The column of the value.
        column: usize,
        /// The value itself.
        value: f64,
    },
    /// A number that half precision cannot hold.
    #[error(
        "row {row}, column {column} is {value:e}, beyond the range of f16 (±65,504): keep the rows in f32 or rescale them"
    )]
    OutOfHalfRange {
        /// The row of the value.
        row: usize,
        /// The column of the value.
        column: usize,
        /// The value itself.
        value: f64,
    },
    /// More rows than 32-bit ids can name.
    #[error("{rows} rows are more than an index can number ({})", u32::MAX)]
    TooManyRows {
        /// Rows given.
        rows: usize,
    },
    /// Queries whose dimension differs from the index's.
    #[error("query has dimension {got}, index has {expected}")]
    DimensionMismatch {
        /// Columns of the queries.
        got: usize,
        /// Columns of the index.
        expected: usize,
    },
    /// A search for no neighbors.
    #[error("k is 0: at least one neighbor must be asked for")]
    ZeroNeighbors,
    /// A list of the wrong length.
    #[error("{got} {what} given, {expected} needed")]
    LengthMismatch {
        /// The list.
        what: &'static str,
        /// Its length.
        got: usize,
        /// What its length should be.
        expected: usize,
    },
    /// An id that names no row.
    #[error("query {query}: neighbor id {id} is not among the {len} training rows")]
    UnknownId {
        /// The query in whose list the id stands.
        query: usize,
        /// The id.
        id: u32,
        /// Rows of the index.
        len: usize,
    },
    /// The same training row twice among one query's neighbors.
    #[error("query {query}: neighbor id {id} is listed twice")]
    RepeatedId {
        /// The query in whose list the id stands.
        query: usize,
        /// The id.
        id: u32,
    },
    /// A row that cannot be removed; nothing was.
    #[error("entry {place} of the ids to remove is {id}, {problem}: no row was removed")]
    CannotRemove {
        /// Its place in the list.
        place: usize,
        /// The id.
        id: u32,
        /// Why not.
        problem: &'static str,
    },
    /// A squared distance that is negative or not finite.
    #[error("query {query}: squared distance {value} is not a finite number of at least 0")]
    BadDistance {
        /// The query in whose list the distance stands.
        query: usize,
        /// The value.
        value: f64,
    },
    /// A graph parameter outside its range.
    #[error("{name} is {value}: it must be {range}")]
    BadGraphParameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: usize,
        /// What it may be.
        range: &'static str,
    },
    /// A recall that no search can have.
    #[error("the recall asked for is {value}: it must be above 0 and at most 1")]
    BadRecall {
        /// The value.
        value: f64,
    },
    /// Stored arrays that are not what was written.
    #[error("section `{section}` is damaged: {problem}")]
    Damaged {
        /// Which of them.
        section: String,
        /// What is wrong.
        problem: String,
    },
    /// A per-dimension scale that is not a positive finite number.
    #[error("scale of column {column} is {value}: scales must be positive and finite")]
    BadScale {
        /// The column.
        column: usize,
        /// Its scale.
        value: f64,
    },
}
