//! Routes that list doubtful labels and rows worth a label.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::routing::get;
use axum::{Json, Router};
use nuq::{Embeddings, FittedModel, LabelIssue, Model};
use serde::Deserialize;
use serde_json::{Value, json};

use super::changes::{blocking, embeddings};
use crate::App;
use crate::error::ApiError;
use crate::limits::{admit, read_body};
use crate::models::{Named, ServedModel};
use crate::results::label_json;
use crate::rows::Matrix;
use crate::state::Which;

/// Defaults and upper limit of `limit` and `count`.
const ISSUES: usize = 100;
const SUGGESTIONS: usize = 20;
const MAX: usize = 10_000;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/models/{model}/label-issues", get(label_issues))
        .route("/models/{model}/suggest", get(suggest_recent).post(suggest))
}

#[derive(Deserialize)]
struct LimitQuery {
    limit: Option<usize>,
}

async fn label_issues(
    State(app): State<Arc<App>>,
    Named(served): Named,
    query: Result<Query<LimitQuery>, QueryRejection>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::invalid(error.body_text()))?;
    let admission = admit(&app)?;
    blocking(move || {
        let _admission = admission;
        let issues = served.label_issues()?;
        let loaded = served.current();
        let model = loaded.read();
        let Model::Classifier(model) = &*model else { return Ok(Json(vec![])) };
        let limit = query.limit.unwrap_or(ISSUES).min(MAX);
        let classes = model.classes();
        let issue = |issue: &LabelIssue| {
            // The model may have changed since the list was computed.
            let (given, predicted) = (issue.given as usize, issue.predicted_label as usize);
            (given.max(predicted) < classes.len() && model.index().rows().contains(issue.row)).then(|| {
                json!({
                    "id": issue.row,
                    "label": label_json(classes.label(given)),
                    "suggestion": label_json(classes.label(predicted)),
                    "probability": issue.probability_given,
                    "suggestion_probability": issue.predicted_probability,
                    "picture": app.pictures.address(&served.name, issue.row),
                })
            })
        };
        Ok(Json(issues.iter().filter_map(issue).take(limit).collect()))
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuggestBody {
    rows: Matrix,
    count: Option<usize>,
}

/// Chooses among the rows of the body.
async fn suggest(
    State(app): State<Arc<App>>,
    Named(served): Named,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Vec<Value>>, ApiError> {
    let admission = admit(&app)?;
    let body = read_body(&app, &headers, body).await?;
    blocking(move || {
        let _admission = admission;
        let body: SuggestBody = serde_json::from_slice(&body.bytes)
            .map_err(|problem| ApiError::invalid(format!("the body is not valid: {problem}")))?;
        let rows = embeddings(&app, body.rows)?;
        let uncertainty = log_epistemic(&served, &rows)?;
        let chosen = nuq::suggest(&rows, &uncertainty, body.count.unwrap_or(SUGGESTIONS).min(MAX))?;
        let suggestion = |&row: &usize| json!({ "row": row, "log_epistemic": finite(uncertainty[row]) });
        Ok(Json(chosen.iter().map(suggestion).collect()))
    })
    .await
}

fn log_epistemic(served: &ServedModel, rows: &Embeddings<'_>) -> Result<Vec<f64>, ApiError> {
    let loaded = served.current();
    let model = loaded.read();
    Ok(match &*model {
        Model::Classifier(model) => model.predict(rows)?.iter().map(|row| row.log_epistemic).collect(),
        Model::Regressor(model) => model.predict(rows)?.iter().map(|row| row.log_epistemic).collect(),
    })
}

/// JSON cannot represent infinity; it is written as null.
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

/// Chooses among the sampled recent rows.
async fn suggest_recent(
    State(app): State<Arc<App>>,
    Named(served): Named,
    query: Result<Query<LimitQuery>, QueryRejection>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::invalid(error.body_text()))?;
    let admission = admit(&app)?;
    blocking(move || {
        let _admission = admission;
        let columns = served.current().read().index().dim();
        let mut samples = served.state.telemetry().samples.newest(Which::Recent, usize::MAX);
        // Rows of a former model of the same name may have other columns.
        samples.retain(|sample| sample.observation.embedding.len() == columns);
        if samples.is_empty() {
            return Ok(Json(vec![]));
        }
        let values: Vec<f32> =
            samples.iter().flat_map(|sample| &sample.observation.embedding).copied().collect();
        let rows = Embeddings::new(values, columns).map_err(|error| ApiError::invalid(error.to_string()))?;
        // The model may have changed since the rows were scored.
        let uncertainty = log_epistemic(&served, &rows)?;
        let chosen = nuq::suggest(&rows, &uncertainty, query.limit.unwrap_or(SUGGESTIONS).min(MAX))?;
        let suggestion = |&i: &usize| {
            let sample = &samples[i];
            json!({
                "id": sample.id,
                "time": sample.observation.time_ms,
                "label": sample.observation.label,
                "probability": sample.observation.probability,
                "accept": sample.observation.accept.iter().cloned().collect::<BTreeMap<String, bool>>(),
                "log_epistemic": finite(uncertainty[i]),
            })
        };
        Ok(Json(chosen.iter().map(suggestion).collect()))
    })
    .await
}
