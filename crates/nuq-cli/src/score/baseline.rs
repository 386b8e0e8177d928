//! Scores of a baseline: one column.

use std::time::Instant;

use nuq::Embeddings;
use nuq_eval::baselines::{Batch, Input, Members};
use nuq_io::{ArraySpec, BaselineFile, EmbeddingsFile, TrainingRows};

use super::columns::{BlockRows, Columns, Layout};
use super::sink::{Kind, Sink};
use super::{BLOCK, Outcome};
use crate::args::{Common, OnBadRows, ScoreArgs};
use crate::bad_rows;
use crate::destination::Destination;
use crate::error::Error;
use crate::progress::Progress;
use crate::rows::name_error;

pub(super) fn run(
    options: &ScoreArgs,
    common: &Common,
    (kind, to): (Kind, &Destination<'_>),
    baseline: &BaselineFile,
) -> Result<(), Error> {
    check_options(options, baseline)?;
    let layout = Layout {
        neighbors: 0,
        has_scored_flags: options.on_bad_rows == OnBadRows::Skip,
        ..Layout::default()
    };
    let mut inputs = Inputs::open(options, baseline)?;
    let (len, start) = (inputs.len, Instant::now());
    // The logits of several members are in memory already.
    let block = if inputs.members.is_some() { len.max(1) } else { BLOCK };
    let mut outcome = Outcome::new(len, options);
    let mut progress = Progress::rows("scoring", len as u64, common);
    Sink::with(kind, to, |sink| {
        for first in (0..len.max(1)).step_by(block) {
            let last = len.min(first + block);
            let columns = inputs.score(first, last, options, baseline, &layout)?;
            outcome.skipped += columns.skipped();
            sink.write(&columns)?;
            progress.advance((last - first) as u64);
        }
        Ok(())
    })?;
    drop(progress);
    outcome.print(start, &options.out, common)
}

/// Rejects options that a baseline does not have, arrays that it does not use, and missing arrays.
fn check_options(options: &ScoreArgs, baseline: &BaselineFile) -> Result<(), Error> {
    let usage = |text: String| Err(Error::Usage(text));
    let (file, method) = (options.model.display(), baseline.method);
    let of_models = [
        ("--reject-cost", options.reject_cost.is_some()),
        ("--threshold", options.threshold.is_some()),
        ("--output-neighbors", options.output_neighbors > 0),
        ("--id-column", options.id_column.is_some()),
        ("--keep-columns", !options.keep_columns.is_empty()),
        ("--classes", !options.classes.is_empty()),
        ("--sets", options.sets.is_some()),
        ("--intervals", options.intervals.is_some()),
    ];
    if let Some((name, _)) = of_models.iter().find(|(_, is_given)| *is_given) {
        return usage(format!("{name} requires a NUQ model: {file} holds the baseline {method}"));
    }
    let inputs = baseline.scorer.inputs();
    if inputs.contains(&Input::Uncertainties) {
        return usage(format!(
            "{file} holds the baseline {method}, which combines uncertainties of a NUQ model: use nuq.load in Python"
        ));
    }
    let arrays = [
        ("--embeddings", options.embeddings.is_some(), Input::Embeddings),
        ("--logits", options.logits.is_some(), Input::Logits),
        ("--members", options.members.is_some(), Input::Members),
    ];
    for (name, is_given, input) in arrays {
        match (is_given, inputs.contains(&input)) {
            (false, true) => return usage(format!("{name} is required: {file} holds the baseline {method}")),
            (true, false) => {
                return usage(format!("{name} is not used: {file} holds the baseline {method}"));
            }
            _ => {}
        }
    }
    if options.members.is_some() && options.on_bad_rows == OnBadRows::Skip {
        return usage("--on-bad-rows skip cannot be used with --members".to_owned());
    }
    Ok(())
}

/// Checks the number and the names of the columns.
fn check_columns(
    spec: &ArraySpec,
    file: &EmbeddingsFile,
    training: &TrainingRows,
    options: &ScoreArgs,
) -> Result<(), Error> {
    let (model, got, expected) = (options.model.display(), file.dim(), training.columns);
    if got != expected {
        return Err(Error::Data(format!(
            "{spec} has {got} columns, but the baseline {model} was fitted to {expected}: use embeddings of the same layer"
        )));
    }
    match file.column_names() {
        Some(names) if !options.input.ignore_column_names => {
            training.check_column_names(names).map_err(|error| name_error(spec, &error))
        }
        _ => Ok(()),
    }
}

/// The arrays of the rows, which have one length.
struct Inputs<'o> {
    embeddings: Option<(&'o ArraySpec, EmbeddingsFile)>,
    logits: Option<(&'o ArraySpec, EmbeddingsFile)>,
    members: Option<Members>,
    len: usize,
}

impl<'o> Inputs<'o> {
    fn open(options: &'o ScoreArgs, baseline: &BaselineFile) -> Result<Self, Error> {
        let open = |spec: &'o Option<ArraySpec>| match spec {
            Some(spec) => {
                let file = options.input.options().in_blocks().embeddings(spec, &[])?;
                Ok::<_, Error>(Some((spec, file)))
            }
            None => Ok(None),
        };
        let (embeddings, logits) = (open(&options.embeddings)?, open(&options.logits)?);
        if let (Some((spec, file)), Some(training)) = (&embeddings, &baseline.training) {
            check_columns(spec, file, training, options)?;
        }
        if let (Some((rows, x)), Some((spec, z))) = (&embeddings, &logits) {
            crate::rows::check_length(spec, z.len(), "rows of logits", (rows, x.len()))?;
        }
        let members = match &options.members {
            Some(spec) => Some(Members::new(options.input.options().members(spec)?)?),
            None => None,
        };
        let files = [&embeddings, &logits];
        let mut lengths = files.iter().filter_map(|file| file.as_ref().map(|(_, file)| file.len()));
        let len = lengths.next().or(members.as_ref().map(Members::len)).unwrap_or(0);
        Ok(Self { embeddings, logits, members, len })
    }

    /// The scores of rows `first..last`.
    fn score(
        &mut self,
        first: usize,
        last: usize,
        options: &ScoreArgs,
        baseline: &BaselineFile,
        layout: &Layout,
    ) -> Result<Columns, Error> {
        let mut bad: Vec<usize> = vec![];
        let mut values = |file: &mut Option<(&ArraySpec, EmbeddingsFile)>| {
            let Some((spec, file)) = file else { return Ok(None) };
            let values = file.values(first..last)?;
            let found = bad_rows::find(&values, file.dim());
            if !found.is_empty() && options.on_bad_rows == OnBadRows::Error {
                let remedy = "use --on-bad-rows skip to score the others";
                return Err(bad_rows::error(spec, first, &found, remedy));
            }
            bad.extend(found);
            Ok(Some((values, file.dim())))
        };
        let (embeddings, logits) = (values(&mut self.embeddings)?, values(&mut self.logits)?);
        bad.sort_unstable();
        bad.dedup();
        let good: Vec<usize> = (0..last - first).filter(|row| bad.binary_search(row).is_err()).collect();
        let without_bad = |values: Option<(Vec<f32>, usize)>| match values {
            Some((values, dim)) => {
                Ok::<_, Error>(Some(Embeddings::new(bad_rows::remove(&bad, values, dim).1, dim)?))
            }
            None => Ok(None),
        };
        let (embeddings, logits) = (without_bad(embeddings)?, without_bad(logits)?);
        let batch = Batch {
            embeddings: embeddings.as_ref(),
            logits: logits.as_ref(),
            members: self.members.as_ref(),
            ..Batch::default()
        };
        let scores = baseline.scorer.score(&batch)?;
        Ok(Columns::of_baseline(&scores, layout, &BlockRows { first, count: last - first, scored: &good }))
    }
}
