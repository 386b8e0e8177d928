//! Reads rows of a parquet file in blocks. One reader advances through the file; a new reader is created when a block does not
//! continue the previous one.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use nuq::nuq_neighbors::Error as IndexError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::arrow_values;
use super::parquet_file::{ParquetFile, catching_panics, next};
use super::parquet_kept::KeptRows;
use super::source::out_of_memory;
use super::{ArraySpec, KeptColumn};
use crate::Error;

/// The columns that hold the coordinates.
pub(crate) enum Coordinates {
    /// A column of lists.
    List(usize),
    /// One column per coordinate.
    Flat(Vec<usize>),
}

/// Embeddings in a file.
pub(crate) struct ParquetRows {
    file: ParquetFile,
    coordinates: Coordinates,
    len: usize,
    dim: usize,
    stream: Option<Stream>,
    kept: KeptRows,
}

/// A reader and its position in the file.
struct Stream {
    reader: ParquetRecordBatchReader,
    /// The next row.
    row: usize,
    /// Values that are decoded but not yet returned. The first of them belong to `row`.
    decoded: Vec<f32>,
}

impl ParquetRows {
    pub(super) fn open(
        file: ParquetFile,
        spec: &ArraySpec,
        coordinates: Coordinates,
        kept: KeptRows,
    ) -> Result<Self, Error> {
        let len = file.len();
        let mut rows = Self { file, coordinates, len, dim: 0, stream: None, kept };
        rows.dim = match &rows.coordinates {
            Coordinates::Flat(columns) => columns.len(),
            Coordinates::List(_) => rows.first_length(spec)?,
        };
        let bytes = len.checked_mul(4 * rows.dim);
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(Error::damaged_parquet(spec, "its row count exceeds the address space"));
        }
        Ok(rows)
    }

    /// The length of the first list that is not null.
    fn first_length(&self, spec: &ArraySpec) -> Result<usize, Error> {
        let mut reader = self.file.read(spec, self.columns(), 0)?;
        while let Some(batch) = next(&mut reader, spec)? {
            let lists = batch.column(0).as_list::<i32>();
            if let Some(row) = (0..lists.len()).find(|&i| lists.is_valid(i)) {
                match lists.value(row).len() {
                    0 => break,
                    dim => return Ok(dim),
                }
            }
        }
        let problem = "it holds no lists, or its first list is empty".to_owned();
        Err(Error::BadFile { spec: spec.clone(), problem })
    }

    fn columns(&self) -> &[usize] {
        match &self.coordinates {
            Coordinates::List(column) => std::slice::from_ref(column),
            Coordinates::Flat(columns) => columns,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// The names of the columns; `None` if the coordinates are lists.
    pub(crate) fn column_names(&self) -> Option<Vec<String>> {
        match &self.coordinates {
            Coordinates::List(_) => None,
            Coordinates::Flat(columns) => {
                Some(columns.iter().map(|&column| self.file.fields()[column].name().clone()).collect())
            }
        }
    }

    /// Reads some rows of the kept columns.
    pub(crate) fn kept(&mut self, spec: &ArraySpec, rows: Range<usize>) -> Result<Vec<KeptColumn>, Error> {
        catching_panics(spec, || self.kept.read(&self.file, spec, rows))
    }

    /// Reads some of the rows in row-major order; nulls are NaN.
    pub(crate) fn values(&mut self, spec: &ArraySpec, rows: Range<usize>) -> Result<Vec<f32>, Error> {
        // `advance` takes the stream out and stores it again only on success, so no invalid stream remains after a
        // panic.
        catching_panics(spec, || self.advance(spec, rows))
    }

    fn advance(&mut self, spec: &ArraySpec, rows: Range<usize>) -> Result<Vec<f32>, Error> {
        let mut stream = match self.stream.take() {
            Some(stream) if stream.row == rows.start => stream,
            _ => {
                let reader = self.file.read(spec, self.columns(), rows.start)?;
                Stream { reader, row: rows.start, decoded: vec![] }
            }
        };
        let wanted = rows.len() * self.dim;
        while stream.decoded.len() < wanted {
            let Some(batch) = next(&mut stream.reader, spec)? else {
                return Err(Error::damaged_parquet(spec, "it has fewer rows than its metadata states"));
            };
            let first = stream.row + stream.decoded.len() / self.dim;
            self.decode(spec, &batch, first, &mut stream.decoded)?;
        }
        let rest = stream.decoded.split_off(wanted);
        let values = std::mem::replace(&mut stream.decoded, rest);
        stream.row = rows.end;
        self.stream = Some(stream);
        Ok(values)
    }

    /// Appends the values of a batch to `to`. The first row of the batch is row `first` of the file.
    fn decode(
        &self,
        spec: &ArraySpec,
        batch: &RecordBatch,
        first: usize,
        to: &mut Vec<f32>,
    ) -> Result<(), Error> {
        // A few bytes of a file can be the encoding of billions of nulls, so the memory may not suffice. It is not reserved for all rows at
        // once, because the number of rows that a file states may be wrong.
        to.try_reserve(batch.num_rows() * self.dim).map_err(|_| out_of_memory(spec))?;
        match self.coordinates {
            Coordinates::List(_) => self.decode_lists(spec, batch.column(0), first, to),
            Coordinates::Flat(_) => self.decode_columns(spec, batch, first, to),
        }
    }

    fn decode_lists(
        &self,
        spec: &ArraySpec,
        array: &dyn Array,
        first: usize,
        to: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let (lists, dim) = (array.as_list::<i32>(), self.dim);
        let entries = arrow_values::f32s(lists.values());
        for (i, ends) in lists.value_offsets().windows(2).enumerate() {
            let (start, end) = (ends[0] as usize, ends[1] as usize);
            match end - start {
                _ if lists.is_null(i) => to.extend(std::iter::repeat_n(f32::NAN, dim)),
                length if length == dim => to.extend_from_slice(&entries[start..end]),
                length => {
                    let problem = format!(
                        "row {} has {length} numbers, the first has {dim}: give lists of equal length",
                        first + i
                    );
                    return Err(Error::BadFile { spec: spec.clone(), problem });
                }
            }
            let overflow = arrow_values::first_overflow(&lists.value(i));
            if let Some((column, value)) = overflow {
                return Err(out_of_range(spec, first + i, column, value));
            }
        }
        Ok(())
    }

    fn decode_columns(
        &self,
        spec: &ArraySpec,
        batch: &RecordBatch,
        first: usize,
        to: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let start = to.len();
        to.resize(start + batch.num_rows() * self.dim, 0.0);
        for (column, array) in batch.columns().iter().enumerate() {
            if let Some((row, value)) = arrow_values::first_overflow(array) {
                return Err(out_of_range(spec, first + row, column, value));
            }
            for (row, value) in arrow_values::f32s(array).into_iter().enumerate() {
                to[start + row * self.dim + column] = value;
            }
        }
        Ok(())
    }
}

fn out_of_range(spec: &ArraySpec, row: usize, column: usize, value: f64) -> Error {
    let source = IndexError::OutOfRange { row, column, value };
    Error::Array { spec: spec.clone(), source: Box::new(source.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParquetColumn, ParquetWriter, write_atomically};

    #[test]
    fn rows_that_do_not_fit_into_memory_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let spec = ArraySpec { path: folder.path().join("x.parquet"), name: None };
        let lists = |missing: bool| (0..8).map(|i| (i == 0 || !missing).then(|| vec![0.5])).collect();
        for column in [
            ParquetColumn::Numbers(vec![None; 8]),
            ParquetColumn::NumberLists(lists(true)),
            ParquetColumn::NumberLists(lists(false)),
        ] {
            write_atomically(&spec.path, |file| {
                let mut writer = ParquetWriter::default();
                writer.append(vec![("x", column)], file)?;
                writer.finish(file)
            })
            .unwrap();
            let file = ParquetFile::open(&spec, std::fs::File::open(&spec.path).unwrap()).unwrap();
            let mut rows = file.embeddings(&spec, &[], &[]).unwrap();
            assert_eq!(rows.values(&spec, 0..8).unwrap().len(), 8);
            // The rows of a batch have more bytes than the address space.
            rows.dim = usize::MAX / 16;
            let error = rows.values(&spec, 0..1).unwrap_err().to_string();
            assert!(error.ends_with("it does not fit into memory"), "{error}");
        }
    }
}
