//! Limits on bodies, memory, concurrent requests and time.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::App;
use crate::config::Limits;
use crate::error::ApiError;

/// The error code of a request whose client has ended the connection before the body was complete.
pub(crate) const INCOMPLETE_BODY: &str = "incomplete_body";

/// The unit in which the memory of bodies is counted, in bytes.
const UNIT: usize = 1024;

/// The free capacity of the server.
pub(crate) struct Capacity {
    pub(crate) limits: Limits,
    requests: Arc<Semaphore>,
    /// The free units of memory for bodies.
    memory: Arc<Semaphore>,
    /// All units of memory for bodies, free or not.
    units: usize,
}

impl Capacity {
    pub(crate) fn new(limits: Limits) -> Self {
        let units = limits.memory_bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        Self {
            limits,
            requests: Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS))),
            memory: Arc::new(Semaphore::new(units)),
            units,
        }
    }

    /// The memory that bodies take now, in bytes.
    pub(crate) fn body_bytes(&self) -> usize {
        (self.units - self.memory.available_permits()) * UNIT
    }
}

/// A request that counts as running until this value is dropped.
pub(crate) struct Admission {
    app: Arc<App>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.app.metrics.running.fetch_sub(1, Relaxed);
    }
}

/// Admits a request that computes something, or refuses it with status 429.
pub(crate) fn admit(app: &Arc<App>) -> Result<Admission, ApiError> {
    let capacity = &app.capacity;
    let Ok(permit) = capacity.requests.clone().try_acquire_owned() else {
        let message = format!(
            "the server processes {} requests already (--max-requests): repeat the request later",
            capacity.limits.requests
        );
        return Err(ApiError::busy(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message));
    };
    app.metrics.running.fetch_add(1, Relaxed);
    Ok(Admission { app: app.clone(), _permit: permit })
}

/// Waits for a result, at most for the `request_timeout`. After this time the future is dropped, which cancels the
/// computation, except if it runs on a thread for blocking work.
pub(crate) async fn in_time<T>(
    app: &App,
    result: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let limit = app.capacity.limits.request_timeout;
    timeout(limit, result).await.unwrap_or_else(|_| Err(too_slow(limit)))
}

/// The error of a computation that exceeds the `request_timeout`.
pub(crate) fn too_slow(limit: Duration) -> ApiError {
    let message = format!(
        "the computation took longer than {} seconds (--request-timeout): send fewer rows at a time, or repeat the request later",
        limit.as_secs_f64()
    );
    ApiError::busy(StatusCode::SERVICE_UNAVAILABLE, "timeout", message)
}

/// Refuses compressed bodies, because their length does not bound their size after decompression.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            let message = "compressed bodies are not supported: send the body without Content-Encoding";
            Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "compressed_body", message))
        }
        _ => Ok(()),
    }
}

/// The memory that one body takes. It counts toward `memory_bytes`, the limit of all bodies together.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    permit: Option<OwnedSemaphorePermit>,
    units: usize,
}

impl Memory {
    /// Reserves memory for a body of `bytes` bytes in total, or refuses the request with status 503. The memory is released when this
    /// value is dropped.
    pub(crate) fn grow(&mut self, app: &App, bytes: usize) -> Result<(), ApiError> {
        let units = bytes.div_ceil(UNIT);
        if units <= self.units {
            return Ok(());
        }
        let more = u32::try_from(units - self.units).unwrap_or(u32::MAX);
        let Ok(permit) = app.capacity.memory.clone().try_acquire_many_owned(more) else {
            let message = "the bodies of the current requests take all memory that the server allows (--max-memory-bytes): \
                           repeat the request later";
            return Err(ApiError::busy(StatusCode::SERVICE_UNAVAILABLE, "memory_full", message));
        };
        match &mut self.permit {
            Some(own) => own.merge(permit),
            None => self.permit = Some(permit),
        }
        self.units = units;
        Ok(())
    }
}

/// A body in memory.
pub(crate) struct HeldBody {
    pub(crate) bytes: Vec<u8>,
    /// The memory of the body. It is also used for the values that are parsed from the body.
    pub(crate) memory: Memory,
}

/// Reads a whole body within the limits. Memory is allocated only for bytes that have arrived, not for the declared length.
pub(crate) async fn read_body(app: &App, headers: &HeaderMap, body: Body) -> Result<HeldBody, ApiError> {
    check_encoding(headers)?;
    let frames = Frames::new(body, app.capacity.limits.request_timeout);
    read_rest(app, headers, Vec::new(), frames).await
}

/// Reads the rest of a body that begins with `bytes`. If the declared length exceeds the limit, nothing more is read.
pub(crate) async fn read_rest(
    app: &App,
    headers: &HeaderMap,
    mut bytes: Vec<u8>,
    mut frames: Frames,
) -> Result<HeldBody, ApiError> {
    let limits = &app.capacity.limits;
    let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > limits.body_bytes as u64) {
        return Err(body_too_large(limits));
    }
    let mut memory = Memory::default();
    loop {
        if bytes.len() > limits.body_bytes {
            return Err(body_too_large(limits));
        }
        memory.grow(app, bytes.len())?;
        match frames.next().await? {
            Some(chunk) => bytes.extend_from_slice(&chunk),
            None => return Ok(HeldBody { bytes, memory }),
        }
    }
}

