//! `nuq score`: predicts each row of a file. Rows are processed in blocks, so the memory use usually does not depend on the
//! number of rows. These exceptions are held in memory as a whole: csv and tsv tables from a pipe or standard input, arrays in Fortran
//! order that are compressed or come from standard input, several arrays from standard input, the logits of several members
//! (`--members`), and the results for an npz file.

mod arrays;
mod baseline;
mod columns;
mod logits;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet;
mod sink;

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use nuq::calibrate::{IntervalRule, SetRule};
use nuq::{Embeddings, FittedModel, Model, RejectRule};
use nuq_io::{ArraySpec, Contents, EmbeddingsFile};
use serde::Serialize;

use crate::args::{Common, OnBadRows, ScoreArgs, buffer_stdin};
use crate::bad_rows;
use crate::destination::{self, Destination};
use crate::error::Error;
use crate::output;
use crate::progress::{Progress, device_message, message};
use crate::rows::{self, ModelRows};
use columns::{BlockRows, Columns, Layout, Rule};
use logits::LogitsFile;
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
    let arrays = [
        ("--embeddings", &options.embeddings),
        ("--logits", &options.logits),
        ("--members", &options.members),
    ];
    let given = || arrays.iter().filter_map(|(name, spec)| spec.as_ref().map(|spec| (*name, spec)));
    buffer_stdin(given())?;
    let inputs: Vec<&Path> =
        given().map(|(_, spec)| &*spec.path).chain(std::iter::once(&*options.model)).collect();
    output::check_out(&options.out, &inputs)?;
    let cost_rule = reject_rule(options)?;
    let opened = match nuq_io::open_any(&options.model)? {
        Contents::Model(opened) => opened,
        Contents::Baseline(opened) => return baseline::run(options, common, (kind, &to), &opened),
    };
    opened.require_rows()?;
    let embeddings = model_inputs(options)?;
    let model = &opened.model;
    let rule = rule(options, cost_rule, model)?;
    let rows = ModelRows {
        model,
        path: &options.model,
        options: options.input.options().in_blocks(),
        ignore_column_names: options.input.ignore_column_names,
    };
    let kept = kept_names(options)?;
    let mut inputs = Inputs::open(options, &rows, embeddings, &kept)?;
    let len = inputs.file.len();
    let (sets, intervals) = conformal_rules(options, model)?;
    let layout = Layout {
        rule,
        sets,
        intervals,
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
    let mut outcome = Outcome::new(len, options);
    outcome.rejected = layout.rule.is_some().then_some(0);
    let mut progress = Progress::rows("scoring", len as u64, common);
    Sink::with(kind, &to, |sink| {
        // An empty file is scored as one empty block, because the first block writes the names of the columns.
        for first in (0..len.max(1)).step_by(BLOCK) {
            let rows = first..len.min(first + BLOCK);
            let mut columns = inputs.score(options, model, &layout, rows.clone())?;
            columns.insert_kept(&kept, inputs.file.kept(rows.clone())?).map_err(taken)?;
            outcome.add(&columns);
            sink.write(&columns)?;
            progress.advance(rows.len() as u64);
        }
        Ok(())
    })?;
    drop(progress);
    device_message(common, model.index());
    outcome.print(start, &options.out, common)
}

impl Outcome {
    fn new(rows: usize, options: &ScoreArgs) -> Self {
        let out = destination::json_name(&options.out);
        Self { rows, skipped: 0, rejected: None, seconds: 0.0, rows_per_second: 0.0, out }
    }

    /// Counts the skipped and rejected rows of a block.
    fn add(&mut self, columns: &Columns) {
        self.skipped += columns.skipped();
        if let Some(rejected) = &mut self.rejected {
            *rejected += columns.rejected();
        }
    }

