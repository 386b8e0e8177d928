//! The routes below `/v1`.

mod changes;
mod encode;
mod labels;
mod models;
mod page;
mod review;
mod score;

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, Query, Request};
use axum::{Json, Router};
use serde::Deserialize;

use crate::App;
use crate::error::ApiError;
use crate::limits::{Admission, HeldBody, admit, read_body};
use crate::rows::parse_json;
pub(crate) use page::References;

/// The routes of all modules in this folder, relative to `/v1`.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .merge(changes::routes())
        .merge(models::routes())
        .merge(page::routes())
        .merge(review::routes())
        .merge(score::routes())
}

/// The query parameters of an address.
fn parameters<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    query.map(|Query(parameters)| parameters).map_err(|error| ApiError::invalid(error.body_text()))
}

/// The query parameter of routes that return a list.
#[derive(Deserialize)]
struct Limit {
    limit: Option<usize>,
}

/// Runs work that takes milliseconds or more on a thread for blocking work. The work is completed even if the client ends the connection.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request panicked");
        Err(ApiError::internal())
    })
}

/// The same as [`blocking`], for work that counts as a running request. It is refused if too many requests are running.
async fn admitted<T: Send + 'static>(
    app: Arc<App>,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let admission = admit(&app)?;
    blocking(move || {
        let _admission = admission;
        work()
    })
    .await
}

/// A request whose body is JSON. The body is read within the limits of time and memory.
struct JsonRequest {
    admission: Admission,
    held: HeldBody,
}

impl FromRequest<Arc<App>> for JsonRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let admission = admit(app)?;
        let (head, body) = request.into_parts();
        Ok(Self { admission, held: read_body(app, &head.headers, body).await? })
    }
}

impl JsonRequest {
    /// Parses the body and runs work with it on a thread for blocking work.
    async fn run<B: for<'de> Deserialize<'de>, T: Send + 'static>(
        self,
        work: impl FnOnce(B) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<Json<T>, ApiError> {
        let run = move || {
            let Self { admission: _admission, held } = self;
            let body = parse_json(&held.bytes);
            work(body.map_err(|problem| ApiError::invalid(format!("the body is not valid: {problem}")))?)
        };
        blocking(run).await.map(Json)
    }
}
