//! Checks of requests: the key, the origin of the web page that sends the request, and the host name.
//!
//! A request sends its key as `Authorization: Bearer KEY`. The method and the route determine the required [`Access`]: a route that
//! [`Access::of`] does not list needs the read key for GET and HEAD, and the write key for every other method.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use crate::error::ApiError;
use crate::{App, Error, MetricsAccess};

/// Shortest key, in bytes.
const MIN_KEY: usize = 16;

/// A secret key. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// A key of at least 16 printable ASCII characters without spaces. White space before and after it is ignored.
    ///
    /// # Errors
    /// [`Error::Usage`] for any other text. The message contains `origin`, such as the name of an environment variable, and not the key.
    pub fn new(text: &str, origin: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.len() < MIN_KEY || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::Usage(format!(
                "the key of {origin} is not valid: use at least {MIN_KEY} ASCII characters without spaces, for example the output of \
                 `openssl rand -hex 32`"
            )));
        }
        Ok(Self(text.as_bytes().to_vec()))
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read, and the errors of [`new`](Self::new).
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::new(&text, &path.display().to_string())
    }

    /// Whether the key is equal to `given`. The time depends only on the length of `given`.
    pub(crate) fn matches(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The kind of access that a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// No key is needed: probes, the files of the page and the description of the routes contain no data of a model.
    Public,
    Metrics,
    Read,
    Write,
}

impl Access {
    fn of(method: &Method, route: &str) -> Self {
        let is_read = *method == Method::GET || *method == Method::HEAD;
        match route {
            "/metrics" => Self::Metrics,
            "/" | "/docs" | "/docs/style.css" | "/openapi.json" | "/v2/health/live" | "/v2/health/ready"
                if is_read =>
            {
                Self::Public
            }
            route if is_read && (route.starts_with("/page/") || route.ends_with("/ready")) => Self::Public,
            route if ["/infer", "/score", "/suggest", "/inspect"].iter().any(|end| route.ends_with(end)) => {
                Self::Read
            }
            _ if is_read => Self::Read,
            _ => Self::Write,
        }
    }
}

/// Refuses requests that lack the key of their route, that come from a web page of another origin, or that name an unknown host.
pub(crate) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let access = Access::of(request.method(), route);
    let origin = match allowed_origin(&app, request.headers()) {
        Ok(origin) => origin,
        Err(error) => return error.into_response(),
    };
    if *request.method() == Method::OPTIONS
        && let Some(origin) = origin
    {
        return with_origin(StatusCode::NO_CONTENT.into_response(), origin);
    }
    let result =
        check_host(&app, request.headers()).and_then(|()| check_key(&app, request.headers(), access));
    let response = match result {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    match origin {
        Some(origin) => with_origin(response, origin),
        None => response,
    }
}

