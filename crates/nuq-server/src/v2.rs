//! The Open Inference Protocol, version 2, over REST, with the extension for binary tensors.
//!
//! The input `embeddings` is a tensor of rows × columns, and the optional input `logits` is a tensor of rows × classes. [`Output`] lists
//! the outputs. The request parameter `threshold` (a name) selects the threshold of decisions, and `neighbors` (a number) selects how
//! many neighbors are returned.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::body::Body;
use axum::extract::{RawPathParams, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use half::f16;
use nuq::{Embeddings, FittedModel, Model};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::App;
use crate::batch::Rows;
use crate::error::ApiError;
use crate::limits::{admit, in_time, read_body};
use crate::loaded_model::ModelGuard;
use crate::models::NamedModel;
use crate::results::{Output, Results, Selection, Values};
use crate::rows::{Numbers, parse_json};
use crate::served_model::ServedModel;

/// The header with the length of the JSON part of a body.
const HEADER_LENGTH: &str = "inference-header-content-length";

/// Bodies up to this size in bytes are parsed directly in the request handler. Larger bodies are parsed on a thread for blocking tasks,
/// because otherwise they would delay other requests.
const SHORT_BODY: usize = 64 << 10;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v2", get(server_metadata))
        .route("/v2/", get(server_metadata))
        .route("/v2/health/live", get(live))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models/{model}", get(model_metadata))
        .route("/v2/models/{model}/ready", get(model_ready))
        .route("/v2/models/{model}/infer", post(infer))
        .route("/v2/models/{model}/versions/{version}", get(model_metadata))
        .route("/v2/models/{model}/versions/{version}/ready", get(model_ready))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer))
}

async fn server_metadata() -> Json<Value> {
    let version = env!("CARGO_PKG_VERSION");
    Json(json!({ "name": "nuq", "version": version, "extensions": ["binary_tensor_data"] }))
}

async fn live() -> Json<Value> {
    Json(json!({ "live": true }))
}

async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    check_ready(&app)?;
    Ok(Json(json!({ "ready": true })))
}

fn check_ready(app: &App) -> Result<(), ApiError> {
    if app.stopping.load(Relaxed) {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "the server is shutting down"));
    }
    Ok(())
}

/// Checks the version in the path, if there is one. `version` is the version of the model that answers.
fn check_version(served: &ServedModel, version: u64, params: &RawPathParams) -> Result<(), ApiError> {
    let current = version.to_string();
    match params.iter().find(|(key, _)| *key == "version") {
        Some((_, version)) if version != current => Err(ApiError::not_found(format!(
            "the model {} has no version {version:?}; its version is {current}",
            served.name
        ))),
        _ => Ok(()),
    }
}

async fn model_ready(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    params: RawPathParams,
) -> Result<Json<Value>, ApiError> {
    check_version(&served, served.version(), &params)?;
    check_ready(&app)?;
    Ok(Json(json!({ "name": served.name, "ready": true })))
}

async fn model_metadata(
    NamedModel(served): NamedModel,
    params: RawPathParams,
) -> Result<Json<Value>, ApiError> {
    let name = served.name.clone();
    let describe = move |model: &ModelGuard<'_>| {
        let version = model.version();
        let mut inputs =
            vec![json!({ "name": "embeddings", "datatype": "FP32", "shape": [-1, model.index().dim()] })];
        let platform = match &**model {
            Model::Classifier(model) => {
                let shape = json!([-1, model.classes().len()]);
                let optional = json!({ "optional": true });
                inputs.push(
                    json!({ "name": "logits", "datatype": "FP32", "shape": shape, "parameters": optional }),
                );
                "nuq_classifier"
            }
            Model::Regressor(_) => "nuq_regressor",
        };
        let output = |output: Output| {
            let shape = if output.is_of_neighbors() { json!([-1, model.n_neighbors()]) } else { json!([-1]) };
            json!({ "name": output.name(), "datatype": output.datatype(), "shape": shape })
        };
        let outputs: Vec<Value> = Output::of_model(model).map(output).collect();
        let versions = [version.to_string()];
        (
            json!({ "name": name, "versions": versions, "platform": platform, "inputs": inputs, "outputs": outputs }),
            version,
        )
    };
    let (metadata, version) = served.read(describe).await?;
    check_version(&served, version, &params)?;
    Ok(Json(metadata))
}

