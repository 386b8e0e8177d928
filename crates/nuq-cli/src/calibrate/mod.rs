//! `nuq calibrate`: chooses a threshold, prediction sets or intervals on held-out rows and stores them in the file of the model or
//! baseline, or removes them.

mod baseline;
mod conformal;
mod temperature;

use std::path::Path;

use nuq::calibrate::{Measure, Predictor, ScoreThreshold, Target, calibrate, kind_of_rows};
use nuq::{Decision, Embeddings, FittedModel, Label, Model, NuqClassifier, Predictions};
use nuq_io::{ArraySpec, BaselineFile, Contents, ModelFile, ModelLock};
use serde::Serialize;
use serde_json::json;

use crate::args::{CalibrateArgs, Common, TargetSpec, buffer_stdin};
use crate::error::Error;
use crate::inspect::ThresholdSummary;
use crate::progress::message;
use crate::rows::{self, ModelRows, UnknownLabels};
use crate::{destination, escape, output, wrap};

/// Default of `--delta`.
const DELTA: f64 = 0.05;

/// The result that the command prints.
#[derive(Debug, Serialize)]
struct Outcome {
    #[serde(flatten)]
    threshold: ThresholdSummary,
    /// Number of accepted held-out rows.
    accepted: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy_of_accepted: Option<f64>,
    /// `network` or `nuq`: the predictor whose errors were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors_of: Option<&'static str>,
    /// Whether a threshold of the same name was replaced.
    replaced: bool,
    out: String,
    /// Name of the rows on which the accuracies were measured, for example "held-out rows".
    #[serde(skip)]
    kind_of_rows: &'static str,
}

pub(crate) fn run(options: &CalibrateArgs, common: &Common) -> Result<(), Error> {
    if let Some(name) = &options.remove {
        return remove(options, name, common);
    }
    if options.temperature {
        return temperature::run(options, common);
    }
    let Some(target_spec) = options.target else {
        return Err(Error::Usage("--target, --temperature or --remove is required".to_owned()));
    };
    if options.name.as_deref() == Some("") {
        return Err(Error::Usage("--name is empty: give a name, or omit it".to_owned()));
    }
    let arrays = [
        ("--embeddings", &options.embeddings),
        ("--labels", &options.labels),
        ("--targets", &options.targets),
        ("--logits", &options.logits),
        ("--members", &options.members),
    ];
    buffer_stdin(arrays.into_iter().filter_map(given))?;
    if let Some(embeddings) = &options.embeddings {
        let others = arrays[1..3].iter().copied().filter_map(given);
        rows::check_not_column(others, embeddings, options.input.options())?;
    }
    conformal::check_options(options, target_spec)?;
    if let TargetSpec::Sets(share) | TargetSpec::Intervals(share) = target_spec {
        return conformal::run(options, common, (target_spec, share));
    }
    let target = target(options, target_spec)?;
    let (contents, replacement) = Replacement::open(options, common)?;
    match contents {
        Contents::Model(file) => {
            file.require_rows()?;
            threshold(options, common, (target_spec, target), file.model, replacement)
        }
        Contents::Baseline(file) => baseline::run(options, common, (target_spec, target), file, replacement),
    }
}

/// The name of an option and its array; `None` if the option is not given.
fn given<'o>((name, spec): (&'o str, &'o Option<ArraySpec>)) -> Option<(&'o str, &'o ArraySpec)> {
    spec.as_ref().map(|spec| (name, spec))
}

