//! Routes that list doubtful labels, and rows that should be labeled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use nuq::calibrate::{Measure, Predictor};
use nuq::{Embeddings, FittedModel, LabelIssue, Model, Neighbors};
use serde::Deserialize;
use serde_json::{Value, json};

use super::changes::embeddings;
use super::page::{NearRow, comparison, near_rows, nearest, picture_address, rank};
use super::{JsonRequest, Limit, admitted, parameters};
use crate::App;
use crate::error::ApiError;
use crate::limits::{in_time, too_slow};
use crate::models::NamedModel;
use crate::results::label_json;
use crate::rows::Matrix;
use crate::served_model::{LabelIssues, ServedModel};
use crate::state::{Sample, SampleKind};

/// Default number of listed label issues.
const ISSUES: usize = 100;
/// Default number of suggested rows.
const SUGGESTIONS: usize = 20;
/// Largest number of listed label issues, and of suggested rows.
const MAX: usize = 10_000;

/// Without a threshold, a row counts as uncertain if at least this share of the held-out or training rows with which it is compared has a
/// lower epistemic uncertainty.
const UNCERTAIN: f64 = 0.9;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/models/{model}/label-issues", get(label_issues))
        .route("/models/{model}/suggest", get(suggest_recent).post(suggest))
}

async fn label_issues(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    query: Result<Query<Limit>, QueryRejection>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let limit = parameters(query)?.limit.unwrap_or(ISSUES).min(MAX);
    let time_limit = app.capacity.limits.request_timeout;
    let deadline = Instant::now() + time_limit;
    let shared = app.clone();
    let list = async {
        // A request that waits for the computation of another one does not count as a running request.
        let cached = served.cached_label_issues().await;
        let compute = move || match served.label_issues(cached, deadline)? {
            Some(issues) => listed_issues(&app, &served, &issues, limit).map(Json),
            None => Err(too_slow(time_limit)),
        };
        admitted(shared.clone(), compute).await
    };
    // After the time limit the computation continues, and a later request finds its result.
    in_time(&shared, list).await
}

