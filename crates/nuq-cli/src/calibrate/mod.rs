//! `nuq calibrate`: chooses a threshold, prediction sets or intervals on held-out rows and stores them in the model, or removes
//! them.

mod conformal;
mod temperature;

use std::path::Path;

use nuq::calibrate::{Measure, Predictor, Target, Threshold, calibrate};
use nuq::{Decision, Embeddings, FittedModel, Label, Model, NuqClassifier, Predictions};
use nuq_io::{ArraySpec, ModelLock};
use serde::Serialize;
use serde_json::json;

use crate::args::{CalibrateArgs, Common, TargetSpec, hold_stdin};
use crate::error::Error;
use crate::inspect::ThresholdSummary;
use crate::progress::message;
use crate::rows::{self, ModelRows};
use crate::{destination, escape, output, wrap};

/// Default of `--delta`.
const DELTA: f64 = 0.05;

/// The result that the command prints.
#[derive(Debug, Serialize)]
struct Outcome {
    #[serde(flatten)]
    threshold: ThresholdSummary,
    /// Accepted held-out rows.
    accepted: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy_of_accepted: Option<f64>,
    /// `network` or `nuq`: the predictor whose errors were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors_of: Option<&'static str>,
    out: String,
}

pub(crate) fn run(options: &CalibrateArgs, common: &Common) -> Result<(), Error> {
    if let Some(name) = &options.remove {
        return remove(options, name, common);
    }
    if options.temperature {
        return temperature::run(options, common);
    }
    let (Some(embeddings), Some(target_spec)) = (&options.embeddings, options.target) else {
        return Err(Error::Usage("--embeddings and --target, or --remove, are required".to_owned()));
    };
    if options.name.as_deref() == Some("") {
        return Err(Error::Usage("--name is empty: give a name, or omit it".to_owned()));
    }
    let labels = options.labels.iter().map(|spec| ("--labels", spec));
    let logits = options.logits.iter().map(|spec| ("--logits", spec));
    let targets = options.targets.iter().map(|spec| ("--targets", spec));
    let others: Vec<_> = labels.chain(targets).collect();
    hold_stdin([("--embeddings", embeddings)].into_iter().chain(others.iter().copied()).chain(logits))?;
    rows::check_not_column(others, embeddings, options.input.options())?;
    conformal::check_options(options, target_spec)?;
    if let TargetSpec::Sets(share) | TargetSpec::Intervals(share) = target_spec {
        return conformal::run(options, common, embeddings, (target_spec, share));
    }
    let target = target(options, target_spec)?;
    let mut model_file = ChangedModel::open(options, common)?;
    check_labels_and_classes(options, &model_file.model)?;
    let others: Vec<_> = options.labels.iter().collect();
    let held_out = held_out_rows(options, &model_file.model, embeddings, &others)?;
    let measure = measure(options, target_spec);
    let (scores, is_error, training_rows) = match &model_file.model {
        Model::Classifier(model) => {
            let labels = match &options.labels {
                Some(spec) => {
                    let of = (embeddings, held_out.len());
                    let labels = rows::labels_for(model, spec, of, options.input.options())?;
                    rows::check_labels(spec, &labels, model, common)?;
                    Some(labels)
                }
                None => None,
            };
            let predictions = predict(options, embeddings, model, &held_out)?;
            let training_rows = rows::warn_training_rows(embeddings, predictions.neighbors(), common);
            let is_error = |labels: Vec<Label>| -> Vec<bool> {
                labels.iter().enumerate().map(|(i, label)| predictions.label(i) != label).collect()
            };
            let scores: Vec<f64> = predictions.iter().map(|p| measure.of(p)).collect();
            (scores, labels.map(is_error), training_rows)
        }
        Model::Regressor(model) => {
            let estimates = model.predict(&held_out)?;
            let training_rows = rows::warn_training_rows(embeddings, estimates.neighbors(), common);
            (estimates.iter().map(|e| measure.of_estimate(e)).collect(), None, training_rows)
        }
    };
    let predictor = if options.logits.is_some() { Predictor::Network } else { Predictor::Nuq };
    let threshold = calibrate(measure, &scores, is_error.as_deref(), target)?;
    let threshold = threshold.of_predictor(predictor).on_training_rows(training_rows);
    if threshold.value == f64::INFINITY && !matches!(target, Target::Risk { .. }) {
        let text = format!("warning: the threshold for {target_spec} accepts every row; see its statement");
        message(common, &text);
    }
    let name = options.name.clone().unwrap_or_else(|| target_spec.to_string());
    let replaced = model_file.model.rules_mut().set_threshold(&name, threshold, &scores)?;
    let out = model_file.save()?;
    if replaced.is_some() {
        message(common, &format!("replaced the threshold `{}`", escape::name(&name)));
    }
    let summary = ThresholdSummary::new(&name, &threshold);
    let mut outcome = Outcome::new(summary, &threshold, &scores, is_error.as_deref(), destination::name(out));
    outcome.errors_of = is_error.map(|_| predictor.name());
    output::print_report(common, out, &outcome, &outcome.text())
}

