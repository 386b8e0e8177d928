//! The results of a request: the selected columns and their values.

use std::fmt;

use nuq::calibrate::{Predictor, Threshold, conformal_p_values};
use nuq::{
    Decision, Estimates, FittedModel, Label, Model, Neighbors, NuqClassifier, NuqRegressor, Predictions,
};

use crate::error::ApiError;

/// A column of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Label,
    Mean,
    Probability,
    Aleatoric,
    Epistemic,
    Total,
    LogAleatoric,
    LogEpistemic,
    LogTotal,
    LogDensity,
    Accept,
    PValue,
    NeighborIds,
    NeighborDistances,
    NeighborLabels,
    NeighborTargets,
}

nuq::nuq_neighbors::choices!(Output, "output", {
    Label => "label",
    Mean => "mean",
    Probability => "probability",
    Aleatoric => "aleatoric",
    Epistemic => "epistemic",
    Total => "total",
    LogAleatoric => "log_aleatoric",
    LogEpistemic => "log_epistemic",
    LogTotal => "log_total",
    LogDensity => "log_density",
    Accept => "accept",
    PValue => "p_value",
    NeighborIds => "neighbor_ids",
    NeighborDistances => "neighbor_distances",
    NeighborLabels => "neighbor_labels",
    NeighborTargets => "neighbor_targets",
});

impl Output {
    /// The columns of a model, in the order of the default response.
    pub(crate) fn of_model(model: &Model<'_>) -> impl Iterator<Item = Self> + use<> {
        let is_classifier = matches!(model, Model::Classifier(_));
        Self::ALL.iter().copied().filter(move |output| match output {
            Self::Label | Self::Probability | Self::NeighborLabels => is_classifier,
            Self::Mean | Self::LogAleatoric | Self::NeighborTargets => !is_classifier,
            _ => true,
        })
    }

    /// Whether the column has one value for each nearest training row.
    pub(crate) fn is_of_neighbors(self) -> bool {
        matches!(
            self,
            Self::NeighborIds | Self::NeighborDistances | Self::NeighborLabels | Self::NeighborTargets
        )
    }

    /// The type of the values in the Open Inference Protocol.
    pub(crate) fn datatype(self) -> &'static str {
        match self {
            Self::Label | Self::NeighborLabels => "BYTES",
            Self::Accept => "BOOL",
            Self::NeighborIds => "INT64",
            _ => "FP64",
        }
    }
}

/// The choices of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The columns, in the order of the response. By default all columns of the model, with three conditions: columns of neighbors are
    /// included if `neighbors` is given, `accept` if `threshold` is given or has a default, and `p_value` if, in addition, the scores of
    /// the held-out rows of this threshold are stored.
    pub(crate) outputs: Option<Vec<Output>>,
    /// The number of nearest training rows; by default the number that the model uses.
    pub(crate) neighbors: Option<usize>,
    /// The name of the threshold for `accept` and `p_value`. Usable thresholds were calibrated with logits if the request has logits, and
    /// without logits otherwise. A threshold on the density with a guarantee of coverage is usable in both cases, because the density does
    /// not depend on logits. If exactly one threshold of the model is usable, it is the default. Otherwise there is no default.
    pub(crate) threshold: Option<String>,
}

/// A selection in which the defaults of a model replace the missing choices.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    outputs: Vec<Output>,
    neighbors: usize,
    threshold: Option<Threshold>,
    /// The name of the threshold.
    threshold_name: Option<String>,
}

