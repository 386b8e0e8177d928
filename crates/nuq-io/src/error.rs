//! What can go wrong with a file.

use std::io;
use std::path::{Path, PathBuf};

use crate::ArraySpec;

/// Why a file could not be read or written. Every message names it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system would not read it.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system would not write it.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something else than a model.
    #[error("{} is not a nuq model: {problem}", path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
        /// How that shows.
        problem: String,
    },
    /// A model of a later nuq.
    #[error("{} has model format {found}, this nuq reads up to {known}: use a newer nuq", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// Bytes that are not what was written.
    #[error("{}: section `{section}` is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The section.
        section: String,
        /// What is wrong.
        problem: String,
    },
    /// An ending that says nothing.
    #[error("{}: embeddings and labels are read from .npy, .npz, .safetensors, .csv, .tsv and .parquet files", path.display())]
    UnknownEnding {
        /// The file.
        path: PathBuf,
    },
    /// A parquet file, where nuq was built without them.
    #[error(
        "{}: this nuq was built without parquet; build it with `--features parquet`, or save the arrays as .npz",
        path.display()
    )]
    WithoutParquet {
        /// The file.
        path: PathBuf,
    },
    /// Contents that are not what the ending says.
    #[error("{spec}: {problem}")]
    BadFile {
        /// The file and array.
        spec: ArraySpec,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// An array that the file does not hold, or none named where it holds several.
    #[error("{}", no_such_array(spec, present))]
    NoSuchArray {
        /// What was asked for.
        spec: ArraySpec,
        /// What there is.
        present: Vec<String>,
    },
    /// An array of the wrong shape.
    #[error("{spec} has {}; needed: {expected}", shape_in_words(shape))]
    Shape {
        /// The file and array.
        spec: ArraySpec,
        /// What it has.
        shape: Vec<usize>,
        /// What it should have.
        expected: &'static str,
    },
    /// A number that is no label.
    #[error("{spec}: the label of row {row} is {value}: labels are integers or strings")]
    BadLabel {
        /// The file and array.
        spec: ArraySpec,
        /// The row.
        row: usize,
        /// Its value.
        value: f64,
    },
    /// Values that embeddings cannot have.
    #[error("{spec}: {source}")]
    Array {
        /// The file and array.
        spec: ArraySpec,
        /// What is wrong with them.
        source: nuq::Error,
    },
    /// Values that logits of one of several members cannot have.
    #[error("{spec}, member {member}: {source}")]
    Member {
        /// The file and array.
        spec: ArraySpec,
        /// The member, counted from zero.
        member: usize,
        /// What is wrong with them.
        source: nuq::Error,
    },
    /// A model that its own numbers contradict.
    #[error("{}: {source}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What contradicts.
        source: nuq::Error,
    },
}

impl Error {
    /// Whether the system would not read or write, rather than the contents being at fault.
    pub fn is_about_the_system(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Write { .. })
    }

    /// A parquet file that is not what it should be.
    #[cfg(feature = "parquet")]
    pub(crate) fn damaged_parquet(spec: &ArraySpec, how: impl std::fmt::Display) -> Self {
        let problem = format!("it is cut short, damaged or not a parquet file ({how})");
        Self::BadFile { spec: spec.clone(), problem }
    }

    pub(crate) fn damaged(path: &Path, section: &str, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), section: section.to_owned(), problem: problem.into() }
    }
}

fn no_such_array(spec: &ArraySpec, present: &[String]) -> String {
    let file = spec.path.display();
    let list = present.join(", ");
    match &spec.name {
        _ if present.is_empty() => format!("{file} is empty: it holds no array"),
        Some(name) => format!("{file} holds no array `{name}`; there are: {list}"),
        None => format!("{file} holds several arrays; name one as {file}:NAME; there are: {list}"),
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
