//! `nuq suggest`: chooses rows of a file to label next.

use std::path::Path;

use nuq::{Embeddings, Model};
use nuq_io::ReadOptions;
use serde_json::json;

use crate::args::{Common, OnBadRows, SuggestArgs};
use crate::bad_rows;
use crate::error::Error;
use crate::output;
use crate::progress::message;

/// A chosen row.
struct Suggestion {
    row: usize,
    log_epistemic: f64,
}

pub(crate) fn run(options: &SuggestArgs, common: &Common) -> Result<(), Error> {
    if let Some(out) = &options.out {
        check_out(out, options)?;
    }
    let opened = nuq_io::open(&options.model)?;
    let (numbers, rows) = read_rows(options, common)?;
    let uncertainty: Vec<f64> = match &opened.model {
        Model::Classifier(model) => model.predict(&rows)?.iter().map(|p| p.log_epistemic).collect(),
        Model::Regressor(model) => model.predict(&rows)?.iter().map(|p| p.log_epistemic).collect(),
    };
    let chosen = nuq::suggest(&rows, &uncertainty, options.count)?;
    let chosen: Vec<Suggestion> =
        chosen.iter().map(|&i| Suggestion { row: numbers[i], log_epistemic: uncertainty[i] }).collect();
    match &options.out {
        Some(out) => {
            output::write_file(out, csv(&chosen).as_bytes())?;
            output::print_unless_quiet(common, &format!("{}: {} rows\n", out.display(), chosen.len()))
        }
        None => output::print(&render(&chosen, common.json)),
    }
}

fn check_out(out: &Path, options: &SuggestArgs) -> Result<(), Error> {
    output::check_out(out, &[&options.model, &options.embeddings.path])?;
    match out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv")) {
        true => Ok(()),
        false => Err(Error::Usage(format!("--out {}: the output must be a .csv file", out.display()))),
    }
}

/// The usable rows, with their numbers in the file.
fn read_rows(options: &SuggestArgs, common: &Common) -> Result<(Vec<usize>, Embeddings<'static>), Error> {
    let mut file = ReadOptions::new().header(options.header).embeddings(&options.embeddings, &[])?;
    let (values, dim) = (file.values(0..file.len())?, file.dim());
    let bad = bad_rows::find(&values, dim);
    if !bad.is_empty() && options.on_bad_rows == OnBadRows::Error {
        let remedy = "use --on-bad-rows skip to choose from the others";
        return Err(bad_rows::error(&options.embeddings, 0, &bad, remedy));
    }
    if !bad.is_empty() {
        message(common, &format!("skipped {} rows", bad.len()));
    }
    let (numbers, values) = bad_rows::remove(&bad, values, dim);
    Ok((numbers, Embeddings::new(values, dim)?))
}

fn csv(chosen: &[Suggestion]) -> String {
    let lines = chosen.iter().map(|s| format!("{},{}\n", s.row, s.log_epistemic));
    format!("row,log_epistemic\n{}", lines.collect::<String>())
}

fn render(chosen: &[Suggestion], as_json: bool) -> String {
    if as_json {
        let object = |s: &Suggestion| json!({ "row": s.row, "log_epistemic": s.log_epistemic });
        let list: Vec<_> = chosen.iter().map(object).collect();
        return serde_json::to_string_pretty(&list).expect("the result has only string keys") + "\n";
    }
    let lines = chosen.iter().map(|s| format!("{:>8} {:>14.3}\n", s.row, s.log_epistemic));
    format!("{:>8} {:>14}\n{}", "row", "log_epistemic", lines.collect::<String>())
}