impl Plan {
    pub(crate) fn new(selection: &Selection, model: &Model<'_>, has_logits: bool) -> Result<Self, ApiError> {
        let available: Vec<Output> = Output::of_model(model).collect();
        if let Some(outputs) = &selection.outputs
            && let Some(output) = outputs.iter().find(|output| !available.contains(output))
        {
            return Err(ApiError::invalid(format!(
                "this model has no output `{output}`; its outputs are {}",
                names(&available)
            )));
        }
        let neighbors = selection.neighbors.unwrap_or(model.n_neighbors());
        if neighbors == 0 || neighbors > model.n_neighbors() {
            return Err(ApiError::invalid(format!(
                "neighbors is {neighbors}: the model uses {}; request 1 to {}",
                model.n_neighbors(),
                model.n_neighbors()
            )));
        }
        let threshold = Self::threshold(selection, model, has_logits)?;
        let outputs = match &selection.outputs {
            Some(outputs) => outputs.clone(),
            None => {
                let is_default = |output: &Output| match output {
                    Output::Accept => threshold.is_some(),
                    Output::PValue => {
                        threshold.is_some_and(|(name, _)| held_out_scores(model, name).is_some())
                    }
                    output => !output.is_of_neighbors() || selection.neighbors.is_some(),
                };
                available.into_iter().filter(is_default).collect()
            }
        };
        let needs_threshold = outputs.iter().find(|output| matches!(output, Output::Accept | Output::PValue));
        if let (Some(output), None) = (needs_threshold, threshold) {
            let usable = usable_thresholds(model, has_logits);
            return Err(ApiError::invalid(match (model.thresholds().is_empty(), usable.is_empty()) {
                (true, _) => {
                    format!("the output `{output}` needs a threshold, and the model has none: calibrate one")
                }
                (false, true) => format!(
                    "the output `{output}` needs a threshold, and all thresholds of the model were calibrated {} logits: {}, or \
                     calibrate another threshold",
                    if has_logits { "without" } else { "with" },
                    other_predictor(has_logits)
                ),
                (false, false) => format!(
                    "the output `{output}` needs the parameter `threshold`: one of {}",
                    quoted(usable.into_iter().map(|(name, _)| name))
                ),
            }));
        }
        if let Some((name, _)) = threshold
            && outputs.contains(&Output::PValue)
            && held_out_scores(model, name).is_none()
        {
            return Err(ApiError::invalid(format!(
                "the threshold `{name}` has no p-values, because the scores of its held-out rows are not stored: calibrate it again"
            )));
        }
        let (threshold_name, threshold) =
            threshold.map(|(name, threshold)| (name.to_owned(), *threshold)).unzip();
        Ok(Self { outputs, neighbors, threshold, threshold_name })
    }