/// The JSON part of a request. Unknown fields are skipped.
#[derive(Debug, Deserialize)]
struct InferRequest {
    id: Option<String>,
    #[serde(default)]
    parameters: RequestParameters,
    inputs: Vec<Input>,
    outputs: Option<Vec<RequestedOutput>>,
}

#[derive(Debug, Default, Deserialize)]
struct RequestParameters {
    /// Whether outputs without the parameter `binary_data` are binary.
    #[serde(default)]
    binary_data_output: bool,
    threshold: Option<String>,
    neighbors: Option<usize>,
}

#[derive(Debug, Deserialize)]
struct Input {
    name: String,
    shape: Vec<usize>,
    datatype: String,
    #[serde(default)]
    parameters: InputParameters,
    data: Option<Numbers>,
}

#[derive(Debug, Default, Deserialize)]
struct InputParameters {
    binary_data_size: Option<usize>,
}

#[derive(Debug, Deserialize)]
struct RequestedOutput {
    name: String,
    #[serde(default)]
    parameters: OutputParameters,
}

#[derive(Debug, Default, Deserialize)]
struct OutputParameters {
    binary_data: Option<bool>,
}

/// A parsed request.
struct Inference {
    id: Option<String>,
    rows: Rows,
    selection: Selection,
    /// Whether each requested output is binary; empty if the request lists no outputs.
    is_binary: Vec<bool>,
    /// Whether all outputs are binary if the request lists none.
    all_binary: bool,
}

async fn infer(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    params: RawPathParams,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let _admission = admit(&app)?;
    let held = read_body(&app, &headers, body).await?;
    let length = header_length(&headers, held.bytes.len())?;
    let max_rows = app.capacity.limits.rows;
    let request = if held.bytes.len() <= SHORT_BODY {
        parse(&held.bytes, length, max_rows)?
    } else {
        let parse = move || parse(&held.bytes, length, max_rows);
        tokio::task::spawn_blocking(parse).await.map_err(|_| ApiError::internal())??
    };
    let Inference { id, rows, selection, is_binary, all_binary } = request;
    check_version(&served, served.version(), &params)?;
    // One model computes the whole response, even if its file is replaced in the meantime.
    let (results, version) = in_time(&app, served.score(&served.current(), rows, selection)).await?;
    // The model may have been changed since the first check.
    check_version(&served, version, &params)?;
    let is_binary = |i: usize| is_binary.get(i).copied().unwrap_or(all_binary);
    Ok(respond((&served.name, version), id.as_deref(), &results, is_binary))
}

/// The length of the JSON part of a body.
fn header_length(headers: &HeaderMap, body: usize) -> Result<usize, ApiError> {
    let Some(value) = headers.get(HEADER_LENGTH) else { return Ok(body) };
    let length = value.to_str().ok().and_then(|length| length.parse::<usize>().ok());
    match length.filter(|length| *length <= body) {
        Some(length) => Ok(length),
        None => Err(ApiError::invalid(format!(
            "the header Inference-Header-Content-Length must be the length of the JSON part in bytes; the whole body has {body} bytes"
        ))),
    }
}

