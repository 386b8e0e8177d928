//! Reads arrays and checks that their rows, columns and labels match each other and the model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nuq::calibrate::{Predictor, relevant_training_rows};
use nuq::{Embeddings, FittedModel, Label, Model, Neighbors, NuqClassifier};
use nuq_eval::baselines::Members;
use nuq_io::{AllValues, ArraySpec, EmbeddingsFile, MappedInput, ReadOptions, join_names};
use nuq_neighbors::SharedSlice;

use crate::args::Common;
use crate::bad_rows;
use crate::error::Error;
use crate::escape;
use crate::output::count;
use crate::progress::message;

/// Reads all rows of a file; rows with a NaN or an infinity are an error.
pub(crate) fn read(spec: &ArraySpec, file: EmbeddingsFile) -> Result<Embeddings<'static>, Error> {
    let dim = file.dim();
    finite(spec, file.into_values()?.into(), dim)
}

/// Maps the rows of a file, or reads them if they cannot be used in place. The second value is the mapped file, if any: before a
/// result is stored, the caller must verify that this file has not changed.
pub(crate) fn map(
    spec: &ArraySpec,
    file: EmbeddingsFile,
) -> Result<(Embeddings<'static>, Option<MappedInput>), Error> {
    let dim = file.dim();
    let AllValues { values, mapped } = file.map()?;
    Ok((finite(spec, values, dim)?, mapped))
}

/// The rows with these values. A NaN or an infinity is an error that lists the rows.
fn finite(
    spec: &ArraySpec,
    values: SharedSlice<'static, f32>,
    dim: usize,
) -> Result<Embeddings<'static>, Error> {
    match Embeddings::from_values(values.clone(), dim) {
        Err(nuq_neighbors::Error::NotFinite { .. }) => {
            Err(bad_rows::error(spec, 0, &bad_rows::find(&values, dim), "remove them from all arrays"))
        }
        rows => Ok(rows?),
    }
}

/// States how many rows were read.
pub(crate) fn read_message(spec: &ArraySpec, rows: &Embeddings<'_>) -> String {
    format!("read {} of {} from {spec}", count(rows.len(), "row"), count(rows.dim(), "column"))
}

/// The names of the columns of training rows. Equal names are an error.
pub(crate) fn distinct_names(spec: &ArraySpec, file: &EmbeddingsFile) -> Result<Option<Vec<String>>, Error> {
    let Some(names) = file.column_names() else { return Ok(None) };
    nuq::column_names::check_distinct(names).map_err(|error| Error::Data(format!("{spec}: {error}")))?;
    Ok(Some(names.to_vec()))
}

/// Prints a message if more neighbors are requested than there are rows.
pub(crate) fn warn_neighbors(n_neighbors: Option<usize>, rows: usize, common: &Common) {
    if let Some(k) = n_neighbors.filter(|&k| k > rows) {
        message(
            common,
            &format!("--n-neighbors {k}: there are only {}; all of them are used", count(rows, "row")),
        );
    }
}

/// Adds the file and the remedy to the error that column names differ from the names of the training rows.
pub(crate) fn name_error(spec: &ArraySpec, error: &nuq::Error) -> Error {
    Error::Data(format!(
        "{spec}: {error}: reorder or rename the columns, or match them by position with --ignore-column-names"
    ))
}

/// Reads rows for an existing model. Their columns must have the same number as the columns of the training rows, and the same names
/// unless `ignore_column_names` is set.
pub(crate) struct ModelRows<'o> {
    pub(crate) model: &'o Model<'o>,
    pub(crate) path: &'o Path,
    pub(crate) options: ReadOptions,
    pub(crate) ignore_column_names: bool,
}

