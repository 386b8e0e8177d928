//! `nuq evaluate`: compares the model with every method that the arrays allow, and writes a table, a page and figures.

mod inputs;

use std::ffi::OsString;
use std::time::Instant;

use nuq::calibrate::Predictor;
use nuq::{FittedModel, Label, Model, NuqClassifier};
use nuq_eval::evaluate::{ColumnOrder, Comparison, Evaluation};
use nuq_eval::metrics::Resampling;
use nuq_io::{ArraySpec, ModelFile, join_names};
use nuq_report::{Report, ReportOptions};

use crate::args::{Common, EvaluateArgs};
use crate::error::Error;
use crate::progress::{Progress, message};
use crate::rows::UnknownLabels;
use crate::{escape, output, rows, wrap};
use inputs::Arrays;

pub(crate) fn run(options: &EvaluateArgs, common: &Common) -> Result<(), Error> {
    inputs::check(options)?;
    let opened = nuq_io::open(&options.model)?;
    opened.require_rows()?;
    let Model::Classifier(model) = &opened.model else {
        let text = format!(
            "{} was fitted with --targets, it is a regressor: evaluate compares classifiers, fitted with --labels. `nuq score` gives the \
             uncertainty of each row, and `nuq calibrate --target intervals=0.9` intervals of guaranteed coverage",
            options.model.display()
        );
        return Err(Error::Data(text));
    };
    let threshold = options.threshold.as_deref().map(|name| {
        Ok::<_, Error>((name.to_owned(), rows::named_threshold(model.thresholds(), &options.model, name)?))
    });
    let report_options = ReportOptions {
        threshold: threshold.transpose()?,
        command: command(common),
        model_written_by: opened.written_by.clone(),
    };
    if let Some((name, threshold)) = &report_options.threshold {
        let has_logits = options.logits.is_some() && options.ood.len() == options.ood_logits.len();
        if threshold.predictor == Predictor::Network && !has_logits {
            return Err(Error::Usage(format!(
                "the threshold `{name}` was chosen with logits: --logits, and --ood-logits for each set, are required"
            )));
        }
    }
    rows::check_class_names(model, &options.classes)?;
    let arrays = inputs::read(options, &opened.model, model)?;
    rows::check_labels(&options.labels, &arrays.labels, model, common, UnknownLabels::CountAsErrors)?;

    let comparison = comparison(options, &arrays);
    let evaluation = evaluate(common, &comparison, &opened, model)?;
    print_notes(common, &arrays, &evaluation);
    if let (Some(spec), Some(order)) = (&options.logits, &evaluation.column_order) {
        message(common, &column_order_note(spec, model, &options.classes, order));
    }
    let test = (&arrays.test.embeddings, evaluation.test.neighbors());
    rows::warn_training_rows(&options.test, model, test, common);
    let report = Report::from_evaluation(model, &comparison, &evaluation, &report_options)?;
    write(options, common, &report)?;
    match common.json {
        true => output::print(&report.json()),
        false => {
            let summary = wrap::for_terminal(format!("{}\n", report.summary));
            output::print(&escape::text(&format!("{summary}\n{}", report.table())))
        }
    }
}

fn comparison<'a>(options: &EvaluateArgs, arrays: &'a Arrays) -> Comparison<'a> {
    let resampling = Resampling { resamples: options.resamples, seed: options.seed };
    let comparison = Comparison::new(arrays.test.rows(), &arrays.labels).resampling(resampling);
    arrays.ood.iter().fold(comparison, |comparison, set| comparison.ood(&set.name, set.rows()))
}

/// Runs the comparison with a clock and a progress display.
fn evaluate<'m>(
    common: &Common,
    comparison: &Comparison<'_>,
    opened: &ModelFile,
    model: &'m NuqClassifier<'_>,
) -> Result<Evaluation<'m>, Error> {
    let start = Instant::now();
    let clock = || start.elapsed().as_secs_f64();
    let progress = Progress::steps("comparing", common);
    let on_method = |name: &str| {
        // Half of the methods use a normalized copy of the rows, and do not read the rows of the file.
        opened.release_pages();
        progress.step(name);
    };
    Ok(comparison.clone().clock(&clock).progress(&on_method).run(model)?)
}

/// Prints which methods were skipped, and why.
fn print_notes(common: &Common, arrays: &Arrays, evaluation: &Evaluation<'_>) {
    for skipped in &evaluation.skipped {
        message(common, &format!("{} is skipped: {}", skipped.name, skipped.reason));
    }
    let without_logits = "methods that need logits are skipped: give";
    if arrays.test.logits.is_none() {
        message(common, &format!("{without_logits} --logits, and --ood-logits for each set"));
    } else if let Some(set) = arrays.ood.iter().find(|set| set.logits.is_none()) {
        message(common, &format!("{without_logits} --ood-logits {}=FILE", set.name));
    }
    // Most users have no ensemble. The note is therefore printed only if some sets have logits of members and others do not.
    let without_members = "methods that need several members are skipped: give";
    match (&arrays.test.members, arrays.ood.iter().find(|set| set.members.is_none())) {
        (Some(_), Some(set)) => {
            message(common, &format!("{without_members} --ood-members {}=FILE", set.name))
        }
        (None, _) if arrays.ood.iter().any(|set| set.members.is_some()) => {
            message(common, &format!("{without_members} --members, and --ood-members for each set"));
        }
        _ => {}
    }
}

/// A message that the columns of the logits seem to have another order than `given`. An empty `given` stands for the sorted classes.
fn column_order_note(
    spec: &ArraySpec,
    model: &NuqClassifier<'_>,
    given: &[String],
    order: &ColumnOrder,
) -> String {
    let sorted: Vec<String> = model.classes().labels().iter().map(Label::to_string).collect();
    let given = if given.is_empty() { &sorted[..] } else { given };
    // `order` refers to the columns in the order of the model's classes. `--classes` needs the order of the columns in the file.
    let column = |name: &String| sorted.iter().position(|other| other == name);
    let suspected: Vec<String> =
        given.iter().filter_map(|name| Some(order.classes[column(name)?].to_string())).collect();
    let (before, after) = (100.0 * order.given_accuracy, 100.0 * order.accuracy);
    format!(
        "{spec}: the columns seem to have another order than {}: the accuracy is {before:.1} % in this order, and {after:.1} % \
         in the order {}; if that is their order, give it with --classes",
        join_names(given),
        join_names(&suspected)
    )
}

/// Writes the page and the figures.
fn write(options: &EvaluateArgs, common: &Common, report: &Report) -> Result<(), Error> {
    if let Some(path) = &options.report {
        output::write_file(path, report.page().as_bytes())?;
        message(common, &format!("page: {}", path.display()));
    }
    if let Some(folder) = &options.figures {
        output::make_folder(folder)?;
        let figures = report.figures();
        for (stem, figure) in &figures {
            output::write_file(&folder.join(format!("{stem}.svg")), figure.svg().as_bytes())?;
            output::write_file(&folder.join(format!("{stem}.png")), &figure.png(2.0)?)?;
        }
        message(common, &format!("{} figures as SVG and PNG: {}", figures.len(), folder.display()));
    }
    Ok(())
}

/// The command line, quoted where a shell needs it.
fn command(common: &Common) -> String {
    let quoted = |word: &OsString| {
        let word = word.to_string_lossy().into_owned();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    std::iter::once("nuq".to_owned())
        .chain(common.words.iter().skip(1).map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}
