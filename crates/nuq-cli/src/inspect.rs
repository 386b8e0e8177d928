//! `nuq inspect`, and the summary that `nuq fit` prints: the options and fitted values of a model, as text or JSON.

use nuq::calibrate::{Measure, Threshold};
use nuq::parts::{FittedDensityParts, SmootherParts};
use nuq::{Bandwidth, DensityBandwidth, DensityKind, FittedModel, Model, Shrinkage};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Common, InspectArgs};
use crate::error::Error;
use crate::{escape, output, wrap};

pub(crate) fn run(options: &InspectArgs, common: &Common) -> Result<(), Error> {
    let file = nuq_io::open(&options.model)?;
    if options.verify {
        file.verify()?;
    }
    let mut summary = Summary::new(&file.model);
    if let Model::Classifier(model) = &file.model {
        let classes = model.classes();
        let pairs = classes.labels().iter().zip(classes.counts());
        summary.class_rows =
            pairs.map(|(label, &rows)| ClassSummary { label: output::label_json(label), rows }).collect();
    }
    summary.file = Some(FileSummary {
        written_by: file.written_by.clone(),
        verified: options.verify,
        sections: file
            .sections
            .iter()
            .map(|section| SectionSummary { name: section.name.clone(), bytes: section.bytes })
            .collect(),
    });
    output::print_result(common, &summary, &summary.text())
}

/// Options and fitted values of a model. The keys and words are those of the command line and the model file.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    task: &'static str,
    rows: usize,
    columns: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    class_rows: Vec<ClassSummary>,
    index: &'static str,
    index_description: String,
    index_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    recall: Option<f64>,
    /// At most the number of rows.
    n_neighbors: usize,
    /// The value of the option, if it exceeds the number of rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    n_neighbors_requested: Option<usize>,
    kernel: &'static str,
    bandwidth: BandwidthSummary,
    #[serde(flatten)]
    density: DensitySummary,
    dimension: f64,
    prior_weight: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    variance: Option<&'static str>,
    normalize: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thresholds: Vec<ThresholdSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<FileSummary>,
}

/// A class and the number of its training rows.
#[derive(Debug, Serialize)]
struct ClassSummary {
    label: Value,
    rows: u64,
}

/// Largest number of classes that the text lists.
const LISTED_CLASSES: usize = 20;

/// The density and the options that it has.
#[derive(Debug, Default, Serialize)]
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
}

#[derive(Debug, Serialize)]
struct BandwidthSummary {
    /// `scalar`, `per_dimension` or `per_point`, as in the model file.
    kind: &'static str,
    /// One bandwidth, or the smallest and the largest of several.
    values: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selection: Option<SelectionSummary>,
}

#[derive(Debug, Serialize)]
struct SelectionSummary {
    rows: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_likelihood: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    squared_error: Option<f64>,
    at_edge: bool,
}

/// A threshold of a model.
#[derive(Debug, Serialize)]
pub(crate) struct ThresholdSummary {
    name: String,
    measure: &'static str,
    /// `null` if every row is accepted.
    value: Option<f64>,
    rows: usize,
    /// The guarantee as a sentence.
    statement: String,
    #[serde(skip)]
    column: &'static str,
}

impl ThresholdSummary {
    pub(crate) fn new(name: &str, threshold: &Threshold) -> Self {
        let column = match threshold.measure {
            Measure::Aleatoric => "aleatoric",
            Measure::Epistemic => "log_epistemic",
            Measure::Total => "log_total",
            Measure::Density => "-log_density",
        };
        Self {
            name: name.to_owned(),
            measure: threshold.measure.name(),
            value: threshold.value.is_finite().then_some(threshold.value),
            rows: threshold.rows,
            statement: threshold.to_string(),
            column,
        }
    }

    pub(crate) fn statement(&self) -> &str {
        &self.statement
    }

    /// The rule, for example `guard: accept if log_epistemic ≤ -0.4923`.
    pub(crate) fn rule(&self) -> String {
        match self.value {
            Some(value) => {
                format!("{}: accept if {} ≤ {}", escape::name(&self.name), self.column, number(value))
            }
            None => format!("{}: accept every row", escape::name(&self.name)),
        }
    }
}

#[derive(Debug, Serialize)]
struct FileSummary {
    written_by: String,
    verified: bool,
    sections: Vec<SectionSummary>,
}

#[derive(Debug, Serialize)]
struct SectionSummary {
    name: String,
    bytes: u64,
}

