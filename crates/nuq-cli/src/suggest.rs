//! `nuq suggest`: which rows of a file are worth a label.

use std::path::Path;

use nuq::{Embeddings, Model};
use nuq_io::EmbeddingsFile;
use serde_json::json;

use crate::args::{Common, OnNan, SuggestArgs};
use crate::bad_rows;
use crate::error::Error;
use crate::output;
use crate::progress::say;

/// A row that is worth a label.
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
            output::tell(common, &format!("{}: {} rows\n", out.display(), chosen.len()))
        }
        None => output::print(&shown(&chosen, common.json)),
    }
}

fn check_out(out: &Path, options: &SuggestArgs) -> Result<(), Error> {
    output::check_out(out, &[&options.model, &options.embeddings.path])?;
    match out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv")) {
        true => Ok(()),
        false => Err(Error::Usage(format!("--out {}: suggestions go to a .csv file", out.display()))),
    }
}

/// The rows that can be used, with their numbers in the file.
fn read_rows(options: &SuggestArgs, common: &Common) -> Result<(Vec<usize>, Embeddings<'static>), Error> {
    let mut file = EmbeddingsFile::open(&options.embeddings)?;
    let (values, dim) = (file.values(0..file.len())?, file.dim());
    let bad = bad_rows::find(&values, dim);
    if !bad.is_empty() && options.on_nan == OnNan::Refuse {
        let remedy = "--on-nan skip suggests from the others";
        return Err(bad_rows::refusal(&options.embeddings, 0, &bad, remedy));
    }
    if !bad.is_empty() {
        say(common, &format!("{} rows skipped", bad.len()));
    }
    let (numbers, kept) = bad_rows::leave_out(&bad, values, dim);
    Ok((numbers, Embeddings::new(kept, dim)?))
}

fn csv(chosen: &[Suggestion]) -> String {
    let lines = chosen.iter().map(|s| format!("{},{}\n", s.row, s.log_epistemic));
    format!("row,log_epistemic\n{}", lines.collect::<String>())
}

fn shown(chosen: &[Suggestion], as_json: bool) -> String {
    if as_json {
        let object = |s: &Suggestion| json!({ "row": s.row, "log_epistemic": s.log_epistemic });
        let list: Vec<_> = chosen.iter().map(object).collect();
        return serde_json::to_string_pretty(&list).expect("plain data") + "\n";
    }
    let lines = chosen.iter().map(|s| format!("{:>8} {:>14.3}\n", s.row, s.log_epistemic));
    format!("{:>8} {:>14}\n{}", "row", "log epistemic", lines.collect::<String>())
}
