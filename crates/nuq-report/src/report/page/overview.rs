//! Top of the page: title, summary and key numbers.

use crate::drawing::escape::html as safe;
use crate::drawing::number_format;
use crate::report::{Family, Method, OodSet, Report, TestSet};

/// The header as HTML.
pub(super) fn html(report: &Report) -> String {
    let name = safe(&report.test.name);
    let cards: String = std::iter::once(accuracy(report))
        .chain(report.ood.iter().enumerate().map(|(i, set)| detection(report, i, set)))
        .chain(rejection(report))
        .collect();
    format!(
        "<header>\n<div class=\"bar\"><p class=\"brand\">nuq</p>\
         <button type=\"button\" id=\"theme\" aria-label=\"Switch between light and dark theme\">Dark theme</button></div>\n\
         <h1>Evaluation on {name} data</h1>\n{}{}<dl class=\"cards\">\n{cards}</dl>\n</header>\n",
        summary(report),
        training_rows(report)
    )
}

/// A warning if test rows equal training rows.
fn training_rows(report: &Report) -> String {
    let TestSet { rows, training_rows, .. } = report.test;
    let equal = match training_rows {
        0 => return String::new(),
        1 => "equals a training row",
        _ => "equal training rows",
    };
    format!(
        "<p class=\"warning\" role=\"note\">{} of {} test rows {equal}. Such rows and their labels are part of the model, so the results on \
         this page are too good: metrics and guarantees are valid only for rows that are not training rows.</p>\n",
        number_format::count(training_rows as u64),
        number_format::count(rows as u64),
    )
}

/// The first line of the summary in large print, the others below it.
fn summary(report: &Report) -> String {
    let line = |(i, line): (usize, &str)| {
        let class = if i == 0 { "summary" } else { "finding" };
        format!(
            "<p class=\"{class}\">{}</p>\n",
            safe(line).replace(" %", "\u{a0}%").replace(" ± ", "\u{a0}±\u{a0}")
        )
    };
    report.summary.lines().enumerate().map(line).collect()
}

fn card(name: &str, number: &str, notes: &[String]) -> String {
    let notes: String = notes.iter().map(|note| format!("<dd class=\"note\">{}</dd>", safe(note))).collect();
    format!("<div class=\"card\"><dt>{}</dt><dd class=\"number\">{number}</dd>{notes}</div>\n", safe(name))
}

fn accuracy(report: &Report) -> String {
    let TestSet { rows, accuracy, .. } = &report.test;
    let percent = |share: f64| number_format::fixed(100.0 * share, 1);
    let interval = format!(
        "95\u{a0}% interval {}\u{a0}to\u{a0}{}\u{a0}%",
        percent(accuracy.low),
        percent(accuracy.high)
    );
    let rows = format!("{} test rows", number_format::count(*rows as u64));
    card("Accuracy", &number_format::percent(accuracy.value), &[interval, rows])
}

/// The card of a set: the highest area under the ROC curve, the methods that have it, and the best method of the other kind (NUQ or
/// baseline).
fn detection(report: &Report, i: usize, set: &OodSet) -> String {
    let area = |method: &Method| method.ood.get(i).map(|cells| cells.roc_auc.interval.value);
    let highest = |is_included: &dyn Fn(&Method) -> bool| {
        let methods = report.methods.iter().filter(|method| is_included(method));
        methods
            .filter_map(|method| area(method).map(|area| (area, method)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let best = highest(&|_| true);
    let number = best.map_or("–".to_owned(), |(area, _)| number_format::fixed(area, 3));
    let mut notes = vec![];
    if let Some((highest_area, method)) = best {
        let equal: Vec<&Method> =
            report.methods.iter().filter(|method| area(method) == Some(highest_area)).collect();
        notes.push(best_methods(&equal));
        let is_nuq = method.family == Family::Nuq;
        let kind = if is_nuq { "Best baseline" } else { "Best score of NUQ" };
        if let Some((area, other)) = highest(&|other| (other.family == Family::Nuq) != is_nuq)
            && area < highest_area
        {
            notes.push(format!("{kind}: {}, {}", other.name, number_format::fixed(area, 3)));
        }
    }
    notes.push(format!("{} rows", number_format::count(set.rows as u64)));
    card(&format!("ROC-AUC, {}", set.name), &number, &notes)
}

/// The names of the best methods, which have equal values. If there are more than three, only their number is given.
fn best_methods(methods: &[&Method]) -> String {
    let names: Vec<&str> = methods.iter().map(|method| &*method.name).collect();
    match names[..] {
        [name] => format!("Best method: {name}"),
        [first, second] => format!("Best methods, with equal values: {first}, {second}"),
        [first, second, third] => format!("Best methods, with equal values: {first}, {second}, {third}"),
        _ => format!("{} methods have this value", names.len()),
    }
}

/// The card with the share of the rows of each set that the threshold rejects; `None` without a threshold, or without the logits that
/// it needs.
fn rejection(report: &Report) -> Option<String> {
    let of_test = number_format::percent(report.test.rejected?);
    let of_set = |set: &OodSet| {
        let share = number_format::percent(set.rejected?);
        Some(format!("{share} of the {} rows", set.name))
    };
    let of_sets = report.ood.iter().filter_map(of_set);
    let notes: Vec<String> = std::iter::once("of the test rows".to_owned()).chain(of_sets).collect();
    Some(card("Rejected by the threshold", &of_test, &notes))
}
