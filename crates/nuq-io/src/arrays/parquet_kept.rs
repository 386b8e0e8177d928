//! Reads the kept columns of a parquet file, which are copied to the results, in blocks of rows.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, RecordBatch, new_empty_array};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::parquet_file::{ParquetFile, append, next};
use super::{ArraySpec, KeptColumn, arrow_values};
use crate::Error;

/// The kept columns and a reader that advances through them.
pub(super) struct KeptRows {
    /// The columns, in the order of the requested names.
    columns: Vec<usize>,
    stream: Option<Stream>,
}

struct Stream {
    reader: ParquetRecordBatchReader,
    /// The next row.
    row: usize,
    /// Rows that are decoded but not yet returned. The first of them is `row`.
    decoded: Option<RecordBatch>,
}

impl KeptRows {
    pub(super) fn new(file: &ParquetFile, spec: &ArraySpec, names: &[String]) -> Result<Self, Error> {
        let mut columns = Vec::new();
        for name in names {
            let column = file.column(&spec.named(name), name)?;
            let kind = file.fields()[column].data_type();
            if !arrow_values::are_labels(kind) {
                let problem = format!(
                    "column `{name}` has the type {kind}, which cannot be kept: convert it to strings"
                );
                return Err(Error::BadFile { spec: spec.clone(), problem });
            }
            columns.push(column);
        }
        Ok(Self { columns, stream: None })
    }

    pub(super) fn read(
        &mut self,
        file: &ParquetFile,
        spec: &ArraySpec,
        rows: Range<usize>,
    ) -> Result<Vec<KeptColumn>, Error> {
        let mut kept: Vec<Option<KeptColumn>> = self.columns.iter().map(|_| None).collect();
        if self.columns.is_empty() {
            return Ok(vec![]);
        }
        let mut stream = match self.stream.take() {
            Some(stream) if stream.row == rows.start => stream,
            _ => {
                Stream { reader: file.read(spec, &self.columns, rows.start)?, row: rows.start, decoded: None }
            }
        };
        // A batch has each column once, in the order of the file.
        let mut order = self.columns.clone();
        order.sort_unstable();
        order.dedup();
        while stream.row < rows.end {
            let batch = match stream.decoded.take() {
                Some(batch) => batch,
                None => next(&mut stream.reader, spec)?.ok_or_else(|| {
                    Error::damaged_parquet(spec, "it has fewer rows than its metadata states")
                })?,
            };
            let used = batch.num_rows().min(rows.end - stream.row);
            for (column, kept) in self.columns.iter().zip(&mut kept) {
                let position = order.partition_point(|other| other < column);
                let more = values(&batch.column(position).slice(0, used), spec, stream.row)?;
                match kept {
                    Some(kept) => append_kept(kept, more, spec)?,
                    None => *kept = Some(more),
                }
            }
            if used < batch.num_rows() {
                stream.decoded = Some(batch.slice(used, batch.num_rows() - used));
            }
            stream.row += used;
        }
        self.stream = Some(stream);
        // Without rows there is no batch. The type of a column is then known from the schema.
        let empty =
            |column: usize| values(&new_empty_array(file.fields()[column].data_type()), spec, rows.start);
        let columns = kept.into_iter().zip(&self.columns);
        columns.map(|(kept, &column)| kept.map_or_else(|| empty(column), Ok)).collect()
    }
}

/// The values of an array. Its first entry belongs to row `first` of the file.
fn values(array: &ArrayRef, spec: &ArraySpec, first: usize) -> Result<KeptColumn, Error> {
    let is_valid = |i: &usize| array.is_valid(*i);
    let rows = || (0..array.len()).map(|i| Some(i).filter(is_valid));
    Ok(match array.data_type() {
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            KeptColumn::Strings(rows().map(|row| row.map(|i| texts.value(i).to_owned())).collect())
        }
        DataType::Binary => {
            let texts = array.as_binary::<i32>();
            let text = |i: usize| match str::from_utf8(texts.value(i)) {
                Ok(text) => Ok(text.to_owned()),
                Err(_) => {
                    let problem = format!("row {} of a kept column is not valid UTF-8", first + i);
                    Err(Error::BadFile { spec: spec.clone(), problem })
                }
            };
            KeptColumn::Strings(rows().map(|row| row.map(text).transpose()).collect::<Result<_, _>>()?)
        }
        DataType::Boolean => {
            let flags = array.as_boolean();
            KeptColumn::Booleans(rows().map(|row| row.map(|i| flags.value(i))).collect())
        }
        DataType::Float32 => {
            // The shortest decimal representation of the value is converted to `f64`: 0.1, not 0.10000000149011612.
            let numbers = array.as_primitive::<Float32Type>();
            let number = |i: usize| numbers.value(i).to_string().parse().unwrap_or(f64::NAN);
            KeptColumn::Numbers(rows().map(|row| row.map(number)).collect())
        }
        kind if kind.is_floating() => {
            let numbers = arrow_values::f64s(array);
            KeptColumn::Numbers(rows().map(|row| row.map(|i| numbers[i])).collect())
        }
        _ => {
            let numbers = arrow_values::integers(array).unwrap_or_default();
            let number = |i: usize| {
                i64::try_from(numbers[i]).map_err(|_| {
                    let problem = format!(
                        "row {} of a kept column is {}, beyond signed 64-bit integers",
                        first + i,
                        numbers[i]
                    );
                    Error::BadFile { spec: spec.clone(), problem }
                })
            };
            KeptColumn::Integers(rows().map(|row| row.map(number).transpose()).collect::<Result<_, _>>()?)
        }
    })
}

fn append_kept(column: &mut KeptColumn, more: KeptColumn, spec: &ArraySpec) -> Result<(), Error> {
    match (column, more) {
        (KeptColumn::Integers(all), KeptColumn::Integers(more)) => append(all, more, spec),
        (KeptColumn::Numbers(all), KeptColumn::Numbers(more)) => append(all, more, spec),
        (KeptColumn::Booleans(all), KeptColumn::Booleans(more)) => append(all, more, spec),
        (KeptColumn::Strings(all), KeptColumn::Strings(more)) => append(all, more, spec),
        _ => unreachable!("a column has the same type in every batch"),
    }
}