    fn threshold<'m>(
        selection: &Selection,
        model: &'m Model<'_>,
        has_logits: bool,
    ) -> Result<Option<(&'m str, &'m Threshold)>, ApiError> {
        let thresholds = model.thresholds();
        let Some(name) = &selection.threshold else {
            return Ok(match usable_thresholds(model, has_logits).as_slice() {
                [only] => Some(*only),
                _ => None,
            });
        };
        let Some((name, threshold)) = thresholds.get_key_value(name) else {
            return Err(ApiError::invalid(format!(
                "the model has no threshold {name:?}; it has {}",
                if thresholds.is_empty() { "none".to_owned() } else { quoted(thresholds.keys()) }
            )));
        };
        if !threshold.applies_to(predictor(has_logits)) {
            return Err(ApiError::invalid(format!(
                "the threshold `{name}` was calibrated {} logits: {}, or choose another threshold",
                if has_logits { "without" } else { "with" },
                other_predictor(has_logits)
            )));
        }
        Ok(Some((name, threshold)))
    }

    /// Whether predictions are needed, and not only neighbors.
    pub(crate) fn needs_predictions(&self) -> bool {
        self.outputs.iter().any(|output| !output.is_of_neighbors())
    }

    /// The results of a classifier for the given rows of a batch.
    pub(crate) fn of_classifier(
        &self,
        model: &NuqClassifier<'_>,
        predictions: &Predictions<'_>,
        rows: std::ops::Range<usize>,
    ) -> Result<Results, ApiError> {
        let numbers = |of: &dyn Fn(usize) -> f64| Values::Numbers(rows.clone().map(of).collect());
        let score = |i: usize| {
            let threshold = self.threshold.as_ref().expect("a plan with decisions has a threshold");
            threshold.measure.of(&predictions[i])
        };
        self.results(rows.len(), |output| {
            Ok(match output {
                Output::Label => Values::Labels(rows.clone().map(|i| predictions.label(i).clone()).collect()),
                Output::Probability => numbers(&|i| predictions[i].probability),
                Output::Aleatoric => numbers(&|i| predictions[i].aleatoric),
                Output::Epistemic => numbers(&|i| predictions[i].epistemic()),
                Output::Total => numbers(&|i| predictions[i].total()),
                Output::LogEpistemic => numbers(&|i| predictions[i].log_epistemic),
                Output::LogTotal => numbers(&|i| predictions[i].log_total),
                Output::LogDensity => numbers(&|i| predictions[i].log_density),
                Output::Accept | Output::PValue => {
                    self.decisions(output, model, rows.clone().map(score).collect())?
                }
                Output::NeighborLabels => {
                    let label = |id: u32| {
                        model.classes().label(model.training_classes()[id as usize] as usize).clone()
                    };
                    let ids = self.neighbor_ids(predictions.neighbors(), rows.clone());
                    Values::Labels(ids.map(label).collect())
                }
                other => self.of_neighbors(other, predictions.neighbors(), rows.clone()),
            })
        })
    }

    /// The results of a regressor for the given rows of a batch.
    pub(crate) fn of_regressor(
        &self,
        model: &NuqRegressor<'_>,
        estimates: &Estimates,
        rows: std::ops::Range<usize>,
    ) -> Result<Results, ApiError> {
        let numbers = |of: &dyn Fn(usize) -> f64| Values::Numbers(rows.clone().map(of).collect());
        let score = |i: usize| {
            let threshold = self.threshold.as_ref().expect("a plan with decisions has a threshold");
            threshold.measure.of_estimate(&estimates[i])
        };
        self.results(rows.len(), |output| {
            Ok(match output {
                Output::Mean => numbers(&|i| estimates[i].mean),
                Output::Aleatoric => numbers(&|i| estimates[i].aleatoric()),
                Output::Epistemic => numbers(&|i| estimates[i].epistemic()),
                Output::Total => numbers(&|i| estimates[i].total()),
                Output::LogAleatoric => numbers(&|i| estimates[i].log_aleatoric),
                Output::LogEpistemic => numbers(&|i| estimates[i].log_epistemic),
                Output::LogTotal => numbers(&|i| estimates[i].log_total),
                Output::LogDensity => numbers(&|i| estimates[i].log_density),
                Output::Accept | Output::PValue => {
                    self.decisions(output, model, rows.clone().map(score).collect())?
                }
                Output::NeighborTargets => {
                    let ids = self.neighbor_ids(estimates.neighbors(), rows.clone());
                    Values::Numbers(ids.map(|id| model.target(id)).collect())
                }
                other => self.of_neighbors(other, estimates.neighbors(), rows.clone()),
            })
        })
    }

    /// The results for the given rows of a batch if only columns of neighbors are selected.
    pub(crate) fn of_search(
        &self,
        model: &Model<'_>,
        neighbors: &Neighbors,
        rows: std::ops::Range<usize>,
    ) -> Result<Results, ApiError> {
        self.results(rows.len(), |output| {
            let ids = self.neighbor_ids(neighbors, rows.clone());
            Ok(match (output, model) {
                (Output::NeighborLabels, Model::Classifier(model)) => {
                    let label = |id: u32| {
                        model.classes().label(model.training_classes()[id as usize] as usize).clone()
                    };
                    Values::Labels(ids.map(label).collect())
                }
                (Output::NeighborTargets, Model::Regressor(model)) => {
                    Values::Numbers(ids.map(|id| model.target(id)).collect())
                }
                (other, _) => self.of_neighbors(other, neighbors, rows.clone()),
            })
        })
    }

    fn results(
        &self,
        rows: usize,
        values: impl Fn(Output) -> Result<Values, ApiError>,
    ) -> Result<Results, ApiError> {
        let column = |&output: &Output| {
            let width = output.is_of_neighbors().then_some(self.neighbors);
            Ok(Column { output, width, values: values(output)? })
        };
        let columns = self.outputs.iter().map(column).collect::<Result<_, ApiError>>()?;
        Ok(Results { rows, columns })
    }

    /// Decisions or p-values. `scores` are the values of the measure that the threshold compares.
    fn decisions(
        &self,
        output: Output,
        model: &impl FittedModel,
        scores: Vec<f64>,
    ) -> Result<Values, ApiError> {
        let (Some(threshold), Some(name)) = (&self.threshold, &self.threshold_name) else {
            unreachable!("a plan with decisions has a threshold")
        };
        if output == Output::Accept {
            let accept = |score: &f64| threshold.score.decide(*score) == Decision::Accept;
            return Ok(Values::Booleans(scores.iter().map(accept).collect()));
        }
        let held_out = held_out_scores(model, name).expect("a plan with p-values has held-out scores");
        Ok(Values::Numbers(conformal_p_values(held_out, &scores)?))
    }

    fn of_neighbors(&self, output: Output, neighbors: &Neighbors, rows: std::ops::Range<usize>) -> Values {
        match output {
            Output::NeighborIds => Values::Ids(self.neighbor_ids(neighbors, rows).collect()),
            Output::NeighborDistances => {
                let distances =
                    |i: usize| neighbors.sq_distances(i).iter().take(self.neighbors).map(|sq| sq.sqrt());
                Values::Numbers(rows.flat_map(distances).collect())
            }
            _ => unreachable!("a plan has only outputs of its model"),
        }
    }

    fn neighbor_ids<'n>(
        &self,
        neighbors: &'n Neighbors,
        rows: std::ops::Range<usize>,
    ) -> impl Iterator<Item = u32> + use<'n> {
        let most = self.neighbors;
        rows.flat_map(move |i| neighbors.ids(i).iter().take(most).copied())
    }
}

/// The scores of the held-out rows on which a threshold was calibrated.
fn held_out_scores<'m>(model: &'m impl FittedModel, threshold: &str) -> Option<&'m [f64]> {
    model.rules().held_out_scores(threshold)
}

fn names(outputs: &[Output]) -> String {
    outputs.iter().map(Output::to_string).collect::<Vec<_>>().join(", ")
}

