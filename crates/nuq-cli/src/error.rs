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
    /// A baseline or a metric rejected its input.
    #[error(transparent)]
    Evaluation(#[from] nuq_eval::Error),
    /// A figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] nuq_report::Error),
    /// An input or model file.
    #[error(transparent)]
    File(#[from] nuq_io::Error),
    /// Options that do not go together, or not with the data.
    #[error("{0}")]
    Usage(String),
    /// Rows that cannot be scored.
    #[error("{0}")]
    Data(String),
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
            Error::Model(_) | Error::Evaluation(_) | Error::Figure(_) | Error::Data(_) => ExitCode::from(1),
            Error::File(error) if error.is_io() => ExitCode::from(3),
            Error::File(_) => ExitCode::from(1),
            Error::Usage(_) => ExitCode::from(2),
            Error::Write { .. } => ExitCode::from(3),
        }
    }
}

impl From<nuq_neighbors::Error> for Error {
    fn from(error: nuq_neighbors::Error) -> Self {
        Error::Model(error.into())
    }
}
