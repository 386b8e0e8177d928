//! Errors of the server, and errors of requests as JSON.

use std::io;
use std::path::PathBuf;

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::state::StateError;

/// An error that ends the server or prevents its start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options that are invalid or contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A model file cannot be opened or written.
    #[error(transparent)]
    File(nuq_io::Error),
    /// The file of a baseline, which has neither labels nor neighbors.
    #[error(
        "{0} holds {found}, and only classifiers and regressors are served: a baseline has one score per row, without label, uncertainties \
         and neighbors; score files with `nuq score --model {0} …`, or serve a model that `nuq fit` writes without --method",
        path.display()
    )]
    Baseline {
        /// The file.
        path: PathBuf,
        /// The kind of the model in the file.
        found: String,
    },
    /// The state folder cannot be used.
    #[error(transparent)]
    State(StateError),
    /// The system cannot start the threads of the server.
    #[error("cannot start threads ({0}): raise the limits of memory, processes and descriptors")]
    Threads(io::Error),
    /// The server cannot listen on its address, or write the files of the demonstration.
    #[error("{what}: {source}")]
    System {
        /// What failed.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("{}: {problem}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl From<nuq_io::Error> for Error {
    fn from(error: nuq_io::Error) -> Self {
        match error {
            nuq_io::Error::WrongKind { path, found, .. } => Self::Baseline { path, found },
            other => Self::File(other),
        }
    }
}

impl From<StateError> for Error {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Model(error) => error.into(),
            other => Self::State(other),
        }
    }
}

/// An error of a request. Its body is `{"error": {"code": …, "message": …}}`.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// One word for programs, such as `too_many_rows`.
    pub(crate) code: &'static str,
    /// What is wrong, where, and what to do.
    pub(crate) message: String,
    /// Seconds after which the client may repeat the request, for the header `Retry-After`.
    pub(crate) retry_after: Option<u32>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    /// The body or the query is not what the route accepts.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn too_large(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, code, message)
    }

    /// The server is overloaded, or a search has failed on its device or a shard. The client may repeat the request after a second.
    pub(crate) fn busy(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(status, code, message) }
    }

    /// A defect of the server, or a failure that the client cannot correct, such as a damaged model file. The cause is in the log.
    pub(crate) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "the server has failed; its log has the cause",
        )
    }
}

/// The message of an error. It is stored as an extension of the response, because routes of the Open Inference Protocol send it in
/// another form of body.
#[derive(Debug, Clone)]
pub(crate) struct ErrorMessage(pub(crate) String);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        let mut response = (self.status, axum::Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(ErrorMessage(self.message));
        response
    }
}

/// The model has rejected rows or options of the request, or the search itself has failed.
impl From<nuq::Error> for ApiError {
    fn from(error: nuq::Error) -> Self {
        use nuq_neighbors::Error::{Damaged, Device, FileChanged, ShardSearch};
        match &error {
            nuq::Error::Neighbors(Device { .. } | ShardSearch { .. }) => {
                tracing::error!(%error, "a search failed");
                Self::busy(StatusCode::SERVICE_UNAVAILABLE, "search_failed", error.to_string())
            }
            nuq::Error::Neighbors(Damaged { .. }) => {
                tracing::error!(%error, "a model file is damaged");
                Self::internal()
            }
            nuq::Error::Neighbors(FileChanged { .. }) => {
                tracing::error!(%error, "a model file was changed in place: restore it and reload the model");
                Self::internal()
            }
            _ => Self::invalid(error.to_string()),
        }
    }
}
