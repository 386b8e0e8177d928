//! `nuq calibrate`: chooses a threshold on held-out rows and stores it in the model.

use nuq::calibrate::{Measure, Target, Threshold, calibrate};
use nuq::{Decision, FittedModel, Label, Model, NuqClassifier, Predictions};
use serde::Serialize;

use crate::args::{CalibrateArgs, Common, TargetSpec};
use crate::error::Error;
use crate::inspect::ThresholdSummary;
use crate::progress::message;
use crate::{output, rows};

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
    let target = target(options)?;
    let out = options.out.as_ref().unwrap_or(&options.model);
    if options.out.is_some() {
        output::check_out(out, &[&options.embeddings.path])?;
    }
    let mut opened = nuq_io::open(&options.model)?;
    let others: Vec<_> = options.labels.iter().collect();
    let held_out =
        rows::read_for(&opened.model, &options.model, &options.embeddings, &others, options.header)?;
    let labels = match &options.labels {
        Some(spec) => Some(rows::labels(spec, (&options.embeddings, held_out.len()), options.header)?),
        None => None,
    };
    let measure = measure(options);
    let (scores, is_error) = match &opened.model {
        Model::Classifier(model) => {
            let predictions = model.predict(&held_out)?;
            rows::warn_training_rows(&options.embeddings, predictions.neighbors(), common);
            if let (Some(spec), Some(labels)) = (&options.labels, &labels) {
                rows::check_labels(spec, labels, model, common)?;
            }
            let predicted = predicted_labels(options, model, &predictions)?;
            let is_error = |labels: Vec<Label>| -> Vec<bool> {
                labels.iter().zip(predicted).map(|(label, predicted)| predicted != label).collect()
            };
            (predictions.iter().map(|p| measure.of(p)).collect::<Vec<f64>>(), labels.map(is_error))
        }
        Model::Regressor(_) if options.labels.is_some() => {
            let text = "--labels requires a classifier: the errors of a regressor are not counted";
            return Err(Error::Usage(text.to_owned()));
        }
        Model::Regressor(model) => {
            (model.predict(&held_out)?.iter().map(|e| measure.of_estimate(e)).collect(), None)
        }
    };
    let threshold = calibrate(measure, &scores, is_error.as_deref(), target)?;
    if threshold.value == f64::INFINITY {
        let text = format!(
            "{} held-out rows are too few for this target: the threshold accepts every row; give more rows",
            scores.len()
        );
        message(common, &text);
    }
    let name = options.name.clone().unwrap_or_else(|| options.target.to_string());
    let replaced = opened.model.set_threshold(&name, threshold);
    nuq_io::save(&opened.model, out)?;
    if replaced.is_some() {
        message(common, &format!("replaced the threshold `{name}`"));
    }
    let summary = ThresholdSummary::new(&name, &threshold);
    let mut outcome =
        Outcome::new(summary, &threshold, &scores, is_error.as_deref(), out.display().to_string());
    outcome.errors_of = is_error.map(|_| if options.logits.is_some() { "network" } else { "nuq" });
    output::print_unless_quiet(common, &outcome.render(common.json))
}

/// The predicted label of each row: by the network if its logits are given, otherwise by NUQ.
fn predicted_labels<'m>(
    options: &CalibrateArgs,
    model: &'m NuqClassifier<'_>,
    predictions: &Predictions<'m>,
) -> Result<Vec<&'m Label>, Error> {
    let Some(spec) = &options.logits else {
        return Ok((0..predictions.len()).map(|i| predictions.label(i)).collect());
    };
    let logits = rows::logits(
        spec,
        model,
        &options.classes,
        (&options.embeddings, predictions.len()),
        options.header,
    )?;
    let best = |row: &[f32]| (1..row.len()).fold(0, |best, c| if row[c] > row[best] { c } else { best });
    Ok(logits.rows().map(|row| model.classes().label(best(row))).collect())
}

fn target(options: &CalibrateArgs) -> Result<Target, Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    match (options.target, options.delta) {
        (TargetSpec::Risk(_), _) if options.labels.is_none() => {
            usage("--target risk requires --labels: errors are counted on the held-out rows")
        }
        (TargetSpec::Risk(risk), delta) => Ok(Target::Risk { risk, delta: delta.unwrap_or(DELTA) }),
        (_, Some(_)) => usage("--delta requires --target risk"),
        (TargetSpec::Coverage(share), None) => Ok(Target::Coverage(share)),
        (TargetSpec::FalseAlarm(share), None) => Ok(Target::FalseAlarm(share)),
    }
}

fn measure(options: &CalibrateArgs) -> Measure {
    options.measure.unwrap_or(match options.target {
        TargetSpec::FalseAlarm(_) => Measure::Epistemic,
        TargetSpec::Coverage(_) | TargetSpec::Risk(_) => Measure::Total,
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

    fn render(&self, as_json: bool) -> String {
        if as_json {
            return serde_json::to_string_pretty(self).expect("an outcome has only string keys") + "\n";
        }
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
        format!("{rule}\n{statement}{accuracy}\nstored in {}\n", self.out)
    }
}
