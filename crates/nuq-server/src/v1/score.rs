//! `POST /v1/models/{model}/score`: reads rows, scores them and sends the results, in blocks.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use hyper::body::Frame;
use nuq::Embeddings;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::encode::{Encoder, ResponseFormat};
use super::parameters;
use crate::App;
use crate::batch::{Pending, Rows};
use crate::error::ApiError;
use crate::limits::{
    Admission, Frames, HeldBody, INCOMPLETE_BODY, admit, check_encoding, in_time, read_rest,
};
use crate::loaded_model::LoadedModel;
use crate::models::NamedModel;
use crate::results::{Output, Selection};
use crate::rows::{self, Blocks, BodyReader, Columns, Format, HeldBlocks, Matrix};
use crate::served_model::ServedModel;

/// Largest number of chunks of a response that wait until the client reads them. If a client reads nothing until it has sent its whole
/// body, and the response has many more chunks than this number, the server stops reading the body and ends the response after
/// `client_timeout`.
const WAITING_CHUNKS: usize = 64;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/models/{model}/score", post(score))
}

/// The query parameters of the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScoreQuery {
    threshold: Option<String>,
    neighbors: Option<usize>,
    /// Names of outputs, separated by commas.
    outputs: Option<String>,
}

impl ScoreQuery {
    fn selection(self) -> Result<Selection, ApiError> {
        let parse =
            |name: &str| name.trim().parse::<Output>().map_err(|error| ApiError::invalid(error.to_string()));
        let outputs = self.outputs.map(|names| names.split(',').map(parse).collect::<Result<_, _>>());
        let outputs: Option<Vec<Output>> = outputs.transpose()?;
        if let Some(outputs) = &outputs
            && let Some(i) = (0..outputs.len()).find(|&i| outputs[..i].contains(&outputs[i]))
        {
            return Err(ApiError::invalid(format!("the output `{}` is requested twice", outputs[i])));
        }
        Ok(Selection { outputs, neighbors: self.neighbors, threshold: self.threshold })
    }
}

/// A body in JSON that is an object with rows and logits. A body can also be a list of rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRows {
    rows: Matrix,
    logits: Option<Matrix>,
}

async fn score(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    query: Result<Query<ScoreQuery>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let admission = admit(&app)?;
    let selection = Arc::new(parameters(query)?.selection()?);
    let format = ResponseFormat::of(headers.get(ACCEPT))?;
    let input = Input::read(&app, &headers, body).await?;
    let (head, is_ready) = oneshot::channel();
    let (parts, receiver) = mpsc::channel(WAITING_CHUNKS);
    let model = served.current();
    let scoring = Scoring {
        app,
        encoder: Encoder::new(format, &served.name),
        model,
        served,
        selection,
        runtime: Handle::current(),
        head: Some(head),
        parts,
        admission: Some(admission),
    };
    tokio::task::spawn_blocking(move || scoring.run(input));
    is_ready.await.unwrap_or_else(|_| Err(ApiError::internal()))?;
    let body = Body::new(ChannelBody { parts: receiver, is_complete: false });
    Ok((StatusCode::OK, [(CONTENT_TYPE, format.content_type())], body).into_response())
}

/// The rows of a request.
pub(super) enum Input {
    Json(HeldBody),
    Stream(Format, BodyReader),
}

impl Input {
    /// Recognizes the format of a body. A body in JSON is read into memory; other bodies are streamed.
    pub(super) async fn read(app: &Arc<App>, headers: &HeaderMap, body: Body) -> Result<Self, ApiError> {
        check_encoding(headers)?;
        let mut frames = Frames::new(body, app.capacity.limits.request_timeout);
        let mut start = Vec::new();
        // White space before the first character of a body does not show its format.
        while start.trim_ascii_start().len() < 8
            && start.len() <= app.capacity.limits.body_bytes
            && let Some(chunk) = frames.next().await?
        {
            start.extend_from_slice(&chunk);
        }
        Ok(match Format::of(&start)? {
            Format::Json => Input::Json(read_rest(app, headers, start, frames).await?),
            format => Input::Stream(format, BodyReader::new(app.clone(), start, frames)),
        })
    }

