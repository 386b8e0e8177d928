//! `nuq evaluate`: the model beside every method that the arrays allow, as a table, a page and figures.

mod curves;
mod report;

use std::path::Path;
use std::time::Instant;

use nuq::calibrate::Threshold;
use nuq::evaluate::{Comparison, Evaluation, Predictor, Rows};
use nuq::metrics::Resampling;
use nuq::{Embeddings, Label, Model, NuqClassifier};
use nuq_io::ArraySpec;
use nuq_report::Report;

use crate::args::{Common, EvaluateArgs, NamedArray};
use crate::error::Error;
use crate::progress::{Progress, say};
use crate::{output, rows};

/// The arrays of an evaluation.
struct Arrays {
    test: Set,
    labels: Vec<Label>,
    ood: Vec<Set>,
}

/// Rows and logits of one set.
struct Set {
    name: String,
    rows: Embeddings<'static>,
    logits: Option<Embeddings<'static>>,
}

impl Set {
    fn rows(&self) -> Rows<'_> {
        let rows = Rows::new(&self.rows);
        self.logits.as_ref().map_or(rows, |logits| rows.logits(logits))
    }
}

pub(crate) fn run(options: &EvaluateArgs, common: &Common) -> Result<(), Error> {
    check(options)?;
    let opened = nuq_io::open(&options.model)?;
    let Model::Classifier(model) = &opened.model else {
        let text = format!("{} is a regressor: classifiers are evaluated", options.model.display());
        return Err(Error::Data(text));
    };
    let name = options.threshold.as_deref();
    let threshold = name.map(|name| rows::threshold(&opened.model, &options.model, name)).transpose()?;
    let arrays = read(options, &opened.model, model)?;
    rows::check_labels(&options.labels, &arrays.labels, model, common)?;
    let found = compare(options, common, model, &arrays)?;
    remark(common, &arrays, &found);
    rows::remark_training_rows(&options.test, found.test.neighbors(), common);
    let shown = Shown {
        options,
        model,
        summary: crate::inspect::Summary::of(&opened.model),
        written_by: &opened.written_by,
        arrays: &arrays,
        found: &found,
        threshold,
    };
    let report = shown.report()?;
    write(options, common, &report)?;
    output::print(&if common.json {
        json(&report)
    } else {
        format!("{}\n\n{}", report.summary, report.table())
    })
}

/// What a report is made of.
struct Shown<'s> {
    options: &'s EvaluateArgs,
    model: &'s NuqClassifier<'s>,
    summary: crate::inspect::Summary,
    written_by: &'s str,
    arrays: &'s Arrays,
    found: &'s Evaluation<'s>,
    threshold: Option<Threshold>,
}

/// Refuses what cannot be, before anything is read.
fn check(options: &EvaluateArgs) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::Usage(text));
    for (i, set) in options.ood.iter().enumerate() {
        if set.name == "test" {
            return refuse("--ood test=…: the test rows have this name, give another".to_owned());
        }
        if options.ood[..i].iter().any(|other| other.name == set.name) {
            return refuse(format!("--ood {}=… is given twice: give each set a name of its own", set.name));
        }
    }
    for (i, set) in options.ood_logits.iter().enumerate() {
        if options.ood.iter().all(|other| other.name != set.name) {
            return refuse(format!("--ood-logits {}=…: no --ood has this name", set.name));
        }
        if options.ood_logits[..i].iter().any(|other| other.name == set.name) {
            return refuse(format!("--ood-logits {}=… is given twice", set.name));
        }
    }
    if options.resamples < 100 {
        let text = format!("--resamples {}: at least 100 are needed for an interval", options.resamples);
        return Err(Error::Data(text));
    }
    let inputs: Vec<&Path> = [Some(&options.test), Some(&options.labels), options.logits.as_ref()]
        .into_iter()
        .flatten()
        .chain(options.ood.iter().chain(&options.ood_logits).map(|set| &set.spec))
        .map(|spec| spec.path.as_path())
        .chain([options.model.as_path()])
        .collect();
    if let Some(report) = &options.report {
        if !report.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html")) {
            return refuse(format!("--report {}: it is a .html file", report.display()));
        }
        output::check_out(report, &inputs)?;
    }
    Ok(())
}