/// The first `limit` label issues as JSON.
fn listed_issues(
    app: &App,
    served: &ServedModel,
    listed: &LabelIssues,
    limit: usize,
) -> Result<Vec<Value>, ApiError> {
    let loaded = served.current();
    let model = loaded.read()?;
    let (classes, rows) = (&listed.classes, model.index().rows());
    let issue = |issue: &LabelIssue| {
        // Rows may have been removed since the list was computed.
        rows.contains(issue.row).then(|| {
            let value = json!({
                "id": issue.row,
                "label": label_json(&classes[issue.given as usize]),
                "suggestion": label_json(&classes[issue.predicted_label as usize]),
                "probability": issue.probability_given,
                "suggestion_probability": issue.predicted_probability,
            });
            (value, issue.row, loaded.is_row_of_model_file(rows, issue.row))
        })
    };
    let listed: Vec<(Value, u32, bool)> = listed.issues.iter().filter_map(issue).take(limit).collect();
    // Pictures are looked up in the file system after the model is unlocked.
    drop(model);
    let with_picture = |(mut value, row, is_row_of_model_file): (Value, u32, bool)| {
        value["picture"] = picture_address(app, served, row, is_row_of_model_file).into();
        value
    };
    Ok(listed.into_iter().map(with_picture).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuggestBody {
    rows: Matrix,
    count: Option<usize>,
}

/// Suggests rows of the body that should be labeled.
async fn suggest(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    request: JsonRequest,
) -> Result<Json<Vec<Value>>, ApiError> {
    let limit = app.capacity.limits.rows;
    let rows = request.run(move |body: SuggestBody| {
        let rows = embeddings("rows", body.rows, limit)?;
        let loaded = served.current();
        // The model is not locked during the selection, so that a change does not wait for it.
        let ((uncertainty, _), space) = {
            let model = loaded.read()?;
            (predict(&model, &rows)?, model.search_space())
        };
        let chosen = space.suggest(&rows, &uncertainty, body.count.unwrap_or(SUGGESTIONS).min(MAX))?;
        let suggestion = |&row: &usize| json!({ "row": row, "log_epistemic": uncertainty[row] });
        Ok(chosen.iter().map(suggestion).collect())
    });
    in_time(&app, rows).await
}

/// The logarithms of the epistemic uncertainties of rows, and the neighbors of the rows.
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

/// Suggests uncertain rows of the sample of recent rows that should be labeled.
async fn suggest_recent(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    query: Result<Query<Limit>, QueryRejection>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let count = parameters(query)?.limit.unwrap_or(SUGGESTIONS).min(MAX);
    let shared = app.clone();
    let rows = admitted(app.clone(), move || {
        let reference = app.references.get(&served)?;
        let loaded = served.current();
        let model = loaded.read()?;
        // The candidates are scored again without logits, because logits are not recorded.
        let (sorted, is_held_out) = comparison(&model, &reference, Measure::Epistemic, Predictor::Nuq);
        let Some(mut candidates) = Candidates::read(&served, &model)? else { return Ok(Json(vec![])) };
        candidates.retain_uncertain(&sorted);
        let Some(rows) = candidates.embeddings(&model)? else { return Ok(Json(vec![])) };
        let uncertainty: Vec<f64> = candidates.rows.iter().map(|candidate| candidate.log_epistemic).collect();
        let chosen = model.suggest(&rows, &uncertainty, count)?;
        let suggestion = |&i: &usize| {
            let Candidate { sample, at, log_epistemic } = &candidates.rows[i];
            let value = json!({
                "id": sample.id,
                "time": sample.observation.time_ms,
                "label": sample.observation.label,
                "probability": sample.observation.probability,
                "accept": sample.observation.accept.iter().cloned().collect::<BTreeMap<String, bool>>(),
                "log_epistemic": log_epistemic,
                "rank": rank(&sorted, *log_epistemic),
                "compared_with": if is_held_out { "held_out" } else { "training" },
            });
            (value, nearest((&loaded, &model), &candidates.neighbors, *at))
        };
        let suggestions: Vec<(Value, Vec<NearRow>)> = chosen.iter().map(suggestion).collect();
        // Pictures are looked up in the file system after the model is unlocked.
        drop(model);
        let with_pictures = |(mut value, near): (Value, Vec<NearRow>)| {
            value["neighbors"] = near_rows(&app, &served, near);
            value
        };
        Ok(Json(suggestions.into_iter().map(with_pictures).collect()))
    });
    in_time(&shared, rows).await
}

/// A recent row, scored by the current model.
struct Candidate {
    sample: Arc<Sample>,
    /// The position of the row in the neighbors of all candidates.
    at: usize,
    log_epistemic: f64,
}

/// Recent rows, from which the suggested rows are chosen.
struct Candidates {
    rows: Vec<Candidate>,
    neighbors: Neighbors,
}

impl Candidates {
    /// The sample of recent rows; `None` if it has no row with the number of columns of the model. The rows are scored again,
    /// because the model may have changed.
    fn read(served: &ServedModel, model: &Model<'_>) -> Result<Option<Self>, ApiError> {
        let columns = model.index().dim();
        let mut samples = served.state.telemetry().samples.newest(SampleKind::Recent, usize::MAX);
        // Rows of a former model of the same name may have another number of columns.
        samples.retain(|sample| sample.observation.embedding.len() == columns);
        let Some(rows) = rows_of(&samples, columns)? else { return Ok(None) };
        let (uncertainty, neighbors) = predict(model, &rows)?;
        let rows = samples.into_iter().zip(uncertainty).enumerate();
        let rows = rows.map(|(at, (sample, log_epistemic))| Candidate { sample, at, log_epistemic });
        Ok(Some(Self { rows: rows.collect(), neighbors }))
    }

    /// Removes rows whose labels would add little: rows that equal a training row, and rows that all thresholds accepted. A row that was
    /// scored without a threshold is kept only if its epistemic uncertainty exceeds at least the share `UNCERTAIN` of the values in
    /// `sorted`. If `sorted` is empty, all these rows are kept.
    fn retain_uncertain(&mut self, sorted: &[f64]) {
        let Self { rows, neighbors } = self;
        rows.retain(|candidate| {
            let is_training_row = neighbors.sq_distances(candidate.at).first() == Some(&0.0);
            let observation = &candidate.sample.observation;
            let is_uncertain = match observation.accept.is_empty() {
                true => sorted.is_empty() || rank(sorted, candidate.log_epistemic) >= UNCERTAIN,
                false => observation.is_rejected(),
            };
            is_uncertain && !is_training_row
        });
    }

    fn embeddings(&self, model: &Model<'_>) -> Result<Option<Embeddings<'static>>, ApiError> {
        let samples: Vec<Arc<Sample>> = self.rows.iter().map(|candidate| candidate.sample.clone()).collect();
        rows_of(&samples, model.index().dim())
    }
}

/// The embeddings of samples; `None` if there are none.
fn rows_of(samples: &[Arc<Sample>], columns: usize) -> Result<Option<Embeddings<'static>>, ApiError> {
    if samples.is_empty() {
        return Ok(None);
    }
    let values = samples.iter().flat_map(|sample| &sample.observation.embedding).copied().collect();
    Embeddings::new(values, columns).map(Some).map_err(|error| ApiError::invalid(error.to_string()))
}
