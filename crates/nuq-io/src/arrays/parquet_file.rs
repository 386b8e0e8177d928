//! Reads parquet files: tables of typed columns.
//!
//! Embeddings are one column of lists of numbers, or all columns of numbers. The Arrow schema in the file metadata is ignored:
//! then all list types are read as one type, and dictionaries as their values.

use std::fs::File;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field};
use nuq::Label;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::RowGroupMetaData;

use super::ArraySpec;
use super::arrow_values::{self, BadEntry};
use super::npz::choose;
use super::parquet_footer;
use super::parquet_kept::KeptRows;
use super::parquet_pages;
use super::parquet_rows::{Coordinates, ParquetRows};
use super::source::out_of_memory;
use super::stream::system_error;
use crate::panics::catch_panic;
use crate::{Error, Position};

/// Largest number of rows that are decoded at a time.
const BATCH: usize = 1024;

/// Approximate largest number of values that are decoded at a time. The number of values per row is estimated: it is the mean of the row
/// group with the largest mean. At least one row is decoded.
const BATCH_VALUES: usize = 2 << 20;

/// The name of the index column that pandas writes.
const PANDAS_INDEX: &str = "__index_level_0__";

/// An opened file whose footer has been read.
pub(crate) struct ParquetFile {
    file: File,
    metadata: ArrowReaderMetadata,
    /// Number of rows of each row group.
    rows: Vec<usize>,
}

impl ParquetFile {
    pub(crate) fn open(spec: &ArraySpec, mut file: File) -> Result<Self, Error> {
        let failed = |source| Error::Read { path: spec.file_name().into(), source };
        if let Some(problem) = parquet_footer::problem(&mut file).map_err(failed)? {
            return Err(Error::damaged_parquet(spec, problem));
        }
        catching_panics(spec, || {
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            let loaded = ArrowReaderMetadata::load(&file, options);
            let metadata = loaded.map_err(|error| parquet_error(spec, &error))?;
            if let Some(problem) = parquet_pages::problem(&mut file, metadata.metadata()).map_err(failed)? {
                return Err(Error::damaged_parquet(spec, problem));
            }
            let groups = metadata.metadata().row_groups().iter();
            let rows: Option<Vec<usize>> = groups.map(|group| group.num_rows().try_into().ok()).collect();
            let rows =
                rows.filter(|rows| rows.iter().try_fold(0usize, |sum, &n| sum.checked_add(n)).is_some());
            let rows = rows
                .ok_or_else(|| Error::damaged_parquet(spec, "the row counts of its groups are not valid"))?;
            Ok(Self { file, metadata, rows })
        })
    }

    /// The embeddings: a column of lists, or all columns of numbers except `without`. If `spec` excludes columns by name, columns of lists
    /// are not used. The columns `kept`, which `without` contains too, are not coordinates: [`ParquetRows::kept`] reads
    /// them.
    pub(crate) fn embeddings(
        self,
        spec: &ArraySpec,
        without: &[String],
        kept: &[String],
    ) -> Result<ParquetRows, Error> {
        let list = if spec.excluded_columns().is_some() { None } else { self.list(spec)? };
        let coordinates = match list {
            Some(column) => Coordinates::List(column),
            None => Coordinates::Flat(self.flat(spec, without)?),
        };
        let kept = KeptRows::new(&self, spec, kept)?;
        catching_panics(spec, || ParquetRows::open(self, spec, coordinates, kept))
    }

    /// The requested column of lists, or the only one; `None` if there is none.
    fn list(&self, spec: &ArraySpec) -> Result<Option<usize>, Error> {
        let names = self.fields().iter().filter(|field| is_list(field)).map(|field| field.name().clone());
        let names: Vec<String> = names.collect();
        if let Some(name) = &spec.name {
            let column = self.column(spec, name)?;
            if !is_list(&self.fields()[column]) {
                let hint = if names.is_empty() {
                    format!("remove `:{name}` to read all columns of numbers")
                } else {
                    format!("these columns do: {}", names.join(", "))
                };
                let problem = format!("column `{name}` does not contain lists of numbers; {hint}");
                return Err(Error::BadFile { spec: spec.clone(), problem });
            }
            return Ok(Some(column));
        }
        match names.is_empty() {
            true => Ok(None),
            false => choose_column(spec, names).and_then(|name| self.column(spec, &name)).map(Some),
        }
    }