/// Chooses a threshold of a model.
fn threshold(
    options: &CalibrateArgs,
    common: &Common,
    (target_spec, target): (TargetSpec, Target),
    mut model: Model<'static>,
    replacement: Replacement<'_>,
) -> Result<(), Error> {
    let embeddings = model_inputs(options)?;
    check_labels_and_classes(options, &model)?;
    let others: Vec<_> = options.labels.iter().collect();
    let held_out = held_out_rows(options, &model, embeddings, &others)?;
    let measure = measure(options, target_spec);
    let (scores, is_error, training_rows) = match &model {
        Model::Classifier(model) => {
            let labels = match &options.labels {
                Some(spec) => {
                    let expected_rows = (embeddings, held_out.len());
                    let labels = rows::labels_for(model, spec, expected_rows, options.input.options())?;
                    rows::check_labels(spec, &labels, model, common, UnknownLabels::CountAsErrors)?;
                    Some(labels)
                }
                None => None,
            };
            let predictions = predict(options, embeddings, model, &held_out)?;
            let neighbors = predictions.neighbors();
            let training_rows = rows::warn_training_rows(embeddings, model, (&held_out, neighbors), common);
            let is_error = |labels: Vec<Label>| -> Vec<bool> {
                labels.iter().enumerate().map(|(i, label)| predictions.label(i) != label).collect()
            };
            let scores: Vec<f64> = predictions.iter().map(|p| measure.of(p)).collect();
            (scores, labels.map(is_error), training_rows)
        }
        Model::Regressor(model) => {
            let estimates = model.predict(&held_out)?;
            let neighbors = estimates.neighbors();
            let training_rows = rows::warn_training_rows(embeddings, model, (&held_out, neighbors), common);
            (estimates.iter().map(|e| measure.of_estimate(e)).collect(), None, training_rows)
        }
    };
    let predictor = if options.logits.is_some() { Predictor::Network } else { Predictor::Nuq };
    let threshold = calibrate(measure, &scores, is_error.as_deref(), target)?;
    let threshold = threshold.of_predictor(predictor).on_training_rows(training_rows);
    warn_infinite(common, &threshold.score, target_spec);
    let name = name(options, target_spec);
    let is_replaced = model.rules_mut().set_threshold(&name, threshold, &scores)?.is_some();
    let out = replacement.save(&model)?;
    let summary = ThresholdSummary::new(&name, &threshold);
    let mut outcome = Outcome::new(summary, &threshold.score, &scores, is_error.as_deref(), out);
    outcome.errors_of = is_error.map(|_| predictor.name());
    outcome.print(is_replaced, out, common)
}

/// The name of the chosen threshold, sets or intervals: `--name`, or the target if it is not given.
fn name(options: &CalibrateArgs, target: TargetSpec) -> String {
    options.name.clone().unwrap_or_else(|| target.to_string())
}

/// Prints a warning if a threshold for a coverage or a false-alarm rate accepts every row, for example because there are too few held-out
/// rows. For a risk, a threshold that accepts every row is a usual result.
fn warn_infinite(common: &Common, threshold: &ScoreThreshold, target: TargetSpec) {
    if threshold.value == f64::INFINITY && !matches!(target, TargetSpec::Risk(_)) {
        let text = format!("warning: the threshold for {target} accepts every row; see its statement");
        message(common, &text);
    }
}

/// The embeddings of the held-out rows. Missing embeddings and `--members`, which only baselines use, are errors.
fn model_inputs(options: &CalibrateArgs) -> Result<&ArraySpec, Error> {
    if options.members.is_some() {
        return Err(Error::Usage(format!(
            "--members requires a baseline: {} holds a NUQ model, which uses embeddings and logits",
            options.model.display()
        )));
    }
    options.embeddings.as_ref().ok_or_else(|| {
        Error::Usage(format!("--embeddings is required: {} holds a NUQ model", options.model.display()))
    })
}

/// Removes the threshold, sets and intervals of one name from the file.
fn remove(options: &CalibrateArgs, name: &str, common: &Common) -> Result<(), Error> {
    let (mut contents, replacement) = Replacement::open(options, common)?;
    let (kinds, present) = match &mut contents {
        Contents::Model(file) => {
            let rules = file.model.rules_mut();
            let kinds = rules.remove(name);
            let present = [
                ("thresholds", rows::names(&rules.thresholds)),
                ("sets", rows::names(&rules.sets)),
                ("intervals", rows::names(&rules.intervals)),
            ];
            (kinds, present.to_vec())
        }
        Contents::Baseline(file) => {
            let thresholds = &mut file.details.thresholds;
            let kinds = if thresholds.remove(name).is_some() { vec!["threshold"] } else { vec![] };
            (kinds, vec![("thresholds", rows::names(thresholds))])
        }
    };
    if kinds.is_empty() {
        let lists: Vec<String> = present
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(kind, names)| format!("its {kind} are {names}"))
            .collect();
        let present = if lists.is_empty() { "it has none".to_owned() } else { lists.join("; ") };
        return Err(Error::Data(format!(
            "{} has no threshold, sets or intervals `{}`: {present}",
            options.model.display(),
            escape::name(name)
        )));
    }
    let out = match &contents {
        Contents::Model(file) => replacement.save(&file.model)?,
        Contents::Baseline(file) => replacement.save_baseline(file)?,
    };
    let removed = kinds.iter().map(|kind| format!("the {kind}")).collect::<Vec<_>>().join(" and ");
    let text = format!("removed {removed} `{}` from {}\n", escape::name(name), destination::name(out));
    let json = json!({ "removed": name, "kinds": kinds, "out": destination::json_name(out) });
    output::print_report(common, out, &json, &text)
}

