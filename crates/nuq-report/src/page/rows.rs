//! The most uncertain rows, with the training rows behind them.

use crate::escape::html as safe;
use crate::numbers;
use crate::page::section;
use crate::report::{NearRow, UncertainRow};

/// Headings, and whether their column holds numbers.
const COLUMNS: [(&str, bool); 8] = [
    ("Set", false),
    ("Row", true),
    ("NUQ says", false),
    ("Truth", false),
    ("Probability", true),
    ("Aleatoric", true),
    ("Log epistemic", true),
    ("Nearest training rows", false),
];

/// The section.
pub(super) fn html(rows: &[UncertainRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heading =
        |(title, is_number): (&str, bool)| format!("<th scope=\"col\"{}>{title}</th>", class(is_number));
    let head: String = COLUMNS.map(heading).concat();
    let body: String = rows.iter().map(row).collect();
    let table = format!(
        "<div class=\"scroll card\" tabindex=\"0\" role=\"region\" aria-label=\"Most uncertain rows\">\n\
         <table class=\"rows\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n"
    );
    section("Most uncertain rows", "Worth a look, or a label.", &table)
}

fn class(is_number: bool) -> &'static str {
    if is_number { " class=\"right\"" } else { "" }
}

/// A row. On a narrow screen it stands as a block, in which each cell says what it is.
fn row(row: &UncertainRow) -> String {
    let neighbors: String = row.neighbors.iter().map(neighbor).collect();
    let truth = match &row.truth {
        Some(truth) if *truth == row.label => safe(truth),
        Some(truth) => format!("<b>{}</b>", safe(truth)),
        None => "<span class=\"faint\">unknown</span>".to_owned(),
    };
    let values = [
        safe(&row.set),
        row.row.to_string(),
        safe(&row.label),
        truth,
        numbers::fixed(row.probability, 3),
        numbers::fixed(row.aleatoric, 3),
        numbers::fixed(row.log_epistemic, 2),
        format!("<ul class=\"near\">{neighbors}</ul>"),
    ];
    let cell = |((title, is_number), value): (&(&str, bool), &String)| {
        format!("<td{} data-title=\"{title}\">{value}</td>", class(*is_number))
    };
    format!("<tr>{}</tr>\n", COLUMNS.iter().zip(&values).map(cell).collect::<String>())
}

fn neighbor(near: &NearRow) -> String {
    let distance = numbers::significant(near.distance, 3);
    format!(
        "<li><b>{}</b> row {} <span class=\"faint\">at {distance}</span></li>",
        safe(&near.label),
        near.row
    )
}
