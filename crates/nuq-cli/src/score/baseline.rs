//! Scores of a baseline: one column, and the decisions of a threshold.

use std::time::Instant;

use nuq_io::BaselineFile;

use super::columns::{BlockRows, Columns, Layout};
use super::sink::{Kind, Sink};
use super::{BLOCK, Outcome};
use crate::args::{Common, OnBadRows, ScoreArgs};
use crate::baseline_rows::{BaselineArrays, BaselineRows};
use crate::destination::Destination;
use crate::error::Error;
use crate::progress::Progress;
use crate::rows;

pub(super) fn run(
    options: &ScoreArgs,
    common: &Common,
    (kind, to): (Kind, &Destination<'_>),
    baseline: &BaselineFile,
) -> Result<(), Error> {
    let specs = [&options.embeddings, &options.logits, &options.members];
    let arrays = BaselineArrays::new(&options.model, specs, options.input);
    check_options(options, baseline)?;
    arrays.check(baseline, false)?;
    let threshold = match &options.threshold {
        Some(name) => Some(rows::named_threshold(&baseline.details.thresholds, &options.model, name)?),
        None => None,
    };
    let layout = Layout { has_scored_flags: options.on_bad_rows == OnBadRows::Skip, ..Layout::default() };
    let mut inputs = BaselineRows::open(arrays, baseline, &[])?;
    let (len, start) = (inputs.len(), Instant::now());
    // The logits of several members are in memory already: all rows are one block.
    let block = if options.members.is_some() { len.max(1) } else { BLOCK };
    let remedy = match options.on_bad_rows {
        OnBadRows::Error => Some("use --on-bad-rows skip to score the others"),
        OnBadRows::Skip => None,
    };
    let mut outcome = Outcome::new(len, options);
    outcome.rejected = threshold.is_some().then_some(0);
    let mut progress = Progress::rows("scoring", len as u64, common);
    Sink::with(kind, to, |sink| {
        for first in (0..len.max(1)).step_by(block) {
            let last = len.min(first + block);
            let read = inputs.read(first..last, remedy)?;
            let scores = read.score(baseline)?;
            let rows = BlockRows { first, count: last - first, scored: &read.good };
            let columns = Columns::of_baseline(&scores, threshold.as_ref(), &layout, &rows);
            outcome.add(&columns);
            sink.write(&columns)?;
            progress.advance((last - first) as u64);
        }
        Ok(())
    })?;
    drop(progress);
    outcome.print(start, &options.out, common)
}

/// Rejects options that do not apply to a baseline.
fn check_options(options: &ScoreArgs, baseline: &BaselineFile) -> Result<(), Error> {
    let usage = |text: String| Err(Error::Usage(text));
    let model_options = [
        ("--reject-cost", options.reject_cost.is_some()),
        ("--output-neighbors", options.output_neighbors > 0),
        ("--id-column", options.id_column.is_some()),
        ("--keep-columns", !options.keep_columns.is_empty()),
        ("--classes", !options.classes.is_empty()),
        ("--sets", options.sets.is_some()),
        ("--intervals", options.intervals.is_some()),
    ];
    if let Some((name, _)) = model_options.iter().find(|(_, is_given)| *is_given) {
        let (file, method) = (options.model.display(), baseline.method);
        return usage(format!("{name} requires a NUQ model: {file} holds the baseline {method}"));
    }
    if options.members.is_some() && options.on_bad_rows == OnBadRows::Skip {
        return usage("--on-bad-rows skip cannot be used with --members".to_owned());
    }
    Ok(())
}
