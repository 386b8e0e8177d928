//! What can go wrong with a file.

use std::io;
use std::path::{Path, PathBuf};

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
    pub(crate) fn damaged(path: &Path, section: &str, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), section: section.to_owned(), problem: problem.into() }
    }
}
