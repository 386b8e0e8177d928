//! Rows read whole, and what stands beside them: lengths and columns that must agree.

use std::path::Path;

use nuq::{Embeddings, FittedModel, Label, Model, Neighbors, NuqClassifier};
use nuq_eval::baselines::Members;
use nuq_io::{ArraySpec, EmbeddingsFile, read_labels, read_members};

use crate::args::Common;
use crate::bad_rows;
use crate::error::Error;
use crate::progress::say;

/// All rows of a file; those that cannot be used are named. A column of the same table that another option names is no
/// coordinate.
pub(crate) fn read(spec: &ArraySpec, others: &[&ArraySpec]) -> Result<Embeddings<'static>, Error> {
    let mut file = EmbeddingsFile::open_excluding(spec, others)?;
    let values = file.values(0..file.len())?;
    let bad = bad_rows::find(&values, file.dim());
    if !bad.is_empty() {
        return Err(bad_rows::refusal(spec, 0, &bad, "leave them out, and what belongs to them"));
    }
    Ok(Embeddings::new(values, file.dim())?)
}

/// The same for a model that knows how many columns there must be.
pub(crate) fn read_for(
    model: &Model<'_>,
    path: &Path,
    spec: &ArraySpec,
    others: &[&ArraySpec],
) -> Result<Embeddings<'static>, Error> {
    let rows = read(spec, others)?;
    check_columns(model, path, spec, rows.dim())?;
    Ok(rows)
}

/// Refuses rows of another layer than the model's.
pub(crate) fn check_columns(
    model: &Model<'_>,
    path: &Path,
    spec: &ArraySpec,
    got: usize,
) -> Result<(), Error> {
    let expected = model.index().dim();
    if got == expected {
        return Ok(());
    }
    Err(Error::Data(format!(
        "{spec} has {got} columns, the model {} was fitted to {expected}: use embeddings of the same layer",
        path.display()
    )))
}

/// Labels, one for each row of another file.
pub(crate) fn labels(spec: &ArraySpec, rows: (&ArraySpec, usize)) -> Result<Vec<Label>, Error> {
    let labels = read_labels(spec)?;
    same_length(spec, labels.len(), "labels", rows)?;
    Ok(labels)
}

/// Refuses what does not have an entry for each row.
pub(crate) fn same_length(
    other: &ArraySpec,
    got: usize,
    what: &str,
    (spec, rows): (&ArraySpec, usize),
) -> Result<(), Error> {
    if got == rows {
        return Ok(());
    }
    let hint = match other.path.extension() {
        Some(ending) if got == rows + 1 && other.name.is_none() && ending != "npy" => {
            format!("; if its first line is a header, name the column as {other}:COLUMN")
        }
        _ => String::new(),
    };
    Err(Error::Data(format!("{other} holds {got} {what}, {spec} holds {rows} rows: give one per row{hint}")))
}

/// Logits of a network, a column for each class of the model in its order.
pub(crate) fn logits(
    spec: &ArraySpec,
    model: &NuqClassifier<'_>,
    names: &[String],
    rows: (&ArraySpec, usize),
) -> Result<Embeddings<'static>, Error> {
    let logits = read(spec, &[])?;
    same_length(spec, logits.len(), "rows of logits", rows)?;
    in_order(spec, logits, model, names)
}

/// Logits of several members, each as above.
pub(crate) fn members(
    spec: &ArraySpec,
    model: &NuqClassifier<'_>,
    names: &[String],
    (of, rows): (&ArraySpec, usize),
) -> Result<Members, Error> {
    let members = read_members(spec)?;
    let (count, got, classes) = (members.len(), members[0].len(), members[0].dim());
    if got != rows {
        return Err(Error::Data(format!(
            "{spec} holds {count} members × {got} rows × {classes} classes, {of} holds {rows} rows: give one per row"
        )));
    }
    let ordered = members.into_iter().map(|logits| in_order(spec, logits, model, names));
    Ok(Members::new(ordered.collect::<Result<_, _>>()?)?)
}

/// Logits with their columns in the order of the model's classes; `names` tells in which they are, if not in that.
fn in_order(
    spec: &ArraySpec,
    logits: Embeddings<'static>,
    model: &NuqClassifier<'_>,
    names: &[String],
) -> Result<Embeddings<'static>, Error> {
    let (got, expected) = (logits.dim(), model.classes().len());
    if got != expected {
        let text = format!("{spec} has {got} columns, the model has {expected} classes: give one each");
        return Err(Error::Data(text));
    }
    if names.is_empty() {
        return Ok(logits);
    }
    let known: Vec<String> = model.classes().labels().iter().map(Label::to_string).collect();
    let column = |label: &String| {
        names.iter().position(|name| name == label).ok_or_else(|| {
            Error::Usage(format!("--classes: the model has {} classes: {}", known.len(), known.join(", ")))
        })
    };
    let order: Vec<usize> = known.iter().map(column).collect::<Result<_, _>>()?;
    let values = logits.rows().flat_map(|row| order.iter().map(|&j| row[j])).collect();
    Ok(Embeddings::new(values, expected)?)
}

/// Refuses labels of which the model knows none, and says how many it does not know.
pub(crate) fn check_labels(
    spec: &ArraySpec,
    labels: &[Label],
    model: &NuqClassifier<'_>,
    common: &Common,
) -> Result<(), Error> {
    let known = model.classes().labels();
    let strange: Vec<&Label> = labels.iter().filter(|label| known.binary_search(label).is_err()).collect();
    let Some(first) = strange.first() else { return Ok(()) };
    let examples: Vec<String> = known.iter().take(3).map(Label::to_string).collect();
    let text = format!(
        "{spec}: {} of {} labels are none that the model knows ({first} is one; the model has {}{})",
        strange.len(),
        labels.len(),
        examples.join(", "),
        if known.len() > 3 { ", …" } else { "" }
    );
    if strange.len() == labels.len() {
        return Err(Error::Data(text));
    }
    say(common, &format!("{text}: they count as errors"));
    Ok(())
}

/// Says so when rows that should be new are training rows.
pub(crate) fn remark_training_rows(spec: &ArraySpec, found: &Neighbors, common: &Common) {
    let same = (0..found.len()).filter(|&i| found.sq_distances(i).first() == Some(&0.0)).count();
    if 10 * same >= found.len().max(1) {
        let text = format!(
            "{spec}: {same} of {} rows are training rows; numbers and promises hold only for rows that the model has not seen",
            found.len()
        );
        say(common, &text);
    }
}

/// A threshold that a model keeps under a name; an error lists those that there are.
pub(crate) fn threshold(
    model: &Model<'_>,
    path: &Path,
    name: &str,
) -> Result<nuq::calibrate::Threshold, Error> {
    let thresholds = model.thresholds();
    thresholds.get(name).copied().ok_or_else(|| {
        let names: Vec<&str> = thresholds.keys().map(String::as_str).collect();
        let present = match names[..] {
            [] => "it has none: `nuq calibrate` chooses one".to_owned(),
            _ => format!("there are: {}", names.join(", ")),
        };
        Error::Data(format!("{} has no threshold `{name}`; {present}", path.display()))
    })
}