impl ModelRows<'_> {
    /// Opens a file and checks its columns. Columns that `others` select from the same table are not coordinates.
    pub(crate) fn open(&self, spec: &ArraySpec, others: &[&ArraySpec]) -> Result<EmbeddingsFile, Error> {
        self.open_keeping(spec, others, &[])
    }

    /// Opens a file as [`open`](Self::open) does. The columns `kept`, which are copied to the output, are not coordinates either.
    pub(crate) fn open_keeping(
        &self,
        spec: &ArraySpec,
        others: &[&ArraySpec],
        kept: &[String],
    ) -> Result<EmbeddingsFile, Error> {
        let file = self.options.columns(self.model.index().dim()).embeddings_keeping(spec, others, kept);
        let file = file.map_err(|error| column_error(error.into(), self.path))?;
        if let Some(names) = file.column_names().filter(|_| !self.ignore_column_names) {
            self.model.check_column_names(names).map_err(|error| name_error(spec, &error))?;
        }
        Ok(file)
    }

    /// Reads all rows of a file and checks its columns.
    pub(crate) fn read(&self, spec: &ArraySpec, others: &[&ArraySpec]) -> Result<Embeddings<'static>, Error> {
        read(spec, self.open(spec, others)?)
    }
}

/// Adds the model and the remedy to the error that the number of columns is wrong.
fn column_error(error: Error, model: &Path) -> Error {
    match error {
        Error::File(nuq_io::Error::ColumnCount { spec, got, expected }) => Error::Data(format!(
            "{spec} has {}, but the model {} was fitted to {expected}: use embeddings of the same layer",
            count(got, "column"),
            model.display()
        )),
        other => other,
    }
}

/// Rejects a missing file of labels, targets or weights whose path is the name of a column or an array in the file of the rows. The
/// user then probably meant this column. Each array is given with its option.
pub(crate) fn check_not_column<'a>(
    others: impl IntoIterator<Item = (&'a str, &'a ArraySpec)>,
    rows: &ArraySpec,
    options: ReadOptions,
) -> Result<(), Error> {
    let is_missing = |spec: &ArraySpec| spec.name.is_none() && !spec.is_stdin() && !spec.path.exists();
    for (option, spec) in others.into_iter().filter(|(_, spec)| is_missing(spec)) {
        if rows.is_stdin() {
            nuq_io::buffer_stdin()?;
        }
        let name = spec.path.to_string_lossy();
        if options.names(rows).iter().any(|other| *other == name) {
            let path = rows.path.display();
            let source = if rows.is_stdin() { "standard input".to_owned() } else { path.to_string() };
            return Err(Error::Data(format!(
                "{option} {name}: there is no such file, but {source} has a column or an array of this name: give {option} \
                 {path}:{name}"
            )));
        }
    }
    Ok(())
}

/// Reads labels, one for each row of another array, and converts them to the type of the model's labels.
pub(crate) fn labels_for(
    model: &NuqClassifier<'_>,
    spec: &ArraySpec,
    rows: (&ArraySpec, usize),
    options: ReadOptions,
) -> Result<Vec<Label>, Error> {
    Ok(labels(spec, rows, options)?.into_iter().map(|label| model.classes().convert(label)).collect())
}

/// Reads labels, one for each row of another array.
pub(crate) fn labels(
    spec: &ArraySpec,
    rows: (&ArraySpec, usize),
    options: ReadOptions,
) -> Result<Vec<Label>, Error> {
    let labels = options.rows(rows.1).labels(spec);
    labels.map_err(|error| row_error(error.into(), "labels", rows.0))
}

