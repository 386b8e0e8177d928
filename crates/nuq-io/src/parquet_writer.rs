//! Writes parquet files, one row group at a time.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

/// Rows of a row group, which is buffered in memory until it is complete.
const GROUP: usize = 1 << 16;

/// One column of a block of rows; `None` is a null value.
#[derive(Debug, Clone)]
pub enum ParquetColumn {
    /// Integers.
    Integers(Vec<Option<i64>>),
    /// Numbers.
    Numbers(Vec<Option<f64>>),
    /// Strings.
    Strings(Vec<Option<String>>),
    /// Boolean values.
    Booleans(Vec<Option<bool>>),
    /// Lists of integers.
    IntegerLists(Vec<Option<Vec<i64>>>),
    /// Lists of numbers.
    NumberLists(Vec<Option<Vec<f64>>>),
    /// Lists of strings.
    StringLists(Vec<Option<Vec<String>>>),
    /// Lists of Boolean values.
    BooleanLists(Vec<Option<Vec<bool>>>),
}

/// Writes a file in blocks of rows that all have the same columns.
///
/// ```
/// use nuq_io::{ArraySpec, ParquetColumn, ParquetWriter, read_labels};
/// let path = std::env::temp_dir().join(format!("nuq-example-{}.parquet", std::process::id()));
/// nuq_io::write_atomically(&path, |file| {
///     let mut writer = ParquetWriter::default();
///     let label = ParquetColumn::Strings(vec![Some("cat".to_owned()), Some("dog".to_owned())]);
///     writer.append(vec![("label", label)], file)?;
///     writer.finish(file)
/// })?;
/// let labels = read_labels(&ArraySpec { path: path.clone(), name: None })?;
/// assert_eq!(labels[1], *"dog");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct ParquetWriter {
    /// Created with the first block, which defines the schema. The encoder requires a writer that is `Send`, so it writes to a
    /// buffer that is copied to the output after each call.
    encoder: Option<ArrowWriter<Vec<u8>>>,
}

impl ParquetWriter {
    /// Appends rows and writes the row groups that are complete.
    ///
    /// # Errors
    /// If the columns differ from those of the first block, or the error of `to`.
    pub fn append(&mut self, columns: Vec<(&str, ParquetColumn)>, to: &mut dyn Write) -> io::Result<()> {
        // All columns are nullable: a later block may contain nulls.
        let arrays = columns.into_iter().map(|(name, column)| (name, column.array(), true));
        let batch = RecordBatch::try_from_iter_with_nullable(arrays).map_err(io::Error::other)?;
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            None => self.encoder.insert(encoder(&batch).map_err(io::Error::other)?),
        };
        encoder.write(&batch).map_err(io::Error::other)?;
        flush_encoded(encoder, to)
    }

    /// Writes the last row group and the footer; nothing if there was no block.
    ///
    /// # Errors
    /// The error of `to`.
    pub fn finish(mut self, to: &mut dyn Write) -> io::Result<()> {
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        encoder.finish().map_err(io::Error::other)?;
        flush_encoded(encoder, to)
    }
}

fn encoder(batch: &RecordBatch) -> Result<ArrowWriter<Vec<u8>>, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP))
        .set_created_by(concat!("nuq ", env!("CARGO_PKG_VERSION")).to_owned());
    ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build()))
}

/// Writes the encoded bytes to the output.
fn flush_encoded(encoder: &mut ArrowWriter<Vec<u8>>, to: &mut dyn Write) -> io::Result<()> {
    to.write_all(&std::mem::take(encoder.inner_mut()))
}

impl ParquetColumn {
    fn array(self) -> ArrayRef {
        match self {
            Self::Integers(values) => Arc::new(Int64Array::from(values)),
            Self::Numbers(values) => Arc::new(Float64Array::from(values)),
            Self::Strings(values) => Arc::new(StringArray::from(values)),
            Self::Booleans(values) => Arc::new(BooleanArray::from(values)),
            Self::IntegerLists(rows) => {
                let mut lists = ListBuilder::new(Int64Builder::new());
                rows.into_iter().for_each(|row| lists.append_option(row.map(non_null)));
                Arc::new(lists.finish())
            }
            Self::NumberLists(rows) => {
                let mut lists = ListBuilder::new(Float64Builder::new());
                rows.into_iter().for_each(|row| lists.append_option(row.map(non_null)));
                Arc::new(lists.finish())
            }
            Self::StringLists(rows) => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                rows.into_iter().for_each(|row| lists.append_option(row.map(non_null)));
                Arc::new(lists.finish())
            }
            Self::BooleanLists(rows) => {
                let mut lists = ListBuilder::new(BooleanBuilder::new());
                rows.into_iter().for_each(|row| lists.append_option(row.map(non_null)));
                Arc::new(lists.finish())
            }
        }
    }
}

fn non_null<T>(values: Vec<T>) -> impl Iterator<Item = Option<T>> {
    values.into_iter().map(Some)
}
