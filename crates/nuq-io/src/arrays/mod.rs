//! Reads arrays: embeddings, labels, targets, and the logits of several ensemble members.
//!
//! | extension | content | how an array is named |
//! | --- | --- | --- |
//! | `.npy` | one numpy array | |
//! | `.npz` | several numpy arrays, compressed or not | `file.npz:name`, optional if there is only one |
//! | `.safetensors` | tensors | `file.safetensors:name`, optional if there is only one |
//! | `.csv`, `.tsv` | a table, with or without a header | `file.csv:column` for labels and targets; embeddings are all columns; `file.csv:-column,column` excludes columns |
//! | `.parquet` | a table of typed columns (feature `parquet`) | `file.parquet:column`; embeddings are the only column of lists; without such a column, they are all columns of numbers; `file.parquet:-column,column` selects all columns of numbers except these |
//!
//! Numbers may be `f16`, `bf16`, `f32`, `f64` or integers of any width, in C or Fortran order.
//!
//! The format is recognized by the contents ([`Format`]). The path `-` is standard input; after [`buffer_stdin`], several arrays can be
//! read from it. All formats may be compressed with gzip or, with the feature `zstd`, with zstd. npz, safetensors and parquet data that
//! are compressed or come from standard input or a pipe are copied to a temporary file, which can be read at any position.
//!
//! Arrays and parquet files are read in blocks of rows, so that files larger than memory can be scored. With
//! [`ReadOptions::in_blocks`], csv and tsv files are read in blocks too; otherwise they are read into memory completely (four bytes per
//! number). With any options, two kinds of input are read into memory completely: csv and tsv tables from standard input or a pipe, and
//! arrays in Fortran order that are compressed or come from standard input or a pipe, because each row of such an array is spread over
//! the whole stream.

#[cfg(feature = "parquet")]
mod arrow_values;
mod compression;
mod element;
mod format;
mod header;
mod images;
mod input;
mod kept;
mod mapped;
mod members;
mod npy;
mod npz;
mod options;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet_file;
#[cfg(feature = "parquet")]
mod parquet_footer;
#[cfg(feature = "parquet")]
mod parquet_kept;
#[cfg(feature = "parquet")]
mod parquet_pages;
#[cfg(feature = "parquet")]
mod parquet_rows;
#[cfg(feature = "parquet")]
mod parquet_schema;
mod python_literal;
mod records;
mod safetensors;
mod source;
mod spec;
mod stream;
mod table;
mod table_rows;
#[cfg(feature = "parquet")]
mod thrift;

pub use format::{Format, cell_separator};
pub use header::Header;
pub use images::{Images, read_images};
pub use input::{buffer_stdin, unnamed_file};
pub use kept::KeptColumn;
pub use mapped::{AllValues, MappedInput};
pub use members::read_members;
pub use npy::NpyHeader;
pub use npz::npz_names;
pub use options::ReadOptions;
pub use spec::{ArraySpec, join_names, split_names};

use nuq::nuq_neighbors::Error as IndexError;
use nuq::{Embeddings, Label};

use crate::{Error, Position};
use element::Element;
use input::Input;
use parquet_file::ParquetFile;
#[cfg(not(feature = "parquet"))]
use parquet_file::ParquetRows;
#[cfg(feature = "parquet")]
use parquet_rows::ParquetRows;
use source::Source;
use table::Table;
use table_rows::TableRows;

/// An array of numbers or strings whose type and shape are known. Its values are read later from `source`.
pub(crate) struct StoredArray {
    pub(crate) source: Source,
    pub(crate) element: Element,
    pub(crate) shape: Vec<usize>,
    /// Whether the values are in column-major order.
    pub(crate) is_fortran: bool,
}

/// Embeddings in a file, read in blocks of rows.
///
/// ```
/// use nuq_io::EmbeddingsFile;
/// let path = std::env::temp_dir().join(format!("nuq-example-{}.csv", std::process::id()));
/// std::fs::write(&path, "x,y\n0,1\n2,3\n4,5\n")?;
/// let mut file = EmbeddingsFile::open(&path.to_string_lossy().parse()?)?;
/// assert_eq!((file.len(), file.dim()), (3, 2));
/// assert_eq!(file.values(1..3)?, [2.0, 3.0, 4.0, 5.0]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EmbeddingsFile {
    spec: ArraySpec,
    rows: usize,
    dim: usize,
    column_names: Option<Vec<String>>,
    source: RowSource,
}

enum RowSource {
    Stored(StoredArray),
    Table(Box<TableRows>),
    Parquet(Box<ParquetRows>),
}