    /// Prints the outcome of scoring that began at `start`.
    fn print(mut self, start: Instant, out: &Path, common: &Common) -> Result<(), Error> {
        self.seconds = start.elapsed().as_secs_f64();
        self.rows_per_second = self.rows as f64 / self.seconds.max(1e-9);
        let skipped = if self.skipped > 0 { format!(", {} skipped", self.skipped) } else { String::new() };
        let rejected = self.rejected.map_or(String::new(), |rejected| format!(", {rejected} rejected"));
        message(common, &format!("{:.0} rows per second", self.rows_per_second));
        let line =
            format!("{}: {}{skipped}{rejected}\n", destination::name(out), output::count(self.rows, "row"));
        output::print_report(common, out, &self, &line)
    }
}

/// The embeddings of the rows. It is an error if `--embeddings` is missing, or if `--members` is given, because only baselines
/// use members.
fn model_inputs(options: &ScoreArgs) -> Result<&ArraySpec, Error> {
    if options.members.is_some() {
        let text = format!(
            "--members requires a baseline: {} holds a NUQ model, which uses embeddings and logits",
            options.model.display()
        );
        return Err(Error::Usage(text));
    }
    options.embeddings.as_ref().ok_or_else(|| Error::Usage("--embeddings is required".to_owned()))
}

/// The columns of the table that are copied to the output, the id first.
fn kept_names(options: &ScoreArgs) -> Result<Vec<String>, Error> {
    let names: Vec<String> = options.id_column.iter().chain(&*options.keep_columns).cloned().collect();
    match (0..names.len()).find(|&i| names[..i].contains(&names[i])) {
        Some(i) => Err(Error::Usage(format!("the column `{}` is kept twice: name it once", names[i]))),
        None => Ok(names),
    }
}

/// The error that the name of a kept column is used or reserved for columns of the results.
fn taken(name: String) -> Error {
    Error::Usage(format!(
        "the column `{name}` cannot be kept: this name is used or reserved for columns of the results; rename it in the table"
    ))
}

/// The decision rule, if an option sets one.
fn rule(
    options: &ScoreArgs,
    cost_rule: Option<RejectRule>,
    model: &Model<'_>,
) -> Result<Option<Rule>, Error> {
    match (cost_rule, &options.threshold) {
        (Some(_), _) if matches!(model, Model::Regressor(_)) => Err(Error::Usage(
            "--reject-cost requires a classifier: a regressor has no error probability".to_owned(),
        )),
        (Some(cost_rule), _) => Ok(Some(Rule::Cost(cost_rule))),
        (None, Some(name)) => {
            let threshold = rows::named_threshold(model.thresholds(), &options.model, name)?;
            let rule = format!("the threshold `{name}` was");
            rows::check_predictor(
                &rule,
                |predictor| threshold.applies_to(predictor),
                options.logits.is_some(),
            )?;
            Ok(Some(Rule::Threshold(threshold)))
        }
        (None, None) => Ok(None),
    }
}

/// The rules of `--sets` and `--intervals`.
fn conformal_rules(
    options: &ScoreArgs,
    model: &Model<'_>,
) -> Result<(Option<SetRule>, Option<IntervalRule>), Error> {
    let rules = model.rules();
    match model {
        Model::Regressor(_) if options.sets.is_some() => {
            return Err(Error::Usage("--sets requires a classifier; a regressor has --intervals".to_owned()));
        }
        Model::Classifier(_) if options.intervals.is_some() => {
            return Err(Error::Usage("--intervals requires a regressor; a classifier has --sets".to_owned()));
        }
        _ => {}
    }
    let missing = |what: &str, name: &str, names: Vec<&String>| {
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        let present = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Error::Data(format!(
            "{} has no {what} `{name}`; its {what}: {present}; `nuq calibrate --target {what}=0.9` adds them",
            options.model.display()
        ))
    };
    let sets = match &options.sets {
        None => None,
        Some(name) => {
            let rule = rules.sets.get(name);
            let rule = rule.ok_or_else(|| missing("sets", name, rules.sets.keys().collect()))?;
            let is_same = |predictor| rule.predictor == predictor;
            rows::check_predictor(&format!("the sets `{name}` were"), is_same, options.logits.is_some())?;
            Some(rule.clone())
        }
    };
    let intervals = match &options.intervals {
        None => None,
        Some(name) => {
            let rule = rules.intervals.get(name);
            Some(*rule.ok_or_else(|| missing("intervals", name, rules.intervals.keys().collect()))?)
        }
    };
    Ok((sets, intervals))
}