    /// The rows in blocks, for a model. This function and [`Blocks::next`] block the thread.
    pub(super) fn blocks(self, app: &App, model: &LoadedModel) -> Result<Box<dyn Blocks>, ApiError> {
        let columns = {
            let model = model.read()?;
            Columns::of(&model)
        };
        match self {
            Input::Stream(format, body) => rows::stream(format, body, columns),
            Input::Json(held) => {
                let rows = parse_json(&held.bytes, columns.count)?;
                let max_rows = app.capacity.limits.rows;
                if rows.embeddings.len() > max_rows {
                    let message = format!(
                        "the body has {} rows, more than {max_rows} (--max-rows): send them in several requests, or as csv, npy or \
                         Arrow data, which are streamed",
                        rows.embeddings.len()
                    );
                    return Err(ApiError::too_large("too_many_rows", message));
                }
                let mut memory = held.memory;
                // The rows can take more bytes than the body, in which `0,` is two bytes.
                let values = |rows: &Embeddings<'_>| size_of_val(rows.as_slice());
                let bytes = values(&rows.embeddings) + rows.logits.as_ref().map_or(0, values);
                let max_bytes = app.capacity.limits.memory_bytes;
                if bytes > max_bytes {
                    let message = format!(
                        "the rows of the body take {bytes} bytes, more than {max_bytes} (--max-memory-bytes): send them in several requests"
                    );
                    return Err(ApiError::too_large("body_too_large", message));
                }
                memory.grow(app, bytes)?;
                Ok(Box::new(HeldBlocks::new(rows, memory)))
            }
        }
    }
}

/// The processing of a request, on a thread that may block.
struct Scoring {
    app: Arc<App>,
    served: Arc<ServedModel>,
    model: Arc<LoadedModel>,
    selection: Arc<Selection>,
    encoder: Encoder,
    runtime: Handle,
    /// Sends whether the response begins or the request has failed. `None` after this was sent.
    head: Option<oneshot::Sender<Result<(), ApiError>>>,
    parts: mpsc::Sender<Part>,
    /// Counts the request toward the limits. `None` after the request has failed, or just before `End` is sent.
    admission: Option<Admission>,
}

/// A part of a response. Without `End`, the response is incomplete.
enum Part {
    Chunk(Bytes),
    End,
    /// The client has ended the connection before the body of its request was complete.
    Aborted,
}

/// The client takes no more data.
struct Gone;

enum Failed {
    Request(ApiError),
    Gone,
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        Failed::Request(error)
    }
}

impl From<Gone> for Failed {
    fn from(Gone: Gone) -> Self {
        Failed::Gone
    }
}

impl Scoring {
    fn run(mut self, input: Input) {
        let Err(Failed::Request(error)) = self.score(input) else { return };
        self.admission = None;
        match self.head.take() {
            Some(head) => {
                let _ = head.send(Err(error));
            }
            None => {
                // The status has been sent. `End` is not sent, so that the client sees that the response is incomplete.
                tracing::warn!(model = self.served.name, error = error.message, "a streamed request failed");
                if let Some(line) = self.encoder.error(&error) {
                    let _ = self.send(line);
                }
                if error.code == INCOMPLETE_BODY {
                    let _ = self.deliver(Part::Aborted);
                }
            }
        }
    }

    fn score(&mut self, input: Input) -> Result<(), Failed> {
        let mut blocks = input.blocks(&self.app, &self.model)?;
        let mut pending: Option<Pending> = None;
        loop {
            // A block is read while the previous block is computed.
            let block = blocks.next()?;
            if let Some(pending) = pending.take() {
                let results = in_time(&self.app, self.served.results(pending));
                let (results, version) = self.runtime.block_on(results)?;
                let chunk = self.encoder.block(&results, version, self.app.capacity.limits.rows)?;
                self.send(chunk)?;
            }
            let Some(rows) = block else { break };
            pending = Some(self.served.batcher.submit(self.model.clone(), rows, self.selection.clone()));
        }
        let last = self.encoder.finish();
        self.send(last)?;
        self.begin();
        // A client may send its next request as soon as it has the end of this response. By then, the limits must
        // not count the answered request anymore.
        drop(blocks);
        self.admission = None;
        self.deliver(Part::End)?;
        Ok(())
    }

    /// Sends a part of the response.
    fn send(&mut self, chunk: Vec<u8>) -> Result<(), Gone> {
        if chunk.is_empty() {
            return Ok(());
        }
        self.begin();
        self.deliver(Part::Chunk(chunk.into()))
    }

    fn begin(&mut self) {
        if let Some(head) = self.head.take() {
            let _ = head.send(Ok(()));
        }
    }

