//! Options and fitted values of a model, for `nuq inspect` and the report.

use nuq::parts::{FittedDensityParts, SmootherParts};
use nuq::{
    Bandwidth, DensityBandwidth, DensityKind, FittedModel, GmmDensity, Model, NeighborIndex, NuqClassifier,
    NuqRegressor, Shrinkage,
};
use serde::Serialize;
use serde_json::Value;

use crate::drawing::number_format;
use crate::report::Fact;

/// Options and fitted values of a model. Keys and words are the same as on the command line and in the model file.
///
/// ```
/// use nuq::{Embeddings, NuqClassifier};
/// use nuq_report::ModelSummary;
///
/// let train = Embeddings::from_rows(&[[0.0, 0.0], [0.1, 0.1], [0.0, 0.2], [1.0, 1.0], [1.1, 1.0], [1.0, 1.2]])?;
/// let model = NuqClassifier::params().fit(&train, &["cat", "cat", "cat", "dog", "dog", "dog"])?;
/// let facts = ModelSummary::of_classifier(&model).facts();
/// assert_eq!((facts[1].name.as_str(), facts[1].value.as_str()), ("rows", "6 × 2, 2 classes"));
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct ModelSummary {
    task: &'static str,
    rows: usize,
    columns: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_weights: Option<WeightSummary>,
    index: &'static str,
    index_description: String,
    index_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    recall: Option<f64>,
    /// The number of neighbors that are used; at most the number of rows.
    n_neighbors: usize,
    /// The requested number of neighbors, if it exceeds the number of rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    n_neighbors_requested: Option<usize>,
    kernel: &'static str,
    bandwidth: BandwidthSummary,
    #[serde(flatten)]
    density: DensitySummary,
    /// The dimension in the constants of density and kernel, such as the intrinsic dimension of the data; not `columns`.
    dimension: f64,
    scale: ScaleSummary,
    prior_weight: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    variance: Option<&'static str>,
    normalize: bool,
}

/// The sample weights of the training rows, if they are not all 1.
#[derive(Debug, Clone, Serialize)]
struct WeightSummary {
    sum: f64,
    smallest: f64,
    largest: f64,
}

/// The formula of `n(x)`, the number of training rows that support an estimate.
#[derive(Debug, Clone, Serialize)]
struct ScaleSummary {
    kind: &'static str,
    /// `n̄`, the effective number of neighbors of a typical training row; `None` unless the kind is `effective`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_size: Option<f64>,
}

/// The kind of density and its options. Options of other kinds are `None`.
#[derive(Debug, Clone, Default, Serialize)]
struct DensitySummary {
    density: &'static str,
    /// A number, or `same`.
    #[serde(skip_serializing_if = "Option::is_none")]
    density_bandwidth: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    covariance: Option<&'static str>,
    /// A number, or `ledoit_wolf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    shrinkage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scale_free: Option<bool>,
    /// The density estimates that `auto` combines, with their log-likelihoods, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
struct BandwidthSummary {
    /// `scalar`, `per_dimension` or `per_point`, as in the model file.
    kind: &'static str,
    /// One bandwidth, or the smallest and the largest of several.
    values: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selection: Option<SelectionSummary>,
}

/// The selection of the bandwidth from a grid: the leave-one-out scores of the selected bandwidth, and whether it is the
/// smallest or the largest bandwidth of the grid.
#[derive(Debug, Clone, Serialize)]
struct SelectionSummary {
    /// The number of training rows on which the scores are computed.
    rows: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_likelihood: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    squared_error: Option<f64>,
    at_lower_edge: bool,
    at_upper_edge: bool,
}

impl ModelSummary {
    /// Summary of a model.
    #[must_use]
    pub fn new(model: &Model<'_>) -> Self {
        match model {
            Model::Classifier(model) => Self::of_classifier(model),
            Model::Regressor(model) => Self::of_regressor(model),
        }
    }

    /// Summary of a classifier.
    #[must_use]
    pub fn of_classifier(model: &NuqClassifier<'_>) -> Self {
        let selection = model.bandwidth_curve().map(|curve| {
            let score = curve.points[curve.chosen].score;
            SelectionSummary {
                rows: curve.rows,
                accuracy: Some(score.accuracy),
                log_likelihood: Some(score.log_likelihood),
                squared_error: None,
                at_lower_edge: curve.is_at_lower_edge(),
                at_upper_edge: curve.is_at_upper_edge(),
            }
        });
        Self {
            classes: Some(model.classes().len()),
            variance: Some(model.variance().name()),
            ..Self::common("classification", model, model.smoother_parts(), selection)
        }
    }