/// Removes the threshold, sets and intervals of one name from the model.
fn remove(options: &CalibrateArgs, name: &str, common: &Common) -> Result<(), Error> {
    let mut model_file = ChangedModel::open(options, common)?;
    let kinds = model_file.model.rules_mut().remove(name);
    if kinds.is_empty() {
        rows::threshold(&model_file.model, &options.model, name)?;
    }
    let out = model_file.save()?;
    let removed = kinds.iter().map(|kind| format!("the {kind}")).collect::<Vec<_>>().join(" and ");
    let text = format!("removed {removed} `{}` from {}\n", escape::name(name), destination::name(out));
    let json = json!({ "removed": name, "kinds": kinds, "out": out.display().to_string() });
    output::print_report(common, out, &json, &text)
}

/// A model that is opened, changed and saved. If it replaces its own file, a lock prevents the loss of
/// changes by other processes.
struct ChangedModel<'o> {
    model: Model<'static>,
    lock: Option<ModelLock>,
    out: &'o Path,
}

impl<'o> ChangedModel<'o> {
    fn open(options: &'o CalibrateArgs, common: &Common) -> Result<Self, Error> {
        let (out, lock) = match &options.out {
            Some(out) => {
                let inputs = options.embeddings.iter().chain(&options.labels).chain(&options.logits);
                let inputs = inputs.chain(&options.targets);
                output::check_out(out, &inputs.map(|spec| spec.path.as_path()).collect::<Vec<_>>())?;
                destination::check_binary(out)?;
                (out, None)
            }
            None => {
                // A file that is not a model is reported as such, not as locked or read-only.
                nuq_io::open(&options.model)?;
                nuq_io::check_writable(&options.model)?;
                let on_wait = || {
                    let path = options.model.display();
                    message(common, &format!("waiting for another process that changes {path}"));
                };
                (&options.model, Some(ModelLock::acquire(&options.model, on_wait)?))
            }
        };
        Ok(Self { model: nuq_io::open(&options.model)?.model, lock, out })
    }

    /// Saves the model and returns the path of its file.
    fn save(self) -> Result<&'o Path, Error> {
        match self.lock {
            Some(lock) => lock.save(&self.model)?,
            None => destination::save(&self.model, self.out)?,
        }
        Ok(self.out)
    }
}

/// Reads the held-out rows. `others` are columns of the same table that are not coordinates.
fn held_out_rows(
    options: &CalibrateArgs,
    model: &Model<'_>,
    embeddings: &ArraySpec,
    others: &[&ArraySpec],
) -> Result<Embeddings<'static>, Error> {
    let rows = ModelRows {
        model,
        path: &options.model,
        options: options.input.options(),
        ignore_column_names: options.input.ignore_column_names,
    };
    rows.read(embeddings, others)
}

