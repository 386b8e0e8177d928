//! Routes that change the rows or the thresholds of a model, list the changes, or undo a change.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, RawPathParams, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use nuq::calibrate::{Measure, Predictor, Target, Threshold, calibrate, relevant_training_rows};
use nuq::{Embeddings, FittedModel, Label, Model, Neighbors};
use serde::Deserialize;
use serde_json::{Value, json};

use super::labels::{LabelValue, labels, training_labels};
use super::models::threshold_value;
use super::{JsonRequest, Limit, admitted, blocking, parameters};
use crate::App;
use crate::error::ApiError;
use crate::models::NamedModel;
use crate::results::label_json;
use crate::rows::Matrix;
use crate::state::{AppliedChange, Change, Kind, Labels, Summary};

/// Default of `delta`, the probability with which the guarantee for a target `risk` may fail.
const DELTA: f64 = 0.05;

/// Largest number of changes in a list.
const MAX_CHANGES: usize = 1000;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/models/{model}/rows", post(insert))
        .route("/models/{model}/rows/relabel", post(relabel))
        .route("/models/{model}/rows/remove", post(remove))
        .route("/models/{model}/thresholds", post(set_threshold))
        .route("/models/{model}/changes", get(list))
        .route("/models/{model}/changes/{change}/undo", post(undo))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InsertBody {
    rows: Matrix,
    labels: Vec<LabelValue>,
    /// Labels in `labels` that become new classes of the model. Other labels must be classes already.
    new_classes: Option<Vec<LabelValue>>,
}

/// The rows of the body's field `name`, at most `limit`.
pub(super) fn embeddings(name: &str, rows: Matrix, limit: usize) -> Result<Embeddings<'static>, ApiError> {
    let count = rows.values.len() / rows.columns.max(1);
    if count == 0 {
        return Err(ApiError::invalid(format!("{name} is empty: send at least one row")));
    }
    if count > limit {
        let message =
            format!("{name} has {count} rows, more than {limit} (--max-rows): send fewer rows at a time");
        return Err(ApiError::too_large("too_many_rows", message));
    }
    Embeddings::new(rows.values, rows.columns).map_err(|error| ApiError::invalid(error.to_string()))
}

/// A change as JSON. `rows` is the number of training rows after the change. `removed_rules` are the names of the thresholds, prediction
/// sets and prediction intervals that the change removed.
fn response(applied: &AppliedChange) -> Value {
    json!({
        "change": applied.id,
        "ids": applied.change.ids,
        "rows": applied.rows,
        "version": applied.version,
        "new_classes": applied.new_classes.iter().map(label_json).collect::<Vec<_>>(),
        "removed_rules": applied.removed_rules,
    })
}

