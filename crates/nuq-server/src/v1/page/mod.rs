//! Routes that supply the data of the web page: activity, uncertainties, drift, single rows, a map, pictures.
//!
//! Values of measures are those that thresholds compare: the natural logarithm of the epistemic and of the total uncertainty, the
//! aleatoric uncertainty, and the negative log density. Higher always means less certain. Values that are not finite are null.

mod detail;
mod drift;
mod histogram;
mod reference;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use nuq::calibrate::{Guarantee, Measure, Predictor, Threshold, binomial_interval};
use nuq::{Embeddings, FittedModel, Model};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{blocking, parameters};
use crate::App;
use crate::error::ApiError;
use crate::models::NamedModel;
use crate::pictures::no_picture;
use crate::served_model::ServedModel;
use crate::state::{Interval, Sample, SampleKind, now_ms};
pub(super) use detail::{NearRow, near_rows, nearest};
pub(super) use reference::rank;
use reference::{MEASURES, Reference};

/// Longest range of activity in minutes: one week.
const MAX_MINUTES: u64 = 7 * 24 * 60;
/// Ranges up to this length are answered with intervals of five seconds.
const SHORT_MINUTES: u64 = 15;
const MINUTE_MS: u64 = 60_000;
/// Largest number of rows in a list.
const MAX_LIMIT: usize = 500;
/// Largest number of live rows (rows that clients have scored) on the map.
const LIVE_ROWS: usize = 300;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/models/{model}/activity", get(activity))
        .route("/models/{model}/distribution", get(distribution))
        .route("/models/{model}/drift", get(drift::get))
        .route("/models/{model}/drift/acknowledge", post(drift::acknowledge))
        .route("/models/{model}/recent", get(recent))
        .route("/models/{model}/recent/{id}", get(detail::of_sample))
        .route("/models/{model}/inspect", post(detail::of_file))
        .route("/models/{model}/map", get(map))
        .route("/models/{model}/pictures/{row}", get(picture))
}

/// The samples of training rows of all models, computed when they are first needed.
#[derive(Default)]
pub(crate) struct References {
    by_model: Mutex<BTreeMap<String, Slot>>,
}

/// The sample of one model. It is locked while the sample is computed.
type Slot = Arc<Mutex<Option<Arc<Reference>>>>;