    /// All columns of numbers except the index of pandas and `without`.
    fn flat(&self, spec: &ArraySpec, without: &[String]) -> Result<Vec<usize>, Error> {
        for name in without {
            self.column(&spec.named(name), name)?;
        }
        let is_coordinate = |field: &Field| {
            is_number(field.data_type()) && field.name() != PANDAS_INDEX && !without.contains(field.name())
        };
        let fields = self.fields().iter().enumerate();
        let columns: Vec<usize> = fields.filter(|(_, field)| is_coordinate(field)).map(|(i, _)| i).collect();
        if columns.is_empty() {
            let problem = "it holds no column of numbers, apart from excluded ones; lists of numbers are not read if columns are \
                           excluded with `:-NAME`";
            return Err(Error::BadFile { spec: spec.clone(), problem: problem.to_owned() });
        }
        Ok(columns)
    }

    /// A column as labels: booleans, integers or strings.
    pub(crate) fn labels(self, spec: &ArraySpec) -> Result<Vec<Label>, Error> {
        let mut labels = Vec::new();
        catching_panics(spec, || {
            let column = self.single_column(spec)?;
            if !arrow_values::are_labels(self.fields()[column].data_type()) {
                return Err(self.wrong_type(spec, column, "labels are booleans, integers or strings"));
            }
            for array in self.batches(spec, column)? {
                let array = array?;
                let first = labels.len();
                if let Some(row) = (0..array.len()).find(|&i| array.is_null(i)) {
                    let (at, value) = (Position::Row(first + row), String::new());
                    return Err(Error::MissingLabel { spec: spec.clone(), at, value });
                }
                let found = arrow_values::labels(&array).map_err(|(row, entry)| match entry {
                    BadEntry::Number(value) => Error::bad_label(spec, first + row, value),
                    BadEntry::Text => Error::bad_text(spec, first + row),
                })?;
                append(&mut labels, found.expect("the type of the column was checked"), spec)?;
            }
            Ok(())
        })?;
        Ok(labels)
    }

    /// A column as targets: numbers.
    pub(crate) fn targets(self, spec: &ArraySpec) -> Result<Vec<f64>, Error> {
        let mut targets = Vec::new();
        catching_panics(spec, || {
            let column = self.single_column(spec)?;
            if !is_number(self.fields()[column].data_type()) {
                return Err(self.wrong_type(spec, column, "targets are numbers"));
            }
            for array in self.batches(spec, column)? {
                let array = array?;
                if let Some(row) = (0..array.len()).find(|&i| array.is_null(i)) {
                    let problem = format!("row {} has no target", targets.len() + row);
                    return Err(Error::BadFile { spec: spec.clone(), problem });
                }
                append(&mut targets, arrow_values::f64s(&array), spec)?;
            }
            Ok(())
        })?;
        Ok(targets)
    }

    /// The requested column, or the only one.
    fn single_column(&self, spec: &ArraySpec) -> Result<usize, Error> {
        let names = self.fields().iter().map(|field| field.name().clone());
        let name = choose_column(spec, names.filter(|name| name != PANDAS_INDEX).collect())?;
        self.column(spec, &name)
    }

    /// The batches of a column.
    fn batches(
        &self,
        spec: &ArraySpec,
        column: usize,
    ) -> Result<impl Iterator<Item = Result<ArrayRef, Error>>, Error> {
        let mut reader = self.read(spec, &[column], 0)?;
        let spec = spec.clone();
        Ok(std::iter::from_fn(move || {
            let batch = next(&mut reader, &spec).transpose()?;
            Some(batch.map(|batch| batch.column(0).clone()))
        }))
    }

