//! Errors of reading and writing files.

use std::io;
use std::path::{Path, PathBuf};

use crate::ArraySpec;

/// An error of reading or writing a file. Every message names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error while reading.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system reported an error while writing.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The model file was replaced by another process while this process was changing it.
    #[error("{}: another process has replaced the model in the meantime; nothing is stored, run the command again", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a nuq model.
    #[error("{} is not a nuq model: {problem}", path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
        /// What distinguishes it from a model.
        problem: String,
    },
    /// The model has a format version that is newer than this library.
    #[error("{} has model format {found}, this nuq reads up to {known}: use a newer nuq", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Format version of the file.
        found: u32,
        /// Newest format version that this library reads.
        known: u32,
    },
    /// The file holds another kind of object than the one to be opened.
    #[error("{} holds {found}, not {expected}", path.display())]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// What the file holds.
        found: String,
        /// What was to be opened.
        expected: &'static str,
    },
    /// A scorer that is not a method of `nuq-eval`, and has no representation in a file.
    #[error("cannot write {}: {scorer} is not a method of nuq", path.display())]
    UnknownScorer {
        /// The file.
        path: PathBuf,
        /// The name of the scorer.
        scorer: String,
    },
    /// A section of a model file is damaged.
    #[error("{}: section `{section}` is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Name of the section.
        section: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The format is not supported.
    #[error(
        "{}: neither its contents nor its name are those of npy, npz, safetensors, csv, tsv and parquet files; to read a table with \
         another extension, use --format csv or --format tsv",
        path.display()
    )]
    UnknownEnding {
        /// The file.
        path: PathBuf,
    },
    /// A parquet file, but the feature `parquet` is disabled.
    #[error(
        "{}: this nuq was built without parquet; build it with `--features parquet`, or save the arrays as .npz",
        path.display()
    )]
    WithoutParquet {
        /// The file.
        path: PathBuf,
    },
    /// Data compressed with zstd, but the feature `zstd` is disabled.
    #[error(
        "{}: this nuq was built without zstd; build it with `--features zstd`, or compress with gzip",
        path.display()
    )]
    WithoutZstd {
        /// The file.
        path: PathBuf,
    },
    /// The contents are damaged, not valid or not supported, or do not match the file extension or the options.
    #[error("{spec}: {problem}")]
    BadFile {
        /// The file and array.
        spec: ArraySpec,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The file has no array of the given name, or has several arrays and no name was given.
    #[error("{}", no_such_array(spec, present))]
    NoSuchArray {
        /// The requested file and array.
        spec: ArraySpec,
        /// Names of the arrays in the file.
        present: Vec<String>,
    },
    /// The table has no column of the given name, or has several columns and no name was given.
    #[error("{}", no_such_column(spec, present))]
    NoSuchColumn {
        /// The requested file and column.
        spec: ArraySpec,
        /// Names of the columns.
        present: Vec<String>,
    },
    /// The array has the wrong shape.
    #[error("{spec} has {}; needed: {expected}", shape_in_words(shape))]
    Shape {
        /// The file and array.
        spec: ArraySpec,
        /// Shape of the array.
        shape: Vec<usize>,
        /// Description of the expected shape.
        expected: &'static str,
    },
    /// The array has another number of rows than expected.
    #[error("{spec} has {}; needed: {expected}", row_count(*got, *expected))]
    RowCount {
        /// The file and array.
        spec: ArraySpec,
        /// Number of rows; `None` if there are more than expected and reading stopped there.
        got: Option<usize>,
        /// Expected number of rows.
        expected: usize,
    },
    /// The array has another number of columns than expected.
    #[error("{spec} has {got} column{}; needed: {expected}", if *got == 1 { "" } else { "s" })]
    ColumnCount {
        /// The file and array.
        spec: ArraySpec,
        /// Number of columns.
        got: usize,
        /// Expected number of columns.
        expected: usize,
    },
    /// A label is a number that is not an integer, or a float so large that it may be a rounded integer.
    #[error("{spec}: the label of row {row} is {}", not_a_label(*value))]
    BadLabel {
        /// The file and array.
        spec: ArraySpec,
        /// Row of the label, counted from zero.
        row: usize,
        /// Value of the label.
        value: f64,
    },
    /// A row has no label.
    #[error("{spec}: the label of {at} is missing{}", missing_label(value))]
    MissingLabel {
        /// The file and array.
        spec: ArraySpec,
        /// The position of the label.
        at: Position,
        /// The text that the file holds in place of a label; empty if it holds no text.
        value: String,
    },
    /// The values are not valid embeddings.
    #[error("{spec}: {source}")]
    Array {
        /// The file and array.
        spec: ArraySpec,
        /// The invalid value.
        source: Box<nuq::Error>,
    },
    /// The logits of one ensemble member are not valid.
    #[error("{spec}, member {member}: {source}")]
    Member {
        /// The file and array.
        spec: ArraySpec,
        /// The ensemble member, counted from zero.
        member: usize,
        /// The invalid value.
        source: Box<nuq::Error>,
    },
    /// The values of a model contradict each other.
    #[error("{}: {source}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        source: nuq::Error,
    },
}

