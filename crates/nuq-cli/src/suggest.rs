//! `nuq suggest`: chooses rows of a file to label next.

use nuq::{Embeddings, Model};
use nuq_io::ReadOptions;
use serde::Serialize;
use serde_json::json;

use crate::args::{Common, OnBadRows, SuggestArgs};
use crate::bad_rows;
use crate::error::Error;
use crate::output;
use crate::progress::message;

/// A chosen row.
#[derive(Debug, Serialize)]
struct Suggestion {
    row: usize,
    log_epistemic: f64,
}

pub(crate) fn run(options: &SuggestArgs, common: &Common) -> Result<(), Error> {
    if let Some(out) = &options.out {
        output::check_csv(out, &[&options.model, &options.embeddings.path])?;
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
    let Some(out) = &options.out else {
        let json = json!({ "rows": rows.len(), "chosen": chosen.len(), "suggestions": chosen });
        return output::print_result(common, &json, &table(&chosen));
    };
    output::write_file(out, csv(&chosen).as_bytes())?;
    let out = out.display().to_string();
    let json = json!({ "rows": rows.len(), "chosen": chosen.len(), "out": out });
    output::print_summary(common, &json, &format!("{out}: {} rows\n", chosen.len()))
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

fn table(chosen: &[Suggestion]) -> String {
    let lines = chosen.iter().map(|s| format!("{:>8} {:>14.3}\n", s.row, s.log_epistemic));
    format!("{:>8} {:>14}\n{}", "row", "log_epistemic", lines.collect::<String>())
}
