//! One row in detail: its uncertainties compared with held-out or training rows, the decisions of the thresholds, and the nearest
//! training rows.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use nuq::calibrate::Predictor;
use nuq::{Decision, Embeddings, FittedModel, Model, Neighbors};
use serde_json::{Map, Value, json};

use super::super::blocking;
use super::super::models::threshold_value;
use super::super::score::Input;
use super::reference::{MEASURES, Reference, rank, training_label};
use super::{comparison, picture_address, row};
use crate::App;
use crate::batch::Rows;
use crate::error::ApiError;
use crate::limits::admit;
use crate::loaded_model::LoadedModel;
use crate::models::NamedModel;
use crate::rows::part;
use crate::served_model::ServedModel;
use crate::state::{Observation, Sample, observe};

/// Largest number of nearest training rows.
const NEIGHBORS: usize = 8;
/// Largest number of rows of a file that are returned.
const FILE_ROWS: usize = 200;
/// Quantiles of the rows with which a row is compared.
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// A recent row.
pub(super) async fn of_sample(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let id: u64 = id.parse().map_err(|_| ApiError::not_found(format!("{id:?} is not the id of a row")))?;
    let value = blocking(move || {
        let sample = served.state.telemetry().samples.get(id);
        let sample = sample.ok_or_else(|| ApiError::not_found(format!("row {id} is no longer stored")))?;
        let reference = app.references.get(&served)?;
        let detail = {
            let loaded = served.current();
            let model = loaded.read()?;
            let neighbors = neighbors_of(&model, &sample.observation);
            let context = Context { loaded: &loaded, model: &model, reference: &reference };
            Detail::new(&context, &sample, neighbors.as_ref().map(|neighbors| (neighbors, 0)))
        };
        let mut value = detail.with_pictures(&app, &served);
        value["embedding"] = json!(sample.observation.embedding);
        Ok(value)
    });
    value.await.map(Json)
}

/// The first rows of a body in any format of `score`, in detail. They are not recorded as live rows (rows that clients score).
pub(super) async fn of_file(
    State(app): State<Arc<App>>,
    NamedModel(served): NamedModel,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let admission = admit(&app)?;
    let input = Input::read(&app, &headers, body).await?;
    let value = blocking(move || {
        let _admission = admission;
        let loaded = served.current();
        let mut blocks = input.blocks(&app, &loaded)?;
        let mut first = None;
        let mut total = 0;
        while let Some(rows) = blocks.next()? {
            total += rows.embeddings.len();
            if first.is_none() {
                first = Some(part(&rows, 0..rows.embeddings.len().min(FILE_ROWS)));
            }
        }
        let reference = app.references.get(&served)?;
        let details = {
            let model = loaded.read()?;
            let context = Context { loaded: &loaded, model: &model, reference: &reference };
            first.map_or(Ok(vec![]), |rows| explain(&context, &rows))?
        };
        let rows = details.into_iter().map(|detail| detail.with_pictures(&app, &served));
        Ok(json!({ "total": total, "rows": rows.collect::<Vec<_>>() }))
    });
    value.await.map(Json)
}

/// The details of rows that are scored now.
fn explain(context: &Context<'_>, rows: &Rows) -> Result<Vec<Detail>, ApiError> {
    let (observations, neighbors) = match context.model {
        Model::Classifier(model) => {
            let (predictions, predictor) = match &rows.logits {
                Some(logits) => {
                    (model.predict_with(&rows.embeddings, &model.network(logits)?)?, Predictor::Network)
                }
                None => (model.predict(&rows.embeddings)?, Predictor::Nuq),
            };
            let observations = observe::of_classifier(model, &rows.embeddings, &predictions, predictor);
            (observations, predictions.neighbors().clone())
        }
        Model::Regressor(model) => {
            let estimates = model.predict(&rows.embeddings)?;
            (observe::of_regressor(model, &rows.embeddings, &estimates), estimates.neighbors().clone())
        }
    };
    let samples = observations.into_iter().zip(0..).map(|(observation, id)| Sample { id, observation });
    let details = samples.enumerate().map(|(i, sample)| Detail::new(context, &sample, Some((&neighbors, i))));
    Ok(details.collect())
}

/// The data from which the details of a row are computed.
struct Context<'c> {
    loaded: &'c LoadedModel,
    /// The model in `loaded`.
    model: &'c Model<'c>,
    reference: &'c Reference,
}