/// Checks options that depend on the model, before rows are read.
fn check_labels_and_classes(options: &CalibrateArgs, model: &Model<'_>) -> Result<(), Error> {
    let is_risk = matches!(options.target, Some(TargetSpec::Risk(_)));
    match model {
        Model::Regressor(_) if is_risk => {
            let text = "--target risk requires a classifier: the predictions of a regressor are not right or wrong; use --target \
                        coverage or false_alarm";
            Err(Error::Usage(text.to_owned()))
        }
        Model::Classifier(_) if is_risk && options.labels.is_none() => {
            let text = "--target risk requires --labels: errors are counted on the held-out rows";
            Err(Error::Usage(text.to_owned()))
        }
        Model::Regressor(_) if options.labels.is_some() => {
            let text = "--labels requires a classifier: the errors of a regressor are not counted";
            Err(Error::Usage(text.to_owned()))
        }
        Model::Regressor(_) if options.logits.is_some() => {
            Err(Error::Usage("--logits requires a classifier".to_owned()))
        }
        Model::Regressor(_) => Ok(()),
        Model::Classifier(model) => rows::check_class_names(model, &options.classes),
    }
}

/// The prediction for each row: of the network if its logits are given, otherwise of NUQ.
fn predict<'m>(
    options: &CalibrateArgs,
    embeddings: &ArraySpec,
    model: &'m NuqClassifier<'_>,
    held_out: &Embeddings<'_>,
) -> Result<Predictions<'m>, Error> {
    let Some(spec) = &options.logits else { return Ok(model.predict(held_out)?) };
    let rows = (embeddings, held_out.len());
    let logits = rows::logits(spec, model, &options.classes, rows, options.input.options())?;
    Ok(model.predict_with(held_out, &model.network(&logits)?)?)
}

fn target(options: &CalibrateArgs, spec: TargetSpec) -> Result<Target, Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    let target = match (spec, options.delta) {
        (TargetSpec::Risk(risk), delta) => Target::Risk { risk, delta: delta.unwrap_or(DELTA) },
        (_, Some(_)) => return usage("--delta requires --target risk"),
        (TargetSpec::Coverage(share), None) => Target::Coverage(share),
        (TargetSpec::FalseAlarm(share), None) => Target::FalseAlarm(share),
        (TargetSpec::Sets(_) | TargetSpec::Intervals(_), None) => {
            unreachable!("sets and intervals have no threshold")
        }
    };
    target.check()?;
    Ok(target)
}

fn measure(options: &CalibrateArgs, target: TargetSpec) -> Measure {
    options.measure.unwrap_or(match target {
        TargetSpec::FalseAlarm(_) => Measure::Epistemic,
        _ => Measure::Total,
    })
}

impl Outcome {
    fn new(
        summary: ThresholdSummary,
        threshold: &Threshold,
        scores: &[f64],
        is_error: Option<&[bool]>,
        out: String,
    ) -> Self {
        let is_accepted = |score: &f64| threshold.decide_score(*score) == Decision::Accept;
        let accepted = scores.iter().filter(|score| is_accepted(score)).count();
        let accuracy = |is_error: &[bool], is_included: &dyn Fn(usize) -> bool| {
            let rows: Vec<bool> =
                (0..is_error.len()).filter(|&i| is_included(i)).map(|i| is_error[i]).collect();
            rows.iter().filter(|is_error| !**is_error).count() as f64 / rows.len().max(1) as f64
        };
        Self {
            threshold: summary,
            accepted,
            accuracy: is_error.map(|is_error| accuracy(is_error, &|_| true)),
            accuracy_of_accepted: is_error.map(|is_error| accuracy(is_error, &|i| is_accepted(&scores[i]))),
            errors_of: None,
            out,
        }
    }

    fn text(&self) -> String {
        let accuracy = match (self.accuracy, self.accuracy_of_accepted) {
            (Some(all), Some(accepted)) => {
                let predictor =
                    if self.errors_of == Some("network") { "the network" } else { "NUQ's labels" };
                let (accepted, all) = (100.0 * accepted, 100.0 * all);
                format!(
                    "\naccuracy of {predictor} on the held-out rows: {accepted:.2} % of the accepted rows, {all:.2} % of all rows"
                )
            }
            _ => String::new(),
        };
        let (rule, statement) = (self.threshold.rule(), self.threshold.statement());
        wrap::for_terminal(format!("{rule}\n{statement}{accuracy}\nstored in {}\n", self.out))
    }
}
