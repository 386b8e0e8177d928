//! `nuq score`: rows in, one line of scores each out, in blocks, so that memory stays flat whatever the file's size.

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
use nuq_io::EmbeddingsFile;
use serde::Serialize;

use crate::args::{Common, OnNan, ScoreArgs};
use crate::bad_rows;
use crate::error::Error;
use crate::progress::{Progress, say};
use crate::{output, rows};
use columns::{Columns, Layout, Place, Rule};
use sink::Sink;

/// Rows that are read, searched and written at a time.
const BLOCK: usize = 8192;

#[derive(Debug, Serialize)]
struct Done {
    rows: usize,
    skipped: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<usize>,
    seconds: f64,
    rows_per_second: f64,
    out: String,
}

pub(crate) fn run(options: &ScoreArgs, common: &Common) -> Result<(), Error> {
    let kind = sink::kind_of(&options.out, common.json)?;
    output::check_out(&options.out, &[&options.model, &options.embeddings.path])?;
    let cost = reject_rule(options)?;
    let opened = nuq_io::open(&options.model)?;
    let model = &opened.model;
    let mut file = EmbeddingsFile::open(&options.embeddings)?;
    rows::check_columns(model, &options.model, &options.embeddings, file.dim())?;
    let layout = Layout {
        rule: rule(options, cost, model)?,
        neighbors: options.neighbors.min(model.n_neighbors()),
        tells_scored: options.on_nan == OnNan::Skip,
    };
    if layout.neighbors < options.neighbors {
        let text = format!(
            "--neighbors {}: the model looks at {} neighbors, so many are told",
            options.neighbors, layout.neighbors
        );
        say(common, &text);
    }
    let start = Instant::now();
    let mut done = Done {
        rows: file.len(),
        skipped: 0,
        rejected: layout.rule.is_some().then_some(0),
        seconds: 0.0,
        rows_per_second: 0.0,
        out: options.out.display().to_string(),
    };
    let mut progress = Progress::rows("scoring", file.len() as u64, common);
    Sink::with(kind, &options.out, |sink| {
        for first in (0..file.len()).step_by(BLOCK) {
            let rows = first..file.len().min(first + BLOCK);
            let values = file.values(rows.clone())?;
            let columns = score_block(options, model, &layout, first, values, file.dim())?;
            done.skipped += columns.skipped();
            if let Some(rejected) = &mut done.rejected {
                *rejected += columns.rejected();
            }
            sink.take(&columns)?;
            progress.advance(rows.len() as u64);
        }
        if file.is_empty() {
            sink.take(&score_block(options, model, &layout, 0, vec![], file.dim())?)?;
        }
        Ok(())
    })?;
    drop(progress);
    done.seconds = start.elapsed().as_secs_f64();
    done.rows_per_second = done.rows as f64 / done.seconds.max(1e-9);
    if options.out.as_os_str() != "-" && common.json {
        return output::print(&(serde_json::to_string_pretty(&done).expect("plain data") + "\n"));
    }
    let skipped = if done.skipped > 0 { format!(", {} skipped", done.skipped) } else { String::new() };
    let rejected = done.rejected.map_or(String::new(), |rejected| format!(", {rejected} rejected"));
    say(common, &format!("{:.0} rows a second", done.rows_per_second));
    let line = format!("{}: {} rows{skipped}{rejected}", done.out, done.rows);
    if options.out.as_os_str() == "-" {
        say(common, &line);
        return Ok(());
    }
    output::tell(common, &(line + "\n"))
}

/// What decides, if anything does.
fn rule(options: &ScoreArgs, cost: Option<RejectRule>, model: &Model<'_>) -> Result<Option<Rule>, Error> {
    match (cost, &options.threshold) {
        (Some(_), _) if matches!(model, Model::Regressor(_)) => Err(Error::Usage(
            "--reject-cost belongs to classifiers: a regressor has no chance of error".to_owned(),
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
    if !bad.is_empty() && options.on_nan == OnNan::Refuse {
        let remedy = "--on-nan skip scores the others";
        return Err(bad_rows::refusal(&options.embeddings, first, &bad, remedy));
    }
    let (good, kept) = bad_rows::leave_out(&bad, values, dim);
    let queries = Embeddings::new(kept, dim).map_err(nuq::Error::from)?;
    let place = Place { first, rows: count, scored: &good };
    Ok(match model {
        Model::Classifier(model) => Columns::of_classifier(model, &model.predict(&queries)?, layout, &place),
        Model::Regressor(model) => Columns::of_regressor(model, &model.predict(&queries)?, layout, &place),
    })
}
