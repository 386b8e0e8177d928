//! `nuq inspect`, and the summary that `nuq fit` prints: the options and fitted values of a model, as text or JSON.

use std::collections::BTreeMap;

use nuq::calibrate::{IntervalRule, Measure, Predictor, ScoreThreshold, SetRule, Threshold};
use nuq::{FittedModel, Model};
use nuq_eval::baselines::{Param, Scorer};
use nuq_eval::evaluate::MethodId;
use nuq_io::{BaselineDetails, BaselineFile, Contents, SectionInfo, TrainingRows};
use nuq_report::ModelSummary;
use serde::Serialize;
use serde_json::Value;

use crate::args::{Common, InspectArgs};
use crate::error::Error;
use crate::{escape, output, wrap};

pub(crate) fn run(options: &InspectArgs, common: &Common) -> Result<(), Error> {
    let file = match nuq_io::open_any(options.model.path())? {
        Contents::Model(file) => file,
        Contents::Baseline(file) => return inspect_baseline(options, common, &file),
    };
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
    let shards = file.model.index().rows().sharded().map(|rows| rows.shards().len());
    summary.file =
        Some(FileSummary { shards, ..FileSummary::new(&file.written_by, options.verify, &file.sections) });
    output::print_result(common, &summary, &summary.text())
}

fn inspect_baseline(options: &InspectArgs, common: &Common, file: &BaselineFile) -> Result<(), Error> {
    if options.verify {
        file.verify()?;
    }
    let mut summary = BaselineSummary::new(file.method, &*file.scorer, &file.params, &file.details);
    let file = FileSummary::new(&file.written_by, options.verify, &file.sections);
    summary.file = Some(file);
    output::print_result(common, &summary, &summary.text())
}

/// A model with its classes, thresholds and file.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    #[serde(flatten)]
    model: ModelSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    column_names: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    class_rows: Vec<ClassSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thresholds: Vec<ThresholdSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sets: Vec<RuleSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<RuleSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<FileSummary>,
}

/// A class and the number of its training rows.
#[derive(Debug, Serialize)]
struct ClassSummary {
    label: Value,
    rows: u64,
}

/// Prediction sets or intervals of a model.
#[derive(Debug, Serialize)]
struct RuleSummary {
    name: String,
    coverage: f64,
    /// `lac` or `aps`: the score of a class that decides whether it is in a set; absent for intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<&'static str>,
    /// `network` for sets of the network's probabilities; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    predictor: Option<&'static str>,
    /// Number of held-out rows from which the sets or intervals were chosen.
    rows: usize,
    /// The guarantee as a sentence.
    statement: String,
}

impl RuleSummary {
    fn of_sets((name, rule): (&String, &SetRule)) -> Self {
        Self {
            name: name.clone(),
            coverage: rule.coverage,
            score: Some(rule.score.name()),
            predictor: (rule.predictor == Predictor::Network).then_some("network"),
            rows: rule.rows,
            statement: rule.to_string(),
        }
    }

    fn of_intervals((name, rule): (&String, &IntervalRule)) -> Self {
        let (coverage, rows, statement) = (rule.coverage, rule.rows, rule.to_string());
        Self { name: name.clone(), coverage, score: None, predictor: None, rows, statement }
    }

    fn text(&self) -> String {
        let score = self.score.map_or(String::new(), |score| format!(", score {score}"));
        let with_logits = if self.predictor.is_some() { ", with logits" } else { "" };
        format!("{}{score}{with_logits}\n{}", escape::name(&self.name), self.statement)
    }
}

/// Largest number of classes that the text lists.
const LISTED_CLASSES: usize = 20;

/// Largest number of column names that the text lists.
const LISTED_COLUMNS: usize = 10;