impl References {
    /// The sample of the current version of a model. Blocks while the sample is computed.
    pub(super) fn get(&self, served: &ServedModel) -> Result<Arc<Reference>, ApiError> {
        let slot = {
            let mut all = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(served.name.clone()).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = served.current();
        let model = loaded.read()?;
        match &*slot {
            Some(reference) if reference.version == model.version() => Ok(reference.clone()),
            _ => {
                let reference = Arc::new(Reference::new(&model, model.version())?);
                *slot = Some(reference.clone());
                Ok(reference)
            }
        }
    }
}

#[derive(Deserialize)]
struct ActivityQuery {
    minutes: Option<u64>,
}

async fn activity(
    NamedModel(served): NamedModel,
    query: Result<Query<ActivityQuery>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let minutes = parameters(query)?.minutes.unwrap_or(60);
    if minutes == 0 || minutes > MAX_MINUTES {
        return Err(ApiError::invalid(format!("minutes is {minutes}: use 1 to {MAX_MINUTES}")));
    }
    blocking(move || {
        let expected: Map<String, Value> = {
            let loaded = served.current();
            let model = loaded.read()?;
            let thresholds = model.thresholds().iter();
            thresholds.map(|(name, threshold)| (name.clone(), expected(threshold))).collect()
        };
        let now = now_ms();
        let first = now.saturating_sub(minutes * MINUTE_MS);
        let telemetry = served.state.telemetry();
        let is_short = minutes <= SHORT_MINUTES;
        let intervals: Vec<Value> = match is_short {
            true => telemetry.activity.short_intervals(first).map(interval).collect(),
            false => telemetry.activity.minutes(first).map(interval).collect(),
        };
        let oldest = match is_short {
            true => telemetry.activity.short_intervals(0).next(),
            false => telemetry.activity.minutes(0).next(),
        };
        let since = oldest.map_or(now, |interval| interval.start_ms);
        drop(telemetry);
        Ok(Json(json!({
            "now": now,
            "since": since,
            "seconds": if is_short { 5 } else { 60 },
            "intervals": intervals,
            "expected": expected,
            "unrecorded_rows": served.state.dropped_rows(),
        })))
    })
    .await
}

fn interval(interval: &Interval) -> Value {
    let decisions = interval.thresholds.iter().map(|(name, decisions)| {
        (name.clone(), json!({ "rows": decisions.rows, "rejected": decisions.rejected }))
    });
    json!({
        "time": interval.start_ms,
        "requests": interval.requests,
        "rows": interval.rows,
        "seconds_p50": interval.latency(0.5),
        "seconds_p99": interval.latency(0.99),
        "thresholds": decisions.collect::<Map<_, _>>(),
    })
}

/// The share of rows that a threshold rejects if new rows are like the held-out rows, and the 95 % interval of this share.
fn expected(threshold: &Threshold) -> Value {
    let (rejected, low, high) = match threshold.score.guarantee {
        Guarantee::Coverage { share, low, high, .. } => (1.0 - share, 1.0 - high, 1.0 - low),
        Guarantee::Risk { accepted, .. } => {
            let rejected = threshold.score.rows.saturating_sub(accepted);
            let (low, high) = binomial_interval(rejected, threshold.score.rows);
            (rejected as f64 / threshold.score.rows.max(1) as f64, low, high)
        }
    };
    json!({ "rejected": rejected, "low": low, "high": high })
}

/// The values of a measure with which live rows are compared, ascending. They are values of held-out rows if a threshold on this measure
/// has held-out scores of the same predictor and was not calibrated on training rows, otherwise values of training rows. The density does
/// not depend on the predictor. The second value is true for held-out rows.
pub(super) fn comparison(
    model: &Model<'_>,
    reference: &Reference,
    measure: Measure,
    predictor: Predictor,
) -> (Vec<f64>, bool) {
    let is_comparable = |threshold: &Threshold| {
        let has_predictor = measure == Measure::Density || threshold.predictor == predictor;
        threshold.measure == measure && threshold.score.training_rows == 0 && has_predictor
    };
    let mut thresholds = model.thresholds().iter().filter(|(_, threshold)| is_comparable(threshold));
    match thresholds.find_map(|(name, _)| model.rules().held_out_scores(name)) {
        Some(scores) => (scores.to_vec(), true),
        None => (reference.sorted(measure).to_vec(), false),
    }
}

async fn distribution(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
) -> Result<Json<Value>, ApiError> {
    let value = blocking(move || {
        let reference = app.references.get(&served)?;
        let live = served.state.telemetry().samples.newest(SampleKind::Recent, MAX_LIMIT);
        // Uncertainties about the predictions of the network and of NUQ are not comparable. The figure shows only rows that
        // have the same predictor as the newest row.
        let predictor = live.first().map_or(Predictor::Nuq, |sample| sample.observation.predictor);
        let live: Vec<_> =
            live.into_iter().filter(|sample| sample.observation.predictor == predictor).collect();
        let loaded = served.current();
        let model = loaded.read()?;
        let measures: Map<String, Value> = MEASURES
            .into_iter()
            .map(|measure| {
                let (values, is_held_out) = comparison(&model, &reference, measure, predictor);
                let live = live.iter().map(|sample| sample.observation.measure(measure)).collect();
                (measure.to_string(), histogram::of(&values, live, is_held_out))
            })
            .collect();
        Ok(json!({ "live_rows": live.len(), "measures": measures }))
    });
    value.await.map(Json)
}

#[derive(Deserialize)]
struct RecentQuery {
    which: Option<String>,
    limit: Option<usize>,
}

async fn recent(
    NamedModel(served): NamedModel,
    query: Result<Query<RecentQuery>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let query = parameters(query)?;
    let which = match query.which.as_deref() {
        None | Some("recent") => SampleKind::Recent,
        Some("rejected") => SampleKind::Rejected,
        Some(other) => {
            let message = format!("the parameter `which` is {other:?}: use `recent` or `rejected`");
            return Err(ApiError::invalid(message));
        }
    };
    let limit = query.limit.unwrap_or(100).min(MAX_LIMIT);
    let samples = served.state.telemetry().samples.newest(which, limit);
    Ok(Json(samples.iter().map(|sample| row(sample)).collect()))
}

/// A scored row without its embedding.
fn row(sample: &Sample) -> Value {
    let observation = &sample.observation;
    let accept: Map<String, Value> =
        observation.accept.iter().map(|(name, accept)| (name.clone(), (*accept).into())).collect();
    json!({
        "id": sample.id,
        "time": observation.time_ms,
        "label": observation.label,
        "probability": observation.probability,
        "aleatoric": observation.aleatoric,
        "epistemic": observation.log_epistemic.exp(),
        "total": observation.log_total.exp(),
        "log_epistemic": observation.log_epistemic,
        "log_total": observation.log_total,
        "log_density": observation.log_density,
        "p_value": observation.p_value,
        "accept": accept,
    })
}

#[derive(Deserialize)]
struct MapQuery {
    /// The time `drawn_ms` of the sample of training rows that the page already has. If it is the current sample, the response omits the
    /// training rows.
    drawn_ms: Option<u64>,
}

async fn map(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    query: Result<Query<MapQuery>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let query = parameters(query)?;
    let value = blocking(move || {
        let reference = app.references.get(&served)?;
        let is_listed = query.drawn_ms != Some(reference.drawn_ms);
        let listed = if reference.has_map() && is_listed { &reference.rows[..] } else { &[] };
        // Pictures are looked up in the file system after the model is unlocked.
        let (are_file_rows, is_classifier) = {
            let loaded = served.current();
            let model = loaded.read()?;
            let are_file_rows: Vec<bool> =
                listed.iter().map(|row| loaded.is_row_of_model_file(model.index().rows(), row.id)).collect();
            (are_file_rows, matches!(*model, Model::Classifier(_)))
        };
        let training = is_listed.then(|| {
            let row = |(row, is_row_of_model_file): (&reference::TrainingRow, bool)| {
                json!({
                    "id": row.id,
                    "x": row.position.0,
                    "y": row.position.1,
                    "label": row.label,
                    "rank": row.rank,
                    "picture": picture_address(&app, &served, row.id, is_row_of_model_file),
                })
            };
            listed.iter().zip(are_file_rows).map(row).collect::<Vec<_>>()
        });
        let axes = match reference.explained() {
            Some(_) => Some("principal"),
            // Without a plane there are no axes.
            None => reference.has_map().then_some("discriminants"),
        };
        Ok(json!({
            "drawn_ms": reference.drawn_ms,
            "task": if is_classifier { "classification" } else { "regression" },
            "axes": axes,
            "explained": reference.explained().map(|(first, second)| [first, second]),
            "training": training,
            "live": live_rows(&served, &reference)?,
        }))
    });
    value.await.map(Json)
}

/// The positions of recent rows. Rows of a former model with another number of columns are skipped.
fn live_rows(served: &ServedModel, reference: &Reference) -> Result<Vec<Value>, ApiError> {
    let samples = served.state.telemetry().samples.newest(SampleKind::Recent, LIVE_ROWS);
    let mut rows = vec![];
    for sample in samples {
        let observation = &sample.observation;
        let embedding = Embeddings::new(observation.embedding.clone(), observation.embedding.len().max(1));
        let embedding = embedding.map_err(nuq::Error::from)?;
        let Some(position) = reference.project(&embedding).and_then(|positions| positions.first().copied())
        else {
            continue;
        };
        let mut value = row(&sample);
        value["x"] = position.0.into();
        value["y"] = position.1.into();
        value["rank"] = reference.rank(Measure::Total, observation.log_total).into();
        rows.push(value);
    }
    Ok(rows)
}

/// The address of the picture of a training row for the page. `None` if there is no picture, or if the row is not a row of the model file:
/// a row that was inserted later may have the id of a removed row, whose picture would be wrong.
pub(super) fn picture_address(
    app: &App,
    served: &ServedModel,
    id: u32,
    is_row_of_model_file: bool,
) -> Option<String> {
    if is_row_of_model_file { app.pictures.address(&served.name, id) } else { None }
}

async fn picture(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    Path((_, row)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let row: u32 =
        row.parse().map_err(|_| ApiError::not_found(format!("{row:?} is not the number of a row")))?;
    let (content_type, bytes) = blocking(move || {
        let Some(pictures) = app.pictures.of(&served.name) else {
            return Err(ApiError::not_found("the model has no pictures: start the server with --pictures"));
        };
        let loaded = served.current();
        if !loaded.is_row_of_model_file(loaded.read()?.index().rows(), row) {
            return Err(no_picture(row));
        }
        pictures.read(row)
    })
    .await?;
    Ok(([(CONTENT_TYPE, content_type)], bytes).into_response())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use nuq::NuqClassifier;
    use nuq::calibrate::{Target, calibrate};

    use super::*;
    use crate::{Config, ModelSource};

    #[test]
    fn rows_are_compared_with_held_out_rows_of_the_same_predictor() {
        let rows = Embeddings::new(vec![0.0, 1.0, 4.0, 5.0], 1).unwrap();
        let model = NuqClassifier::params().n_neighbors(2).fit(&rows, &["a", "a", "b", "b"]).unwrap();
        let mut model = Model::Classifier(model);
        let reference = Reference::new(&model, 1).unwrap();
        let scores = [11.0, 12.0, 13.0, 14.0];
        let threshold = |measure: Measure| calibrate(measure, &scores, None, Target::Coverage(0.5)).unwrap();
        let held_out = (scores.to_vec(), true);
        let training = |measure: Measure| (reference.sorted(measure).to_vec(), false);
        let compared = |model: &Model<'_>, measure: Measure, predictor: Predictor| {
            comparison(model, &reference, measure, predictor)
        };

        let network = threshold(Measure::Epistemic).of_predictor(Predictor::Network);
        model.rules_mut().set_threshold("network", network, &scores).unwrap();
        assert_eq!(compared(&model, Measure::Epistemic, Predictor::Network), held_out);
        assert_eq!(compared(&model, Measure::Epistemic, Predictor::Nuq), training(Measure::Epistemic));
        // Training rows are not held out, whatever their predictor.
        let of_training_rows = threshold(Measure::Total).on_training_rows(4);
        model.rules_mut().set_threshold("training", of_training_rows, &scores).unwrap();
        assert_eq!(compared(&model, Measure::Total, Predictor::Nuq), training(Measure::Total));
        // The density does not depend on the predictor.
        model.rules_mut().set_threshold("density", threshold(Measure::Density), &scores).unwrap();
        for predictor in [Predictor::Nuq, Predictor::Network] {
            assert_eq!(compared(&model, Measure::Density, predictor), held_out);
        }
    }

    /// A change locks the model while it is applied. Other requests must be answered meanwhile, also by a server with one worker thread.
    #[test]
    fn activity_waits_for_a_change_on_a_thread_for_blocking_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.nuq");
        let rows = Embeddings::new(vec![0.0, 1.0, 4.0, 5.0], 1).unwrap();
        let model = NuqClassifier::params().n_neighbors(2).fit(&rows, &["a", "a", "b", "b"]).unwrap();
        nuq_io::save(&Model::Classifier(model), &path).unwrap();
        let models = vec![ModelSource { name: "m".to_owned(), path }];
        let app = App::new(Config { models, ..Config::default() }).unwrap();
        let served = app.models.get("m").unwrap();
        let loaded = served.current();
        let (locked, is_locked) = channel();
        let (answered, is_answered) = channel();
        let change = std::thread::spawn(move || {
            let _model = loaded.write();
            locked.send(()).unwrap();
            is_answered.recv_timeout(Duration::from_secs(5)).is_ok()
        });
        is_locked.recv().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let query = Ok(Query(ActivityQuery { minutes: None }));
        let (activity, ()) = runtime.block_on(async {
            // The second future is another request. It runs on the same thread, after the first future waits.
            tokio::join!(activity(NamedModel(served.clone()), query), async { _ = answered.send(()) })
        });
        assert!(change.join().unwrap(), "the other request is answered only after the change");
        assert_eq!(activity.unwrap()["unrecorded_rows"], 0);
    }
}
