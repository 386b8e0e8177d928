//! `nuq calibrate --target sets=…` and `--target intervals=…`.

use nuq::calibrate::{IntervalRule, Predictor, SetRule, SetTarget, kind_of_rows};
use nuq::{Embeddings, FittedModel, Model, NuqClassifier};
use nuq_io::ArraySpec;
use serde::Serialize;

use super::Replacement;
use crate::args::{CalibrateArgs, Common, TargetSpec};
use crate::error::Error;
use crate::progress::message;
use crate::rows::{self, UnknownLabels};
use crate::{destination, escape, output, wrap};

/// The result that the command prints.
#[derive(Debug, Serialize)]
struct Outcome {
    name: String,
    coverage: f64,
    /// Number of held-out rows.
    rows: usize,
    /// The guarantee as a sentence.
    statement: String,
    /// Mean number of classes in a set; `None` for intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_size: Option<f64>,
    /// Share of empty sets; `None` for intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    empty: Option<f64>,
    /// Half-width of an interval in standard deviations; `None` for sets and for infinite intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    /// Whether a rule of the same name was replaced.
    replaced: bool,
    out: String,
    /// Name of the rows on which the size of the sets was measured, for example "held-out rows".
    #[serde(skip)]
    kind_of_rows: &'static str,
}

/// Rejects options that the given target does not use.
pub(super) fn check_options(options: &CalibrateArgs, target: TargetSpec) -> Result<(), Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    let is_sets = matches!(target, TargetSpec::Sets(_));
    let is_intervals = matches!(target, TargetSpec::Intervals(_));
    if !is_sets && options.set_score.is_some() {
        return usage("--set-score requires --target sets");
    }
    if !is_sets && options.by_class {
        return usage("--by-class requires --target sets");
    }
    if !is_intervals && options.targets.is_some() {
        return usage("--targets requires --target intervals");
    }
    if (is_sets || is_intervals) && options.measure.is_some() {
        return usage("--measure requires a threshold: --target coverage, risk or false_alarm");
    }
    if (is_sets || is_intervals) && options.delta.is_some() {
        return usage("--delta requires --target risk");
    }
    Ok(())
}

/// Rejects sets for a regressor, intervals for a classifier, missing labels or targets, and what
/// [`super::check_labels_and_classes`] rejects.
fn check_model(options: &CalibrateArgs, target: TargetSpec, model: &Model<'_>) -> Result<(), Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    match (target, model) {
        (TargetSpec::Sets(_), Model::Regressor(_)) => {
            usage("--target sets requires a classifier; use intervals")
        }
        (TargetSpec::Intervals(_), Model::Classifier(_)) => {
            usage("--target intervals requires a regressor; use sets")
        }
        (TargetSpec::Sets(_), _) if options.labels.is_none() => {
            usage("--target sets requires --labels: the labels of the held-out rows")
        }
        (TargetSpec::Intervals(_), _) if options.targets.is_none() => {
            usage("--target intervals requires --targets: the targets of the held-out rows")
        }
        _ => super::check_labels_and_classes(options, model),
    }
}

