//! An exchange is a request with its response. The log and the metrics contain its outcome.
//!
//! A response is complete when its last part is handed to the connection. If the client ends the connection before that or is too slow,
//! the exchange is aborted: the connection drops the response or, if there is none yet, the future that computes it.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode};
use hyper::body::{Body as _, Frame, SizeHint};

use crate::{App, page};

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// The response was sent to its end.
    Complete,
    /// The client ended the connection, or was too slow.
    Aborted,
    /// The server failed after it had begun the response.
    Incomplete,
}

impl Outcome {
    /// The value of `outcome`, a label of the metrics and a field of the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Aborted => "aborted",
            Self::Incomplete => "incomplete",
        }
    }
}

/// An exchange. If it is dropped before its end, the client is gone, and its outcome is [`Outcome::Aborted`].
pub(crate) struct Exchange {
    app: Arc<App>,
    start: Instant,
    pub(crate) method: Method,
    pub(crate) path: String,
    /// The route that the path matches, such as `/v1/models/{model}`.
    pub(crate) route: String,
    /// The status of the response; `None` before the response begins.
    status: Option<StatusCode>,
    is_ended: bool,
}

impl Exchange {
    pub(crate) fn begin(app: Arc<App>, method: Method, path: String, route: String) -> Self {
        Self { app, start: Instant::now(), method, path, route, status: None, is_ended: false }
    }

    /// Seconds since the beginning of the exchange.
    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Begins the response. The exchange ends when the returned body ends.
    pub(crate) fn respond(mut self, status: StatusCode, body: Body) -> Body {
        self.status = Some(status);
        // The body of a response to HEAD is not sent.
        if self.method == Method::HEAD || body.is_end_stream() {
            self.end(Outcome::Complete);
            return body;
        }
        Body::new(ObservedBody { body, exchange: self })
    }

    /// Counts the exchange and writes its line to the log, once.
    fn end(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        let Self { method, path, route, .. } = &*self;
        let status = self.status.map(|status| status.as_u16());
        let time = self.start.elapsed();
        self.app.metrics.exchange(method, route, (status, outcome), time);
        let (seconds, outcome) = (time.as_secs_f64(), outcome.name());
        // Health probes, scrapes of the metrics, and the page, which reads its data every few seconds, would fill the log. They are logged
        // at the level `debug` unless they fail. The status is `None` if the page was closed during a request, which is not a failure.
        let is_frequent = route.starts_with("/v2/health") || route == "/metrics" || page::is_frequent(route);
        if is_frequent && status.is_none_or(|status| status < 400) {
            tracing::debug!(%method, path, status, seconds, outcome, "request");
        } else {
            tracing::info!(%method, path, status, seconds, outcome, "request");
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(Outcome::Aborted);
    }
}

/// The outcome of a response that ends with an error of the client (`Aborted`) or of the server (`Incomplete`).
fn outcome_of(error: &axum::Error) -> Outcome {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionAborted) => Outcome::Aborted,
        _ => Outcome::Incomplete,
    }
}

/// The body of a response. Its end is the end of the exchange.
struct ObservedBody {
    body: Body,
    exchange: Exchange,
}

impl hyper::body::Body for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Err(error))) => self.exchange.end(outcome_of(error)),
            Poll::Ready(None) => self.exchange.end(Outcome::Complete),
            // The connection does not ask for a further part after the last one, so the case above may never occur.
            Poll::Ready(Some(Ok(_))) if self.body.is_end_stream() => self.exchange.end(Outcome::Complete),
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::Config;

    /// A body with one part. After the part it ends, with an error of the given kind if there is one. The flag says whether the part was
    /// sent.
    struct Failing(Option<io::ErrorKind>, bool);

    impl hyper::body::Body for Failing {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
            match std::mem::replace(&mut self.1, true) {
                false => Poll::Ready(Some(Ok(Frame::data("part".into())))),
                true => Poll::Ready(self.0.map(|kind| Err(kind.into()))),
            }
        }
    }

    #[test]
    fn the_metrics_say_how_an_exchange_ended() {
        let app = Arc::new(App::new(Config::default()).unwrap());
        let begin =
            |route: &str| Exchange::begin(app.clone(), Method::POST, "/".to_owned(), route.to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = |route: &str, body: Body| {
            let _ = runtime.block_on(begin(route).respond(StatusCode::OK, body).collect());
        };
        read("full", Body::from("text"));
        read("stream", Body::new(Failing(None, false)));
        read("empty", Body::empty());
        read("gone", Body::new(Failing(Some(io::ErrorKind::ConnectionAborted), false)));
        read("failed", Body::new(Failing(Some(io::ErrorKind::Other), false)));
        // The connection drops a response that it cannot send, or the computation of a response.
        drop(begin("dropped").respond(StatusCode::OK, Body::new(Failing(None, false))));
        drop(begin("early"));
        let text = app.metrics.text();
        for (route, status, outcome) in [
            ("full", "200", "complete"),
            ("stream", "200", "complete"),
            ("empty", "200", "complete"),
            ("gone", "200", "aborted"),
            ("failed", "200", "incomplete"),
            ("dropped", "200", "aborted"),
            ("early", "none", "aborted"),
        ] {
            let labels = format!("route=\"{route}\",status=\"{status}\",outcome=\"{outcome}\"");
            let count = format!("nuq_requests_total{{method=\"POST\",{labels}}} 1\n");
            let seconds = format!("nuq_request_seconds_count{{route=\"{route}\",outcome=\"{outcome}\"}} 1\n");
            assert!(text.contains(&count) && text.contains(&seconds), "{count}{seconds}{text}");
        }
        assert_eq!(text.matches("nuq_requests_total{").count(), 7, "{text}");
    }
}