impl EmbeddingsFile {
    /// Opens an array of rows × columns, or a table whose columns are all coordinates.
    ///
    /// # Errors
    /// If the file cannot be read, is not supported, or does not hold a two-dimensional array of numbers.
    pub fn open(spec: &ArraySpec) -> Result<Self, Error> {
        Self::open_excluding(spec, &[])
    }

    /// Opens embeddings. Those of `others` (labels, targets) that are columns of the same table are not coordinates.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    ///
    /// ```
    /// use nuq_io::{ArraySpec, EmbeddingsFile};
    /// let path = std::env::temp_dir().join(format!("nuq-excluding-{}.csv", std::process::id()));
    /// std::fs::write(&path, "x,y,class\n0,1,cat\n2,3,dog\n")?;
    /// let table = ArraySpec { path, name: None };
    /// let labels = ArraySpec { name: Some("class".to_owned()), ..table.clone() };
    /// assert_eq!(EmbeddingsFile::open_excluding(&table, &[&labels])?.dim(), 2);
    /// # std::fs::remove_file(&table.path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_excluding(spec: &ArraySpec, others: &[&ArraySpec]) -> Result<Self, Error> {
        Self::open_with(ReadOptions::new(), spec, others, &[])
    }

    fn open_with(
        options: ReadOptions,
        spec: &ArraySpec,
        others: &[&ArraySpec],
        kept: &[String],
    ) -> Result<Self, Error> {
        let columns =
            others.iter().filter(|other| other.is_same_file(spec)).filter_map(|other| other.name.clone());
        let excluded = spec.excluded_columns().unwrap_or_default();
        let without: Vec<String> = columns.chain(excluded).chain(kept.iter().cloned()).collect();
        let (rows, dim, names, source) = match open(spec, &without, options, Contents::Rows)? {
            ArrayFile::Stored(stored) => {
                if let Some(name) = kept.first() {
                    return Err(kept::no_columns(spec, name));
                }
                (stored.shape[0], stored.shape[1], None, RowSource::Stored(stored))
            }
            ArrayFile::Parquet(file) => {
                options.check_rows(spec, file.len())?;
                let rows = file.embeddings(spec, &without, kept)?;
                (rows.len(), rows.dim(), rows.column_names(), RowSource::Parquet(Box::new(rows)))
            }
            ArrayFile::Table(table) => {
                if let (Some(name), None) = (&spec.name, spec.excluded_columns()) {
                    let problem = format!(
                        "`:{name}` cannot select the coordinates, which are all columns of a table: remove `:{name}`, or exclude the \
                         other columns as {}:-NAME,NAME",
                        spec.path.display()
                    );
                    return Err(Error::BadFile { spec: spec.clone(), problem });
                }
                let mut rows = table.numbers(&without, kept, options)?;
                (rows.len(), rows.dim(), rows.column_names.take(), RowSource::Table(Box::new(rows)))
            }
        };
        options.check_columns(spec, dim)?;
        options.check_rows(spec, rows)?;
        // The names 0, 1, 2, … count as no names: pandas writes them for columns without names.
        let are_numbers =
            |names: &Vec<String>| names.iter().enumerate().all(|(i, name)| *name == i.to_string());
        let column_names = names.filter(|names| !are_numbers(names));
        Ok(Self { spec: spec.clone(), rows, dim, column_names, source })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The number of columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The names of the columns; `None` for arrays and for tables whose columns are not named, or named 0, 1, 2, ….
    pub fn column_names(&self) -> Option<&[String]> {
        self.column_names.as_deref()
    }

    /// The file and array.
    pub fn spec(&self) -> &ArraySpec {
        &self.spec
    }

    /// Reads some of the rows in row-major order. Values may be NaN or infinite.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or holds a finite value that overflows `f32`.
    pub fn values(&mut self, rows: std::ops::Range<usize>) -> Result<Vec<f32>, Error> {
        match &mut self.source {
            RowSource::Table(table) => table.values(rows),
            RowSource::Stored(stored) => stored.rows(&self.spec, rows),
            RowSource::Parquet(file) => file.values(&self.spec, rows),
        }
    }

    /// Reads some rows of the kept columns, in the order of their names in [`ReadOptions::embeddings_keeping`].
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn kept(&mut self, rows: std::ops::Range<usize>) -> Result<Vec<KeptColumn>, Error> {
        match &mut self.source {
            RowSource::Table(table) => table.kept(rows),
            RowSource::Stored(_) => Ok(vec![]),
            RowSource::Parquet(file) => file.kept(&self.spec, rows),
        }
    }

    /// Reads all rows.
    ///
    /// # Errors
    /// The errors of [`values`](Self::values), and an error if a value is not finite.
    pub fn read(self) -> Result<Embeddings<'static>, Error> {
        let (spec, dim) = (self.spec.clone(), self.dim);
        Embeddings::new(self.into_values()?, dim)
            .map_err(|source| Error::Array { spec, source: Box::new(source.into()) })
    }

    /// Reads all rows in row-major order, as [`values`](Self::values) does. This needs only the memory of the values
    /// and of one block of the file.
    ///
    /// # Errors
    /// The errors of [`values`](Self::values).
    pub fn into_values(mut self) -> Result<Vec<f32>, Error> {
        match self.source {
            RowSource::Table(table) => table.into_values(),
            _ => self.values(0..self.rows),
        }
    }
}

