//! Lists at the end of the page: the model, and how the report was produced.

use crate::drawing::escape::html as safe;
use crate::drawing::number_format;
use crate::report::page::section;
use crate::report::{Fact, Report};

/// Section on the model.
pub(super) fn model(report: &Report) -> String {
    let fact = |fact: &Fact| (fact.name.clone(), safe(&fact.value).replace('\n', "<br>"));
    section(
        "Model",
        "Options and fitted values, with the names that <code>nuq inspect</code> prints.",
        &list(report.model.iter().map(fact)),
    )
}

/// Section on how the report was produced.
pub(super) fn provenance(report: &Report) -> String {
    let provenance = &report.provenance;
    let facts = [
        ("Command", command(&provenance.command)),
        ("Program", safe(&provenance.version)),
        ("Model written by", safe(&provenance.model_written_by)),
        ("Seed", provenance.seed.to_string()),
        ("Bootstrap resamples", number_format::count(provenance.resamples as u64)),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    section("Reproduction", "", &list(known.map(|(name, value)| (name.to_owned(), value))))
}

/// A command; lines break between its words where possible.
fn command(command: &str) -> String {
    if command.is_empty() {
        return String::new();
    }
    let words: Vec<String> = command.split(' ').map(|word| format!("<span>{}</span>", safe(word))).collect();
    format!("<code>{}</code>", words.join(" "))
}

/// A description list of names (plain text) and values (HTML).
fn list(facts: impl Iterator<Item = (String, String)>) -> String {
    let fact =
        |(name, value): (String, String)| format!("<div><dt>{}</dt><dd>{value}</dd></div>\n", safe(&name));
    let facts: String = facts.map(fact).collect();
    if facts.is_empty() { facts } else { format!("<dl class=\"facts card\">\n{facts}</dl>\n") }
}
