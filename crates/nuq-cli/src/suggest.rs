//! `nuq suggest`: chooses rows of a file to label next.

use nuq::{Embeddings, FittedModel, Model};
use serde::Serialize;
use serde_json::json;

use crate::args::{Common, OnBadRows, SuggestArgs};
use crate::bad_rows;
use crate::column::Column;
use crate::destination;
use crate::error::Error;
use crate::output;
use crate::progress::message;
use crate::rows::ModelRows;
use crate::table_file::TableFile;

/// A chosen row.
#[derive(Debug, Serialize)]
struct Suggestion {
    row: usize,
    log_epistemic: f64,
}

pub(crate) fn run(options: &SuggestArgs, common: &Common) -> Result<(), Error> {
    if options.count == 0 {
        return Err(Error::Usage("--count 0: choose at least 1 row".to_owned()));
    }
    let inputs = [options.model.as_path(), options.embeddings.path.as_path()];
    let to = options.out.as_deref().map(|out| TableFile::new(out, &inputs, common)).transpose()?;
    let opened = nuq_io::open(&options.model)?;
    opened.require_rows()?;
    let (numbers, rows) = read_rows(options, &opened.model, common)?;
    let uncertainty: Vec<f64> = match &opened.model {
        Model::Classifier(model) => model.predict(&rows)?.iter().map(|p| p.log_epistemic).collect(),
        Model::Regressor(model) => model.predict(&rows)?.iter().map(|p| p.log_epistemic).collect(),
    };
    let chosen = opened.model.suggest(&rows, &uncertainty, options.count)?;
    let chosen: Vec<Suggestion> =
        chosen.iter().map(|&i| Suggestion { row: numbers[i], log_epistemic: uncertainty[i] }).collect();
    let Some(to) = to else {
        let json = json!({ "rows": rows.len(), "chosen": chosen.len(), "suggestions": chosen });
        return output::print_result(common, &json, &table(&chosen));
    };
    let numbers = chosen.iter().map(|s| Some(s.row as i64)).collect();
    let uncertainty = chosen.iter().map(|s| Some(s.log_epistemic)).collect();
    to.write(&[("row", Column::Integers(numbers)), ("log_epistemic", Column::Numbers(uncertainty))])?;
    let json =
        json!({ "rows": rows.len(), "chosen": chosen.len(), "out": destination::json_name(to.path()) });
    let text = format!("{}: {}\n", destination::name(to.path()), output::count(chosen.len(), "row"));
    output::print_report(common, to.path(), &json, &text)
}

/// The row numbers in the file and the values of all rows that contain no NaN and no infinity.
fn read_rows(
    options: &SuggestArgs,
    model: &Model<'_>,
    common: &Common,
) -> Result<(Vec<usize>, Embeddings<'static>), Error> {
    let rows = ModelRows {
        model,
        path: &options.model,
        options: options.input.options(),
        ignore_column_names: options.input.ignore_column_names,
    };
    let mut file = rows.open(&options.embeddings, &[])?;
    let (values, dim) = (file.values(0..file.len())?, file.dim());
    let bad = bad_rows::find(&values, dim);
    if !bad.is_empty() && options.on_bad_rows == OnBadRows::Error {
        let remedy = "use --on-bad-rows skip to choose from the others";
        return Err(bad_rows::error(&options.embeddings, 0, &bad, remedy));
    }
    if !bad.is_empty() {
        message(common, &format!("skipped {}", output::count(bad.len(), "row")));
    }
    let (numbers, values) = bad_rows::remove(&bad, values, dim);
    Ok((numbers, Embeddings::new(values, dim)?))
}

fn table(chosen: &[Suggestion]) -> String {
    let lines = chosen.iter().map(|s| format!("{:>8} {:>14.3}\n", s.row, s.log_epistemic));
    format!("{:>8} {:>14}\n{}", "row", "log_epistemic", lines.collect::<String>())
}