/// The position of a value in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// A row of an array or of a parquet file, counted from zero.
    Row(usize),
    /// A line of a text file, counted from one.
    Line(u64),
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Row(row) => write!(f, "row {row}"),
            Self::Line(line) => write!(f, "line {line}"),
        }
    }
}

impl Error {
    /// Whether reading or writing failed, or another process replaced the file, as opposed to invalid contents.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Write { .. } | Self::Replaced { .. })
    }

    /// The error of a damaged parquet file.
    #[cfg(feature = "parquet")]
    pub(crate) fn damaged_parquet(spec: &ArraySpec, how: impl std::fmt::Display) -> Self {
        let problem = format!("it is truncated, damaged or not a parquet file ({how})");
        Self::BadFile { spec: spec.clone(), problem }
    }

    /// The error of a float label that is not an integer, or is so large that it may be a rounded integer. NaN is a missing label.
    pub(crate) fn bad_label(spec: &ArraySpec, row: usize, value: f64) -> Self {
        match value.is_nan() {
            true => Self::MissingLabel { spec: spec.clone(), at: Position::Row(row), value: String::new() },
            false => Self::BadLabel { spec: spec.clone(), row, value },
        }
    }

    /// The error of a label whose bytes are not valid text.
    pub(crate) fn bad_text(spec: &ArraySpec, row: usize) -> Self {
        let problem = format!("the label of row {row} is not valid UTF-8: re-encode the labels as UTF-8");
        Self::BadFile { spec: spec.clone(), problem }
    }

    /// The error of a label in UTF-32 with an invalid code point.
    pub(crate) fn bad_code_point(spec: &ArraySpec, row: usize) -> Self {
        let problem = format!(
            "the label of row {row} holds a code point that is not a Unicode character, for example half of a surrogate pair: \
             replace it and save the labels again"
        );
        Self::BadFile { spec: spec.clone(), problem }
    }

    pub(crate) fn damaged(path: &Path, section: &str, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), section: section.to_owned(), problem: problem.into() }
    }
}

fn no_such_array(spec: &ArraySpec, present: &[String]) -> String {
    let (file, path) = (spec.file_name(), spec.path.display());
    let list = present.join(", ");
    match &spec.name {
        _ if present.is_empty() => format!("{file} is empty: it holds no array"),
        Some(name) => format!("{file} holds no array `{name}`; there are: {list}"),
        None => format!("{file} holds several arrays; name one as {path}:NAME; there are: {list}"),
    }
}

fn no_such_column(spec: &ArraySpec, present: &[String]) -> String {
    let (file, path) = (spec.file_name(), spec.path.display());
    let list = present.join(", ");
    match &spec.name {
        _ if present.is_empty() => format!("{file} is empty: it has no column"),
        Some(name) => format!("{file} has no column `{name}`; there are: {list}"),
        None => format!("{file} has several columns; name one as {path}:NAME; there are: {list}"),
    }
}

fn not_a_label(value: f64) -> String {
    if value.fract() == 0.0 {
        format!(
            "the float {value}: floats of this type and size do not represent every integer, so labels may have been rounded; give integers or strings"
        )
    } else {
        format!("{value}, not an integer: give integers or strings, or use --targets for numbers")
    }
}

fn missing_label(value: &str) -> String {
    match value {
        "" => ": remove the row".to_owned(),
        value => format!(" (`{value}`): remove the row; if `{value}` is a class, rename it"),
    }
}

fn row_count(got: Option<usize>, expected: usize) -> String {
    match got {
        None => format!("more than {expected} rows"),
        Some(1) => "1 row".to_owned(),
        Some(got) => format!("{got} rows"),
    }
}

fn shape_in_words(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    match &sizes[..] {
        [] => "a single number".to_owned(),
        [only] => format!("one dimension of {only}"),
        sizes => format!("the shape {}", sizes.join(" × ")),
    }
}
