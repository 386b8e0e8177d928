//! `nuq calibrate`: a threshold chosen on held-out rows, and put into the model.

use nuq::calibrate::{Measure, Target, Threshold, calibrate};
use nuq::{Decision, FittedModel, Label, Model, NuqClassifier, Predictions};
use serde::Serialize;

use crate::args::{CalibrateArgs, Common, MeasureName, TargetName};
use crate::error::Error;
use crate::inspect::ThresholdSummary;
use crate::progress::say;
use crate::{output, rows};

/// How often a promised risk may fail.
const DELTA: f64 = 0.05;

#[derive(Debug, Serialize)]
struct Done {
    #[serde(flatten)]
    threshold: ThresholdSummary,
    accepted: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy_of_accepted: Option<f64>,
    /// Whose answers were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors_of: Option<&'static str>,
    out: String,
}

pub(crate) fn run(options: &CalibrateArgs, common: &Common) -> Result<(), Error> {
    let target = target(options)?;
    let out = options.out.as_ref().unwrap_or(&options.model);
    if options.out.is_some() {
        output::check_out(out, &[&options.embeddings.path])?;
    }
    let mut opened = nuq_io::open(&options.model)?;
    let others: Vec<_> = options.labels.iter().collect();
    let held_out = rows::read_for(&opened.model, &options.model, &options.embeddings, &others)?;
    let labels = match &options.labels {
        Some(spec) => Some(rows::labels(spec, (&options.embeddings, held_out.len()))?),
        None => None,
    };
    let measure = measure(options);
    let (scores, is_error) = match &opened.model {
        Model::Classifier(model) => {
            let found = model.predict(&held_out)?;
            rows::remark_training_rows(&options.embeddings, found.neighbors(), common);
            if let (Some(spec), Some(labels)) = (&options.labels, &labels) {
                rows::check_labels(spec, labels, model, common)?;
            }
            let said = answers(options, model, &found)?;
            let wrong = |labels: Vec<Label>| -> Vec<bool> {
                labels.iter().zip(said).map(|(label, said)| said != label).collect()
            };
            (found.iter().map(|p| measure.of(p)).collect::<Vec<f64>>(), labels.map(wrong))
        }
        Model::Regressor(_) if options.labels.is_some() => {
            let text = "--labels belongs to classifiers: a regressor has no errors to count";
            return Err(Error::Usage(text.to_owned()));
        }
        Model::Regressor(model) => {
            (model.predict(&held_out)?.iter().map(|e| measure.of_estimate(e)).collect(), None)
        }
    };
    let threshold = calibrate(measure, &scores, is_error.as_deref(), target)?;
    if threshold.value == f64::INFINITY {
        let text =
            format!("{} rows cannot keep this promise but by accepting everything: give more", scores.len());
        say(common, &text);
    }
    let name = options.name.clone().unwrap_or_else(|| options.target.to_string());
    let before = opened.model.set_threshold(&name, threshold);
    nuq_io::save(&opened.model, out)?;
    if before.is_some() {
        say(common, &format!("the threshold `{name}` that was there is replaced"));
    }
    let mut done = Done::new(&name, &threshold, &scores, is_error.as_deref(), out.display().to_string());
    done.errors_of = is_error.map(|_| if options.logits.is_some() { "network" } else { "nuq" });
    output::tell(common, &done.shown(common.json))
}

/// What is said of each row: by the network, where its logits are given, and by nuq otherwise.
fn answers<'m>(
    options: &CalibrateArgs,
    model: &'m NuqClassifier<'_>,
    found: &Predictions<'m>,
) -> Result<Vec<&'m Label>, Error> {
    let Some(spec) = &options.logits else {
        return Ok((0..found.len()).map(|i| found.label(i)).collect());
    };
    let logits = rows::logits(spec, model, &options.classes, (&options.embeddings, found.len()))?;
    let best = |row: &[f32]| (1..row.len()).fold(0, |best, c| if row[c] > row[best] { c } else { best });
    Ok(logits.rows().map(|row| model.classes().label(best(row))).collect())
}

fn target(options: &CalibrateArgs) -> Result<Target, Error> {
    let refuse = |text: &str| Err(Error::Usage(text.to_owned()));
    match (options.target, options.delta) {
        (TargetName::Risk(_), _) if options.labels.is_none() => {
            refuse("--target risk needs --labels: errors are counted on held-out rows")
        }
        (TargetName::Risk(risk), delta) => Ok(Target::Risk { risk, delta: delta.unwrap_or(DELTA) }),
        (_, Some(_)) => refuse("--delta belongs to --target risk"),
        (TargetName::Coverage(share), None) => Ok(Target::Coverage(share)),
        (TargetName::FalseAlarm(share), None) => Ok(Target::FalseAlarm(share)),
    }
}

fn measure(options: &CalibrateArgs) -> Measure {
    match (options.measure, options.target) {
        (Some(MeasureName::Aleatoric), _) => Measure::Aleatoric,
        (Some(MeasureName::Epistemic), _) => Measure::Epistemic,
        (Some(MeasureName::Total), _) => Measure::Total,
        (Some(MeasureName::Density), _) => Measure::Density,
        (None, TargetName::FalseAlarm(_)) => Measure::Epistemic,
        (None, _) => Measure::Total,
    }
}

impl Done {
    fn new(
        name: &str,
        threshold: &Threshold,
        scores: &[f64],
        is_error: Option<&[bool]>,
        out: String,
    ) -> Self {
        let is_accepted = |score: &f64| threshold.decide_score(*score) == Decision::Accept;
        let accepted = scores.iter().filter(|score| is_accepted(score)).count();
        let right = |wrong: &[bool], among: &dyn Fn(usize) -> bool| {
            let rows: Vec<bool> = (0..wrong.len()).filter(|&i| among(i)).map(|i| wrong[i]).collect();
            rows.iter().filter(|wrong| !**wrong).count() as f64 / rows.len().max(1) as f64
        };
        Self {
            threshold: ThresholdSummary::of((&name.to_owned(), threshold)),
            accepted,
            accuracy: is_error.map(|wrong| right(wrong, &|_| true)),
            accuracy_of_accepted: is_error.map(|wrong| right(wrong, &|i| is_accepted(&scores[i]))),
            errors_of: None,
            out,
        }
    }

    fn shown(&self, as_json: bool) -> String {
        if as_json {
            return serde_json::to_string_pretty(self).expect("plain data") + "\n";
        }
        let accuracy = match (self.accuracy, self.accuracy_of_accepted) {
            (Some(all), Some(accepted)) => {
                let who =
                    if self.errors_of == Some("network") { "the network is" } else { "nuq's labels are" };
                let (accepted, all) = (100.0 * accepted, 100.0 * all);
                format!("\n{who} right on {accepted:.2} % of what it accepts, {all:.2} % of all")
            }
            _ => String::new(),
        };
        format!("{}\n{}{accuracy}\nkept in {}\n", self.threshold.text(), self.threshold.statement(), self.out)
    }
}
