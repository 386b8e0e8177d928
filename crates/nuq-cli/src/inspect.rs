//! `nuq inspect`, and what `nuq fit` says it chose: a model in a few lines, or as JSON.

use nuq::calibrate::Threshold;
use nuq::parts::{FittedDensityParts, SmootherParts};
use nuq::{Bandwidth, FittedModel, Model};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Common, InspectArgs};
use crate::error::Error;
use crate::output;

pub(crate) fn run(options: &InspectArgs, common: &Common) -> Result<(), Error> {
    let file = nuq_io::open(&options.model)?;
    if options.verify {
        file.verify()?;
    }
    let mut summary = Summary::of(&file.model);
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
    output::print(&summary.shown(common.json))
}

/// What a model learned.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    task: &'static str,
    rows: usize,
    columns: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    class_rows: Vec<ClassSummary>,
    index: String,
    index_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    recall: Option<f64>,
    /// Those that every sum runs over.
    neighbors: usize,
    /// Those that were asked for, where there are fewer rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    neighbors_asked: Option<usize>,
    kernel: String,
    bandwidth: BandwidthSummary,
    density: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    density_bandwidth: Option<f64>,
    dimension: f64,
    prior_weight: f64,
    normalize: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thresholds: Vec<ThresholdSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<FileSummary>,
}

/// A class and its training rows.
#[derive(Debug, Serialize)]
struct ClassSummary {
    label: Value,
    rows: u64,
}

/// Classes that are named.
const NAMED: usize = 20;

#[derive(Debug, Serialize)]
struct BandwidthSummary {
    kind: &'static str,
    /// The bandwidth, or the smallest and largest of many.
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
    measure: String,
    /// `null` where everything is accepted.
    value: Option<f64>,
    rows: usize,
    /// What it promises, in words.
    statement: String,
}

impl ThresholdSummary {
    pub(crate) fn of((name, threshold): (&String, &Threshold)) -> Self {
        Self {
            name: name.clone(),
            measure: threshold.measure.to_string(),
            value: threshold.value.is_finite().then_some(threshold.value),
            rows: threshold.rows,
            statement: threshold.to_string(),
        }
    }

    pub(crate) fn statement(&self) -> &str {
        &self.statement
    }

    pub(crate) fn text(&self) -> String {
        let value = self.value.map_or("any".to_owned(), number);
        let what = match &*self.measure {
            "density" => "minus log density",
            "aleatoric" => "aleatoric uncertainty",
            "epistemic" => "log epistemic uncertainty",
            _ => "log total uncertainty",
        };
        format!("{}: {what} up to {value}", self.name)
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
    pub(crate) fn of(model: &Model<'_>) -> Self {
        let index = model.index();
        let (task, classes, smoother, selection) = match model {
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
                ("classification", Some(model.classes().len()), model.smoother_parts(), selection)
            }
            Model::Regressor(model) => {
                let selection = model.bandwidth_curve().map(|curve| SelectionSummary {
                    rows: curve.rows,
                    accuracy: None,
                    log_likelihood: None,
                    squared_error: Some(curve.points[curve.chosen].score.squared_error),
                    at_edge: curve.is_at_edge(),
                });
                ("regression", None, model.smoother_parts(), selection)
            }
        };
        let SmootherParts {
            kernel,
            bandwidth,
            density,
            dimension,
            n_neighbors: neighbors,
            normalize,
            choice,
        } = smoother;
        let described = index.describe();
        let (kind, values) = match &bandwidth {
            Bandwidth::Scalar(h) => ("one", vec![*h]),
            Bandwidth::PerDimension(many) => ("per dimension", extremes(many)),
            Bandwidth::PerPoint(many) => ("per row", extremes(many)),
        };
        let (density, density_bandwidth) = match density {
            FittedDensityParts::Same => ("kernel, with the same bandwidth".to_owned(), None),
            FittedDensityParts::Kde(h) => ("kernel".to_owned(), Some(h)),
            FittedDensityParts::Auto(learned) => {
                ("auto: kernel and tied Gaussians".to_owned(), Some(learned.bandwidth))
            }
            FittedDensityParts::Gmm { covariance, .. } => {
                (format!("class Gaussians, {} covariance", format!("{covariance:?}").to_lowercase()), None)
            }
        };
        Self {
            task,
            rows: index.len(),
            columns: index.dim(),
            classes,
            class_rows: vec![],
            index: described.to_string(),
            index_reason: choice.reason.to_string(),
            recall: described.recall().map(|recall| recall.share),
            neighbors: neighbors.min(index.len()),
            neighbors_asked: (neighbors > index.len()).then_some(neighbors),
            kernel: format!("{kernel:?}").to_lowercase(),
            bandwidth: BandwidthSummary { kind, values, selection },
            density,
            density_bandwidth,
            dimension,
            prior_weight: model.prior_weight(),
            normalize,
            thresholds: model.thresholds().iter().map(ThresholdSummary::of).collect(),
            file: None,
        }
    }

