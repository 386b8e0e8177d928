//! Errors of the commands, and their exit codes.

use std::io;
use std::path::PathBuf;

/// The exit code of files that cannot be read or written.
pub(crate) const IO: u8 = 3;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The model rejected its input.
    #[error(transparent)]
    Model(#[from] nuq::Error),
    /// A baseline or a metric rejected its input.
    #[error(transparent)]
    Evaluation(#[from] nuq_eval::Error),
    /// A figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] nuq_report::Error),
    /// An input or model file could not be read or written, or is invalid.
    #[error(transparent)]
    File(#[from] nuq_io::Error),
    /// The server could not start.
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Server(#[from] nuq_server::Error),
    /// Options that contradict each other or the data, and values that are invalid for the command.
    #[error("{0}")]
    Usage(String),
    /// Data that the command cannot use.
    #[error("{0}")]
    Data(String),
    /// A file or folder could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The system cannot start the threads of the search.
    #[error(
        "cannot start threads ({0}): use fewer with --threads, or raise the limits of memory and processes"
    )]
    Threads(rayon::ThreadPoolBuildError),
    /// The reader of standard output ended, as in `nuq … | head`. No message is printed.
    #[error("standard output was closed")]
    ClosedPipe,
}

impl Error {
    /// The exit code, as documented in `nuq --help`.
    pub(crate) fn exit_code(&self) -> u8 {
        use nuq_neighbors::Error::FileChanged;
        match self {
            Error::Model(nuq::Error::Neighbors(FileChanged { .. }))
            | Error::Evaluation(nuq_eval::Error::Model(nuq::Error::Neighbors(FileChanged { .. }))) => IO,
            Error::Model(_) | Error::Evaluation(_) | Error::Figure(_) | Error::Data(_) => 1,
            Error::File(error) if error.is_io() => IO,
            Error::File(_) => 1,
            Error::Usage(_) => 2,
            Error::Write { .. } => IO,
            Error::Threads(_) => 4,
            #[cfg(feature = "serve")]
            Error::Server(error) => match error {
                nuq_server::Error::Usage(_) => 2,
                nuq_server::Error::Threads(_) => 4,
                nuq_server::Error::Certificate { .. } | nuq_server::Error::Baseline { .. } => 1,
                nuq_server::Error::File(error) if !error.is_io() => 1,
                _ => IO,
            },
            // The exit code that a shell reports for a process that SIGPIPE ended: 128 + 13.
            Error::ClosedPipe => 141,
        }
    }
}

impl From<nuq_neighbors::Error> for Error {
    fn from(error: nuq_neighbors::Error) -> Self {
        Error::Model(error.into())
    }
}
