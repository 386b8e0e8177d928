//! Top of the page: title, summary and key numbers.

use crate::drawing::escape::html as safe;
use crate::drawing::number_format;
use crate::report::{Method, OodSet, Report};

/// The header as HTML.
pub(super) fn html(report: &Report) -> String {
    let (name, summary) = (safe(&report.test.name), safe(&report.summary).replace(" %", "\u{a0}%"));
    let cards: String = std::iter::once(accuracy(report))
        .chain([rows(report)])
        .chain(report.ood.iter().enumerate().map(|(i, set)| detection(report, i, set)))
        .collect();
    format!(
        "<header>\n<div class=\"bar\"><p class=\"brand\">nuq</p>\
         <button type=\"button\" id=\"theme\" aria-label=\"Switch between light and dark theme\">Dark theme</button></div>\n\
         <h1>Evaluation on {name} data</h1>\n<p class=\"summary\">{summary}</p>\n<dl class=\"cards\">\n{cards}</dl>\n</header>\n"
    )
}

fn card(name: &str, number: &str, notes: &[String]) -> String {
    let notes: String = notes.iter().map(|note| format!("<dd class=\"note\">{}</dd>", safe(note))).collect();
    format!("<div class=\"card\"><dt>{}</dt><dd class=\"number\">{number}</dd>{notes}</div>\n", safe(name))
}

fn accuracy(report: &Report) -> String {
    let accuracy = report.test.accuracy;
    let percent = |share: f64| number_format::fixed(100.0 * share, 1);
    let interval = format!(
        "95\u{a0}% interval {}\u{a0}to\u{a0}{}\u{a0}%",
        percent(accuracy.low),
        percent(accuracy.high)
    );
    card("Accuracy", &number_format::percent(accuracy.value), &[interval])
}

fn rows(report: &Report) -> String {
    let test = &report.test;
    let note = |share| format!("{} rejected by the threshold", number_format::percent(share));
    let notes: Vec<String> = test.rejected.map(note).into_iter().collect();
    card("Test rows", &number_format::count(test.rows as u64), &notes)
}

/// Best area under the ROC curve for a set, and its method.
fn detection(report: &Report, i: usize, set: &OodSet) -> String {
    let area = |method: &Method| method.ood.get(i).map(|cells| cells.roc_auc.interval.value);
    let areas = report.methods.iter().filter_map(|method| area(method).map(|area| (area, method)));
    let best = areas.max_by(|a, b| a.0.total_cmp(&b.0));
    let number = best.map_or("–".to_owned(), |(area, _)| number_format::fixed(area, 3));
    let mut notes: Vec<String> = best.map(|(_, method)| format!("by {}", method.name)).into_iter().collect();
    notes.push(rejected(set.rows, set.rejected));
    card(&format!("Best ROC-AUC, {}", set.name), &number, &notes)
}

/// Number of rows of a set, and the share that the threshold rejects.
fn rejected(rows: usize, share: Option<f64>) -> String {
    let rows = number_format::count(rows as u64);
    share.map_or(format!("{rows} rows"), |share| {
        format!("{} of {rows} rows rejected", number_format::percent(share))
    })
}