/// A threshold of a model or baseline.
#[derive(Debug, Serialize)]
pub(crate) struct ThresholdSummary {
    name: String,
    /// The compared measure; `score` for the threshold of a baseline.
    measure: &'static str,
    /// `None` if every row is accepted. A threshold of -∞, which accepts only scores of -∞, is written as the smallest finite number,
    /// as in a model file.
    value: Option<f64>,
    /// Number of held-out rows from which the threshold was chosen.
    rows: usize,
    /// The guarantee as a sentence.
    statement: String,
    /// `network` if the uncertainties of the network's predictions are compared; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    predictor: Option<&'static str>,
    /// The column of `nuq score` that is compared, for the text.
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
            measure: threshold.measure.name(),
            predictor: (threshold.predictor == Predictor::Network).then_some("network"),
            column,
            ..Self::of_baseline(name, &threshold.score)
        }
    }

    /// A threshold on the score of a baseline.
    pub(crate) fn of_baseline(name: &str, threshold: &ScoreThreshold) -> Self {
        Self {
            name: name.to_owned(),
            measure: "score",
            value: (threshold.value < f64::INFINITY).then_some(threshold.value.max(f64::MIN)),
            rows: threshold.rows,
            statement: threshold.to_string(),
            predictor: None,
            column: "score",
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The rule and its guarantee.
    pub(crate) fn text(&self) -> String {
        format!("{}\n{}", self.rule(), self.statement)
    }

    /// The rule, for example `guard: accept if log_epistemic ≤ -0.4923`.
    fn rule(&self) -> String {
        match self.value {
            Some(value) => {
                let with_logits = if self.predictor.is_some() { ", with logits" } else { "" };
                let (name, value) = (escape::name(&self.name), number(value));
                format!("{name}: accept if {} ≤ {value}{with_logits}", self.column)
            }
            None => format!("{}: accept every row", escape::name(&self.name)),
        }
    }
}

#[derive(Debug, Serialize)]
struct FileSummary {
    written_by: String,
    verified: bool,
    /// The number of shard files of a sharded model. `sections` are then the sections of its manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<usize>,
    sections: Vec<SectionSummary>,
}

#[derive(Debug, Serialize)]
struct SectionSummary {
    name: String,
    bytes: u64,
}

impl FileSummary {
    fn new(written_by: &str, verified: bool, sections: &[SectionInfo]) -> Self {
        let section =
            |section: &SectionInfo| SectionSummary { name: section.name.clone(), bytes: section.bytes };
        let sections = sections.iter().map(section).collect();
        Self { written_by: written_by.to_owned(), verified, shards: None, sections }
    }

    /// Names and values as text. The sections follow the entry `file`, as entries with an empty name.
    fn facts(&self) -> Vec<(&str, String)> {
        let verified = if self.verified { ", all checksums are correct" } else { "" };
        let mut facts = vec![("file", format!("written by {}{verified}", self.written_by))];
        for section in &self.sections {
            facts.push(("", format!("{:<20} {:>14} bytes", section.name, section.bytes)));
        }
        facts.extend(self.shards.map(|shards| ("shards", shards.to_string())));
        facts
    }
}

/// Method and parameters of a baseline.
#[derive(Debug, Serialize)]
pub(crate) struct BaselineSummary {
    task: &'static str,
    method: &'static str,
    title: String,
    inputs: Vec<&'static str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    training: Option<TrainingRows>,
    params: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thresholds: Vec<ThresholdSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<FileSummary>,
}

impl BaselineSummary {
    pub(crate) fn new(
        method: MethodId,
        scorer: &dyn Scorer,
        params: &BTreeMap<String, Param>,
        details: &BaselineDetails,
    ) -> Self {
        let value = |param: &Param| match param {
            Param::Default => Value::Null,
            Param::Integer(value) => (*value).into(),
            Param::Number(value) => (*value).into(),
            Param::Word(word) => word.as_str().into(),
        };
        Self {
            task: "baseline",
            method: method.name(),
            title: scorer.name(),
            inputs: scorer.inputs().iter().map(|input| input.name()).collect(),
            training: details.training.clone(),
            params: params.iter().map(|(name, param)| (name.clone(), value(param))).collect(),
            thresholds: details
                .thresholds
                .iter()
                .map(|(name, threshold)| ThresholdSummary::of_baseline(name, threshold))
                .collect(),
            file: None,
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut facts: Vec<(&str, String)> = vec![
            ("task", self.task.to_owned()),
            ("method", format!("{} ({})", self.method, self.title)),
            ("inputs", self.inputs.join(", ")),
        ];
        if let Some(TrainingRows { rows, columns, column_names }) = &self.training {
            facts.push(("rows", format!("{rows} × {columns}")));
            facts.extend(column_names.iter().map(|names| ("column_names", column_text(names))));
        }
        for (name, value) in &self.params {
            let value = match value {
                Value::String(word) => word.clone(),
                Value::Null => "default".to_owned(),
                number => number.to_string(),
            };
            facts.push((name, value));
        }
        facts.extend(self.thresholds.iter().map(|threshold| ("threshold", threshold.text())));
        facts.extend(self.file.iter().flat_map(FileSummary::facts));
        wrap::for_terminal(facts.iter().map(|(name, value)| lines(name, value)).collect())
    }
}

/// A name and its value. Further lines of the value are aligned with its first line.
fn lines(name: &str, value: &str) -> String {
    let line = |(i, value): (usize, &str)| format!("{:<12} {value}\n", if i == 0 { name } else { "" });
    value.lines().enumerate().map(line).collect()
}

impl Summary {
    pub(crate) fn new(model: &Model<'_>) -> Self {
        let threshold = |(name, threshold): (&String, &Threshold)| ThresholdSummary::new(name, threshold);
        Self {
            model: ModelSummary::new(model),
            column_names: model.column_names().map(<[String]>::to_vec),
            class_rows: vec![],
            thresholds: model.thresholds().iter().map(threshold).collect(),
            sets: model.rules().sets.iter().map(RuleSummary::of_sets).collect(),
            intervals: model.rules().intervals.iter().map(RuleSummary::of_intervals).collect(),
            temperature: model.rules().fitted_temperature(),
            file: None,
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| text += &lines(name, value);
        for fact in self.model.facts() {
            line(&fact.name, &fact.value);
            if let (Some(names), "rows") = (&self.column_names, &*fact.name) {
                line("column_names", &column_text(names));
            }
            if fact.name == "rows" && !self.class_rows.is_empty() {
                line("classes", &class_text(&self.class_rows));
            }
        }
        for threshold in &self.thresholds {
            line("threshold", &threshold.text());
        }
        self.sets.iter().for_each(|rule| line("sets", &rule.text()));
        self.intervals.iter().for_each(|rule| line("intervals", &rule.text()));
        if let Some(temperature) = self.temperature {
            line("temperature", &format!("{}, of the logits", number(temperature)));
        }
        if let Some(file) = &self.file {
            file.facts().into_iter().for_each(|(name, text)| line(name, &text));
        }
        wrap::for_terminal(text)
    }
}

/// The first classes with their numbers of rows, and the number of classes that are not listed.
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

/// The first names, and the number of names that are not listed.
fn column_text(names: &[String]) -> String {
    let more = (names.len() > LISTED_COLUMNS).then(|| format!("and {} more", names.len() - LISTED_COLUMNS));
    let shown = names.iter().take(LISTED_COLUMNS).map(|name| escape::name(name).into_owned());
    shown.chain(more).collect::<Vec<String>>().join(", ")
}

/// Four decimals, or scientific notation for very small and very large values.
fn number(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e6).contains(&value.abs()) {
        format!("{value:.3e}")
    } else {
        format!("{value:.4}")
    }
}

#[cfg(test)]
mod tests {
    use nuq::calibrate::Guarantee;

    use super::*;

    fn threshold(value: f64) -> ThresholdSummary {
        let guarantee = Guarantee::Coverage { share: 0.5, low: 0.2, high: 0.8, accepted: 5 };
        ThresholdSummary::of_baseline("main", &ScoreThreshold { value, guarantee, rows: 9, training_rows: 0 })
    }

    #[test]
    fn only_a_threshold_of_plus_infinity_accepts_every_row() {
        assert_eq!(threshold(f64::INFINITY).rule(), "main: accept every row");
        assert_eq!(threshold(f64::INFINITY).value, None);
        assert_eq!(threshold(f64::NEG_INFINITY).rule(), "main: accept if score ≤ -1.798e308");
        assert_eq!(threshold(0.5).rule(), "main: accept if score ≤ 0.5000");
    }

    #[test]
    fn sections_are_listed_below_the_file_of_a_sharded_model() {
        let sections = vec![SectionSummary { name: "model".to_owned(), bytes: 7 }];
        let file = FileSummary { shards: Some(3), sections, ..FileSummary::new("nuq 1", false, &[]) };
        let names: Vec<&str> = file.facts().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["file", "", "shards"]);
    }
}
