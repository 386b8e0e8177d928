//! `nuq evaluate`: the model beside every method that the arrays allow, as a table, a page and figures.

mod curves;
mod report;

use std::path::Path;
use std::time::Instant;

use nuq::calibrate::Threshold;
use nuq::{Embeddings, Label, Model, NuqClassifier};
use nuq_eval::baselines::Members;
use nuq_eval::evaluate::{Comparison, Evaluation, Predictor, Rows};
use nuq_eval::metrics::Resampling;
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

/// Rows of one set, and what networks said of them.
struct Set {
    name: String,
    rows: Embeddings<'static>,
    logits: Option<Embeddings<'static>>,
    members: Option<Members>,
}

impl Set {
    fn rows(&self) -> Rows<'_> {
        let rows = Rows::new(&self.rows);
        Rows { logits: self.logits.as_ref(), members: self.members.as_ref(), ..rows }
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
    for (option, given) in [("--ood-logits", &options.ood_logits), ("--ood-members", &options.ood_members)] {
        for (i, set) in given.iter().enumerate() {
            if options.ood.iter().all(|other| other.name != set.name) {
                return refuse(format!("{option} {}=…: no --ood has this name", set.name));
            }
            if given[..i].iter().any(|other| other.name == set.name) {
                return refuse(format!("{option} {}=… is given twice", set.name));
            }
        }
    }
    if options.resamples < 100 {
        let text = format!("--resamples {}: at least 100 are needed for an interval", options.resamples);
        return Err(Error::Data(text));
    }
    let of_sets = options.ood.iter().chain(&options.ood_logits).chain(&options.ood_members);
    let inputs: Vec<&Path> = [&options.test, &options.labels]
        .into_iter()
        .chain(&options.logits)
        .chain(&options.members)
        .chain(of_sets.map(|set| &set.spec))
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
    let set = |name: &str, spec: &ArraySpec, said: Said<'_>, others: &[&ArraySpec]| {
        let rows = rows::read_for(model, &options.model, spec, others)?;
        let beside = (spec, rows.len());
        let logits = |of| rows::logits(of, classifier, &options.classes, beside).map_err(dimensions);
        let members = |of| rows::members(of, classifier, &options.classes, beside).map_err(dimensions);
        let (logits, members) =
            (said.logits.map(logits).transpose()?, said.members.map(members).transpose()?);
        Ok::<_, Error>(Set { name: name.to_owned(), rows, logits, members })
    };
    let said = Said { logits: options.logits.as_ref(), members: options.members.as_ref() };
    let test = set("test", &options.test, said, &[&options.labels])?;
    let labels = rows::labels(&options.labels, (&options.test, test.rows.len()))?;
    let ood = |NamedArray { name, spec }: &NamedArray| {
        let said =
            Said { logits: find(&options.ood_logits, name), members: find(&options.ood_members, name) };
        set(name, spec, said, &[])
    };
    let ood: Vec<Set> = options.ood.iter().map(ood).collect::<Result<_, _>>()?;
    same_members(options, &test, &ood)?;
    Ok(Arrays { test, labels, ood })
}

/// What networks said of a set, in files.
struct Said<'o> {
    logits: Option<&'o ArraySpec>,
    members: Option<&'o ArraySpec>,
}

/// The array of a name.
fn find<'o>(given: &'o [NamedArray], name: &str) -> Option<&'o ArraySpec> {
    given.iter().find(|array| array.name == name).map(|array| &array.spec)
}

/// Says which option takes an array of as many dimensions as it has.
fn dimensions(error: Error) -> Error {
    let hint = match &error {
        Error::File(nuq_io::Error::Shape { shape, .. }) => match shape.len() {
            2 => "; logits of a single network go to --logits or --ood-logits",
            3 => "; logits of several members go to --members or --ood-members",
            _ => return error,
        },
        _ => return error,
    };
    Error::Data(format!("{error}{hint}"))
}

/// Refuses sets of which more networks spoke than of others: the more members, the more they disagree.
fn same_members(options: &EvaluateArgs, test: &Set, ood: &[Set]) -> Result<(), Error> {
    let (Some(spec), Some(members)) = (&options.members, &test.members) else { return Ok(()) };
    for set in ood {
        let of_set = set.members.as_ref().zip(find(&options.ood_members, &set.name));
        if let Some((others, of)) = of_set.filter(|(others, _)| others.count() != members.count()) {
            let (got, expected) = (others.count(), members.count());
            let text =
                format!("{of} holds {got} members, {spec} holds {expected}: give the same ones for all sets");
            return Err(Error::Data(text));
        }
    }
    Ok(())
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
    // Few have members: who gave none is not asked for them.
    let left_out = "methods that look at several members are left out: give";
    match (&arrays.test.members, arrays.ood.iter().find(|set| set.members.is_none())) {
        (Some(_), Some(set)) => say(common, &format!("{left_out} --ood-members {}=FILE", set.name)),
        (None, _) if arrays.ood.iter().any(|set| set.members.is_some()) => {
            say(common, &format!("{left_out} --members, and --ood-members for each set"));
        }
        _ => {}
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
