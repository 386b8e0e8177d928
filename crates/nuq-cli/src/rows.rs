//! Rows read whole, and what stands beside them: lengths and columns that must agree.

use std::path::Path;

use nuq::{Embeddings, Label, Model};
use nuq_io::{ArraySpec, EmbeddingsFile, read_labels};

use crate::bad_rows;
use crate::error::Error;

/// All rows of a file; those that cannot be used are named. A column of the same table that another option names is no
/// coordinate.
pub(crate) fn read(spec: &ArraySpec, others: &[&ArraySpec]) -> Result<Embeddings<'static>, Error> {
    let mut file = EmbeddingsFile::open_beside(spec, others)?;
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
