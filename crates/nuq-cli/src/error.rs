//! What can go wrong on the command line, and the exit code that says so.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The data were refused.
    #[error(transparent)]
    Model(#[from] nuq::Error),
    /// A figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] nuq_report::Error),
    /// A file or folder could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// One code per kind; documented in `nuq --help`.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Error::Model(_) => ExitCode::from(1),
            Error::Figure(_) => ExitCode::from(1),
            Error::Write { .. } => ExitCode::from(3),
        }
    }
}

impl From<nuq_neighbors::Error> for Error {
    fn from(error: nuq_neighbors::Error) -> Self {
        Error::Model(error.into())
    }
}
