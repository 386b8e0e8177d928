//! What all responses have in common: headers, the log line, the metrics, and the errors of unknown routes.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

use crate::App;
use crate::error::{ApiError, ErrorMessage};
use crate::page;

/// The page loads scripts, styles and pictures from the server only.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; \
                              base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Adds headers to a response, counts it and writes a line to the log.
pub(crate) async fn finish(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route =
        request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |path| path.as_str().to_owned());
    let mut response = next.run(request).await;
    if path.starts_with("/v2") {
        response = protocol_error(response);
    }
    let headers = response.headers_mut();
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(CONTENT_POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let (status, time) = (response.status().as_u16(), start.elapsed());
    app.metrics.response(&method, &route, status, time);
    let seconds = time.as_secs_f64();
    if route.ends_with("/score") || route.ends_with("/infer") {
        let name = path.split('/').nth(3).unwrap_or_default();
        if let Ok(served) = app.models.get(name) {
            served.state.record_request(seconds);
        }
    }
    // Probes, scrapes and the page, which reads its data every few seconds, would fill the log.
    let is_frequent = route.starts_with("/v2/health") || route == "/metrics" || page::is_frequent(&route);
    if is_frequent && status < 400 {
        tracing::debug!(%method, path, status, seconds, "request");
    } else {
        tracing::info!(%method, path, status, seconds, "request");
    }
    response
}

/// Replaces the body of an error by that of the Open Inference Protocol, where `error` is a string.
fn protocol_error(mut response: Response) -> Response {
    let Some(ErrorMessage(message)) = response.extensions_mut().remove() else { return response };
    let (mut head, _) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(json!({ "error": message }).to_string()))
}

pub(crate) async fn no_route(uri: Uri) -> ApiError {
    ApiError::not_found(format!("there is no route {:?}; /docs lists all routes", uri.path()))
}

pub(crate) async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("the route {:?} does not support {method}; /docs lists all routes", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