fn parse(body: &[u8], json_length: usize, max_rows: usize) -> Result<Inference, ApiError> {
    let (json, mut binary) = body.split_at(json_length);
    let request: InferRequest = parse_json(json)
        .map_err(|error| ApiError::invalid(format!("the body is not an inference request: {error}")))?;
    let (mut embeddings, mut logits) = (None, None);
    for input in request.inputs {
        let slot = match input.name.as_str() {
            "embeddings" => &mut embeddings,
            "logits" => &mut logits,
            other => {
                let message =
                    format!("there is no input {other:?}: the inputs are `embeddings` and `logits`");
                return Err(ApiError::invalid(message));
            }
        };
        if slot.is_some() {
            return Err(ApiError::invalid(format!("the input `{}` is given twice", input.name)));
        }
        *slot = Some(tensor(input, &mut binary, max_rows)?);
    }
    if !binary.is_empty() {
        let message = format!(
            "{} bytes follow the binary tensors: the shapes or Inference-Header-Content-Length do not match the body",
            binary.len()
        );
        return Err(ApiError::invalid(message));
    }
    let Some(embeddings) = embeddings else {
        return Err(ApiError::invalid("the input `embeddings` is missing"));
    };
    let RequestParameters { binary_data_output: all_binary, threshold, neighbors } = request.parameters;
    let requested = request.outputs.unwrap_or_default();
    let is_binary =
        requested.iter().map(|output| output.parameters.binary_data.unwrap_or(all_binary)).collect();
    let mut outputs: Vec<Output> = Vec::new();
    for output in &requested {
        let parsed = output.name.parse::<Output>().map_err(|error| ApiError::invalid(error.to_string()))?;
        if outputs.contains(&parsed) {
            return Err(ApiError::invalid(format!("the output `{parsed}` is requested twice")));
        }
        outputs.push(parsed);
    }
    let outputs = (!outputs.is_empty()).then_some(outputs);
    let selection = Selection { outputs, neighbors, threshold };
    let rows = Rows::new(embeddings, logits)?;
    Ok(Inference { id: request.id, rows, selection, is_binary, all_binary })
}

/// The values of an input. Memory is allocated only for values that are in the body, never for the size that a shape declares.
fn tensor(input: Input, binary: &mut &[u8], max_rows: usize) -> Result<Embeddings<'static>, ApiError> {
    let Input { name, shape, datatype, parameters, data } = input;
    let invalid = |problem: String| ApiError::invalid(format!("the input `{name}`: {problem}"));
    let &[rows, columns] = shape.as_slice() else {
        return Err(invalid(format!("its shape has {} dimensions: send rows × columns", shape.len())));
    };
    let values = rows.checked_mul(columns).filter(|values| *values <= isize::MAX as usize / 8 && columns > 0);
    let Some(count) = values else {
        return Err(invalid(format!("its shape [{rows}, {columns}] is not possible")));
    };
    if rows > max_rows {
        let message = format!(
            "the input `{name}` has {rows} rows, more than {max_rows} (--max-rows): send them in several requests, or stream them to \
             /v1/models/{{model}}/score"
        );
        return Err(ApiError::too_large("too_many_rows", message));
    }
    let size = match datatype.as_str() {
        "FP16" => 2,
        "FP32" => 4,
        "FP64" => 8,
        other => return Err(invalid(format!("its datatype {other:?} is not FP16, FP32 or FP64"))),
    };
    let values = match (parameters.binary_data_size, data) {
        (Some(_), Some(_)) => return Err(invalid("it has both `data` and `binary_data_size`".to_owned())),
        (None, None) => return Err(invalid("it has neither `data` nor `binary_data_size`".to_owned())),
        (None, Some(Numbers(values))) => {
            if values.len() != count {
                let problem =
                    format!("it has {} values, its shape [{rows}, {columns}] needs {count}", values.len());
                return Err(invalid(problem));
            }
            values
        }
        (Some(length), None) => {
            if length != count * size {
                let problem = format!(
                    "binary_data_size is {length}; {count} values of {datatype} have {} bytes",
                    count * size
                );
                return Err(invalid(problem));
            }
            let Some((bytes, rest)) = binary.split_at_checked(length) else {
                let problem =
                    format!("the body ends early: {length} bytes are needed, {} are left", binary.len());
                return Err(invalid(problem));
            };
            *binary = rest;
            singles(bytes, size).map_err(|(at, value)| {
                let (row, column) = (at / columns, at % columns);
                invalid(format!(
                    "row {row}, column {column} is {value:e}: it exceeds the range of 32-bit numbers"
                ))
            })?
        }
    };
    Embeddings::new(values, columns).map_err(|error| invalid(error.to_string()))
}