fn quoted(names: impl Iterator<Item = impl fmt::Display>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The predictor of a request with or without logits.
fn predictor(has_logits: bool) -> Predictor {
    if has_logits { Predictor::Network } else { Predictor::Nuq }
}

/// What a client can do to use thresholds of the other predictor.
fn other_predictor(has_logits: bool) -> &'static str {
    if has_logits { "send no logits" } else { "send the logits of the rows" }
}

/// The thresholds that apply to the predictions of a request, with their names.
fn usable_thresholds<'m>(model: &'m Model<'_>, has_logits: bool) -> Vec<(&'m str, &'m Threshold)> {
    let predictor = predictor(has_logits);
    let usable = model.thresholds().iter().filter(|(_, threshold)| threshold.applies_to(predictor));
    usable.map(|(name, threshold)| (name.as_str(), threshold)).collect()
}

/// The results of some rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Results {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Column>,
}

impl Results {
    /// Appends the results of further rows of the same request.
    pub(crate) fn append(&mut self, more: Results) {
        self.rows += more.rows;
        for (column, more) in self.columns.iter_mut().zip(more.columns) {
            match (&mut column.values, more.values) {
                (Values::Numbers(all), Values::Numbers(more)) => all.extend(more),
                (Values::Labels(all), Values::Labels(more)) => all.extend(more),
                (Values::Booleans(all), Values::Booleans(more)) => all.extend(more),
                (Values::Ids(all), Values::Ids(more)) => all.extend(more),
                _ => unreachable!("an output has the same type in every block"),
            }
        }
    }
}

/// The values of one output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) output: Output,
    /// Number of values per row; `None` for one value.
    pub(crate) width: Option<usize>,
    pub(crate) values: Values,
}

/// Values, row after row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    Numbers(Vec<f64>),
    Labels(Vec<Label>),
    Booleans(Vec<bool>),
    Ids(Vec<u32>),
}

impl Values {
    /// Writes a value as JSON. Numbers that are not finite are null, because JSON cannot represent them.
    pub(crate) fn write_json(&self, i: usize, to: &mut Vec<u8>) {
        let written = match self {
            Self::Numbers(values) => serde_json::to_writer(to, &values[i]),
            Self::Labels(values) => serde_json::to_writer(to, &label_json(&values[i])),
            Self::Booleans(values) => serde_json::to_writer(to, &values[i]),
            Self::Ids(values) => serde_json::to_writer(to, &values[i]),
        };
        written.expect("values are written to memory");
    }
}

/// A value in a csv table.
pub(crate) struct Cell<'v>(pub(crate) &'v Values, pub(crate) usize);

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Values::Numbers(values) => values[self.1].fmt(f),
            Values::Labels(values) => values[self.1].fmt(f),
            Values::Booleans(values) => values[self.1].fmt(f),
            Values::Ids(values) => values[self.1].fmt(f),
        }
    }
}

/// A label as JSON: a boolean, an integer if it fits into 64 bits, otherwise a string.
pub(crate) fn label_json(label: &Label) -> serde_json::Value {
    match label {
        Label::Bool(value) => (*value).into(),
        Label::Int(value) => i64::try_from(*value).map_or_else(|_| value.to_string().into(), Into::into),
        Label::Text(text) => text.as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use nuq::Embeddings;
    use nuq::calibrate::{Measure, Target, calibrate};

    use super::*;

    #[test]
    fn an_error_offers_only_thresholds_that_the_request_can_use() {
        let rows = Embeddings::new(vec![0.0, 1.0, 4.0, 5.0], 1).unwrap();
        let model = NuqClassifier::params().n_neighbors(2).fit(&rows, &["a", "a", "b", "b"]).unwrap();
        let mut model = Model::Classifier(model);
        let scores = [1.0, 2.0, 3.0];
        let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.5)).unwrap();
        let selection = Selection { outputs: Some(vec![Output::Accept]), ..Selection::default() };
        let plan = |model: &Model<'_>, has_logits: bool| {
            let plan = Plan::new(&selection, model, has_logits);
            plan.map(|plan| plan.threshold_name).map_err(|error| error.message)
        };
        let network = threshold.of_predictor(Predictor::Network);
        model.rules_mut().set_threshold("network", network, &scores).unwrap();
        assert_eq!(plan(&model, true), Ok(Some("network".to_owned())));
        let message = plan(&model, false).unwrap_err();
        assert!(message.contains("calibrated with logits: send the logits of the rows"), "{message}");
        for name in ["first", "second"] {
            model.rules_mut().set_threshold(name, threshold, &scores).unwrap();
        }
        let message = plan(&model, false).unwrap_err();
        assert!(message.ends_with("one of `first`, `second`"), "{message}");
        model.remove_threshold("network");
        let message = plan(&model, true).unwrap_err();
        assert!(message.contains("calibrated without logits: send no logits"), "{message}");
    }
}
