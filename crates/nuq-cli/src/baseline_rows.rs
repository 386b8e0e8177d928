//! The arrays of the rows that a baseline scores.

use std::ops::Range;
use std::path::Path;

use nuq::Embeddings;
use nuq_eval::baselines::{Batch, Input, Members};
use nuq_io::{ArraySpec, BaselineFile, EmbeddingsFile, TrainingRows};

use crate::args::RowArgs;
use crate::bad_rows;
use crate::error::Error;
use crate::output::count;
use crate::rows::{check_length, name_error};

/// The options that select the file of a baseline and the arrays of rows.
#[derive(Clone, Copy)]
pub(crate) struct BaselineArrays<'o> {
    model: &'o Path,
    embeddings: Option<&'o ArraySpec>,
    logits: Option<&'o ArraySpec>,
    members: Option<&'o ArraySpec>,
    input: RowArgs,
}

impl<'o> BaselineArrays<'o> {
    /// `arrays` are the embeddings, the logits and the logits of the members (of an ensemble), in this order.
    pub(crate) fn new(model: &'o Path, arrays: [&'o Option<ArraySpec>; 3], input: RowArgs) -> Self {
        let [embeddings, logits, members] = arrays.map(Option::as_ref);
        Self { model, embeddings, logits, members, input }
    }

    /// The array that messages name for the rows: the embeddings, otherwise the members, otherwise the logits.
    pub(crate) fn first(&self) -> Option<&'o ArraySpec> {
        self.embeddings.or(self.members).or(self.logits)
    }

    /// Rejects missing arrays, arrays that the baseline does not use, and baselines that combine uncertainties of a NUQ model. If
    /// `counts_errors`, logits are accepted for every baseline, because they are used to count the errors of the network.
    pub(crate) fn check(&self, baseline: &BaselineFile, counts_errors: bool) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        let (file, method, inputs) = (self.model.display(), baseline.method, baseline.scorer.inputs());
        if inputs.contains(&Input::Uncertainties) {
            return usage(format!(
                "{file} holds the baseline {method}, which combines uncertainties of a NUQ model: use nuq.load in Python"
            ));
        }
        let arrays = [
            ("--embeddings", self.embeddings, Input::Embeddings),
            ("--logits", self.logits, Input::Logits),
            ("--members", self.members, Input::Members),
        ];
        for (name, array, input) in arrays {
            let is_for_errors = counts_errors && input == Input::Logits;
            match (array.is_some(), inputs.contains(&input)) {
                (false, true) => {
                    return usage(format!("{name} is required: {file} holds the baseline {method}"));
                }
                (true, false) if !is_for_errors => {
                    return usage(format!("{name} is not used: {file} holds the baseline {method}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The opened arrays. All have the same number of rows.
pub(crate) struct BaselineRows<'o> {
    embeddings: Option<(&'o ArraySpec, EmbeddingsFile)>,
    logits: Option<(&'o ArraySpec, EmbeddingsFile)>,
    members: Option<Members>,
    len: usize,
}

impl<'o> BaselineRows<'o> {
    /// Opens the arrays. Columns that `others` select from the table of embeddings are not coordinates.
    pub(crate) fn open(
        arrays: BaselineArrays<'o>,
        baseline: &BaselineFile,
        others: &[&ArraySpec],
    ) -> Result<Self, Error> {
        let options = arrays.input.options();
        let open = |spec: Option<&'o ArraySpec>, others: &[&ArraySpec]| match spec {
            Some(spec) => Ok::<_, Error>(Some((spec, options.in_blocks().embeddings(spec, others)?))),
            None => Ok(None),
        };
        let (embeddings, logits) = (open(arrays.embeddings, others)?, open(arrays.logits, &[])?);
        if let (Some((spec, file)), Some(training)) = (&embeddings, &baseline.details.training) {
            check_columns(spec, file, training, arrays)?;
        }
        if let (Some((rows, x)), Some((spec, z))) = (&embeddings, &logits) {
            check_length(spec, z.len(), "rows of logits", (rows, x.len()))?;
        }
        let members = match arrays.members {
            Some(spec) => Some(Members::new(options.members(spec)?)?),
            None => None,
        };
        let files = [&embeddings, &logits];
        let mut lengths = files.iter().filter_map(|file| file.as_ref().map(|(_, file)| file.len()));
        let len = members.as_ref().map(Members::len).or(lengths.next()).unwrap_or(0);
        if let (Some(_), Some((spec, z)), Some(members_spec)) = (&members, &logits, arrays.members) {
            check_length(spec, z.len(), "rows of logits", (members_spec, len))?;
        }
        Ok(Self { embeddings, logits, members, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Reads some rows. If there are members, `rows` must be all rows, because the logits of members are not divided into blocks. Rows
    /// with a NaN or an infinity are an error whose message ends with `remedy`. If `remedy` is `None`, such rows are left out; with members, it
    /// must be given, because rows are not removed from members.
    pub(crate) fn read(&mut self, rows: Range<usize>, remedy: Option<&str>) -> Result<ReadRows<'_>, Error> {
        let mut bad: Vec<usize> = vec![];
        let mut values = |file: &mut Option<(&ArraySpec, EmbeddingsFile)>| {
            let Some((spec, file)) = file else { return Ok(None) };
            let values = file.values(rows.clone())?;
            let found = bad_rows::find(&values, file.dim());
            if let (false, Some(remedy)) = (found.is_empty(), remedy) {
                return Err(bad_rows::error(spec, rows.start, &found, remedy));
            }
            bad.extend(found);
            Ok(Some((values, file.dim())))
        };
        let (embeddings, logits) = (values(&mut self.embeddings)?, values(&mut self.logits)?);
        bad.sort_unstable();
        bad.dedup();
        let good = (0..rows.len()).filter(|row| bad.binary_search(row).is_err()).collect();
        let without_bad = |values: Option<(Vec<f32>, usize)>| match values {
            Some((values, dim)) => {
                Ok::<_, Error>(Some(Embeddings::new(bad_rows::remove(&bad, values, dim).1, dim)?))
            }
            None => Ok(None),
        };
        let (embeddings, logits) = (without_bad(embeddings)?, without_bad(logits)?);
        Ok(ReadRows { embeddings, logits, members: self.members.as_ref(), good })
    }
}

/// The arrays of some rows. Embeddings and logits are without rows that contain a NaN or an infinity.
pub(crate) struct ReadRows<'r> {
    pub(crate) embeddings: Option<Embeddings<'static>>,
    pub(crate) logits: Option<Embeddings<'static>>,
    members: Option<&'r Members>,
    /// The positions of these rows among the requested rows, in increasing order.
    pub(crate) good: Vec<usize>,
}

impl ReadRows<'_> {
    pub(crate) fn score(&self, baseline: &BaselineFile) -> Result<Vec<f64>, Error> {
        let batch = Batch {
            embeddings: self.embeddings.as_ref(),
            logits: self.logits.as_ref(),
            members: self.members,
            ..Batch::default()
        };
        Ok(baseline.scorer.score(&batch)?)
    }
}

/// Checks the number and the names of the columns.
fn check_columns(
    spec: &ArraySpec,
    file: &EmbeddingsFile,
    training: &TrainingRows,
    arrays: BaselineArrays<'_>,
) -> Result<(), Error> {
    let (got, expected) = (file.dim(), training.columns);
    if got != expected {
        return Err(Error::Data(format!(
            "{spec} has {}, but the baseline {} was fitted to {expected}: use embeddings of the same layer",
            count(got, "column"),
            arrays.model.display()
        )));
    }
    match file.column_names() {
        Some(names) if !arrays.input.ignore_column_names => {
            training.check_column_names(names).map_err(|error| name_error(spec, &error))
        }
        _ => Ok(()),
    }
}