impl Summary {
    pub(crate) fn new(model: &Model<'_>) -> Self {
        let index = model.index();
        let (task, classes, variance, smoother, selection) = match model {
            Model::Classifier(model) => {
                let selection = model.bandwidth_curve().map(|curve| {
                    let score = curve.points[curve.chosen].score;
                    SelectionSummary {
                        rows: curve.rows,
                        accuracy: Some(score.accuracy),
                        log_likelihood: Some(score.log_likelihood),
                        squared_error: None,
                        at_edge: curve.is_at_edge(),
                    }
                });
                let variance = model.variance().name();
                (
                    "classification",
                    Some(model.classes().len()),
                    Some(variance),
                    model.smoother_parts(),
                    selection,
                )
            }
            Model::Regressor(model) => {
                let selection = model.bandwidth_curve().map(|curve| SelectionSummary {
                    rows: curve.rows,
                    accuracy: None,
                    log_likelihood: None,
                    squared_error: Some(curve.points[curve.chosen].score.squared_error),
                    at_edge: curve.is_at_edge(),
                });
                ("regression", None, None, model.smoother_parts(), selection)
            }
        };
        let SmootherParts { kernel, bandwidth, density, dimension, n_neighbors, normalize, choice } =
            smoother;
        let description = index.describe();
        let values = match &bandwidth {
            Bandwidth::Scalar(h) => vec![*h],
            Bandwidth::PerDimension(values) | Bandwidth::PerPoint(values) => extremes(values),
        };
        Self {
            task,
            rows: index.len(),
            columns: index.dim(),
            classes,
            class_rows: vec![],
            index: choice.kind.name(),
            index_description: description.to_string(),
            index_reason: choice.reason.to_string(),
            recall: description.recall().map(|recall| recall.share),
            n_neighbors: n_neighbors.min(index.len()),
            n_neighbors_requested: (n_neighbors > index.len()).then_some(n_neighbors),
            kernel: kernel.name(),
            bandwidth: BandwidthSummary { kind: bandwidth.name(), values, selection },
            density: DensitySummary::new(&density),
            dimension,
            prior_weight: model.prior_weight(),
            variance,
            normalize,
            thresholds: model
                .thresholds()
                .iter()
                .map(|(name, threshold)| ThresholdSummary::new(name, threshold))
                .collect(),
            file: None,
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut lines: Vec<String> =
            self.facts().iter().map(|(name, text)| format!("{name:<12} {text}")).collect();
        let mut line = |name: &str, text: String| lines.push(format!("{name:<12} {text}"));
        for threshold in &self.thresholds {
            line("threshold", threshold.rule());
            line("", threshold.statement.clone());
        }
        if let Some(file) = &self.file {
            let verified = if file.verified { ", all checksums are correct" } else { "" };
            line("file", format!("written by {}{verified}", file.written_by));
            for section in &file.sections {
                line("", format!("{:<20} {:>14} bytes", section.name, section.bytes));
            }
        }
        wrap::for_terminal(lines.join("\n") + "\n")
    }

    /// Names and values as text; an empty name continues the entry before it.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("task", self.task.to_owned())];
        let mut line = |name: &'static str, text: String| facts.push((name, text));
        let classes = self.classes.map_or(String::new(), |classes| format!(", {classes} classes"));
        line("rows", format!("{} × {}{classes}", self.rows, self.columns));
        if !self.class_rows.is_empty() {
            line("classes", class_text(&self.class_rows));
        }
        line("index", self.index_description.clone());
        line("", self.index_reason.clone());
        let requested =
            self.n_neighbors_requested.map_or(String::new(), |k| format!(" (all rows; {k} requested)"));
        line("n_neighbors", format!("{}{requested}", self.n_neighbors));
        line("kernel", self.kernel.to_owned());
        line("bandwidth", self.bandwidth.text());
        line("density", self.density.text());
        line("dimension", format!("{:.2}", self.dimension));
        line("prior_weight", self.prior_weight.to_string());
        if let Some(variance) = self.variance {
            line("variance", variance.to_owned());
        }
        if self.normalize {
            line("normalize", "true".to_owned());
        }
        facts
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
        let edge = if selection.at_edge {
            "; the best value is at the edge of the grid: rankings change little beyond it, --bandwidth NUMBER sets another"
        } else {
            ""
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
                ..Self::default()
            },
            FittedDensityParts::Gmm { covariance, shrinkage } => Self {
                density: DensityKind::Gmm.name(),
                covariance: Some(covariance.name()),
                shrinkage: Some(match shrinkage {
                    Shrinkage::Fixed(amount) => (*amount).into(),
                    rule => rule.to_string().into(),
                }),
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
        text
    }
}

/// The first classes with their numbers of rows, and the number of the others.
fn class_text(classes: &[ClassSummary]) -> String {
    let name = |label: &Value| {
        label.as_str().map_or_else(|| label.to_string(), |text| escape::name(text).into_owned())
    };
    let named =
        classes.iter().take(LISTED_CLASSES).map(|class| format!("{} ({})", name(&class.label), class.rows));
    let more =
        (classes.len() > LISTED_CLASSES).then(|| format!("and {} more", classes.len() - LISTED_CLASSES));
    named.chain(more).collect::<Vec<String>>().join(", ")
}

fn extremes(values: &[f64]) -> Vec<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    vec![low, high]
}

/// Four decimals, or scientific notation for very small and very large values.
fn number(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e6).contains(&value.abs()) {
        format!("{value:.3e}")
    } else {
        format!("{value:.4}")
    }
}