    /// A reader of some columns that begins at row `first`. Earlier row groups are not read.
    pub(super) fn read(
        &self,
        spec: &ArraySpec,
        columns: &[usize],
        first: usize,
    ) -> Result<ParquetRecordBatchReader, Error> {
        let failed = |source| Error::Read { path: spec.file_name().into(), source };
        let file = self.file.try_clone().map_err(failed)?;
        let (mut group, mut skipped) = (0, 0);
        while group < self.rows.len() && skipped + self.rows[group] <= first {
            skipped += self.rows[group];
            group += 1;
        }
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied());
        ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(mask)
            .with_row_groups((group..self.rows.len()).collect())
            .with_offset(first - skipped)
            .with_batch_size(self.batch_size(columns))
            .build()
            .map_err(|error| parquet_error(spec, &error))
    }

    /// The number of rows that are decoded at a time: fewer if rows are long.
    fn batch_size(&self, columns: &[usize]) -> usize {
        let schema = self.metadata.parquet_schema();
        let leaves =
            (0..schema.num_columns()).filter(|&leaf| columns.contains(&schema.get_column_root_idx(leaf)));
        let leaves: Vec<usize> = leaves.collect();
        let per_row = |group: &RowGroupMetaData| {
            let values: i64 = leaves.iter().map(|&leaf| group.column(leaf).num_values().max(0)).sum();
            values / group.num_rows().max(1)
        };
        let per_row = self.metadata.metadata().row_groups().iter().map(per_row).max().unwrap_or(0);
        (BATCH_VALUES / usize::try_from(per_row).unwrap_or(usize::MAX).max(1)).clamp(1, BATCH)
    }

    fn wrong_type(&self, spec: &ArraySpec, column: usize, right: &str) -> Error {
        let problem = format!("its type {} is not supported: {right}", self.fields()[column].data_type());
        Error::BadFile { spec: spec.clone(), problem }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.iter().sum()
    }

    /// The names of the columns.
    pub(crate) fn names(&self) -> Vec<String> {
        self.fields().iter().map(|field| field.name().clone()).collect()
    }

    pub(super) fn fields(&self) -> &[std::sync::Arc<Field>] {
        self.metadata.schema().fields()
    }

    pub(super) fn column(&self, spec: &ArraySpec, name: &str) -> Result<usize, Error> {
        let mut found = (0..self.fields().len()).filter(|&i| self.fields()[i].name() == name);
        let (first, second) = (found.next(), found.next());
        if second.is_some() {
            let problem = format!("several columns have the name `{name}`: rename all but one of them");
            return Err(Error::BadFile { spec: spec.clone(), problem });
        }
        first.ok_or_else(|| Error::NoSuchColumn { spec: spec.clone(), present: self.names() })
    }
}

/// The requested column, or the only one if none was requested.
fn choose_column(spec: &ArraySpec, present: Vec<String>) -> Result<String, Error> {
    choose(spec, present).map_err(|error| match error {
        Error::NoSuchArray { spec, present } => Error::NoSuchColumn { spec, present },
        other => other,
    })
}

/// Calls `read`; a panic of the parquet library is returned as the error of a damaged file.
pub(super) fn catching_panics<T>(
    spec: &ArraySpec,
    read: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    catch_panic(read).unwrap_or_else(|| Err(Error::damaged_parquet(spec, "its parts contradict each other")))
}

/// Appends decoded values. A few bytes of a file can be the encoding of billions of equal values, so the memory may not suffice.
pub(super) fn append<T>(values: &mut Vec<T>, more: Vec<T>, spec: &ArraySpec) -> Result<(), Error> {
    values.try_reserve(more.len()).map_err(|_| out_of_memory(spec))?;
    values.extend(more);
    Ok(())
}

/// The next batch of a reader.
pub(super) fn next(
    reader: &mut ParquetRecordBatchReader,
    spec: &ArraySpec,
) -> Result<Option<RecordBatch>, Error> {
    reader.next().transpose().map_err(|error| parquet_error(spec, &error))
}

/// Converts an error of the parquet library to a read error if the operating system caused it, otherwise to the error of a damaged file.
/// For some system errors the library keeps only the text, which ends with the error number.
fn parquet_error(spec: &ArraySpec, error: &(dyn std::error::Error + 'static)) -> Error {
    let text = error.to_string();
    let code = text.rsplit_once("(os error ").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    let of_text = || {
        let source = std::io::Error::from_raw_os_error(code?);
        Some(Error::Read { path: spec.file_name().into(), source })
    };
    system_error(spec, error).or_else(of_text).unwrap_or_else(|| Error::damaged_parquet(spec, text))
}

fn is_number(kind: &DataType) -> bool {
    kind.is_integer() || kind.is_floating()
}

fn is_list(field: &Field) -> bool {
    matches!(field.data_type(), DataType::List(entry) if is_number(entry.data_type()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_is_not_taken_for_a_damaged_file() {
        let spec = ArraySpec { path: "x.parquet".into(), name: None };
        let error = |text: &str| parquet_error(&spec, &std::io::Error::other(text.to_owned())).to_string();
        let expected = std::io::Error::from_raw_os_error(5);
        assert_eq!(
            error("External: Input/output error (os error 5)"),
            format!("cannot read x.parquet: {expected}")
        );
        assert!(error("External: bad magic").contains("it is truncated, damaged or not a parquet file"));
    }
}