fn body_too_large(limits: &Limits) -> ApiError {
    let message = format!(
        "the body has more than {} bytes (--max-body-bytes): send fewer rows at a time, or stream csv, npy or Arrow data to \
         /v1/models/{{model}}/score",
        limits.body_bytes
    );
    ApiError::too_large("body_too_large", message)
}

/// The chunks of a body. They must arrive within a time limit. `restart` starts the limit again.
pub(crate) struct Frames {
    body: Body,
    limit: Duration,
    deadline: Instant,
}

impl Frames {
    pub(crate) fn new(body: Body, limit: Duration) -> Self {
        Self { body, limit, deadline: Instant::now() + limit }
    }

    pub(crate) fn restart(&mut self) {
        self.deadline = Instant::now() + self.limit;
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let Ok(frame) = timeout_at(self.deadline, self.body.frame()).await else {
                let message = format!(
                    "the body did not arrive within {} seconds (--request-timeout)",
                    self.limit.as_secs_f64()
                );
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "slow_body", message));
            };
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    // Trailers are ignored.
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(_)) => {
                    let message = "the connection ended before the body was complete";
                    return Err(ApiError::new(StatusCode::BAD_REQUEST, INCOMPLETE_BODY, message));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use nuq::{Embeddings, Model, NuqClassifier};
    use tokio::runtime::Runtime;

    use super::*;
    use crate::{Config, ModelSource, routes};

    /// A server with one model and a time limit of 0.1 seconds, without a network.
    struct Service {
        app: Arc<App>,
        runtime: Runtime,
        _folder: tempfile::TempDir,
    }

    impl Service {
        fn new(limits: Limits) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("m.nuq");
            let rows = Embeddings::new(vec![0.0, 1.0, 4.0, 5.0], 1).unwrap();
            let model = NuqClassifier::params().n_neighbors(2).fit(&rows, &["a", "a", "b", "b"]).unwrap();
            nuq_io::save(&Model::Classifier(model), &path).unwrap();
            let limits = Limits { request_timeout: Duration::from_millis(100), ..limits };
            let models = vec![ModelSource { name: "m".to_owned(), path }];
            let app = Arc::new(App::new(Config { models, limits, ..Config::default() }).unwrap());
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            Self { app, runtime, _folder: folder }
        }

        /// The status, the headers and the body of a response.
        fn send(&self, method: &str, path: &str, body: &'static str) -> (u16, HeaderMap, String) {
            let service = TowerToHyperService::new(routes(self.app.clone()));
            let request = Request::builder().method(method).uri(path).header("host", "localhost");
            let request = request.body(Body::from(body)).unwrap();
            self.runtime.block_on(async {
                let response = service.call(request).await.unwrap();
                let (head, body) = response.into_parts();
                let bytes = body.collect().await.unwrap().to_bytes();
                (head.status.as_u16(), head.headers, String::from_utf8(bytes.to_vec()).unwrap())
            })
        }
    }

    /// The test holds the lock of the label issues, as a running computation does.
    #[test]
    fn requests_that_wait_for_label_issues_do_not_count_as_running_requests() {
        let service = Service::new(Limits { requests: 1, ..Limits::default() });
        let served = service.app.models.get("m").unwrap();
        let held = service.runtime.block_on(served.cached_label_issues());
        for _ in 0..2 {
            let (status, _, body) = service.send("GET", "/v1/models/m/label-issues", "");
            assert_eq!(status, 503, "{body}");
        }
        assert!(admit(&service.app).is_ok());
        drop(held);
    }

    /// The test holds the write lock of the model, so every computation waits for the lock until its time is over.
    #[test]
    fn a_computation_beyond_the_time_limit_gets_status_503() {
        let service = Service::new(Limits::default());
        let send = |method: &str, path: &str, body: &'static str| service.send(method, path, body);
        let tensor =
            r#"{"inputs": [{"name": "embeddings", "shape": [1, 1], "datatype": "FP32", "data": [0.5]}]}"#;
        let served = service.app.models.get("m").unwrap().current();
        let held = served.write();
        for (method, path, body) in [
            ("POST", "/v2/models/m/infer", tensor),
            ("GET", "/v1/models/m/label-issues", ""),
            ("GET", "/v1/models/m/suggest", ""),
            ("POST", "/v1/models/m/suggest", r#"{"rows": [[0.5]]}"#),
        ] {
            let (status, headers, body) = send(method, path, body);
            assert_eq!((status, headers["retry-after"].as_bytes()), (503, &b"1"[..]), "{path}: {body}");
            assert!(body.contains("0.1 seconds (--request-timeout)"), "{path}: {body}");
        }
        drop(held);
        // After the lock is released, requests succeed. On a loaded machine several attempts may be needed.
        let deadline = Instant::now() + Duration::from_secs(60);
        for (path, body) in [("/v2/models/m/infer", tensor), ("/v1/models/m/score", "[[0.5]]")] {
            let mut reply = send("POST", path, body);
            while reply.0 != 200 && Instant::now() < deadline {
                reply = send("POST", path, body);
            }
            assert_eq!(reply.0, 200, "{path}: {}", reply.2);
        }
    }
}
