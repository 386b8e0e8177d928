//! `nuq suggest`: which rows of a file are worth a label.

use nuq::Model;
use nuq_io::EmbeddingsFile;
use serde_json::json;

use crate::args::{Common, SuggestArgs};
use crate::error::Error;
use crate::output;

pub(crate) fn run(options: &SuggestArgs, common: &Common) -> Result<(), Error> {
    let opened = nuq_io::open(&options.model)?;
    let rows = EmbeddingsFile::open(&options.embeddings)?.read()?;
    let uncertainty: Vec<f64> = match &opened.model {
        Model::Classifier(model) => model.predict(&rows)?.iter().map(|p| p.log_epistemic).collect(),
        Model::Regressor(model) => model.predict(&rows)?.iter().map(|p| p.log_epistemic).collect(),
    };
    let chosen = nuq::suggest(&rows, &uncertainty, options.count);
    if common.json {
        let list: Vec<_> =
            chosen.iter().map(|&row| json!({ "row": row, "log_epistemic": uncertainty[row] })).collect();
        return output::print(&(serde_json::to_string_pretty(&list).expect("plain data") + "\n"));
    }
    let lines = chosen.iter().map(|&row| format!("{row:>8} {:>14.3}\n", uncertainty[row]));
    output::print(&format!("{:>8} {:>14}\n{}", "row", "log epistemic", lines.collect::<String>()))
}