pub(super) fn run(
    options: &CalibrateArgs,
    common: &Common,
    (target, coverage): (TargetSpec, f64),
) -> Result<(), Error> {
    if !(coverage > 0.0 && coverage < 1.0) {
        return Err(Error::Data(format!("--target {target}: it must lie strictly between 0 and 1")));
    }
    let kind = if matches!(target, TargetSpec::Sets(_)) { "sets" } else { "intervals" };
    let (file, replacement) = Replacement::open_model(options, common, &format!("--target {kind}"))?;
    file.require_rows()?;
    let mut model = file.model;
    check_model(options, target, &model)?;
    let embeddings = super::model_inputs(options)?;
    let others: Vec<_> = options.labels.iter().chain(&options.targets).collect();
    let held_out = super::held_out_rows(options, &model, embeddings, &others)?;
    let name = super::name(options, target);
    let mut outcome = Outcome {
        name: name.clone(),
        coverage,
        rows: held_out.len(),
        statement: String::new(),
        mean_size: None,
        empty: None,
        factor: None,
        replaced: false,
        out: destination::json_name(replacement.out),
        kind_of_rows: "",
    };
    outcome.replaced = match &mut model {
        Model::Classifier(model) => {
            let rule = sets(options, common, (embeddings, &held_out), model, coverage, &mut outcome)?;
            if rule.unlimited_classes() > 0 {
                let text = "warning: some classes have too few held-out rows and are in every set; see the statement";
                message(common, text);
            }
            outcome.statement = rule.to_string();
            outcome.kind_of_rows = kind_of_rows(rule.training_rows, rule.rows);
            model.rules_mut().sets.insert(name, rule).is_some()
        }
        Model::Regressor(model) => {
            let spec = options.targets.as_ref().expect("check_model requires the targets");
            let targets =
                rows::numbers(spec, "targets", (embeddings, held_out.len()), options.input.options())?;
            let estimates = model.predict(&held_out)?;
            let neighbors = (&held_out, estimates.neighbors());
            let training_rows = rows::warn_training_rows(embeddings, model, neighbors, common);
            let rule =
                IntervalRule::calibrate(coverage, &estimates, &targets)?.on_training_rows(training_rows);
            outcome.statement = rule.to_string();
            outcome.factor = rule.factor.is_finite().then_some(rule.factor);
            model.rules_mut().intervals.insert(name, rule).is_some()
        }
    };
    let out = replacement.save(&model)?;
    if outcome.replaced {
        message(common, &format!("replaced the {kind} `{}`", escape::name(&outcome.name)));
    }
    output::print_report(common, out, &outcome, &outcome.text())
}

/// Chooses the sets of a classifier.
fn sets(
    options: &CalibrateArgs,
    common: &Common,
    (embeddings, held_out): (&ArraySpec, &Embeddings<'_>),
    model: &NuqClassifier<'_>,
    coverage: f64,
    outcome: &mut Outcome,
) -> Result<SetRule, Error> {
    let spec = options.labels.as_ref().expect("check_model requires the labels");
    let (expected_rows, input) = ((embeddings, held_out.len()), options.input.options());
    let labels = rows::labels_for(model, spec, expected_rows, input)?;
    let unknown_labels = match options.by_class {
        true => UnknownLabels::LeaveOut,
        false => UnknownLabels::CountAsErrors,
    };
    rows::check_labels(spec, &labels, model, common, unknown_labels)?;
    let neighbors = model.neighbors_of(held_out, model.n_neighbors())?;
    let training_rows = rows::warn_training_rows(embeddings, model, (held_out, &neighbors), common);
    let (probabilities, predictor) = match &options.logits {
        Some(spec) => {
            let logits = rows::logits(spec, model, &options.classes, expected_rows, input)?;
            (model.network(&logits)?.probabilities(), Predictor::Network)
        }
        None => (model.predict_proba_from(held_out, &neighbors)?, Predictor::Nuq),
    };
    let score = options.set_score.unwrap_or_default();
    let target = SetTarget { coverage, score, by_class: options.by_class };
    let rule = SetRule::calibrate(target, held_out, &probabilities, model.classes(), &labels)?;
    let sets = rule.sets(held_out, &probabilities)?;
    let sizes: Vec<usize> =
        (0..sets.len()).map(|i| sets.row(i).iter().filter(|included| **included).count()).collect();
    let rows = sizes.len() as f64;
    outcome.mean_size = Some(sizes.iter().sum::<usize>() as f64 / rows);
    outcome.empty = Some(sizes.iter().filter(|size| **size == 0).count() as f64 / rows);
    Ok(rule.of_predictor(predictor).on_training_rows(training_rows))
}

impl Outcome {
    fn text(&self) -> String {
        let name = escape::name(&self.name);
        let details = match (self.mean_size, self.empty, self.factor) {
            (Some(size), Some(empty), _) => format!(
                "\nmean size of the sets of the {}: {size:.2}; empty sets: {:.2} %",
                self.kind_of_rows,
                100.0 * empty
            ),
            (_, _, Some(factor)) => format!("\nhalf-width of the intervals: {factor:.4} standard deviations"),
            _ => "\nintervals are infinite".to_owned(),
        };
        let (statement, out) = (&self.statement, destination::name(self.out.as_ref()));
        wrap::for_terminal(format!("{name}: {statement}{details}\nstored in {out}\n"))
    }
}
