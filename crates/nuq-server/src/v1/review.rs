//! Routes that list doubtful labels and rows worth a label.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use nuq::{Embeddings, FittedModel, LabelIssue, Model, Neighbors};
use serde::Deserialize;
use serde_json::{Value, json};

use super::changes::embeddings;
use super::page::nearest;
use super::{JsonRequest, Limit, admitted, parameters};
use crate::App;
use crate::error::ApiError;
use crate::limits::in_time;
use crate::models::Named;
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

async fn label_issues(
    State(app): State<Arc<App>>,
    Named(served): Named,
    query: Result<Query<Limit>, QueryRejection>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let limit = parameters(query)?.limit.unwrap_or(ISSUES).min(MAX);
    let shared = app.clone();
    // After the time limit the computation goes on, and a later request finds its result.
    let list = admitted(app.clone(), move || {
        let issues = served.label_issues()?;
        let loaded = served.current();
        let model = loaded.read();
        let Model::Classifier(model) = &*model else { return Ok(Json(vec![])) };
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
    });
    in_time(&shared, list).await
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
    request: JsonRequest,
) -> Result<Json<Vec<Value>>, ApiError> {
    let limit = app.capacity.limits.rows;
    let rows = request.run(move |body: SuggestBody| {
        let rows = embeddings(body.rows, limit)?;
        let (uncertainty, _) = predict(&served.current().read(), &rows)?;
        let chosen = nuq::suggest(&rows, &uncertainty, body.count.unwrap_or(SUGGESTIONS).min(MAX))?;
        let suggestion = |&row: &usize| json!({ "row": row, "log_epistemic": uncertainty[row] });
        Ok(chosen.iter().map(suggestion).collect())
    });
    in_time(&app, rows).await
}

/// The epistemic uncertainties of rows, as logarithms, and their neighbors.
fn predict(model: &Model<'_>, rows: &Embeddings<'_>) -> Result<(Vec<f64>, Neighbors), ApiError> {
    Ok(match model {
        Model::Classifier(model) => {
            let predictions = model.predict(rows)?;
            (predictions.iter().map(|row| row.log_epistemic).collect(), predictions.neighbors().clone())
        }
        Model::Regressor(model) => {
            let estimates = model.predict(rows)?;
            (estimates.iter().map(|row| row.log_epistemic).collect(), estimates.neighbors().clone())
        }
    })
}

/// Chooses among the sampled recent rows.
async fn suggest_recent(
    State(app): State<Arc<App>>,
    Named(served): Named,
    query: Result<Query<Limit>, QueryRejection>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let count = parameters(query)?.limit.unwrap_or(SUGGESTIONS).min(MAX);
    let shared = app.clone();
    let rows = admitted(app.clone(), move || {
        let loaded = served.current();
        let model = loaded.read();
        let columns = model.index().dim();
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
        let (uncertainty, neighbors) = predict(&model, &rows)?;
        let chosen = nuq::suggest(&rows, &uncertainty, count)?;
        let suggestion = |&i: &usize| {
            let sample = &samples[i];
            json!({
                "id": sample.id,
                "time": sample.observation.time_ms,
                "label": sample.observation.label,
                "probability": sample.observation.probability,
                "accept": sample.observation.accept.iter().cloned().collect::<BTreeMap<String, bool>>(),
                "log_epistemic": uncertainty[i],
                "neighbors": nearest((&app, &served, &model), &neighbors, i),
            })
        };
        Ok(Json(chosen.iter().map(suggestion).collect()))
    });
    in_time(&shared, rows).await
}