fn names_with(options: ReadOptions, spec: &ArraySpec) -> Vec<String> {
    match open(&ArraySpec { name: None, ..spec.clone() }, &[], options, Contents::Rows) {
        Ok(ArrayFile::Table(table)) => table.names(),
        Ok(ArrayFile::Parquet(file)) => file.names(),
        Err(Error::NoSuchArray { present, .. }) => present,
        Ok(ArrayFile::Stored(_)) | Err(_) => vec![],
    }
}

/// Reads labels, one per row: booleans, integers or strings.
///
/// # Errors
/// If the file cannot be read, or does not hold one label per row.
pub fn read_labels(spec: &ArraySpec) -> Result<Vec<Label>, Error> {
    read_labels_with(ReadOptions::new(), spec)
}

fn read_labels_with(options: ReadOptions, spec: &ArraySpec) -> Result<Vec<Label>, Error> {
    let labels = match open(spec, spec.name.as_slice(), options, Contents::Labels)? {
        ArrayFile::Table(table) => return table.labels(options),
        ArrayFile::Parquet(file) => {
            options.check_rows(spec, file.len())?;
            file.labels(spec)?
        }
        ArrayFile::Stored(mut stored) => {
            options.check_rows(spec, stored.len())?;
            stored.labels(spec)?
        }
    };
    options.check_rows(spec, labels.len())?;
    match labels.iter().position(Label::is_missing) {
        None => Ok(labels),
        Some(row) => {
            let (at, value) = (Position::Row(row), labels[row].to_string());
            Err(Error::MissingLabel { spec: spec.clone(), at, value })
        }
    }
}

/// Reads targets, one number per row.
///
/// # Errors
/// If the file cannot be read, or does not hold one number per row.
pub fn read_targets(spec: &ArraySpec) -> Result<Vec<f64>, Error> {
    read_targets_with(ReadOptions::new(), spec)
}

fn read_targets_with(options: ReadOptions, spec: &ArraySpec) -> Result<Vec<f64>, Error> {
    match open(spec, spec.name.as_slice(), options, Contents::Targets)? {
        ArrayFile::Table(table) => {
            let targets = table.targets(options)?;
            options.check_rows(spec, targets.len())?;
            Ok(targets)
        }
        ArrayFile::Parquet(file) => {
            options.check_rows(spec, file.len())?;
            file.targets(spec)
        }
        ArrayFile::Stored(mut stored) => {
            options.check_rows(spec, stored.len())?;
            let bytes = stored.source.read(spec, 0, stored.len() * stored.element.size())?;
            Ok(stored.element.f64s(&bytes))
        }
    }
}

enum ArrayFile<'s> {
    Stored(StoredArray),
    Table(Box<Table<'s>>),
    Parquet(ParquetFile),
}

/// Purpose of an array. It determines which types and shapes are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    Rows,
    Labels,
    Targets,
    Members,
    Images,
}

impl Contents {
    /// Checks type and shape of an array, before memory is allocated for its values.
    pub(crate) fn check(self, spec: &ArraySpec, element: Element, shape: &[usize]) -> Result<(), Error> {
        if self != Self::Labels {
            element.check_number(spec)?;
        }
        let (is_valid, expected) = match self {
            Self::Rows => (matches!(shape, [_, (1..)]), "rows × columns"),
            Self::Labels | Self::Targets => (matches!(shape, [_] | [_, 1] | [1, _]), "one entry per row"),
            Self::Members => (matches!(shape, [(1..), (1..), (1..)]), members::SHAPE),
            Self::Images => {
                (matches!(shape, [_, (1..), (1..)] | [_, (1..), (1..), 1 | 3 | 4]), images::SHAPE)
            }
        };
        if is_valid {
            Ok(())
        } else {
            Err(Error::Shape { spec: spec.clone(), shape: shape.to_vec(), expected })
        }
    }
}