fn check_key(app: &App, headers: &HeaderMap, access: Access) -> Result<(), ApiError> {
    let (read, write) = (&app.config.read_key, &app.config.write_key);
    let is_one_of = |keys: [&Option<Key>; 2]| {
        let given = bearer(headers);
        // Both keys are always compared, so that the time does not reveal which of them is equal.
        keys.into_iter()
            .flatten()
            .fold(false, |found, key| found | given.is_some_and(|given| key.matches(given)))
    };
    let needs_key = |what: &str| {
        let (code, message) = match bearer(headers) {
            Some(_) => ("wrong_key", format!("the key is wrong: this request needs the {what}")),
            None => {
                let message =
                    format!("this request needs the {what}: send the header `Authorization: Bearer KEY`");
                ("key_required", message)
            }
        };
        Err(ApiError::new(StatusCode::UNAUTHORIZED, code, message))
    };
    match (access, app.config.metrics) {
        (Access::Public, _) | (Access::Metrics, MetricsAccess::Open) => Ok(()),
        (Access::Metrics, MetricsAccess::Off) => {
            Err(ApiError::not_found("the metrics are switched off (--metrics off)"))
        }
        (Access::Read | Access::Metrics, _) if read.is_none() || is_one_of([read, write]) => Ok(()),
        (Access::Read | Access::Metrics, _) => needs_key("read key or the write key"),
        (Access::Write, _) if write.is_none() && read.is_none() => Ok(()),
        (Access::Write, _) if is_one_of([write, &None]) => Ok(()),
        (Access::Write, _) if write.is_none() => {
            let message = "models cannot be changed: the server has a read key and no write key";
            Err(ApiError::new(StatusCode::FORBIDDEN, "no_write_key", message))
        }
        (Access::Write, _) if is_one_of([read, &None]) => {
            let message = "the read key cannot change models: send the write key";
            Err(ApiError::new(StatusCode::FORBIDDEN, "write_key_required", message))
        }
        (Access::Write, _) => needs_key("write key"),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

/// The origin of a request that comes from another web page, if `--cors-origin` allows this page. `None` if the request comes from the
/// server's own page or has no header `Origin`.
fn allowed_origin(app: &App, headers: &HeaderMap) -> Result<Option<HeaderValue>, ApiError> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(None) };
    if app.config.cors_origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()) {
        return Ok(Some(origin.clone()));
    }
    let host = headers.get(HOST).map_or(&b""[..], HeaderValue::as_bytes);
    let own = [&b"http://"[..], b"https://"]
        .into_iter()
        .filter_map(|scheme| origin.as_bytes().strip_prefix(scheme));
    if own.into_iter().any(|origin| origin == host) {
        return Ok(None);
    }
    let message = "scripts of this web page may not use the server: allow its origin with --cors-origin";
    Err(ApiError::new(StatusCode::FORBIDDEN, "foreign_origin", message))
}

/// Without a read key, only `localhost`, the host of `--address` and IP addresses are allowed in the header `Host`, unless `--insecure`
/// is given. Otherwise a web page could reach a server on its visitor's machine by a host name that resolves to a loopback address (DNS
/// rebinding). A request without this header is allowed, because browsers always send the header.
fn check_host(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    let config = &app.config;
    if config.read_key.is_some() || config.insecure {
        return Ok(());
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    let is_own = ["", "localhost", config.address.host()].iter().any(|own| name.eq_ignore_ascii_case(own));
    if is_own || is_address {
        return Ok(());
    }
    let message = "without a read key the server answers only under `localhost`, the host of --address and IP addresses: set a read key";
    Err(ApiError::new(StatusCode::FORBIDDEN, "unknown_host", message))
}

fn with_origin(mut response: Response, origin: HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert("access-control-allow-origin", origin);
    headers.insert("access-control-allow-methods", HeaderValue::from_static("GET, POST"));
    let allowed = "authorization, content-type, accept, inference-header-content-length";
    headers.insert("access-control-allow-headers", HeaderValue::from_static(allowed));
    headers.insert(
        "access-control-expose-headers",
        HeaderValue::from_static("inference-header-content-length, retry-after"),
    );
    headers.append("vary", HeaderValue::from_static("origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_route_determine_the_required_key() {
        let access = |method, route| Access::of(&method, route);
        assert_eq!(access(Method::GET, "/v1/models"), Access::Read);
        assert_eq!(access(Method::POST, "/v1/models/{model}/score"), Access::Read);
        assert_eq!(access(Method::POST, "/v1/models/{model}/rows"), Access::Write);
        assert_eq!(access(Method::POST, "/v1/models/{model}/reload"), Access::Write);
        assert_eq!(access(Method::DELETE, "/anything"), Access::Write);
        assert_eq!(access(Method::GET, "/v2/health/ready"), Access::Public);
        assert_eq!(access(Method::POST, "/docs"), Access::Write);
    }

    #[test]
    fn keys_are_compared_and_not_printed() {
        let key = Key::new(" 0123456789abcdef\n", "a test").unwrap();
        assert!(key.matches(b"0123456789abcdef") && !key.matches(b"0123456789abcdeg") && !key.matches(b""));
        assert_eq!(format!("{key:?}"), "Key(…)");
        let error = Key::new("secret", "NUQ_READ_KEY").unwrap_err().to_string();
        assert!(error.contains("NUQ_READ_KEY") && !error.contains("secret"), "{error}");
    }
}
