//! Section with the most uncertain rows and their nearest training rows.

use crate::drawing::escape::html as safe;
use crate::drawing::number_format;
use crate::report::page::section;
use crate::report::{Neighbor, UncertainRow};

/// Headings, and whether the column is numeric.
const COLUMNS: [(&str, bool); 8] = [
    ("Set", false),
    ("Row", true),
    ("Prediction", false),
    ("True label", false),
    ("Probability", true),
    ("Aleatoric", true),
    ("Log epistemic", true),
    ("Nearest training rows", false),
];

/// The section as HTML; empty without rows.
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
    section(
        "Most uncertain rows",
        "Rows with the highest total uncertainty in each set. True labels that differ from the prediction are bold.",
        &table,
    )
}

fn class(is_number: bool) -> &'static str {
    if is_number { " class=\"right\"" } else { "" }
}

/// A table row. On narrow screens it is shown as a block, in which each cell has its own heading.
fn row(row: &UncertainRow) -> String {
    let neighbors: String = row.neighbors.iter().map(neighbor).collect();
    let truth = match &row.truth {
        Some(truth) if *truth == row.label => safe(truth),
        Some(truth) => format!("<b>{}</b>", safe(truth)),
        None => "<span class=\"muted\">unknown</span>".to_owned(),
    };
    let values = [
        safe(&row.set),
        row.row.to_string(),
        safe(&row.label),
        truth,
        number_format::fixed(row.probability, 3),
        number_format::fixed(row.aleatoric, 3),
        number_format::fixed(row.log_epistemic, 2),
        format!("<ul class=\"neighbors\">{neighbors}</ul>"),
    ];
    let cell = |((title, is_number), value): (&(&str, bool), &String)| {
        format!("<td{} data-title=\"{title}\">{value}</td>", class(*is_number))
    };
    format!("<tr>{}</tr>\n", COLUMNS.iter().zip(&values).map(cell).collect::<String>())
}

fn neighbor(neighbor: &Neighbor) -> String {
    let distance = number_format::significant(neighbor.distance, 3);
    format!(
        "<li><b>{}</b> row {} <span class=\"muted\">distance {distance}</span></li>",
        safe(&neighbor.label),
        neighbor.row
    )
}