    fn deliver(&self, part: Part) -> Result<(), Gone> {
        let limit = self.app.capacity.limits.client_timeout;
        match self.runtime.block_on(async { timeout(limit, self.parts.send(part)).await }) {
            Ok(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }
}

fn parse_json(bytes: &[u8], columns: usize) -> Result<Rows, ApiError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let parsed = match bytes.trim_ascii_start().first() {
        Some(b'[') => rows::parse_json(bytes).map(|rows| JsonRows { rows, logits: None }),
        _ => rows::parse_json(bytes),
    };
    let JsonRows { rows, logits } = parsed.map_err(|error| {
        ApiError::invalid(format!(
            "the body must be a list of rows or an object {{\"rows\": …, \"logits\": …}} of finite numbers: {error}"
        ))
    })?;
    let matrix = |matrix: Matrix, columns: usize, what: &str| {
        // An empty list does not determine the number of columns.
        let columns = if matrix.values.is_empty() { columns } else { matrix.columns };
        Embeddings::new(matrix.values, columns)
            .map_err(|error| ApiError::invalid(format!("the {what}: {error}")))
    };
    let logits = logits.map(|logits| {
        let classes = logits.columns.max(1);
        matrix(logits, classes, "logits")
    });
    Rows::new(matrix(rows, columns, "rows")?, logits.transpose()?)
}

/// A body whose parts come from another thread. It is complete after the part `End`.
struct ChannelBody {
    parts: mpsc::Receiver<Part>,
    is_complete: bool,
}

impl hyper::body::Body for ChannelBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.is_complete {
            return Poll::Ready(None);
        }
        self.parts.poll_recv(context).map(|part| {
            self.is_complete = !matches!(part, Some(Part::Chunk(_)));
            match part {
                Some(Part::Chunk(chunk)) => Some(Ok(Frame::data(chunk))),
                Some(Part::End) => None,
                Some(Part::Aborted) => Some(Err(io::ErrorKind::ConnectionAborted.into())),
                None => Some(Err(io::Error::other("the response is incomplete"))),
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.is_complete
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use http_body_util::BodyExt;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use nuq::{Model, NuqClassifier};
    use tokio::runtime::Runtime;

    use super::*;
    use crate::{Config, ModelSource};

    /// A server with a model of one column, in a folder that must be kept.
    fn app() -> (tempfile::TempDir, Arc<App>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.nuq");
        let rows = Embeddings::new(vec![0.0, 1.0, 4.0, 5.0], 1).unwrap();
        let model = NuqClassifier::params().n_neighbors(2).fit(&rows, &["a", "a", "b", "b"]).unwrap();
        nuq_io::save(&Model::Classifier(model), &path).unwrap();
        let models = vec![ModelSource { name: "m".to_owned(), path }];
        (folder, Arc::new(App::new(Config { models, ..Config::default() }).unwrap()))
    }

    #[test]
    fn the_rows_of_a_body_in_json_count_toward_the_limit_of_memory() {
        let (_folder, app) = app();
        let model = app.models.get("m").unwrap().current();
        let body = format!("[{}]", vec!["[0]"; 100_000].join(","));
        let runtime = Runtime::new().unwrap();
        let input = runtime.block_on(Input::read(&app, &HeaderMap::new(), Body::from(body))).unwrap();
        let blocks = input.blocks(&app, &model).unwrap();
        assert!(app.capacity.body_bytes() >= 4 * 100_000);
        drop(blocks);
        assert_eq!(app.capacity.body_bytes(), 0);
    }

    /// The csv reader ignores blank lines. In a table with one column, a blank line is an empty cell.
    #[test]
    fn a_blank_line_between_rows_of_one_column_is_an_error() {
        let (_folder, app) = app();
        let runtime = Runtime::new().unwrap();
        let send = |body: &str| {
            let request = Request::post("/v1/models/m/score").header("host", "localhost");
            let request = request.body(Body::from(body.to_owned())).unwrap();
            runtime.block_on(async {
                let service = TowerToHyperService::new(crate::routes(app.clone()));
                let response = service.call(request).await.unwrap();
                let status = response.status().as_u16();
                let body = response.into_body().collect().await.unwrap().to_bytes();
                (status, String::from_utf8(body.to_vec()).unwrap())
            })
        };
        let cases = [
            ("0.1\n\n0.3\n", 1),
            ("0.1\r\n0.2\r\n\r\n0.3\r\n", 2),
            ("x\n\n0.3\n", 0),
            ("0.1\n\n0.3\r\n", 1),
            ("0.1\n\n0.3", 1),
            ("x\n\n0.3", 0),
        ];
        for (body, row) in cases {
            let (status, text) = send(body);
            assert_eq!(status, 422, "{body:?}: {text}");
            assert!(text.contains(&format!("row {row} is a blank line")), "{body:?}: {text}");
        }
        for body in
            ["\n\n0.1\n0.3", "x\r\n0.1\r\n0.3\r\n", "x\n0.1\n0.3\n\n\n", "x\r\n0.1\n0.3\n", "0.1\r\n0.3\n"]
        {
            let (status, text) = send(body);
            assert_eq!((status, text.matches("\"label\"").count()), (200, 2), "{body:?}: {text}");
        }
    }
}
