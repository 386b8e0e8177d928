//! Input of `nuq evaluate`: checks of the options, and the arrays of all sets.

use std::path::Path;

use nuq::{Embeddings, Label, Model, NuqClassifier};
use nuq_eval::baselines::Members;
use nuq_eval::evaluate::Rows;
use nuq_io::ArraySpec;

use crate::args::{EvaluateArgs, NamedArray, buffer_stdin};
use crate::error::Error;
use crate::output;
use crate::rows::{self, ModelRows};

/// Smallest accepted number of bootstrap resamples: fewer do not give a usable 95 % interval.
const MIN_RESAMPLES: usize = 100;

/// The arrays of an evaluation.
pub(super) struct Arrays {
    pub(super) test: Set,
    pub(super) labels: Vec<Label>,
    pub(super) ood: Vec<Set>,
}

/// The arrays of one data set: the test rows, or the rows of one `--ood`.
pub(super) struct Set {
    pub(super) name: String,
    pub(super) embeddings: Embeddings<'static>,
    pub(super) logits: Option<Embeddings<'static>>,
    /// Logits of several members, for example of a deep ensemble.
    pub(super) members: Option<Members>,
}

impl Set {
    pub(super) fn rows(&self) -> Rows<'_> {
        let rows = Rows::new(&self.embeddings);
        Rows { logits: self.logits.as_ref(), members: self.members.as_ref(), ..rows }
    }
}

/// Rejects invalid and contradictory options before any array is read from a file.
pub(super) fn check(options: &EvaluateArgs) -> Result<(), Error> {
    check_names(options)?;
    buffer_stdin(inputs(options).iter().map(|(option, spec)| (option.as_str(), *spec)))?;
    rows::check_not_column([("--labels", &options.labels)], &options.test, options.input.options())?;
    if options.resamples < MIN_RESAMPLES {
        let text =
            format!("--resamples {}: at least {MIN_RESAMPLES} are needed for an interval", options.resamples);
        return Err(Error::Data(text));
    }
    if let Some(folder) = &options.figures {
        output::check_folder(folder)?;
    }
    let Some(report) = &options.report else { return Ok(()) };
    if !report.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html")) {
        return Err(Error::Usage(format!("--report {}: the file name must end in .html", report.display())));
    }
    output::check_output("--report", report, &input_paths(options))
}

fn check_names(options: &EvaluateArgs) -> Result<(), Error> {
    let usage = |text: String| Err(Error::Usage(text));
    for (i, set) in options.ood.iter().enumerate() {
        if set.name == "test" {
            return usage("--ood test=…: this name is used for the test rows, give another name".to_owned());
        }
        if options.ood[..i].iter().any(|other| other.name == set.name) {
            return usage(format!("--ood {}=… is given twice: give each set its own name", set.name));
        }
    }
    for (option, given) in [("--ood-logits", &options.ood_logits), ("--ood-members", &options.ood_members)] {
        for (i, set) in given.iter().enumerate() {
            if options.ood.iter().all(|other| other.name != set.name) {
                return usage(format!("{option} {}=…: no --ood has this name", set.name));
            }
            if given[..i].iter().any(|other| other.name == set.name) {
                return usage(format!("{option} {}=… is given twice", set.name));
            }
        }
    }
    Ok(())
}

/// The option and the array of each input.
fn inputs(options: &EvaluateArgs) -> Vec<(String, &ArraySpec)> {
    let single = [("--test", Some(&options.test)), ("--labels", Some(&options.labels))];
    let outputs = [("--logits", options.logits.as_ref()), ("--members", options.members.as_ref())];
    let single = single.into_iter().chain(outputs);
    let single = single.filter_map(|(option, spec)| Some((option.to_owned(), spec?)));
    let sets = [
        ("--ood", &options.ood),
        ("--ood-logits", &options.ood_logits),
        ("--ood-members", &options.ood_members),
    ];
    let sets = sets.into_iter().flat_map(|(option, sets)| {
        sets.iter().map(move |set| (format!("{option} {}=…", set.name), &set.spec))
    });
    single.chain(sets).collect()
}

fn input_paths(options: &EvaluateArgs) -> Vec<&Path> {
    let arrays = inputs(options).into_iter().map(|(_, spec)| spec.path.as_path());
    arrays.chain([options.model.as_path()]).collect()
}

/// Files with the outputs of networks for one set.
struct NetworkOutputs<'o> {
    logits: Option<&'o ArraySpec>,
    members: Option<&'o ArraySpec>,
}

/// Reads the arrays of all sets.
pub(super) fn read(
    options: &EvaluateArgs,
    model: &Model<'_>,
    classifier: &NuqClassifier<'_>,
) -> Result<Arrays, Error> {
    let for_model = ModelRows {
        model,
        path: &options.model,
        options: options.input.options(),
        ignore_column_names: options.input.ignore_column_names,
    };
    let set = |name: &str, spec: &ArraySpec, outputs: NetworkOutputs<'_>, others: &[&ArraySpec]| {
        let embeddings = for_model.read(spec, others)?;
        let expected_rows = (spec, embeddings.len());
        let logits = |logits_spec| {
            rows::logits(logits_spec, classifier, &options.classes, expected_rows, options.input.options())
                .map_err(dimension_hint)
        };
        let members = |members_spec| {
            rows::members(members_spec, classifier, &options.classes, expected_rows, options.input.options())
                .map_err(dimension_hint)
        };
        let logits = outputs.logits.map(logits).transpose()?;
        let members = outputs.members.map(members).transpose()?;
        Ok::<_, Error>(Set { name: name.to_owned(), embeddings, logits, members })
    };
    let outputs = NetworkOutputs { logits: options.logits.as_ref(), members: options.members.as_ref() };
    let test = set("test", &options.test, outputs, &[&options.labels])?;
    let labels = rows::labels_for(
        classifier,
        &options.labels,
        (&options.test, test.embeddings.len()),
        options.input.options(),
    )?;
    let ood = |NamedArray { name, spec }: &NamedArray| {
        let outputs = NetworkOutputs {
            logits: array_named(&options.ood_logits, name),
            members: array_named(&options.ood_members, name),
        };
        set(name, spec, outputs, &[])
    };
    let ood: Vec<Set> = options.ood.iter().map(ood).collect::<Result<_, _>>()?;
    Ok(Arrays { test, labels, ood })
}

fn array_named<'o>(arrays: &'o [NamedArray], name: &str) -> Option<&'o ArraySpec> {
    arrays.iter().find(|array| array.name == name).map(|array| &array.spec)
}

/// Adds to the error of an array with a wrong number of dimensions which option accepts this number.
fn dimension_hint(error: Error) -> Error {
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
