//! Arrays in files: embeddings to fit and score, labels and targets beside them, logits of several members.
//!
//! | ending | what | which array |
//! | --- | --- | --- |
//! | `.npy` | one numpy array | |
//! | `.npz` | several, stored or compressed | `file.npz:name`, unless there is one |
//! | `.safetensors` | tensors | `file.safetensors:name`, unless there is one |
//! | `.csv`, `.tsv` | a table, with or without a header | `file.csv:column` for labels and targets; embeddings are all columns, or all but some as `file.csv:-column,column` |
//! | `.parquet` | a table of typed columns (feature `parquet`) | `file.parquet:column`; embeddings are the one column of lists, else all columns of numbers, or all but some as in a csv file |
//!
//! Numbers may be `f16`, `bf16`, `f32`, `f64` or integers of any width, in C or Fortran order. Numeric files are read in
//! blocks of rows, so that what is larger than memory can be scored.

#[cfg(feature = "parquet")]
mod arrow_values;
mod element;
mod members;
mod npy;
mod npz;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet_file;
#[cfg(feature = "parquet")]
mod parquet_rows;
mod safetensors;
mod source;
mod spec;
mod table;

pub use members::read_members;
pub use npz::npz_names;
pub use spec::ArraySpec;

use nuq::nuq_neighbors::Error as IndexError;
use nuq::{Embeddings, Label};

use crate::Error;
use element::Element;
use parquet_file::ParquetFile;
#[cfg(not(feature = "parquet"))]
use parquet_file::ParquetRows;
#[cfg(feature = "parquet")]
use parquet_rows::ParquetRows;
use source::Source;
use table::Table;

/// An array of numbers or strings in a file, its values not yet read.
pub(crate) struct Stored {
    pub(crate) source: Source,
    pub(crate) element: Element,
    pub(crate) shape: Vec<usize>,
    /// Columns lie one after the other instead of rows.
    pub(crate) is_fortran: bool,
}

/// Embeddings in a file, read block by block.
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
    kept: Kept,
}

enum Kept {
    Stored(Stored),
    Table(Vec<f32>),
    Parquet(Box<ParquetRows>),
}

impl EmbeddingsFile {
    /// Opens a file of rows; an array of more than two dimensions is refused, one of a single dimension too.
    pub fn open(spec: &ArraySpec) -> Result<Self, Error> {
        Self::open_beside(spec, &[])
    }

    /// The same, where labels or targets may be columns of the same table: those are no coordinates.
    ///
    /// ```
    /// use nuq_io::{ArraySpec, EmbeddingsFile};
    /// let path = std::env::temp_dir().join(format!("nuq-beside-{}.csv", std::process::id()));
    /// std::fs::write(&path, "x,y,class\n0,1,cat\n2,3,dog\n")?;
    /// let table = ArraySpec { path, name: None };
    /// let labels = ArraySpec { name: Some("class".to_owned()), ..table.clone() };
    /// assert_eq!(EmbeddingsFile::open_beside(&table, &[&labels])?.dim(), 2);
    /// # std::fs::remove_file(&table.path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_beside(spec: &ArraySpec, others: &[&ArraySpec]) -> Result<Self, Error> {
        let columns =
            others.iter().filter(|other| other.is_beside(spec)).filter_map(|other| other.name.clone());
        let without: Vec<String> = columns.chain(spec.left_out().unwrap_or_default()).collect();
        let (rows, dim, kept) = match open(spec, &without)? {
            Opened::Stored(stored) => {
                stored.element.check_number(spec)?;
                match stored.shape[..] {
                    [rows, dim] if dim > 0 => (rows, dim, Kept::Stored(stored)),
                    _ => {
                        let (shape, expected) = (stored.shape, "rows × columns");
                        return Err(Error::Shape { spec: spec.clone(), shape, expected });
                    }
                }
            }
            Opened::Parquet(file) => {
                let rows = file.embeddings(spec, &without)?;
                (rows.len(), rows.dim(), Kept::Parquet(Box::new(rows)))
            }
            Opened::Table(table) => {
                if let (Some(name), None) = (&spec.name, spec.left_out()) {
                    let problem = format!(
                        "embeddings are all columns of a table: leave `:{name}` off, or name columns to leave out as `:-{name}`"
                    );
                    return Err(Error::BadFile { spec: spec.clone(), problem });
                }
                let (values, dim) = table.numbers(spec, &without)?;
                (values.len() / dim.max(1), dim, Kept::Table(values))
            }
        };
        Ok(Self { spec: spec.clone(), rows, dim, kept })
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

    /// Where the rows come from.
    pub fn spec(&self) -> &ArraySpec {
        &self.spec
    }

    /// Some of the rows, row after row, as they are: what is not finite too.
    pub fn values(&mut self, rows: std::ops::Range<usize>) -> Result<Vec<f32>, Error> {
        match &mut self.kept {
            Kept::Table(values) => Ok(values[rows.start * self.dim..rows.end * self.dim].to_vec()),
            Kept::Stored(stored) => stored.rows(&self.spec, rows),
            Kept::Parquet(file) => file.values(&self.spec, rows),
        }
    }