/// Prints a warning if a column of the training rows has the name of the column of labels or targets, or the same values. The second
/// argument is the kind ("labels" or "targets"), the array and its values; a value is `None` if it is not a number.
pub(crate) fn warn_truth_column(
    (spec, names, rows): (&ArraySpec, Option<&[String]>, &Embeddings<'_>),
    (what, truth, values): (&str, &ArraySpec, &[Option<f64>]),
    common: &Common,
) {
    let has_name = |j: &usize| names.is_some_and(|names| Some(&names[*j]) == truth.name.as_ref());
    // If all labels are equal, a constant column may equal them by chance. Values are then not compared.
    let varies = values.windows(2).any(|pair| pair[0] != pair[1]);
    let is_equal = |j: &usize| {
        varies
            && rows.rows().zip(values).all(|(row, value)| value.is_some_and(|value| row[*j] == value as f32))
    };
    let Some(j) = (0..rows.dim()).find(has_name).or_else(|| (0..rows.dim()).find(is_equal)) else { return };
    let property = if has_name(&j) { "has the name of" } else { "equals" };
    let text = match names {
        Some(names) => format!(
            "warning: the coordinate `{}` of {spec} {property} the {what} {truth}: if it is not a coordinate, exclude it as {}",
            escape::name(&names[j]),
            spec.excluding(&names[j]).argument()
        ),
        None => format!(
            "warning: column {j} of {spec} {property} the {what} {truth}: if it is not a coordinate, remove it from the embeddings"
        ),
    };
    message(common, &text);
}

/// Labels as numbers; `None` for a label that is not an integer.
pub(crate) fn label_numbers(labels: &[Label]) -> Vec<Option<f64>> {
    let number = |label: &Label| match label {
        Label::Int(value) => Some(*value as f64),
        Label::Bool(_) | Label::Text(_) => None,
    };
    labels.iter().map(number).collect()
}

/// Reads targets or weights, one for each row of another array. `what` is their name in errors.
pub(crate) fn numbers(
    spec: &ArraySpec,
    what: &str,
    rows: (&ArraySpec, usize),
    options: ReadOptions,
) -> Result<Vec<f64>, Error> {
    let numbers = options.rows(rows.1).targets(spec);
    numbers.map_err(|error| row_error(error.into(), what, rows.0))
}

/// Adds the array `rows` and a hint to the error that the number of entries is wrong. One entry is required for each row of `rows`.
fn row_error(error: Error, what: &str, rows: &ArraySpec) -> Error {
    let Error::File(nuq_io::Error::RowCount { spec, got, expected }) = error else { return error };
    let hint = match spec.path.extension() {
        Some(ending) if got == Some(expected + 1) && spec.name.is_none() && ending != "npy" => {
            "; if its first line is a header, add --header yes"
        }
        _ => "",
    };
    let got = got.map_or_else(|| format!("more than {expected}"), |got| got.to_string());
    let expected = count(expected, "row");
    Error::Data(format!("{spec} has {got} {what}, but {rows} has {expected}: one per row is required{hint}"))
}

/// Checks that an array has one entry for each row of the array `rows`, whose number of rows is `expected`.
pub(crate) fn check_length(
    spec: &ArraySpec,
    got: usize,
    what: &str,
    (rows, expected): (&ArraySpec, usize),
) -> Result<(), Error> {
    if got == expected {
        return Ok(());
    }
    let error = nuq_io::Error::RowCount { spec: spec.clone(), got: Some(got), expected };
    Err(row_error(error.into(), what, rows))
}

/// Reads the logits of a network. The result has one column for each class of the model, in the model's order. `names` are the
/// classes of the columns of the file; it is empty if the file has the model's order.
pub(crate) fn logits(
    spec: &ArraySpec,
    model: &NuqClassifier<'_>,
    names: &[String],
    rows: (&ArraySpec, usize),
    options: ReadOptions,
) -> Result<Embeddings<'static>, Error> {
    let logits = read(spec, open_logits(spec, model, names, rows, options)?);
    reorder(logits.map_err(|error| logits_error(error, rows.0))?, model, names)
}

/// Opens a file of logits, with one column for each class of the model and one row for each row of another array.
pub(crate) fn open_logits(
    spec: &ArraySpec,
    model: &NuqClassifier<'_>,
    names: &[String],
    rows: (&ArraySpec, usize),
    options: ReadOptions,
) -> Result<EmbeddingsFile, Error> {
    let file = options.rows(rows.1).columns(model.classes().len()).embeddings(spec, &[]);
    let file = file.map_err(|error| logits_error(error.into(), rows.0))?;
    check_logit_columns(spec, &file, model, names)?;
    Ok(file)
}

