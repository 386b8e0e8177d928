//! Routes that list, describe, download and reload models.

use std::io::{self, Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use nuq::calibrate::{Predictor, Threshold};
use nuq::{FittedModel, Model};
use serde_json::{Value, json};

use crate::App;
use crate::error::ApiError;
use crate::limits::admit;
use crate::models::{Named, ServedModel};
use crate::results::label_json;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/models", get(list))
        .route("/models/{model}", get(describe))
        .route("/models/{model}/file", get(file))
        .route("/models/{model}/reload", post(reload))
}

async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let mut models = Vec::new();
    for served in app.models.iter() {
        let (name, version) = (served.name.clone(), served.version());
        let changes = served.state.accepts_changes();
        models.push(served.read(move |model| Value::Object(summary(&name, version, changes, model))).await?);
    }
    Ok(Json(models.into()))
}

async fn describe(Named(served): Named) -> Result<Json<Value>, ApiError> {
    let (name, version, changes) = (served.name.clone(), served.version(), served.state.accepts_changes());
    let describe = move |model: &Model<'static>| {
        let mut fields = summary(&name, version, changes, model);
        fields.insert("n_neighbors".to_owned(), model.n_neighbors().into());
        fields.insert("index".to_owned(), model.index().describe().to_string().into());
        fields.insert("kernel".to_owned(), model.kernel().name().into());
        let bandwidth = match model.bandwidth() {
            nuq::Bandwidth::Scalar(bandwidth) => json!(bandwidth),
            _ => Value::Null,
        };
        fields.insert("bandwidth".to_owned(), bandwidth);
        fields.insert("normalize".to_owned(), model.is_normalized().into());
        fields.insert("column_names".to_owned(), json!(model.column_names()));
        fields.insert("temperature".to_owned(), json!(model.rules().fitted_temperature()));
        Value::Object(fields)
    };
    served.read(describe).await.map(Json)
}

fn summary(name: &str, version: u64, changes: bool, model: &Model<'_>) -> serde_json::Map<String, Value> {
    let (task, classes) = match model {
        Model::Classifier(model) => {
            ("classification", json!(model.classes().labels().iter().map(label_json).collect::<Vec<_>>()))
        }
        Model::Regressor(_) => ("regression", Value::Null),
    };
    let thresholds = model.thresholds().iter().map(|(name, threshold)| threshold_json(name, threshold));
    let fields = json!({
        "name": name,
        "version": version,
        "changes": changes,
        "task": task,
        "rows": model.index().len(),
        "columns": model.index().dim(),
        "classes": classes,
        "thresholds": thresholds.collect::<Vec<Value>>(),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => unreachable!("the literal is an object"),
    }
}

/// The value of a threshold as in model files: JSON cannot represent infinity, so +∞, with which every row is accepted, is written as
/// null, and -∞ as the smallest finite number.
pub(super) fn threshold_value(threshold: &Threshold) -> Option<f64> {
    let value = threshold.score.value;
    (value < f64::INFINITY).then_some(value.max(f64::MIN))
}

/// A threshold as JSON.
pub(super) fn threshold_json(name: &str, threshold: &Threshold) -> Value {
    json!({
        "name": name,
        "measure": threshold.measure.name(),
        "value": threshold_value(threshold),
        "rows": threshold.score.rows,
        "needs_logits": threshold.predictor == Predictor::Network,
        "statement": threshold.to_string(),
    })
}

/// The current model as a file, with all changes since it was opened.
async fn file(State(app): State<Arc<App>>, Named(served): Named) -> Result<Response, ApiError> {
    let admission = admit(&app)?;
    let name = format!("attachment; filename=\"{}.nuq\"", served.name);
    // The model is written to a temporary file first. Otherwise a slow client would keep the model locked and delay changes.
    let write = move |served: Arc<ServedModel>| -> io::Result<(std::fs::File, u64)> {
        let mut file = nuq_io::unnamed_file().map_err(io::Error::other)?;
        let current = served.current();
        nuq_io::write_model(&current.read(), &mut file).map_err(io::Error::other)?;
        let length = file.stream_position()?;
        file.seek(SeekFrom::Start(0))?;
        Ok((file, length))
    };
    let written =
        tokio::task::spawn_blocking(move || write(served)).await.map_err(|_| ApiError::internal())?;
    let (file, length) = written.map_err(|error| {
        tracing::error!(%error, "a model could not be written to a temporary file");
        let message = format!("the model cannot be written to a temporary file: {error}");
        ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "storage_full", message)
    })?;
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_DISPOSITION, name),
        (CONTENT_LENGTH, length.to_string()),
    ];
    Ok((headers, Body::new(FileBody { file, left: length, admission: Some(admission) })).into_response())
}

/// A file as a body. Reading hardly blocks, because the file has just been written and its pages are in memory.
struct FileBody<A> {
    file: std::fs::File,
    left: u64,
    /// Counts the download as a running request. `None` after the whole file was read, so that the next request is admitted.
    admission: Option<A>,
}

impl<A: Unpin> hyper::body::Body for FileBody<A> {
    type Data = bytes::Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut chunk = vec![0; self.left.min(256 << 10) as usize];
        Poll::Ready(Some(self.file.read(&mut chunk).and_then(|len| {
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.left -= len as u64;
            if self.left == 0 {
                self.admission = None;
            }
            chunk.truncate(len);
            Ok(hyper::body::Frame::data(chunk.into()))
        })))
    }
}

async fn reload(State(app): State<Arc<App>>, Named(served): Named) -> Result<Json<Value>, ApiError> {
    let _admission = admit(&app)?;
    let name = served.name.clone();
    let result =
        tokio::task::spawn_blocking(move || served.reload()).await.map_err(|_| ApiError::internal())?;
    let (version, discarded) = result.map_err(|error| {
        let message = format!("{error}; the former model is still served");
        ApiError::new(StatusCode::CONFLICT, "cannot_reload", message)
    })?;
    Ok(Json(json!({ "name": name, "version": version, "discarded_changes": discarded })))
}

#[cfg(test)]
mod tests {
    use nuq::calibrate::{Measure, Target, calibrate};

    use super::threshold_value;

    #[test]
    fn infinite_thresholds_are_null_or_the_smallest_number() {
        let of = |scores: &[f64]| {
            threshold_value(&calibrate(Measure::Total, scores, None, Target::Coverage(0.5)).unwrap())
        };
        assert_eq!(of(&[1.0, 1.0, 1.0, f64::INFINITY]), Some(1.0));
        assert_eq!(of(&[f64::INFINITY; 4]), None);
        assert_eq!(of(&[f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY, 1.0]), Some(f64::MIN));
    }
}