/// The file that a changed model or baseline is saved to. Without `--out`, or if `--out` names the same file, it is the file that was
/// opened, and a lock ensures that changes of other processes are not overwritten.
struct Replacement<'o> {
    lock: Option<ModelLock>,
    out: &'o Path,
}

impl<'o> Replacement<'o> {
    fn open(options: &'o CalibrateArgs, common: &Common) -> Result<(Contents, Self), Error> {
        let (out, lock) = match &options.out {
            Some(out) if destination::is_stdout(out) || !output::is_same_file(out, &options.model) => {
                let inputs = options.embeddings.iter().chain(&options.labels).chain(&options.logits);
                let inputs = inputs.chain(&options.targets).chain(&options.members);
                output::check_out(out, &inputs.map(|spec| spec.path.as_path()).collect::<Vec<_>>())?;
                destination::check_binary(out)?;
                (out, None)
            }
            _ => {
                // A file that is not a model is reported as such, not as locked or read-only.
                nuq_io::open_any(&options.model)?;
                // A folder is not checked here: the lock opens the manifest of a sharded model for writing, and fails if it cannot.
                if !options.model.is_dir() {
                    nuq_io::check_writable(&options.model)?;
                }
                let on_wait = || {
                    let path = options.model.display();
                    message(common, &format!("waiting for another process that changes {path}"));
                };
                let out = options.out.as_ref().unwrap_or(&options.model);
                (out, Some(ModelLock::acquire(&options.model, on_wait)?))
            }
        };
        Ok((nuq_io::open_any(&options.model)?, Self { lock, out }))
    }

    /// Opens a model for `option`, which does not apply to a baseline. A baseline is an error.
    fn open_model(
        options: &'o CalibrateArgs,
        common: &Common,
        option: &str,
    ) -> Result<(ModelFile, Self), Error> {
        match Self::open(options, common)? {
            (Contents::Model(file), replacement) => Ok((file, replacement)),
            (Contents::Baseline(file), _) => Err(Error::Usage(format!(
                "{option} requires a NUQ model: {} holds the baseline {}",
                options.model.display(),
                file.method
            ))),
        }
    }

    /// Saves the model and returns the path of its file.
    fn save(self, model: &Model<'_>) -> Result<&'o Path, Error> {
        match self.lock {
            Some(lock) => lock.save(model)?,
            None => destination::save(model, self.out)?,
        }
        Ok(self.out)
    }

    /// Saves the baseline and returns the path of its file.
    fn save_baseline(self, file: &BaselineFile) -> Result<&'o Path, Error> {
        match self.lock {
            Some(lock) => lock.save_baseline(&*file.scorer, &file.details)?,
            None => destination::save_baseline(&*file.scorer, &file.details, self.out)?,
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
        threshold: &ScoreThreshold,
        scores: &[f64],
        is_error: Option<&[bool]>,
        out: &Path,
    ) -> Self {
        let is_accepted = |score: &f64| threshold.decide(*score) == Decision::Accept;
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
            replaced: false,
            out: destination::json_name(out),
            kind_of_rows: kind_of_rows(threshold.training_rows, threshold.rows),
        }
    }

    fn print(mut self, is_replaced: bool, out: &Path, common: &Common) -> Result<(), Error> {
        self.replaced = is_replaced;
        if is_replaced {
            message(common, &format!("replaced the threshold `{}`", escape::name(self.threshold.name())));
        }
        output::print_report(common, out, &self, &self.text())
    }

    fn text(&self) -> String {
        let accuracy = match (self.accuracy, self.accuracy_of_accepted) {
            (Some(all), Some(accepted)) => {
                let predictor =
                    if self.errors_of == Some("network") { "the network" } else { "NUQ's labels" };
                let (accepted, all, kind) = (100.0 * accepted, 100.0 * all, self.kind_of_rows);
                format!(
                    "\naccuracy of {predictor} on the {kind}: {accepted:.2} % of the accepted rows, {all:.2} % of all rows"
                )
            }
            _ => String::new(),
        };
        let out = destination::name(self.out.as_ref());
        wrap::for_terminal(format!("{}{accuracy}\nstored in {out}\n", self.threshold.text()))
    }
}