    /// All rows, every value finite.
    pub fn read(mut self) -> Result<Embeddings<'static>, Error> {
        let values = self.values(0..self.rows)?;
        Embeddings::new(values, self.dim)
            .map_err(|source| Error::Array { spec: self.spec, source: source.into() })
    }
}

/// Labels in a file, one per row: integers or strings.
pub fn read_labels(spec: &ArraySpec) -> Result<Vec<Label>, Error> {
    match open(spec, spec.name.as_slice())? {
        Opened::Table(table) => table.labels(spec),
        Opened::Parquet(file) => file.labels(spec),
        Opened::Stored(mut stored) => {
            let len = stored.single_column(spec)?;
            stored.labels(spec, len)
        }
    }
}

/// Targets in a file, one per row: numbers.
pub fn read_targets(spec: &ArraySpec) -> Result<Vec<f64>, Error> {
    match open(spec, spec.name.as_slice())? {
        Opened::Table(table) => table.targets(spec),
        Opened::Parquet(file) => file.targets(spec),
        Opened::Stored(mut stored) => {
            stored.element.check_number(spec)?;
            let len = stored.single_column(spec)?;
            let bytes = stored.source.read(spec, 0, len * stored.element.size())?;
            Ok(stored.element.f64s(&bytes))
        }
    }
}

enum Opened {
    Stored(Stored),
    Table(Table),
    Parquet(ParquetFile),
}

/// The ending of a file, in small letters.
fn ending(spec: &ArraySpec) -> Option<String> {
    spec.path.extension().map(|ending| ending.to_string_lossy().to_lowercase())
}

/// Opens a file by its ending; `names` are columns of a table that something was said about.
fn open(spec: &ArraySpec, names: &[String]) -> Result<Opened, Error> {
    match ending(spec).as_deref() {
        Some("npy") => npy::open(spec).map(Opened::Stored),
        Some("npz") => npz::open(spec).map(Opened::Stored),
        Some("parquet") => ParquetFile::open(spec).map(Opened::Parquet),
        Some("safetensors") => safetensors::open(spec).map(Opened::Stored),
        Some("csv") => Table::open(spec, b',', names).map(Opened::Table),
        Some("tsv") => Table::open(spec, b'\t', names).map(Opened::Table),
        _ if spec.path.is_dir() => {
            let source =
                std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder: name a file in it");
            Err(Error::Read { path: spec.path.clone(), source })
        }
        _ => Err(Error::UnknownEnding { path: spec.path.clone() }),
    }
}

impl Stored {
    /// The number of entries of an array that is one column.
    fn single_column(&self, spec: &ArraySpec) -> Result<usize, Error> {
        match self.shape[..] {
            [len] | [len, 1] | [1, len] => Ok(len),
            _ => {
                let (shape, expected) = (self.shape.clone(), "one entry per row");
                Err(Error::Shape { spec: spec.clone(), shape, expected })
            }
        }
    }

    fn rows(&mut self, spec: &ArraySpec, rows: std::ops::Range<usize>) -> Result<Vec<f32>, Error> {
        let (all, dim, size) = (self.shape[0], self.shape[1], self.element.size());
        self.source.check(spec, all * dim * size)?;
        let mut beyond = None;
        let mut values = vec![];
        if self.is_fortran {
            values.resize(rows.len() * dim, 0f32);
            for column in 0..dim {
                let bytes = self.source.read(spec, (column * all + rows.start) * size, rows.len() * size)?;
                for (row, value) in self.element.f32s(&bytes).into_iter().enumerate() {
                    values[row * dim + column] = value;
                }
                let at = self.element.beyond_f32(&bytes);
                beyond = beyond.or(at.map(|(row, value)| (row, column, value)));
            }
        } else {
            let bytes = self.source.read(spec, rows.start * dim * size, rows.len() * dim * size)?;
            values = self.element.f32s(&bytes);
            beyond = self.element.beyond_f32(&bytes).map(|(at, value)| (at / dim, at % dim, value));
        }
        match beyond {
            None => Ok(values),
            Some((row, column, value)) => {
                let source = IndexError::OutOfRange { row: rows.start + row, column, value };
                Err(Error::Array { spec: spec.clone(), source: source.into() })
            }
        }
    }

    fn labels(&mut self, spec: &ArraySpec, len: usize) -> Result<Vec<Label>, Error> {
        let bytes = self.source.read(spec, 0, len * self.element.size())?;
        if let Some(labels) = self.element.labels(&bytes) {
            return Ok(labels);
        }
        // Integers that something stored as floats.
        let values = self.element.f64s(&bytes);
        match values.iter().position(|v| v.fract() != 0.0 || v.abs() > 9e15) {
            None => Ok(values.iter().map(|&v| Label::Int(v as i128)).collect()),
            Some(row) => Err(Error::BadLabel { spec: spec.clone(), row, value: values[row] }),
        }
    }
}
