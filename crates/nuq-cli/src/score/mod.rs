//! `nuq score`: predicts each row of a file. Rows are processed in blocks, so memory does not depend on the size of the file.

mod arrays;
mod columns;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet;
mod sink;

use std::time::Instant;

use nuq::{Embeddings, FittedModel, Model, RejectRule};
use serde::Serialize;

use crate::args::{Common, OnBadRows, ScoreArgs};
use crate::bad_rows;
use crate::destination::{self, Destination};
use crate::error::Error;
use crate::output;
use crate::progress::{Progress, message};
use crate::rows::{self, ModelRows};
use columns::{BlockRows, Columns, Layout, Rule};
use sink::Sink;

/// Number of rows that are read, predicted and written at a time.
const BLOCK: usize = 8192;

/// The result that the command prints.
#[derive(Debug, Serialize)]
struct Outcome {
    rows: usize,
    skipped: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<usize>,
    seconds: f64,
    rows_per_second: f64,
    out: String,
}

pub(crate) fn run(options: &ScoreArgs, common: &Common) -> Result<(), Error> {
    let to = Destination::new(&options.out)?;
    let kind = sink::kind_of(&to, common.json)?;
    output::check_out(&options.out, &[&options.model, &options.embeddings.path])?;
    let cost = reject_rule(options)?;
    let opened = nuq_io::open(&options.model)?;
    let model = &opened.model;
    let rule = rule(options, cost, model)?;
    let rows = ModelRows {
        model,
        path: &options.model,
        options: options.input.options(),
        ignore_column_names: options.ignore_column_names,
    };
    let kept = kept_names(options)?;
    let mut file = rows.open_keeping(&options.embeddings, &[], &kept)?;
    let layout = Layout {
        rule,
        neighbors: options.output_neighbors.min(model.n_neighbors()),
        has_scored_flags: options.on_bad_rows == OnBadRows::Skip,
    };
    if layout.neighbors < options.output_neighbors {
        let text = format!(
            "--output-neighbors {}: the model uses {} neighbors, and {} are written",
            options.output_neighbors, layout.neighbors, layout.neighbors
        );
        message(common, &text);
    }
    let start = Instant::now();
    let mut outcome = Outcome {
        rows: file.len(),
        skipped: 0,
        rejected: layout.rule.is_some().then_some(0),
        seconds: 0.0,
        rows_per_second: 0.0,
        out: options.out.display().to_string(),
    };
    let mut progress = Progress::rows("scoring", file.len() as u64, common);
    Sink::with(kind, &to, |sink| {
        for first in (0..file.len()).step_by(BLOCK) {
            let rows = first..file.len().min(first + BLOCK);
            let values = file.values(rows.clone())?;
            let mut columns = score_block(options, model, &layout, first, values, file.dim())?;
            columns.insert_kept(&kept, file.kept(rows.clone())?).map_err(taken)?;
            outcome.skipped += columns.skipped();
            if let Some(rejected) = &mut outcome.rejected {
                *rejected += columns.rejected();
            }
            sink.write(&columns)?;
            progress.advance(rows.len() as u64);
        }
        if file.is_empty() {
            let mut columns = score_block(options, model, &layout, 0, vec![], file.dim())?;
            columns.insert_kept(&kept, file.kept(0..0)?).map_err(taken)?;
            sink.write(&columns)?;
        }
        Ok(())
    })?;
    drop(progress);
    outcome.seconds = start.elapsed().as_secs_f64();
    outcome.rows_per_second = outcome.rows as f64 / outcome.seconds.max(1e-9);
    let skipped = if outcome.skipped > 0 { format!(", {} skipped", outcome.skipped) } else { String::new() };
    let rejected = outcome.rejected.map_or(String::new(), |rejected| format!(", {rejected} rejected"));
    message(common, &format!("{:.0} rows per second", outcome.rows_per_second));
    let name = destination::name(&options.out);
    let line = format!("{name}: {} rows{skipped}{rejected}\n", outcome.rows);
    output::print_report(common, &options.out, &outcome, &line)
}

/// The columns of the table that are copied to the output, the id first.
fn kept_names(options: &ScoreArgs) -> Result<Vec<String>, Error> {
    let names: Vec<String> = options.id_column.iter().chain(&options.keep_columns).cloned().collect();
    match (0..names.len()).find(|&i| names[..i].contains(&names[i])) {
        Some(i) => Err(Error::Usage(format!("the column `{}` is kept twice: name it once", names[i]))),
        None => Ok(names),
    }
}

/// The error of a kept column with the name of a result.
fn taken(name: String) -> Error {
    Error::Usage(format!(
        "the column `{name}` cannot be kept: the results have a column of this name; rename it in the table"
    ))
}

/// The decision rule, if an option sets one.
fn rule(options: &ScoreArgs, cost: Option<RejectRule>, model: &Model<'_>) -> Result<Option<Rule>, Error> {
    match (cost, &options.threshold) {
        (Some(_), _) if matches!(model, Model::Regressor(_)) => Err(Error::Usage(
            "--reject-cost requires a classifier: a regressor has no error probability".to_owned(),
        )),
        (Some(cost), _) => Ok(Some(Rule::Cost(cost))),
        (None, Some(name)) => Ok(Some(Rule::Threshold(rows::threshold(model, &options.model, name)?))),
        (None, None) => Ok(None),
    }
}

fn reject_rule(options: &ScoreArgs) -> Result<Option<RejectRule>, Error> {
    match (options.reject_cost, options.level) {
        (None, _) => Ok(None),
        (Some(cost), Some(level)) => Ok(Some(RejectRule::confident(cost, level)?)),
        (Some(cost), None) => Ok(Some(RejectRule::plug_in(cost)?)),
    }
}

fn score_block(
    options: &ScoreArgs,
    model: &Model<'_>,
    layout: &Layout,
    first: usize,
    values: Vec<f32>,
    dim: usize,
) -> Result<Columns, Error> {
    let count = values.len() / dim;
    let bad = bad_rows::find(&values, dim);
    if !bad.is_empty() && options.on_bad_rows == OnBadRows::Error {
        let remedy = "use --on-bad-rows skip to score the others";
        return Err(bad_rows::error(&options.embeddings, first, &bad, remedy));
    }
    let (good, values) = bad_rows::remove(&bad, values, dim);
    let queries = Embeddings::new(values, dim).map_err(nuq::Error::from)?;
    let block = BlockRows { first, count, scored: &good };
    Ok(match model {
        Model::Classifier(model) => Columns::of_classifier(model, &model.predict(&queries)?, layout, &block),
        Model::Regressor(model) => Columns::of_regressor(model, &model.predict(&queries)?, layout, &block),
    })
}