fn read(options: &EvaluateArgs, model: &Model<'_>, classifier: &NuqClassifier<'_>) -> Result<Arrays, Error> {
    let set = |name: &str, spec: &ArraySpec, logits: Option<&ArraySpec>, others: &[&ArraySpec]| {
        let rows = rows::read_for(model, &options.model, spec, others)?;
        let read = |of| rows::logits(of, classifier, &options.classes, (spec, rows.len()));
        let logits = logits.map(read).transpose()?;
        Ok::<_, Error>(Set { name: name.to_owned(), rows, logits })
    };
    let test = set("test", &options.test, options.logits.as_ref(), &[&options.labels])?;
    let labels = rows::labels(&options.labels, (&options.test, test.rows.len()))?;
    let ood = |NamedArray { name, spec }: &NamedArray| {
        let logits = options.ood_logits.iter().find(|logits| logits.name == *name).map(|logits| &logits.spec);
        set(name, spec, logits, &[])
    };
    let ood = options.ood.iter().map(ood).collect::<Result<_, _>>()?;
    Ok(Arrays { test, labels, ood })
}

fn compare<'m>(
    options: &EvaluateArgs,
    common: &Common,
    model: &'m NuqClassifier<'_>,
    arrays: &Arrays,
) -> Result<Evaluation<'m>, Error> {
    let start = Instant::now();
    let clock = || start.elapsed().as_secs_f64();
    let progress = Progress::steps("comparing", common);
    let tell = |name: &str| progress.step(name);
    let resampling = Resampling { resamples: options.resamples, seed: options.seed };
    let mut comparison = Comparison::new(arrays.test.rows(), &arrays.labels)
        .resampling(resampling)
        .clock(&clock)
        .progress(&tell);
    for set in &arrays.ood {
        comparison = comparison.ood(&set.name, set.rows());
    }
    Ok(comparison.run(model)?)
}

/// Says what was left out and why, and what looks wrong.
fn remark(common: &Common, arrays: &Arrays, found: &Evaluation<'_>) {
    for skipped in &found.skipped {
        say(common, &format!("{} is left out: {}", skipped.name, skipped.reason));
    }
    if arrays.test.logits.is_none() {
        say(common, "methods that look at logits are left out: give --logits, and --ood-logits for each set");
    } else if let Some(set) = arrays.ood.iter().find(|set| set.logits.is_none()) {
        say(
            common,
            &format!("methods that look at logits are left out: give --ood-logits {}=FILE", set.name),
        );
    }
}

/// What looks wrong about the order of the logits' columns, if anything does.
fn doubtful_order(model: &NuqClassifier<'_>, arrays: &Arrays, found: &Evaluation<'_>) -> Option<String> {
    let right = |i: usize| found.test.label(i) == &arrays.labels[i];
    let own = (0..found.test.len()).filter(|&i| right(i)).count() as f64 / found.test.len() as f64;
    let order: Vec<String> = model.classes().labels().iter().take(3).map(Label::to_string).collect();
    (found.errors_of == Predictor::Network && found.accuracy.value < own - 0.25).then(|| {
        format!(
            "By its logits the network is right on {:.0} % of the test rows, its neighbors on {:.0} %: are the columns of the \
             logits in the order of the sorted labels ({}, …)? --classes tells another.",
            100.0 * found.accuracy.value,
            100.0 * own,
            order.join(", ")
        )
    })
}

/// Writes the page and the figures.
fn write(options: &EvaluateArgs, common: &Common, report: &Report) -> Result<(), Error> {
    if let Some(path) = &options.report {
        output::write_file(path, report.page().as_bytes())?;
        say(common, &format!("page: {}", path.display()));
    }
    if let Some(folder) = &options.figures {
        output::make_folder(folder)?;
        let figures = report.figures();
        for (stem, figure) in &figures {
            output::write_file(&folder.join(format!("{stem}.svg")), figure.svg().as_bytes())?;
            output::write_file(&folder.join(format!("{stem}.png")), &figure.png(2.0)?)?;
        }
        say(common, &format!("{} figures, as SVG and PNG: {}", figures.len(), folder.display()));
    }
    Ok(())
}

/// The report without what only pictures need.
fn json(report: &Report) -> String {
    let mut page = serde_json::to_value(report).expect("plain data");
    if let Some(page) = page.as_object_mut() {
        for drawn in ["risk_coverage", "roc", "counts", "histograms", "bandwidth", "map", "most_uncertain"] {
            page.remove(drawn);
        }
    }
    serde_json::to_string_pretty(&page).expect("plain data") + "\n"
}
