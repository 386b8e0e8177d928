//! What the model is, and what made the report.

use crate::escape::html as safe;
use crate::numbers;
use crate::page::section;
use crate::report::Report;

/// What the model is.
pub(super) fn model(report: &Report) -> String {
    let fact = |fact: &crate::report::Fact| (fact.name.clone(), safe(&fact.value));
    section("Model", "", &list(report.model.iter().map(fact)))
}

/// What made the report, so that it can be made again.
pub(super) fn made_by(report: &Report) -> String {
    let made_by = &report.made_by;
    let facts = [
        ("Command", command(&made_by.command)),
        ("Program", safe(&made_by.version)),
        ("Model written by", safe(&made_by.model_written_by)),
        ("Seed", made_by.seed.to_string()),
        ("Resamples", numbers::count(made_by.resamples as u64)),
    ];
    section("How this was made", "", &list(facts.into_iter().map(|(name, value)| (name.to_owned(), value))))
}

/// A command whose words stay whole where they fit.
fn command(command: &str) -> String {
    let words: Vec<String> = command.split(' ').map(|word| format!("<span>{}</span>", safe(word))).collect();
    format!("<code>{}</code>", words.join(" "))
}

/// Names as they are, values as HTML.
fn list(facts: impl Iterator<Item = (String, String)>) -> String {
    let fact =
        |(name, value): (String, String)| format!("<div><dt>{}</dt><dd>{value}</dd></div>\n", safe(&name));
    let facts: String = facts.map(fact).collect();
    if facts.is_empty() { facts } else { format!("<dl class=\"facts card\">\n{facts}</dl>\n") }
}
