//! The reproduction page: text from a template, numbers from stored results.
//!
//! A template line `{{run NAME}}` is replaced by the figures, tables, notes and run summary of an experiment. The line `{{claims}}` is
//! replaced by the table of all claims. Figures are copied to the folder `figures` next to the page.

use std::fs;
use std::path::Path;

use super::{Results, write};
use crate::LabError;
use crate::data::DataError;
use crate::experiments;

const TEMPLATE: &str = include_str!("../../page.md");

/// Writes the page from the results in `out`, and its figures to the folder `figures` next to it.
///
/// Returns the experiments without results.
///
/// # Errors
/// If there are no results at all (the page is then unchanged), or a file cannot be read or written.
pub fn write_page(out: &Path, page: &Path) -> Result<Vec<&'static str>, LabError> {
    let (mut results, mut missing) = (Vec::new(), Vec::new());
    for experiment in experiments::ALL {
        match Results::read(out, experiment.name)? {
            Some(result) => results.push(result),
            None => missing.push(experiment.name),
        }
    }
    if results.is_empty() {
        let expected = "results of any experiment; create them with `lab run --all`";
        return Err(DataError::MissingFiles { folder: out.to_owned(), expected }.into());
    }
    let folder = page.parent().unwrap_or(Path::new(".")).join("figures");
    fs::create_dir_all(&folder).map_err(|source| LabError::File { path: folder.clone(), source })?;
    for result in &results {
        for figure in &result.figures {
            let from = out.join(&result.experiment).join(format!("{figure}.png"));
            let bytes = fs::read(&from).map_err(|source| LabError::File { path: from, source })?;
            write(&folder.join(file_name(result, figure)), &bytes)?;
        }
    }
    write(page, fill_template(TEMPLATE, &results).as_bytes())?;
    Ok(missing)
}

fn file_name(result: &Results, figure: &str) -> String {
    if *figure == result.experiment {
        format!("lab-{figure}.png")
    } else {
        format!("lab-{}-{figure}.png", result.experiment)
    }
}

fn fill_template(template: &str, results: &[Results]) -> String {
    let mut text = String::new();
    for line in template.lines() {
        let directive = line.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        match directive.map(|directive| directive.split_once(' ').unwrap_or((directive, ""))) {
            Some(("run", name)) => text.push_str(&section(name, results)),
            Some(("claims", _)) => text.push_str(&claims_table(results)),
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// Figures, tables, notes and run summary of an experiment as Markdown, or a sentence that it has not been run.
fn section(name: &str, results: &[Results]) -> String {
    let Some(result) = results.iter().find(|result| result.experiment == name) else {
        return format!("*`lab run {name}` has not been run here.*\n");
    };
    let mut parts: Vec<String> = Vec::new();
    for figure in &result.figures {
        parts.push(format!(
            "![{}](figures/{})\n",
            result.about.trim_end_matches('.'),
            file_name(result, figure)
        ));
    }
    parts.extend(result.tables.iter().map(super::Table::markdown));
    if !result.notes.is_empty() {
        parts.push(format!("{}\n", result.notes.join(" ")));
    }
    parts.push(format!("`lab run {name}`: {}\n", result.run_summary()));
    parts.join("\n")
}

fn claims_table(results: &[Results]) -> String {
    let verdicts: Vec<bool> =
        results.iter().flat_map(|result| &result.claims).map(|claim| claim.holds).collect();
    let hold = verdicts.iter().filter(|holds| **holds).count();
    let mut text = format!(
        "{hold} of {} claims hold.\n\n| claim | result | evidence | experiment |\n| --- | --- | --- | --- |\n",
        verdicts.len()
    );
    for result in results {
        for claim in &result.claims {
            let verdict = claim.verdict();
            text.push_str(&format!(
                "| {} | **{verdict}** | {} | `{}` |\n",
                claim.statement, claim.evidence, result.experiment
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn template_is_filled_with_results() {
        let text = fill_template("# Title\n{{run toy}}\n{{run other}}\n{{claims}}\nend", &[results()]);
        assert!(text.starts_with("# Title\n![A toy](figures/lab-toy.png)\n\n**ROC-AUC (%)**"), "{text}");
        assert!(text.contains("*`lab run other` has not been run here.*"));
        assert!(text.contains("| One is above two. | **does not hold** | 1.0 against 2.0 | `toy` |"));
        assert!(text.contains("0 of 1 claims hold."), "{text}");
        assert!(text.ends_with("end\n"));
    }

    #[test]
    fn template_contains_every_experiment() {
        for experiment in experiments::ALL {
            let directive = format!("{{{{run {}}}}}", experiment.name);
            assert!(TEMPLATE.contains(&directive), "{directive}");
        }
        assert!(TEMPLATE.contains("{{claims}}"));
    }
}