/// Opens an input. `names` are columns that a table must have if its first line is a header. The type and shape of a stored array
/// are checked.
fn open<'s>(
    spec: &'s ArraySpec,
    names: &[String],
    options: ReadOptions,
    contents: Contents,
) -> Result<ArrayFile<'s>, Error> {
    let input = Input::open(spec)?;
    let format = Format::of(spec, &input.start, options.format)?;
    let mut stored = match format {
        Format::Csv | Format::Tsv => {
            let delimiter = if format == Format::Csv { b',' } else { b'\t' };
            let table = Table::open(spec, input, delimiter, names, options.header)?;
            return Ok(ArrayFile::Table(Box::new(table)));
        }
        Format::Parquet => {
            return ParquetFile::open(spec, input.into_file(spec)?).map(ArrayFile::Parquet);
        }
        Format::Npy => npy::open(spec, input)?,
        Format::Npz => npz::open(spec, input.into_file(spec)?)?,
        Format::Safetensors => safetensors::open(spec, input.into_file(spec)?)?,
    };
    contents.check(spec, stored.element, &stored.shape)?;
    if let (Contents::Rows, [rows, columns]) | (Contents::Members, [_, rows, columns]) =
        (contents, &stored.shape[..])
    {
        options.check_columns(spec, *columns)?;
        options.check_rows(spec, *rows)?;
    }
    // The rows of an array in column order are spread over all of its bytes. Before memory is allocated for them, the bytes of a stream are
    // read, because the size in the header of a stream may be wrong.
    if matches!(contents, Contents::Rows | Contents::Members) && stored.is_fortran {
        stored.unpack(spec)?;
    }
    Ok(ArrayFile::Stored(stored))
}

/// Number of bytes of an array that are read and converted at a time. With small blocks, reading all rows needs no second copy
/// of the rows.
const BLOCK_BYTES: usize = 4 << 20;

impl StoredArray {
    /// The number of entries.
    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Reads a stream into memory.
    fn unpack(&mut self, spec: &ArraySpec) -> Result<(), Error> {
        if let Source::Stream(_) = self.source {
            let bytes = self.source.read(spec, 0, self.len() * self.element.size())?.into_owned();
            self.source = Source::Memory(bytes);
        }
        Ok(())
    }

    fn rows(&mut self, spec: &ArraySpec, rows: std::ops::Range<usize>) -> Result<Vec<f32>, Error> {
        let (all, dim, size) = (self.shape[0], self.shape[1], self.element.size());
        self.source.verify_length(spec, all * dim * size)?;
        if rows.is_empty() {
            // An array without rows can have any number of columns, because they take no bytes of the file.
            return Ok(vec![]);
        }
        let mut overflow = None;
        let mut values = vec![];
        if self.is_fortran {
            values.resize(rows.len() * dim, 0f32);
            for column in 0..dim {
                let bytes = self.source.read(spec, (column * all + rows.start) * size, rows.len() * size)?;
                for (row, value) in self.element.f32s(&bytes).into_iter().enumerate() {
                    values[row * dim + column] = value;
                }
                let at = self.element.first_overflow(&bytes);
                overflow = overflow.or(at.map(|(row, value)| (row, column, value)));
            }
        } else {
            let per_block = (BLOCK_BYTES / (dim * size)).max(1);
            if !matches!(self.source, Source::Stream(_)) {
                // The length was verified above. The length of a stream may be wrong, so the memory for its values
                // grows with the data.
                values.try_reserve_exact(rows.len() * dim).map_err(|_| source::out_of_memory(spec))?;
            }
            for first in rows.clone().step_by(per_block) {
                let count = per_block.min(rows.end - first);
                let bytes = self.source.read(spec, first * dim * size, count * dim * size)?;
                values.try_reserve(count * dim).map_err(|_| source::out_of_memory(spec))?;
                values.extend(self.element.f32s(&bytes));
                let at = self.element.first_overflow(&bytes);
                overflow = at.map(|(at, value)| (first - rows.start + at / dim, at % dim, value));
                if overflow.is_some() {
                    break;
                }
            }
        }
        match overflow {
            None => Ok(values),
            Some((row, column, value)) => {
                let source = IndexError::OutOfRange { row: rows.start + row, column, value };
                Err(Error::Array { spec: spec.clone(), source: Box::new(source.into()) })
            }
        }
    }

    fn labels(&mut self, spec: &ArraySpec) -> Result<Vec<Label>, Error> {
        let len = self.len();
        let bytes = self.source.read(spec, 0, len * self.element.size())?;
        let labels = self.element.labels(&bytes).map_err(|row| match self.element {
            Element::Unicode(_) => Error::bad_code_point(spec, row),
            _ => Error::bad_text(spec, row),
        })?;
        if let Some(labels) = labels {
            return Ok(labels);
        }
        // Integers stored as floats.
        let (values, limit) = (self.element.f64s(&bytes), self.element.largest_label());
        match values.iter().position(|v| v.fract() != 0.0 || v.abs() > limit) {
            None => Ok(values.iter().map(|&v| Label::Int(v as i128)).collect()),
            Some(row) => Err(Error::bad_label(spec, row, values[row])),
        }
    }
}
