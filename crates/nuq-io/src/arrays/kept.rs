//! Columns of a table that are not coordinates and are copied to the results, such as ids.

use super::ArraySpec;
use crate::Error;

/// Values of a column that is not a coordinate; `None` is an empty cell. Columns of csv and tsv tables are strings.
#[derive(Debug, Clone, PartialEq)]
pub enum KeptColumn {
    /// Integers.
    Integers(Vec<Option<i64>>),
    /// Numbers.
    Numbers(Vec<Option<f64>>),
    /// Boolean values.
    Booleans(Vec<Option<bool>>),
    /// Strings.
    Strings(Vec<Option<String>>),
}

/// The error of a request to keep a column in a format that has no named columns.
pub(super) fn no_columns(spec: &ArraySpec, name: &str) -> Error {
    let problem =
        format!("an array has no column `{name}`: only columns of csv, tsv and parquet files can be kept");
    Error::BadFile { spec: spec.clone(), problem }
}
