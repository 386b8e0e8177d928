//! Thresholds on the score of a baseline.

use std::collections::BTreeSet;

use nuq::calibrate::{Predictor, ScoreThreshold, Target};
use nuq::{Embeddings, Label};
use nuq_io::{ArraySpec, BaselineFile};

use super::{Outcome, Replacement};
use crate::args::{CalibrateArgs, Common, TargetSpec};
use crate::baseline_rows::{BaselineArrays, BaselineRows};
use crate::error::Error;
use crate::inspect::ThresholdSummary;
use crate::output::count;
use crate::rows;

pub(super) fn run(
    options: &CalibrateArgs,
    common: &Common,
    (target_spec, target): (TargetSpec, Target),
    mut file: BaselineFile,
    replacement: Replacement<'_>,
) -> Result<(), Error> {
    check_options(options, target_spec, &file)?;
    let specs = [&options.embeddings, &options.logits, &options.members];
    let arrays = BaselineArrays::new(&options.model, specs, options.input);
    arrays.check(&file, options.labels.is_some())?;
    let others: Vec<&ArraySpec> = options.labels.iter().collect();
    let mut held_out = BaselineRows::open(arrays, &file, &others)?;
    let len = held_out.len();
    let labels = match (&options.labels, arrays.first()) {
        (Some(spec), Some(first)) => Some(rows::labels(spec, (first, len), options.input.options())?),
        _ => None,
    };
    let read = held_out.read(0..len, Some("remove them from all arrays"))?;
    let is_error = match (&options.logits, &read.logits, &labels) {
        (Some(spec), Some(logits), Some(labels)) => Some(errors(options, &file, (spec, logits), labels)?),
        _ => None,
    };
    let scores = read.score(&file)?;
    let training_rows = match (&options.embeddings, &read.embeddings) {
        (Some(spec), Some(x)) => {
            let equal = file.scorer.equal_training_rows(x)?.unwrap_or(0);
            rows::warn_equal_rows(spec, equal, len, common)
        }
        _ => 0,
    };
    let threshold = ScoreThreshold::calibrate(&scores, is_error.as_deref(), Predictor::Network, target)?;
    let threshold = threshold.on_training_rows(training_rows);
    super::warn_infinite(common, &threshold, target_spec);
    let name = super::name(options, target_spec);
    let is_replaced = file.details.thresholds.insert(name.clone(), threshold).is_some();
    let out = replacement.save_baseline(&file)?;
    let summary = ThresholdSummary::of_baseline(&name, &threshold);
    let mut outcome = Outcome::new(summary, &threshold, &scores, is_error.as_deref(), out);
    outcome.errors_of = is_error.map(|_| Predictor::Network.name());
    outcome.print(is_replaced, out, common)
}

/// Rejects options that do not apply to a baseline, and missing options that others require.
fn check_options(options: &CalibrateArgs, target: TargetSpec, file: &BaselineFile) -> Result<(), Error> {
    let usage = |text: String| Err(Error::Usage(text));
    if options.measure.is_some() {
        let (model, method) = (options.model.display(), file.method);
        return usage(format!("--measure requires a NUQ model: {model} holds the baseline {method}"));
    }
    let has_errors = options.labels.is_some() && options.logits.is_some();
    if matches!(target, TargetSpec::Risk(_)) && !has_errors {
        return usage(
            "--target risk of a baseline requires --labels and --logits: the errors of the network are counted on the held-out \
             rows"
                .to_owned(),
        );
    }
    if options.labels.is_some() && options.logits.is_none() {
        return usage(
            "--labels of a baseline requires --logits: the errors of the network are counted".to_owned(),
        );
    }
    if !options.classes.is_empty() && options.labels.is_none() {
        return usage(
            "--classes of a baseline requires --labels: the errors of the network are counted".to_owned(),
        );
    }
    Ok(())
}

/// For each row, whether the class with the largest logit differs from the label.
fn errors(
    options: &CalibrateArgs,
    file: &BaselineFile,
    (spec, logits): (&ArraySpec, &Embeddings<'_>),
    labels: &[Label],
) -> Result<Vec<bool>, Error> {
    let classes = classes(options, file, (spec, logits.dim()), labels)?;
    let predicted = |row: &[f32]| {
        let best = (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
        &classes[best]
    };
    Ok(logits.rows().zip(labels).map(|(row, label)| *predicted(row) != label.to_string()).collect())
}

/// The class of each column of the logits: from `--classes` if it is given, otherwise from the fit of the baseline. If the fit used
/// no labels, the classes are the distinct labels of the held-out rows.
fn classes(
    options: &CalibrateArgs,
    file: &BaselineFile,
    (spec, columns): (&ArraySpec, usize),
    labels: &[Label],
) -> Result<Vec<String>, Error> {
    let (classes, source): (Vec<String>, &str) = if options.classes.is_empty() {
        let fitted = file.scorer.parts().map(|parts| parts.labels).unwrap_or_default();
        let fitted: BTreeSet<&Label> = fitted.iter().collect();
        let (classes, source) = match fitted.is_empty() {
            true => (labels.iter().collect(), "--labels has"),
            false => (fitted, "the baseline has"),
        };
        (classes.iter().map(ToString::to_string).collect(), source)
    } else {
        (options.classes.to_vec(), "--classes has")
    };
    if classes.len() != columns {
        return Err(Error::Data(format!(
            "{spec} has {}, but {source} {}: list the classes of the columns with --classes",
            count(columns, "column"),
            if classes.len() == 1 { "1 class".to_owned() } else { format!("{} classes", classes.len()) }
        )));
    }
    let unknown: Vec<String> =
        labels.iter().map(ToString::to_string).filter(|label| !classes.contains(label)).collect();
    match unknown.first() {
        Some(label) if unknown.len() == labels.len() => Err(Error::Data(format!(
            "no label of the held-out rows is a class of the logits, for example \"{label}\"; the classes are {}",
            classes.iter().take(3).map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
        ))),
        _ => Ok(classes),
    }
}