/// Converts little-endian numbers of `size` bytes to 32-bit numbers. The error is the position and the value of a number that exceeds the
/// range of 32-bit numbers.
fn singles(bytes: &[u8], size: usize) -> Result<Vec<f32>, (usize, f64)> {
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks::<N>().0.iter().map(|&entry| read(entry)).collect()
    }
    Ok(match size {
        2 => each(bytes, |entry| f16::from_le_bytes(entry).to_f32()),
        4 => each(bytes, f32::from_le_bytes),
        _ => {
            let values = bytes.as_chunks::<8>().0.iter().map(|&entry| f64::from_le_bytes(entry));
            let overflows = |value: &f64| value.is_finite() && (*value as f32).is_infinite();
            match values.clone().enumerate().find(|(_, value)| overflows(value)) {
                Some(overflow) => return Err(overflow),
                None => values.map(|value| value as f32).collect(),
            }
        }
    })
}

fn respond(
    (name, version): (&str, u64),
    id: Option<&str>,
    results: &Results,
    is_binary: impl Fn(usize) -> bool,
) -> Response {
    let mut json = Vec::new();
    let mut binary = Vec::new();
    json.extend_from_slice(b"{\"model_name\":");
    write_json(&mut json, &name);
    json.extend_from_slice(b",\"model_version\":");
    write_json(&mut json, &version.to_string());
    if let Some(id) = id {
        json.extend_from_slice(b",\"id\":");
        write_json(&mut json, &id);
    }
    json.extend_from_slice(b",\"outputs\":[");
    for (i, column) in results.columns.iter().enumerate() {
        if i > 0 {
            json.push(b',');
        }
        json.extend_from_slice(b"{\"name\":");
        write_json(&mut json, &column.output.name());
        json.extend_from_slice(b",\"datatype\":");
        write_json(&mut json, &column.output.datatype());
        json.extend_from_slice(b",\"shape\":");
        let shape: Vec<usize> = std::iter::once(results.rows).chain(column.width).collect();
        write_json(&mut json, &shape);
        if is_binary(i) {
            let first = binary.len();
            write_binary(&column.values, &mut binary);
            let parameters = json!({ "binary_data_size": binary.len() - first });
            json.extend_from_slice(b",\"parameters\":");
            write_json(&mut json, &parameters);
        } else {
            json.extend_from_slice(b",\"data\":[");
            write_data(&column.values, &mut json);
            json.push(b']');
        }
        json.push(b'}');
    }
    json.extend_from_slice(b"]}");
    if !(0..results.columns.len()).any(&is_binary) {
        return ([(CONTENT_TYPE, "application/json")], json).into_response();
    }
    let length = json.len().to_string();
    json.append(&mut binary);
    let headers = [(CONTENT_TYPE.as_str(), "application/octet-stream"), (HEADER_LENGTH, length.as_str())];
    (headers, json).into_response()
}

fn write_json(to: &mut Vec<u8>, value: &impl serde::Serialize) {
    serde_json::to_writer(to, value).expect("values are written to memory");
}

/// Writes values as the elements of a JSON list. Labels are strings, as the type BYTES requires.
fn write_data(values: &Values, to: &mut Vec<u8>) {
    let len = match values {
        Values::Numbers(values) => values.len(),
        Values::Labels(values) => values.len(),
        Values::Booleans(values) => values.len(),
        Values::Ids(values) => values.len(),
    };
    for i in 0..len {
        if i > 0 {
            to.push(b',');
        }
        match values {
            Values::Labels(labels) => write_json(to, &labels[i].to_string()),
            values => values.write_json(i, to),
        }
    }
}

fn write_binary(values: &Values, to: &mut Vec<u8>) {
    match values {
        Values::Numbers(values) => values.iter().for_each(|value| to.extend_from_slice(&value.to_le_bytes())),
        Values::Booleans(values) => to.extend(values.iter().map(|&value| u8::from(value))),
        Values::Ids(values) => {
            values.iter().for_each(|&id| to.extend_from_slice(&i64::from(id).to_le_bytes()))
        }
        Values::Labels(values) => {
            for label in values {
                let text = label.to_string();
                to.extend_from_slice(&(text.len() as u32).to_le_bytes());
                to.extend_from_slice(text.as_bytes());
            }
        }
    }
}
