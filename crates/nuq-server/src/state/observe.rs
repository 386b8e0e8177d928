//! Observations of scored rows.

use nuq::calibrate::{Predictor, Threshold};
use nuq::{Decision, Embeddings, Estimates, FittedModel, NuqClassifier, NuqRegressor, Predictions};

use super::{Observation, now_ms};

/// The thresholds that apply to the predictions of a predictor.
fn applicable(model: &impl FittedModel, predictor: Predictor) -> Vec<(&str, &Threshold)> {
    let thresholds = model.thresholds().iter().filter(|(_, threshold)| threshold.applies_to(predictor));
    thresholds.map(|(name, threshold)| (name.as_str(), threshold)).collect()
}

/// The observations of the predictions of a classifier for `rows`.
pub(crate) fn of_classifier(
    model: &NuqClassifier<'_>,
    rows: &Embeddings<'_>,
    predictions: &Predictions<'_>,
    predictor: Predictor,
) -> Vec<Observation> {
    let (time_ms, thresholds) = (now_ms(), applicable(model, predictor));
    let observation = |i: usize| {
        let prediction = &predictions[i];
        let accept = |(name, threshold): &(&str, &Threshold)| {
            ((*name).to_owned(), threshold.decide(prediction) == Decision::Accept)
        };
        Observation {
            time_ms,
            embedding: rows.row(i).to_vec(),
            label: predictions.label(i).to_string(),
            probability: Some(prediction.probability),
            aleatoric: prediction.aleatoric,
            log_epistemic: prediction.log_epistemic,
            log_total: prediction.log_total,
            log_density: prediction.log_density,
            predictor,
            p_value: None,
            accept: thresholds.iter().map(accept).collect(),
        }
    };
    (0..rows.len()).map(observation).collect()
}

/// The observations of the estimates of a regressor for `rows`.
pub(crate) fn of_regressor(
    model: &NuqRegressor<'_>,
    rows: &Embeddings<'_>,
    estimates: &Estimates,
) -> Vec<Observation> {
    let (time_ms, predictor) = (now_ms(), Predictor::Nuq);
    let thresholds = applicable(model, predictor);
    let observation = |i: usize| {
        let estimate = &estimates[i];
        let accept = |(name, threshold): &(&str, &Threshold)| {
            ((*name).to_owned(), threshold.decide_estimate(estimate) == Decision::Accept)
        };
        Observation {
            time_ms,
            embedding: rows.row(i).to_vec(),
            label: estimate.mean.to_string(),
            probability: None,
            aleatoric: estimate.aleatoric(),
            log_epistemic: estimate.log_epistemic,
            log_total: estimate.log_total,
            log_density: estimate.log_density,
            predictor,
            p_value: None,
            accept: thresholds.iter().map(accept).collect(),
        }
    };
    (0..rows.len()).map(observation).collect()
}