/// The nearest training rows; `None` if the model now has another number of columns.
fn neighbors_of(model: &Model<'_>, observation: &Observation) -> Option<Neighbors> {
    let embedding =
        Embeddings::new(observation.embedding.clone(), observation.embedding.len().max(1)).ok()?;
    model.neighbors_of(&embedding, model.n_neighbors().min(NEIGHBORS)).ok()
}

/// Everything that the page shows of a row, except the pictures of the nearest training rows.
struct Detail {
    value: Value,
    nearest: Vec<NearRow>,
}

impl Detail {
    /// `neighbors` are the neighbors of several rows, and the position of this row among them.
    fn new(context: &Context<'_>, sample: &Sample, neighbors: Option<(&Neighbors, usize)>) -> Self {
        let Context { loaded, model, reference } = *context;
        let observation = &sample.observation;
        // All measures except the density.
        let uncertainty = MEASURES.into_iter().take(3).map(|measure| {
            let value = observation.measure(measure);
            let (sorted, is_held_out) = comparison(model, reference, measure, observation.predictor);
            (measure.to_string(), scale(&sorted, value, is_held_out))
        });
        let thresholds = model.thresholds().iter();
        let decisions = thresholds.filter(|(_, threshold)| threshold.applies_to(observation.predictor)).map(
            |(name, threshold)| {
                let score = observation.measure(threshold.measure);
                json!({
                    "threshold": name,
                    "measure": threshold.measure.to_string(),
                    "score": score,
                    "value": threshold_value(threshold),
                    "accept": threshold.score.decide(score) == Decision::Accept,
                })
            },
        );
        let mut value = row(sample);
        value["uncertainty"] = uncertainty.collect::<Map<_, _>>().into();
        value["decisions"] = decisions.collect::<Vec<_>>().into();
        let nearest = neighbors.map_or(vec![], |(all, i)| nearest((loaded, model), all, i));
        Self { value, nearest }
    }

    /// The row as JSON. The pictures are looked up in the file system, so the model should be unlocked before.
    fn with_pictures(self, app: &App, served: &ServedModel) -> Value {
        let Self { mut value, nearest } = self;
        value["neighbors"] = near_rows(app, served, nearest);
        value
    }
}

/// The rank of a value among sorted values, and the quantiles of the sorted values.
fn scale(sorted: &[f64], value: f64, is_held_out: bool) -> Value {
    let quantile = |share: f64| {
        let last = sorted.len().checked_sub(1)?;
        Some(sorted[(share * last as f64).round() as usize]).filter(|value| value.is_finite())
    };
    let quantiles: Option<Vec<(f64, f64)>> =
        QUANTILES.iter().map(|&share| Some((share, quantile(share)?))).collect();
    json!({
        "value": value,
        "rank": (!sorted.is_empty()).then(|| rank(sorted, value)),
        "rows": sorted.len(),
        "compared_with": if is_held_out { "held_out" } else { "training" },
        "quantiles": quantiles,
    })
}

/// A training row near a scored row.
pub(in super::super) struct NearRow {
    id: u32,
    label: String,
    distance: f64,
    is_row_of_model_file: bool,
}

/// The nearest training rows of the row at position `i` of `neighbors`. `model` is the model in `loaded`.
pub(in super::super) fn nearest(
    (loaded, model): (&LoadedModel, &Model<'_>),
    neighbors: &Neighbors,
    i: usize,
) -> Vec<NearRow> {
    let pairs = neighbors.ids(i).iter().zip(neighbors.sq_distances(i)).take(NEIGHBORS);
    let row = |(&id, sq_distance): (&u32, &f64)| NearRow {
        id,
        label: training_label(model, id),
        distance: sq_distance.sqrt(),
        is_row_of_model_file: loaded.is_row_of_model_file(model.index().rows(), id),
    };
    pairs.map(row).collect()
}

/// Near training rows as JSON. Their pictures are looked up in the file system, so the model should be unlocked before.
pub(in super::super) fn near_rows(app: &App, served: &ServedModel, rows: Vec<NearRow>) -> Value {
    let row = |NearRow { id, label, distance, is_row_of_model_file }| {
        json!({
            "id": id,
            "label": label,
            "distance": distance,
            "picture": picture_address(app, served, id, is_row_of_model_file),
        })
    };
    rows.into_iter().map(row).collect::<Vec<_>>().into()
}