async fn insert(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    request: JsonRequest,
) -> Result<Json<Value>, ApiError> {
    let limit = app.capacity.limits.rows;
    request
        .run(move |body: InsertBody| {
            let rows = embeddings("rows", body.rows, limit)?;
            let applied = served.change(|model| {
                let labels = training_labels(model, body.labels, body.new_classes)?;
                Ok(Change::insert(model, &rows, labels, None)?)
            })?;
            Ok(response(&applied))
        })
        .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RelabelBody {
    ids: Vec<u32>,
    labels: Vec<LabelValue>,
    new_classes: Option<Vec<LabelValue>>,
}

async fn relabel(NamedModel(served): NamedModel, request: JsonRequest) -> Result<Json<Value>, ApiError> {
    request
        .run(move |body: RelabelBody| {
            let applied = served.change(|model| {
                if matches!(model, Model::Regressor(_)) {
                    return Err(ApiError::invalid("labels require a classifier: a regressor has targets"));
                }
                let labels = training_labels(model, body.labels, body.new_classes)?;
                Ok(Change::relabel(model, &body.ids, labels)?)
            })?;
            Ok(response(&applied))
        })
        .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveBody {
    ids: Vec<u32>,
}

async fn remove(NamedModel(served): NamedModel, request: JsonRequest) -> Result<Json<Value>, ApiError> {
    request
        .run(move |body: RemoveBody| {
            let applied = served.change(|model| Ok(Change::remove(model, &body.ids)?))?;
            let mut response = response(&applied);
            response["removed"] = applied.change.ids.len().into();
            Ok(response)
        })
        .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThresholdBody {
    name: Option<String>,
    measure: Option<String>,
    /// The target is exactly one of `coverage`, `risk` and `false_alarm`; see [`Target`].
    coverage: Option<f64>,
    risk: Option<f64>,
    false_alarm: Option<f64>,
    /// The probability with which the guarantee for `risk` may fail.
    delta: Option<f64>,
    rows: Matrix,
    labels: Option<Vec<LabelValue>>,
    /// Logits of the network. If they are given, the threshold is for the uncertainty of the network's predictions.
    logits: Option<Matrix>,
}

impl ThresholdBody {
    /// The target, and the name of the threshold.
    fn target(&self) -> Result<(Target, String), ApiError> {
        let (target, name) = match (self.coverage, self.risk, self.false_alarm) {
            (Some(share), None, None) => (Target::Coverage(share), format!("coverage={share}")),
            (None, Some(risk), None) => {
                (Target::Risk { risk, delta: self.delta.unwrap_or(DELTA) }, format!("risk={risk}"))
            }
            (None, None, Some(share)) => (Target::FalseAlarm(share), format!("false_alarm={share}")),
            _ => return Err(ApiError::invalid("give exactly one of coverage, risk and false_alarm")),
        };
        if self.delta.is_some() && self.risk.is_none() {
            return Err(ApiError::invalid("delta requires risk"));
        }
        target.check()?;
        let name = self.name.clone().unwrap_or(name);
        match name.is_empty() || name.len() > 200 {
            true => Err(ApiError::invalid("name must have 1 to 200 bytes")),
            false => Ok((target, name)),
        }
    }

    fn measure(&self) -> Result<Measure, ApiError> {
        match &self.measure {
            Some(name) => {
                name.parse().map_err(|unknown: nuq::UnknownChoice| ApiError::invalid(unknown.to_string()))
            }
            None if self.false_alarm.is_some() => Ok(Measure::Epistemic),
            None => Ok(Measure::Total),
        }
    }
}

/// The scores of held-out rows.
struct HeldOut {
    scores: Vec<f64>,
    /// Whether each prediction is wrong; `None` without labels.
    is_error: Option<Vec<bool>>,
    /// The number of training rows among the held-out rows; see [`relevant_training_rows`].
    training_rows: usize,
}

fn held_out(
    model: &Model<'_>,
    measure: Measure,
    (rows, logits): (&Embeddings<'_>, Option<&Embeddings<'_>>),
    values: Option<Vec<LabelValue>>,
) -> Result<HeldOut, ApiError> {
    let count = |neighbors: &Neighbors| {
        relevant_training_rows(model.equal_training_rows(rows, neighbors), rows.len())
    };
    if let Some(given) = values.as_ref().map(Vec::len).filter(|given| *given != rows.len()) {
        return Err(ApiError::invalid(format!("{given} labels for {} rows: give one for each", rows.len())));
    }
    match model {
        Model::Classifier(classifier) => {
            let predictions = match logits {
                Some(logits) => classifier.predict_with(rows, &classifier.network(logits)?)?,
                None => classifier.predict(rows)?,
            };
            let is_error = match values.map(|values| labels(model, values)).transpose()? {
                Some(Labels::Classes(labels)) => {
                    Some(labels.iter().enumerate().map(|(i, label)| predictions.label(i) != label).collect())
                }
                _ => None,
            };
            let scores = predictions.iter().map(|prediction| measure.of(prediction)).collect();
            Ok(HeldOut { scores, is_error, training_rows: count(predictions.neighbors()) })
        }
        Model::Regressor(_) if logits.is_some() => Err(ApiError::invalid("logits require a classifier")),
        Model::Regressor(_) if values.is_some() => {
            Err(ApiError::invalid("labels require a classifier: the errors of a regressor are not counted"))
        }
        Model::Regressor(model) => {
            let estimates = model.predict(rows)?;
            let scores = estimates.iter().map(|estimate| measure.of_estimate(estimate)).collect();
            Ok(HeldOut { scores, is_error: None, training_rows: count(estimates.neighbors()) })
        }
    }
}

async fn set_threshold(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    request: JsonRequest,
) -> Result<Json<Value>, ApiError> {
    let limit = app.capacity.limits.rows;
    request
        .run(move |body: ThresholdBody| {
            let ((target, name), measure) = (body.target()?, body.measure()?);
            if matches!(target, Target::Risk { .. }) && body.labels.is_none() {
                return Err(ApiError::invalid(
                    "risk requires labels: errors are counted on the held-out rows",
                ));
            }
            let predictor = if body.logits.is_some() { Predictor::Network } else { Predictor::Nuq };
            let rows = embeddings("rows", body.rows, limit)?;
            let logits = body.logits.map(|logits| embeddings("logits", logits, limit)).transpose()?;
            let mut stored: Option<(Threshold, usize)> = None;
            let applied = served.change(|model| {
                if matches!((model, target), (Model::Regressor(_), Target::Risk { .. })) {
                    let text =
                        "risk requires a classifier: the predictions of a regressor are not right or wrong";
                    return Err(ApiError::invalid(text));
                }
                let held_out = held_out(model, measure, (&rows, logits.as_ref()), body.labels)?;
                let HeldOut { scores, is_error, training_rows } = held_out;
                let threshold = calibrate(measure, &scores, is_error.as_deref(), target)?;
                let threshold = threshold.of_predictor(predictor).on_training_rows(training_rows);
                let mut rules = model.rules().clone();
                rules.set_threshold(&name, threshold, &scores)?;
                let accepted = scores.iter().filter(|score| **score <= threshold.score.value).count();
                stored = Some((threshold, accepted));
                Ok(Change::rules(model, &name, rules))
            })?;
            let (threshold, accepted) = stored.ok_or_else(ApiError::internal)?;
            Ok(json!({
                "change": applied.id,
                "name": name,
                "measure": threshold.measure.name(),
                "value": threshold_value(&threshold),
                "rows": threshold.score.rows,
                "accepted": accepted,
                "training_rows": threshold.score.training_rows,
                "predictor": threshold.predictor.name(),
                "statement": threshold.to_string(),
                "version": applied.version,
            }))
        })
        .await
}

async fn list(
    NamedModel(served): NamedModel,
    query: Result<Query<Limit>, QueryRejection>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let limit = parameters(query)?.limit.unwrap_or(100).min(MAX_CHANGES);
    blocking(move || Ok(Json(served.state.changes(limit)?.iter().map(summary).collect()))).await
}

fn summary(change: &Summary) -> Value {
    let labels: Vec<Value> = match &change.labels {
        Labels::Classes(labels) => labels.iter().map(label_json).collect(),
        Labels::Targets(targets) => targets.iter().map(|target| json!(target)).collect(),
    };
    json!({
        "id": change.id,
        "time": change.time_ms,
        "kind": change.kind.name(),
        "text": text(change),
        "name": Some(&change.name).filter(|name| !name.is_empty()),
        "ids": change.ids,
        "labels": labels,
        "undoes": change.undoes,
        "undone_by": change.undone_by,
        "can_undo": change.obstacle.is_none(),
    })
}

/// The change in words.
fn text(change: &Summary) -> String {
    let rows = match change.ids.len() {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    };
    let label = match &change.labels {
        Labels::Classes(labels) => {
            labels.first().filter(|first| labels.iter().all(|label| label == *first)).map(Label::to_string)
        }
        Labels::Targets(_) => None,
    };
    let (with_label, to_label) = match label {
        Some(label) => (format!(" with the label “{label}”"), format!(" to “{label}”")),
        None => (String::new(), String::new()),
    };
    let text = match change.kind {
        Kind::Insert => format!("{rows} inserted{with_label}"),
        Kind::Remove => format!("{rows} removed"),
        Kind::Relabel => format!("{rows} relabeled{to_label}"),
        Kind::Threshold => format!("threshold “{}” changed", change.name),
    };
    match change.undoes {
        Some(undone) => format!("{text} (undo of change {undone})"),
        None => text,
    }
}

async fn undo(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    params: RawPathParams,
) -> Result<Json<Value>, ApiError> {
    let change = params.iter().find(|(key, _)| *key == "change").map_or("", |(_, number)| number);
    let change: u64 = change.parse().map_err(|_| {
        ApiError::invalid(format!("{change:?} is not the number of a change: GET …/changes lists them"))
    })?;
    admitted(app, move || {
        let applied = served.undo(change)?;
        let mut response = response(&applied);
        response["undoes"] = change.into();
        Ok(Json(response))
    })
    .await
}