/// Rejects a table of logits whose columns have the names of the classes in another order than `names`. An empty `names` stands for
/// the model's order.
fn check_logit_columns(
    spec: &ArraySpec,
    file: &EmbeddingsFile,
    model: &NuqClassifier<'_>,
    names: &[String],
) -> Result<(), Error> {
    let known: Vec<String> = model.classes().labels().iter().map(Label::to_string).collect();
    let order = if names.is_empty() { &known[..] } else { names };
    let Some(columns) = file.column_names().filter(|columns| *columns != order) else { return Ok(()) };
    let sorted = |names: &[String]| names.iter().cloned().collect::<BTreeSet<String>>();
    if sorted(columns) != sorted(&known) {
        return Ok(());
    }
    Err(Error::Data(format!(
        "{spec}: its columns are named {}, but are read as the logits of the classes {}: give --classes {}",
        join_names(columns),
        join_names(order),
        join_names(columns)
    )))
}

fn logits_error(error: Error, rows: &ArraySpec) -> Error {
    class_error(row_error(error, "rows of logits", rows))
}

/// Adds the number of classes to the error that the number of columns is wrong.
fn class_error(error: Error) -> Error {
    match error {
        Error::File(nuq_io::Error::ColumnCount { spec, got, expected }) => Error::Data(format!(
            "{spec} has {}, but the model has {}: one column per class is required",
            count(got, "column"),
            if expected == 1 { "1 class".to_owned() } else { format!("{expected} classes") }
        )),
        other => other,
    }
}

/// Reads the logits of several members, for example of a deep ensemble, each as in [`logits`].
pub(crate) fn members(
    spec: &ArraySpec,
    model: &NuqClassifier<'_>,
    names: &[String],
    rows: (&ArraySpec, usize),
    options: ReadOptions,
) -> Result<Members, Error> {
    let members = options.rows(rows.1).columns(model.classes().len()).members(spec);
    let members = members.map_err(|error| class_error(row_error(error.into(), "rows per member", rows.0)))?;
    let ordered = members.into_iter().map(|logits| reorder(logits, model, names));
    Ok(Members::new(ordered.collect::<Result<_, _>>()?)?)
}

/// Reorders the columns of logits from the order `names` to the order of the model's classes.
fn reorder(
    logits: Embeddings<'static>,
    model: &NuqClassifier<'_>,
    names: &[String],
) -> Result<Embeddings<'static>, Error> {
    match class_order(model, names)? {
        Some(order) => Ok(Embeddings::new(reordered(logits.rows(), &order), order.len())?),
        None => Ok(logits),
    }
}

/// The values of all rows, with the columns in the given order.
pub(crate) fn reordered<'r>(rows: impl Iterator<Item = &'r [f32]>, order: &[usize]) -> Vec<f32> {
    rows.flat_map(|row| order.iter().map(|&j| row[j])).collect()
}

/// Checks `--classes` before rows are read. An empty list is the model's order.
pub(crate) fn check_class_names(model: &NuqClassifier<'_>, names: &[String]) -> Result<(), Error> {
    class_order(model, names).map(|_| ())
}

/// The position in `names` of each class of the model; `None` for an empty list, which is the model's order.
pub(crate) fn class_order(model: &NuqClassifier<'_>, names: &[String]) -> Result<Option<Vec<usize>>, Error> {
    if names.is_empty() {
        return Ok(None);
    }
    let known: Vec<String> = model.classes().labels().iter().map(Label::to_string).collect();
    let position = |label: &String| names.iter().position(|name| name == label);
    let order: Option<Vec<usize>> = known.iter().map(position).collect();
    match order {
        Some(order) if names.len() == known.len() => Ok(Some(order)),
        _ => Err(Error::Usage(format!(
            "--classes {} must list each of the {} classes of the model once: {}",
            join_names(names),
            known.len(),
            join_names(&known)
        ))),
    }
}