    /// Summary of a regressor.
    #[must_use]
    pub fn of_regressor(model: &NuqRegressor<'_>) -> Self {
        let selection = model.bandwidth_curve().map(|curve| SelectionSummary {
            rows: curve.rows,
            accuracy: None,
            log_likelihood: None,
            squared_error: Some(curve.points[curve.chosen].score.squared_error),
            at_lower_edge: curve.is_at_lower_edge(),
            at_upper_edge: curve.is_at_upper_edge(),
        });
        Self::common("regression", model, model.smoother_parts(), selection)
    }

    /// The properties that classifiers and regressors share.
    fn common(
        task: &'static str,
        model: &impl FittedModel,
        smoother: SmootherParts,
        selection: Option<SelectionSummary>,
    ) -> Self {
        let SmootherParts {
            kernel,
            bandwidth,
            density,
            dimension,
            scale,
            n_neighbors,
            normalize,
            choice,
            ..
        } = smoother;
        let index = model.index();
        let description = index.describe();
        let values = match &bandwidth {
            Bandwidth::Scalar(h) => vec![*h],
            Bandwidth::PerDimension(values) | Bandwidth::PerPoint(values) => extremes(values).to_vec(),
        };
        Self {
            task,
            rows: index.len(),
            columns: index.dim(),
            classes: None,
            sample_weights: model.sample_weights().map(|weights| WeightSummary::new(weights, index)),
            index: choice.kind.name(),
            index_description: description.to_string(),
            index_reason: match index.rows().is_stored() {
                true => choice.reason.to_string(),
                false => {
                    "no training rows: `predict_from` in Python takes neighbors from a database".to_owned()
                }
            },
            recall: description.recall().map(|recall| recall.share),
            n_neighbors: n_neighbors.min(index.len()),
            n_neighbors_requested: (n_neighbors > index.len()).then_some(n_neighbors),
            kernel: kernel.name(),
            bandwidth: BandwidthSummary { kind: bandwidth.name(), values, selection },
            density: DensitySummary::new(&density),
            dimension,
            scale: ScaleSummary { kind: scale.kind().name(), sample_size: scale.sample_size() },
            prior_weight: model.prior_weight(),
            variance: None,
            normalize,
        }
    }

    /// Names and values as text. The value of the index has a second line with the reason for the choice.
    #[must_use]
    pub fn facts(&self) -> Vec<Fact> {
        let classes = self.classes.map_or(String::new(), |classes| match classes {
            1 => ", 1 class".to_owned(),
            _ => format!(", {classes} classes"),
        });
        let weights =
            self.sample_weights.as_ref().map_or(String::new(), |weights| format!(", {}", weights.text()));
        let requested =
            self.n_neighbors_requested.map_or(String::new(), |k| format!(" (all rows; {k} requested)"));
        let facts = [
            Some(("task", self.task.to_owned())),
            Some(("rows", format!("{} × {}{classes}{weights}", self.rows, self.columns))),
            Some(("index", format!("{}\n{}", self.index_description, self.index_reason))),
            Some(("n_neighbors", format!("{}{requested}", self.n_neighbors))),
            Some(("kernel", self.kernel.to_owned())),
            Some(("bandwidth", self.bandwidth.text())),
            Some(("density", self.density.text())),
            Some(("dimension", format!("{:.2}", self.dimension))),
            Some(("scale", self.scale.text())),
            Some(("prior_weight", self.prior_weight.to_string())),
            self.variance.map(|variance| ("variance", variance.to_owned())),
            self.normalize.then(|| ("normalize", "true".to_owned())),
        ];
        facts.into_iter().flatten().map(|(name, value)| Fact { name: name.to_owned(), value }).collect()
    }
}

impl WeightSummary {
    fn new(weights: &[f64], index: &dyn NeighborIndex) -> Self {
        let weights: Vec<f64> = index.rows().live_ids().into_iter().map(|id| weights[id as usize]).collect();
        let [smallest, largest] = extremes(&weights);
        Self { sum: weights.iter().sum(), smallest, largest }
    }

