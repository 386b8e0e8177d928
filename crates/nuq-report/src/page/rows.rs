//! The most uncertain rows, with the training rows behind them.

use crate::escape::html as safe;
use crate::numbers;
use crate::page::section;
use crate::report::{NearRow, UncertainRow};

/// The section.
pub(super) fn html(rows: &[UncertainRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let body: String = rows.iter().map(row).collect();
    let table = format!(
        "<div class=\"scroll card\" tabindex=\"0\" role=\"region\" aria-label=\"Most uncertain rows\">\n\
         <table class=\"rows\">\n<thead><tr><th scope=\"col\">Set</th><th scope=\"col\" class=\"right\">Row</th>\
         <th scope=\"col\">Predicted</th><th scope=\"col\">Truth</th><th scope=\"col\" class=\"right\">Probability</th>\
         <th scope=\"col\" class=\"right\">Aleatoric</th><th scope=\"col\" class=\"right\">Log epistemic</th>\
         <th scope=\"col\">Nearest training rows</th></tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n"
    );
    section("Most uncertain rows", "Worth a look, or a label.", &table)
}

fn row(row: &UncertainRow) -> String {
    let neighbors: String = row.neighbors.iter().map(neighbor).collect();
    let truth = match &row.truth {
        Some(truth) if *truth == row.label => safe(truth),
        Some(truth) => format!("<b>{}</b>", safe(truth)),
        None => "<span class=\"faint\">unknown</span>".to_owned(),
    };
    let right = |text: String| format!("<td class=\"right\">{text}</td>");
    format!(
        "<tr><td>{}</td>{}<td>{}</td><td>{truth}</td>{}{}{}<td><ul class=\"near\">{neighbors}</ul></td></tr>\n",
        safe(&row.set),
        right(row.row.to_string()),
        safe(&row.label),
        right(numbers::fixed(row.probability, 3)),
        right(numbers::fixed(row.aleatoric, 3)),
        right(numbers::fixed(row.log_epistemic, 2)),
    )
}

fn neighbor(near: &NearRow) -> String {
    let distance = numbers::significant(near.distance, 3);
    format!(
        "<li><b>{}</b> row {} <span class=\"faint\">at {distance}</span></li>",
        safe(&near.label),
        near.row
    )
}