/// Checks that labels are classes of the model. It is an error if no label is a class of the model. If only some labels are not classes
/// of the model, a message states what the command does with them.
pub(crate) fn check_labels(
    spec: &ArraySpec,
    labels: &[Label],
    model: &NuqClassifier<'_>,
    common: &Common,
    unknown_labels: UnknownLabels,
) -> Result<(), Error> {
    let known = model.classes().labels();
    let unknown: Vec<&Label> = labels.iter().filter(|label| known.binary_search(label).is_err()).collect();
    let Some(first) = unknown.first() else { return Ok(()) };
    let examples: Vec<String> = known.iter().take(3).map(quoted).collect();
    let text = format!(
        "{spec}: {} of {} labels are not classes of the model, for example {}; classes of the model are {}{}",
        unknown.len(),
        labels.len(),
        quoted(first),
        examples.join(", "),
        if known.len() > 3 { ", …" } else { "" }
    );
    if unknown.len() == labels.len() {
        return Err(Error::Data(text));
    }
    let effect = match unknown_labels {
        UnknownLabels::CountAsErrors => "labels that are not classes count as errors",
        UnknownLabels::LeaveOut => "rows with labels that are not classes are left out",
    };
    message(common, &format!("{text}; {effect}"));
    Ok(())
}

/// What a command does with labels that are not classes of the model.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UnknownLabels {
    CountAsErrors,
    LeaveOut,
}

/// A label for messages. Text is in quotation marks to distinguish the text "1" from the integer 1.
fn quoted(label: &Label) -> String {
    match label {
        Label::Bool(value) => value.to_string(),
        Label::Int(value) => value.to_string(),
        Label::Text(text) => format!("\"{text}\""),
    }
}

/// Prints a message if some of the rows equal training rows, although held-out and test rows should not. Returns the number of such
/// rows if there are enough to affect guarantees, otherwise 0.
pub(crate) fn warn_training_rows(
    spec: &ArraySpec,
    model: &impl FittedModel,
    (rows, neighbors): (&Embeddings<'_>, &Neighbors),
    common: &Common,
) -> usize {
    warn_equal_rows(spec, model.equal_training_rows(rows, neighbors), rows.len(), common)
}

/// Does the same as [`warn_training_rows`] with a known count: `equal` of the `rows` rows equal training rows.
pub(crate) fn warn_equal_rows(spec: &ArraySpec, equal: usize, rows: usize, common: &Common) -> usize {
    if equal > 0 {
        let text = format!(
            "{spec}: {equal} of {} {}; metrics and guarantees are valid only for rows that are not training rows",
            count(rows, "row"),
            if equal == 1 { "equals a training row" } else { "equal training rows" },
        );
        message(common, &text);
    }
    relevant_training_rows(equal, rows)
}

/// The threshold of a model or baseline with this name; the error lists the names that exist.
pub(crate) fn named_threshold<T: Copy>(
    thresholds: &BTreeMap<String, T>,
    path: &Path,
    name: &str,
) -> Result<T, Error> {
    thresholds.get(name).copied().ok_or_else(|| {
        let present = match thresholds.is_empty() {
            true => "it has no thresholds; `nuq calibrate` adds one".to_owned(),
            false => format!("its thresholds are {}", names(thresholds)),
        };
        Error::Data(format!("{} has no threshold `{}`; {present}", path.display(), escape::name(name)))
    })
}

/// The names of a map for a message.
pub(crate) fn names<T>(map: &BTreeMap<String, T>) -> String {
    map.keys().map(|name| escape::name(name)).collect::<Vec<_>>().join(", ")
}

/// Checks that a threshold or prediction sets apply to the predictor whose predictions are scored: the network with `--logits`,
/// otherwise NUQ. `rule` is the beginning of the error message, such as "the threshold `main` was".
pub(crate) fn check_predictor(
    rule: &str,
    applies_to: impl Fn(Predictor) -> bool,
    has_logits: bool,
) -> Result<(), Error> {
    let predictor = if has_logits { Predictor::Network } else { Predictor::Nuq };
    if applies_to(predictor) {
        return Ok(());
    }
    Err(Error::Usage(match predictor {
        Predictor::Nuq => format!("{rule} chosen with logits: --logits is required"),
        Predictor::Network => {
            format!("{rule} chosen without logits: omit --logits, or add it to `nuq calibrate`")
        }
    }))
}