    fn text(&self) -> String {
        let [sum, smallest, largest] = [self.sum, self.smallest, self.largest].map(number);
        format!("sample weights {smallest} to {largest}, sum {sum}")
    }
}

impl ScaleSummary {
    fn text(&self) -> String {
        let size = self.sample_size.map(|n| format!(", {n:.1} effective neighbors at a typical row"));
        format!("{}{}", self.kind, size.unwrap_or_default())
    }
}

impl BandwidthSummary {
    fn text(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|&h| number(h)).collect();
        let values = values.join(" to ");
        let text = if self.kind == "scalar" { values } else { format!("{}, {values}", self.kind) };
        let Some(selection) = &self.selection else { return text };
        let score = match (selection.accuracy, selection.squared_error) {
            (Some(accuracy), _) => format!("accuracy {accuracy:.4}"),
            (_, Some(error)) => format!("squared error {}", number(error)),
            _ => String::new(),
        };
        let edge = match (selection.at_lower_edge, selection.at_upper_edge) {
            (true, _) => "; the smallest value of the grid: --bandwidth NUMBER sets another bandwidth",
            (_, true) => "; the largest value of the grid: all neighbors have nearly equal weights",
            _ => "",
        };
        format!("{text}, by leave-one-out on {} rows ({score}{edge})", selection.rows)
    }
}

impl DensitySummary {
    fn new(density: &FittedDensityParts) -> Self {
        match density {
            FittedDensityParts::Same => Self {
                density: DensityKind::Kde.name(),
                density_bandwidth: Some(DensityBandwidth::Same.to_string().into()),
                ..Self::default()
            },
            FittedDensityParts::Kde(h) => Self {
                density: DensityKind::Kde.name(),
                density_bandwidth: Some((*h).into()),
                ..Self::default()
            },
            FittedDensityParts::Auto(parts) => Self {
                density: DensityKind::Auto.name(),
                density_bandwidth: Some(parts.bandwidth.into()),
                auto: Some(parts.to_string()),
                ..Self::default()
            },
            FittedDensityParts::Gmm(GmmDensity { covariance, shrinkage, scale_free, .. }) => Self {
                density: DensityKind::Gmm.name(),
                covariance: Some(covariance.name()),
                shrinkage: Some(match shrinkage {
                    Shrinkage::Fixed(amount) => (*amount).into(),
                    rule => rule.to_string().into(),
                }),
                scale_free: Some(scale_free.is_some()),
                ..Self::default()
            },
        }
    }

    fn text(&self) -> String {
        let option = |name: &str, value: &Value| {
            let value = match value {
                Value::String(word) => word.clone(),
                other => other.as_f64().map_or_else(|| other.to_string(), number),
            };
            format!(", {name} {value}")
        };
        let mut text = self.density.to_owned();
        text += &self.density_bandwidth.as_ref().map_or(String::new(), |h| option("bandwidth", h));
        text += &self.covariance.map_or(String::new(), |word| format!(", covariance {word}"));
        text += &self.shrinkage.as_ref().map_or(String::new(), |amount| option("shrinkage", amount));
        text += if self.scale_free == Some(true) { ", scale-free" } else { "" };
        text += &self.auto.as_ref().map_or(String::new(), |parts| format!(": {parts}"));
        text
    }
}

/// The smallest and the largest of several positive values.
fn extremes(values: &[f64]) -> [f64; 2] {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    [low, high]
}

/// Four decimals, or scientific notation for very small and very large values.
fn number(value: f64) -> String {
    let has_four_decimals = value == 0.0 || (1e-3..1e6).contains(&value.abs());
    if has_four_decimals { number_format::fixed(value, 4) } else { number_format::significant(value, 4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_row_bandwidths_are_given_as_a_range() {
        let bandwidth = BandwidthSummary {
            kind: "per_point",
            values: extremes(&[0.5, 2.0, 1.0]).to_vec(),
            selection: None,
        };
        assert_eq!(bandwidth.text(), "per_point, 0.5000 to 2.0000");
    }

    #[test]
    fn sample_weights_are_given_as_a_range() {
        let x = nuq::Embeddings::from_rows(&[[0.0], [1.0], [2.0], [3.0]]).unwrap();
        let params = NuqRegressor::params().n_neighbors(2).bandwidth(0.5);
        let model = params.fit_weighted(&x, &[0.0, 1.0, 4.0, 9.0], &[0.5, 2.0, 0.0, 1.0]).unwrap();
        let facts = ModelSummary::of_regressor(&model).facts();
        // The row with weight 0 is not part of the model.
        assert_eq!(facts[1].value, "3 × 1, sample weights 0.5000 to 2.0000, sum 3.5000");
    }

    #[test]
    fn the_density_is_described_by_its_options() {
        let text = |density: &FittedDensityParts| DensitySummary::new(density).text();
        assert_eq!(text(&FittedDensityParts::Kde(0.25)), "kde, bandwidth 0.2500");
        assert_eq!(text(&FittedDensityParts::Same), "kde, bandwidth same");
    }
}
