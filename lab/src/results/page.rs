//! The page on reproduction: prose from a template, every number from results.
//!
//! A line of the template that is `{{run NAME}}` becomes that experiment's tables, figures and notes; `{{claims}}` becomes the list of
//! all claims with their verdicts. Figures are copied beside the page.

use std::fs;
use std::path::Path;

use super::{Results, write};
use crate::LabError;
use crate::data::DataError;
use crate::experiments;

const TEMPLATE: &str = include_str!("../../page.md");

/// Writes the page from the results in `out`, its figures into the folder `figures` beside it.
///
/// Returns the experiments whose results are missing; without any results the page stays as it was.
pub fn write_page(out: &Path, page: &Path) -> Result<Vec<&'static str>, LabError> {
    let (mut results, mut missing) = (Vec::new(), Vec::new());
    for experiment in experiments::ALL {
        match Results::read(out, experiment.name)? {
            Some(found) => results.push(found),
            None => missing.push(experiment.name),
        }
    }
    if results.is_empty() {
        let expected = "results of an experiment; make some with `lab run --all`";
        return Err(DataError::NothingIn { folder: out.to_owned(), expected }.into());
    }
    let folder = page.parent().unwrap_or(Path::new(".")).join("figures");
    fs::create_dir_all(&folder).map_err(|source| LabError::File { path: folder.clone(), source })?;
    for found in &results {
        for figure in &found.figures {
            let from = out.join(&found.experiment).join(format!("{figure}.png"));
            let bytes = fs::read(&from).map_err(|source| LabError::File { path: from, source })?;
            write(&folder.join(file_name(found, figure)), &bytes)?;
        }
    }
    write(page, filled(TEMPLATE, &results).as_bytes())?;
    Ok(missing)
}

fn file_name(found: &Results, figure: &str) -> String {
    if *figure == found.experiment {
        format!("lab-{figure}.png")
    } else {
        format!("lab-{}-{figure}.png", found.experiment)
    }
}

fn filled(template: &str, results: &[Results]) -> String {
    let mut text = String::new();
    for line in template.lines() {
        let order = line.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        match order.map(|order| order.split_once(' ').unwrap_or((order, ""))) {
            Some(("run", name)) => text.push_str(&section(name, results)),
            Some(("claims", _)) => text.push_str(&claims(results)),
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// Figures, tables and notes of an experiment.
fn section(name: &str, results: &[Results]) -> String {
    let Some(found) = results.iter().find(|found| found.experiment == name) else {
        return format!("*`lab run {name}` has not been run here.*\n");
    };
    let mut parts: Vec<String> = Vec::new();
    for figure in &found.figures {
        parts.push(format!(
            "![{}](figures/{})\n",
            found.about.trim_end_matches('.'),
            file_name(found, figure)
        ));
    }
    parts.extend(found.tables.iter().map(super::Table::markdown));
    if !found.notes.is_empty() {
        parts.push(format!("{}\n", found.notes.join(" ")));
    }
    parts.push(format!("`lab run {name}`: {}\n", found.how()));
    parts.join("\n")
}

fn claims(results: &[Results]) -> String {
    let all: Vec<bool> = results.iter().flat_map(|found| &found.claims).map(|claim| claim.holds).collect();
    let hold = all.iter().filter(|holds| **holds).count();
    let mut text = format!(
        "Of {} claims {hold} hold here.\n\n| claim | here | evidence | experiment |\n| --- | --- | --- | --- |\n",
        all.len()
    );
    for found in results {
        for claim in &found.claims {
            let verdict = claim.verdict();
            text.push_str(&format!(
                "| {} | **{verdict}** | {} | `{}` |\n",
                claim.statement, claim.evidence, found.experiment
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
    fn a_template_is_filled_with_numbers() {
        let text = filled("# Title\n{{run toy}}\n{{run other}}\n{{claims}}\nend", &[results()]);
        assert!(text.starts_with("# Title\n![A toy](figures/lab-toy.png)\n\n**ROC-AUC (%)**"), "{text}");
        assert!(text.contains("*`lab run other` has not been run here.*"));
        assert!(text.contains("| One is above two. | **does not hold** | 1.0 against 2.0 | `toy` |"));
        assert!(text.contains("Of 1 claims 0 hold here."), "{text}");
        assert!(text.ends_with("end\n"));
    }

    #[test]
    fn the_template_has_a_place_for_every_experiment() {
        for experiment in experiments::ALL {
            let place = format!("{{{{run {}}}}}", experiment.name);
            assert!(TEMPLATE.contains(&place), "{place}");
        }
        assert!(TEMPLATE.contains("{{claims}}"));
    }
}