    pub(crate) fn shown(&self, as_json: bool) -> String {
        if as_json {
            return serde_json::to_string_pretty(self).expect("plain data") + "\n";
        }
        let mut lines: Vec<String> =
            self.facts().iter().map(|(name, text)| format!("{name:<12} {text}")).collect();
        let mut line = |name: &str, text: String| lines.push(format!("{name:<12} {text}"));
        for threshold in &self.thresholds {
            line("threshold", threshold.text());
            line("", threshold.statement.clone());
        }
        if let Some(file) = &self.file {
            let verified = if file.verified { ", all of it as it was written" } else { "" };
            line("file", format!("written by {}{verified}", file.written_by));
            for section in &file.sections {
                line("", format!("{:<20} {:>14} bytes", section.name, section.bytes));
            }
        }
        lines.join("\n") + "\n"
    }

    /// Names and values of what was learned, to be read by people; a nameless one goes on with the one before.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("task", self.task.to_owned())];
        let mut line = |name: &'static str, text: String| facts.push((name, text));
        let classes = self.classes.map_or(String::new(), |classes| format!(", {classes} classes"));
        line("rows", format!("{} × {}{classes}", self.rows, self.columns));
        if !self.class_rows.is_empty() {
            line("classes", class_text(&self.class_rows));
        }
        line("index", self.index.clone());
        line("", self.index_reason.clone());
        let asked =
            self.neighbors_asked.map_or(String::new(), |k| format!(" (all rows: {k} were asked for)"));
        line("neighbors", format!("{}{asked}, {} kernel", self.neighbors, self.kernel));
        line("bandwidth", self.bandwidth.text());
        let density = self
            .density_bandwidth
            .map_or(self.density.clone(), |h| format!("{}, bandwidth {}", self.density, number(h)));
        line("density", density);
        line("dimension", format!("{:.2} in the constants", self.dimension));
        line("prior", format!("weighs as much as {} training points", self.prior_weight));
        if self.normalize {
            line("rows are", "divided by their length".to_owned());
        }
        facts
    }
}

impl BandwidthSummary {
    fn text(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|&h| number(h)).collect();
        let values = values.join(" to ");
        let what = if self.kind == "one" { values } else { format!("{}, {values}", self.kind) };
        let Some(selection) = &self.selection else { return what };
        let score = match (selection.accuracy, selection.squared_error) {
            (Some(accuracy), _) => format!("accuracy {accuracy:.4}"),
            (_, Some(error)) => format!("squared error {}", number(error)),
            _ => String::new(),
        };
        let edge = if selection.at_edge {
            "; at the edge of its grid: ranks hardly change beyond, --bandwidth NUMBER tries it"
        } else {
            ""
        };
        format!("{what}, by leave-one-out on {} rows ({score}{edge})", selection.rows)
    }
}

/// Classes with their rows: the first of them, and how many more there are.
fn class_text(classes: &[ClassSummary]) -> String {
    let name = |label: &Value| label.as_str().map_or_else(|| label.to_string(), str::to_owned);
    let named = classes.iter().take(NAMED).map(|class| format!("{} ({})", name(&class.label), class.rows));
    let more = (classes.len() > NAMED).then(|| format!("and {} more", classes.len() - NAMED));
    named.chain(more).collect::<Vec<String>>().join(", ")
}

fn extremes(values: &[f64]) -> Vec<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    vec![low, high]
}

/// Four digits, for people.
fn number(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e6).contains(&value.abs()) {
        format!("{value:.3e}")
    } else {
        format!("{value:.4}")
    }
}