fn reject_rule(options: &ScoreArgs) -> Result<Option<RejectRule>, Error> {
    match (options.reject_cost, options.level) {
        (None, _) => Ok(None),
        (Some(cost), Some(level)) => Ok(Some(RejectRule::confident(cost, level)?)),
        (Some(cost), None) => Ok(Some(RejectRule::plug_in(cost)?)),
    }
}

/// The arrays of the scored rows.
struct Inputs<'o> {
    embeddings: &'o ArraySpec,
    file: EmbeddingsFile,
    logits: Option<LogitsFile<'o>>,
}

impl<'o> Inputs<'o> {
    fn open(
        options: &'o ScoreArgs,
        rows: &ModelRows<'_>,
        embeddings: &'o ArraySpec,
        kept: &[String],
    ) -> Result<Self, Error> {
        let file = rows.open_keeping(embeddings, &[], kept)?;
        let logits = match rows.model {
            Model::Classifier(model) => LogitsFile::open(options, model, (embeddings, file.len()))?,
            Model::Regressor(_) if options.logits.is_some() => {
                return Err(Error::Usage(format!(
                    "--logits requires a classifier: {} holds a regressor",
                    options.model.display()
                )));
            }
            Model::Regressor(_) => None,
        };
        Ok(Self { embeddings, file, logits })
    }

    /// The results of some rows.
    fn score(
        &mut self,
        options: &ScoreArgs,
        model: &Model<'_>,
        layout: &Layout,
        rows: Range<usize>,
    ) -> Result<Columns, Error> {
        let (dim, first, count) = (self.file.dim(), rows.start, rows.len());
        let check = |spec: &ArraySpec, bad: &[usize]| match options.on_bad_rows {
            OnBadRows::Error if !bad.is_empty() => {
                let remedy = "use --on-bad-rows skip to score the others";
                Err(bad_rows::error(spec, first, bad, remedy))
            }
            _ => Ok(()),
        };
        let values = self.file.values(rows.clone())?;
        let mut bad = bad_rows::find(&values, dim);
        check(self.embeddings, &bad)?;
        let mut logits = None;
        if let (Some(file), Model::Classifier(model)) = (&mut self.logits, model) {
            let (values, classes) = (file.values(rows)?, model.classes().len());
            let found = bad_rows::find(&values, classes);
            check(file.spec, &found)?;
            bad.extend(found);
            bad.sort_unstable();
            bad.dedup();
            logits = Some((values, classes));
        }
        let (good, values) = bad_rows::remove(&bad, values, dim);
        let queries = Embeddings::new(values, dim).map_err(nuq::Error::from)?;
        let block = BlockRows { first, count, scored: &good };
        Ok(match model {
            Model::Classifier(model) => {
                let network = match logits {
                    Some((values, classes)) => {
                        let (_, values) = bad_rows::remove(&bad, values, classes);
                        Some(model.network(&Embeddings::new(values, classes).map_err(nuq::Error::from)?)?)
                    }
                    None => None,
                };
                let predictions = match &network {
                    Some(network) => model.predict_with(&queries, network)?,
                    None => model.predict(&queries)?,
                };
                let sets = match (&layout.sets, &network) {
                    (None, _) => None,
                    (Some(rule), Some(network)) => Some(rule.sets(&queries, &network.probabilities())?),
                    (Some(rule), None) => {
                        let probabilities = model.predict_proba_from(&queries, predictions.neighbors())?;
                        Some(rule.sets(&queries, &probabilities)?)
                    }
                };
                Columns::of_classifier(model, &predictions, sets.as_ref(), layout, &block)
            }
            Model::Regressor(model) => {
                Columns::of_regressor(model, &model.predict(&queries)?, layout, &block)
            }
        })
    }
}
