//! Errors of the state: of the stored changes of models and the recorded rows.

use std::io;
use std::path::{Path, PathBuf};

use axum::http::StatusCode;

use crate::error::ApiError;

/// An error of the state. The message names the folder or file, if there is one, and where possible says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The disk of the state is full.
    #[error("the disk of the state folder {} is full ({problem}): free some space", .folder.display())]
    Full {
        /// The state folder.
        folder: PathBuf,
        /// The message of the operating system or of SQLite.
        problem: String,
    },
    /// A change is larger than a row of the database can be.
    #[error("the change is larger than the state can store ({0}): change fewer rows at a time")]
    TooLarge(String),
    /// The state cannot be written.
    #[error("the state folder {} cannot be written: {problem}", .folder.display())]
    NotWritable {
        /// The state folder.
        folder: PathBuf,
        /// The reason, mostly the message of the operating system or of SQLite.
        problem: String,
    },
    /// Another process uses the state folder.
    #[error("the state folder {} is in use by another process: stop that process, or choose another folder", .folder.display())]
    InUse {
        /// The state folder.
        folder: PathBuf,
    },
    /// The state cannot be opened, or its contents are not valid.
    #[error("the state in {} cannot be used: {problem}", .folder.display())]
    Unusable {
        /// The state folder.
        folder: PathBuf,
        /// What is wrong, and where possible what to do.
        problem: String,
    },
    /// The system cannot start the thread that records scored rows.
    #[error("cannot start the thread that records rows ({0}): raise the limits of memory and processes")]
    Thread(io::Error),
    /// A model file cannot be read or written.
    #[error(transparent)]
    Model(#[from] nuq_io::Error),
    /// The model in memory may differ from its file with the stored changes.
    #[error(
        "the model {model} is not available, because its change {change} has failed before it was complete: start the server again, which \
         restores the model from its file and its stored changes"
    )]
    Damaged {
        /// The name of the model.
        model: String,
        /// The id of the change.
        change: u64,
    },
    /// Changes of a model are refused, because a failed change could not be marked as failed.
    #[error(
        "changes of the model {model} are refused, because the state folder {} cannot store that the change {change} has failed: make \
         the folder writable or free disk space, and start the server again", .folder.display()
    )]
    NotMarked {
        /// The state folder.
        folder: PathBuf,
        /// The name of the model.
        model: String,
        /// The id of the change.
        change: u64,
    },
    /// Changes are refused, because they would not survive the process.
    #[error(
        "changes are refused, because there is no state folder to store them: start the server with --state DIR, or with \
         --ephemeral if changes may be lost when the process ends"
    )]
    NoState,
}

impl StateError {
    pub(super) fn unusable(folder: &Path, problem: impl ToString) -> Self {
        Self::Unusable { folder: folder.to_owned(), problem: problem.to_string() }
    }

    /// The error of a write by SQLite.
    pub(super) fn of_write(folder: &Path, error: &rusqlite::Error) -> Self {
        let (folder, problem) = (folder.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::Full { folder, problem },
            Some(rusqlite::ErrorCode::TooBig) => Self::TooLarge(problem),
            _ => Self::NotWritable { folder, problem },
        }
    }
}

impl From<StateError> for ApiError {
    fn from(error: StateError) -> Self {
        let (status, code) = match &error {
            StateError::Full { .. } => (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
            StateError::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "change_too_large"),
            StateError::NoState => (StatusCode::FORBIDDEN, "no_state"),
            StateError::Damaged { .. } => (StatusCode::SERVICE_UNAVAILABLE, "model_damaged"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "state_not_writable"),
        };
        Self::new(status, code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_sqlite_has_the_status_of_its_cause() {
        let status = |code: i32| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            ApiError::from(StateError::of_write(Path::new("state"), &error)).status.as_u16()
        };
        assert_eq!(status(rusqlite::ffi::SQLITE_FULL), 507);
        assert_eq!(status(rusqlite::ffi::SQLITE_TOOBIG), 413);
        assert_eq!(status(rusqlite::ffi::SQLITE_IOERR), 503);
    }
}
