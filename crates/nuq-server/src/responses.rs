//! What all responses have in common: headers, and the errors of unknown routes.

use std::sync::Arc;

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
use crate::exchange::Exchange;

/// The content security policy of all responses except the page at `/`, which has its own policy. It allows scripts, styles, fonts and
/// pictures from this server only.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; \
                              base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Adds headers to a response, and observes it until its end.
pub(crate) async fn finish(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route =
        request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |path| path.as_str().to_owned());
    let exchange = Exchange::begin(app.clone(), method, path, route);
    let mut response = next.run(request).await;
    if exchange.path.starts_with("/v2") {
        response = protocol_error(response);
    }
    let headers = response.headers_mut();
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(CONTENT_POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let status = response.status();
    // The page shows only answered requests: a refused request takes less time, and would lower the time to answer.
    let is_prediction = exchange.route.ends_with("/score") || exchange.route.ends_with("/infer");
    if is_prediction && status.is_success() {
        let name = exchange.path.split('/').nth(3).unwrap_or_default();
        if let Ok(served) = app.models.get(name) {
            // The page shows the time until the response begins, because the time until its end depends on how fast the client reads.
            served.state.record_request(exchange.seconds());
        }
    }
    response.map(|body| exchange.respond(status, body))
}

/// Replaces the body of an error by the body that the Open Inference Protocol requires, in which `error` is a string.
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
