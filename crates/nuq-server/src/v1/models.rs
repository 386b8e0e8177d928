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

use super::blocking;
use crate::App;
use crate::error::ApiError;
use crate::limits::admit;
use crate::loaded_model::ModelGuard;
use crate::models::NamedModel;
use crate::results::label_json;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/models", get(list))
        .route("/models/{model}", get(describe))
        .route("/models/{model}/file", get(file))
        .route("/models/{model}/reload", post(reload))
}

/// All models, except those that a failed change has damaged.
async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let mut models = Vec::new();
    for served in app.models.iter() {
        let (name, changes) = (served.name.clone(), served.state.accepts_changes());
        match served.read(move |model| Value::Object(summary(&name, changes, model))).await {
            Ok(model) => models.push(model),
            Err(error) if error.code == "model_damaged" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Json(models.into()))
}

async fn describe(NamedModel(served): NamedModel) -> Result<Json<Value>, ApiError> {
    let (name, changes) = (served.name.clone(), served.state.accepts_changes());
    let describe = move |model: &ModelGuard<'_>| {
        let mut fields = summary(&name, changes, model);
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

fn summary(name: &str, changes: bool, model: &ModelGuard<'_>) -> serde_json::Map<String, Value> {
    let (task, classes) = match &**model {
        Model::Classifier(model) => {
            ("classification", json!(model.classes().labels().iter().map(label_json).collect::<Vec<_>>()))
        }
        Model::Regressor(_) => ("regression", Value::Null),
    };
    let thresholds = model.thresholds().iter().map(|(name, threshold)| threshold_json(name, threshold));
    let fields = json!({
        "name": name,
        "version": model.version(),
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
async fn file(State(app): State<Arc<App>>, NamedModel(served): NamedModel) -> Result<Response, ApiError> {
    let admission = admit(&app)?;
    let name = format!("attachment; filename=\"{}.nuq\"", served.name);
    // The model is written to a temporary file first. Otherwise a slow client would keep the model locked and delay changes.
    let written = blocking(move || {
        let mut file = nuq_io::unnamed_file().map_err(download_error)?;
        let current = served.current();
        let model = current.read()?;
        nuq_io::write_model(&model, &mut file).map_err(download_error)?;
        let failed = |error: io::Error| not_written(error.kind(), &error);
        let length = file.stream_position().map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok((file, length))
    });
    let (file, length) = written.await?;
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_DISPOSITION, name),
        (CONTENT_LENGTH, length.to_string()),
    ];
    Ok((headers, Body::new(FileBody { file, left: length, admission: Some(admission) })).into_response())
}

/// The error of a download. A damaged model has the same error as on other routes.
fn download_error(error: nuq_io::Error) -> ApiError {
    match error {
        nuq_io::Error::Model { source, .. } => source.into(),
        nuq_io::Error::Write { ref source, .. } => not_written(source.kind(), &error),
        error => {
            tracing::error!(%error, "a download failed");
            ApiError::internal()
        }
    }
}

/// The error of a download whose temporary file cannot be written.
fn not_written(kind: io::ErrorKind, error: &dyn std::error::Error) -> ApiError {
    tracing::error!(%error, "a model could not be written to a temporary file");
    let (status, code) = match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (StatusCode::INSUFFICIENT_STORAGE, "storage_full")
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, "state_not_writable"),
    };
    ApiError::new(status, code, format!("the model cannot be written to a temporary file: {error}"))
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

async fn reload(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
) -> Result<Json<Value>, ApiError> {
    let _admission = admit(&app)?;
    let name = served.name.clone();
    let result =
        tokio::task::spawn_blocking(move || served.reload()).await.map_err(|_| ApiError::internal())?;
    let (version, discarded) = result?;
    Ok(Json(json!({ "name": name, "version": version, "discarded_changes": discarded })))
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use nuq::calibrate::{Measure, Target, calibrate};

    use super::{download_error, threshold_value};

    #[test]
    fn a_download_reports_a_full_disk_only_if_the_disk_is_full() {
        let of = |kind: ErrorKind| {
            let source = io::Error::from(kind);
            let refused = download_error(nuq_io::Error::Write { path: "the output".into(), source });
            assert!(refused.message.contains("cannot write the output: "), "{}", refused.message);
            (refused.status.as_u16(), refused.code, refused.retry_after)
        };
        assert_eq!(of(ErrorKind::StorageFull), (507, "storage_full", None));
        assert_eq!(of(ErrorKind::QuotaExceeded), (507, "storage_full", None));
        assert_eq!(of(ErrorKind::PermissionDenied), (503, "state_not_writable", None));
        assert_eq!(of(ErrorKind::NotFound), (503, "state_not_writable", None));
    }

    #[test]
    fn a_download_of_a_damaged_model_has_the_error_of_the_other_routes() {
        use nuq_neighbors::Error::{Damaged, Device};
        let of = |error: nuq_neighbors::Error| {
            let failed =
                download_error(nuq_io::Error::Model { path: "the output".into(), source: error.into() });
            (failed.status.as_u16(), failed.code, failed.retry_after)
        };
        let problem = || "it is lost".to_owned();
        assert_eq!(
            of(Damaged { section: "rows".to_owned(), problem: problem() }),
            (500, "internal_error", None)
        );
        assert_eq!(of(Device { problem: problem() }), (503, "search_failed", Some(1)));
    }

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
