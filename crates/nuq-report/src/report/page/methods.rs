//! Section with the table of methods.

use crate::drawing::escape::html as safe;
use crate::drawing::number_format;
use crate::report::page::section;
use crate::report::{Cell, Fact, Family, Method, OodCells, Report};

/// A column of the table.
struct Column<'a> {
    title: &'a str,
    /// Tooltip of the heading.
    hint: &'a str,
    higher_is_better: bool,
}

const OOD: [Column<'static>; 3] = [
    Column { title: "ROC-AUC", hint: "area under the ROC curve, higher is better", higher_is_better: true },
    Column { title: "AUPR", hint: "average precision, higher is better", higher_is_better: true },
    Column {
        title: "FPR95",
        hint: "false positive rate at a true positive rate of 95 %, lower is better",
        higher_is_better: false,
    },
];
const RCC: Column<'static> = Column {
    title: "RCC-AUC",
    hint: "area under the risk-coverage curve, lower is better",
    higher_is_better: false,
};
const MEAN: Column<'static> =
    Column { title: "Mean ROC-AUC", hint: "mean over all sets, higher is better", higher_is_better: true };
const TIME: Column<'static> = Column {
    title: "ms / 1000",
    hint: "milliseconds per 1000 queries, lower is better",
    higher_is_better: false,
};
const MEMORY: Column<'static> = Column {
    title: "Memory",
    hint: "memory required in addition to the model, lower is better",
    higher_is_better: false,
};

/// The section as HTML; empty without methods.
pub(super) fn html(report: &Report) -> String {
    if report.methods.is_empty() {
        return String::new();
    }
    let has_mean = report.methods.iter().any(|method| method.mean_roc_auc.is_some());
    let rows: String = report.methods.iter().map(|method| row(method, report.ood.len(), has_mean)).collect();
    let table = format!(
        "<div class=\"scroll card\" tabindex=\"0\" role=\"region\" aria-label=\"Table of methods\">\n\
         <table class=\"methods sortable\">\n<thead>\n{}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n{LEGEND}{}",
        head(report, has_mean),
        skipped(report)
    );
    section("Methods", &lead(report), &table)
}

const LEGEND: &str = "<p class=\"legend-note\"><b class=\"best\">Bold</b>: no other method is significantly better (paired \
     bootstrap, level 0.05). Small text: 95\u{a0}% interval or inputs of the method. Click a heading to sort.</p>\n";

/// Collapsible list of skipped methods with reasons.
fn skipped(report: &Report) -> String {
    let item = |fact: &Fact| format!("<li><b>{}</b>: {}</li>", safe(&fact.name), safe(&fact.value));
    match report.skipped.is_empty() {
        true => String::new(),
        false => format!(
            "<details class=\"legend-note\"><summary>{} skipped</summary><ul>{}</ul></details>\n",
            match report.skipped.len() {
                1 => "1 method was".to_owned(),
                count => format!("{count} methods were"),
            },
            report.skipped.iter().map(item).collect::<String>()
        ),
    }
}

fn lead(report: &Report) -> String {
    let errors = "RCC-AUC measures how well a method ranks the prediction errors (lower is better).";
    if report.ood.is_empty() {
        return errors.to_owned();
    }
    format!(
        "{errors} ROC-AUC and AUPR (higher is better) and FPR95 (lower is better) measure how well it separates \
         out-of-distribution rows from test rows."
    )
}

fn head(report: &Report, has_mean: bool) -> String {
    let group = |name: &str| {
        format!("<th scope=\"colgroup\" colspan=\"3\" class=\"group\"><span>{}</span></th>", safe(name))
    };
    let groups: String = report.ood.iter().map(|set| group(&set.name)).collect();
    let ungrouped = if has_mean { 4 } else { 3 };
    let sets: String = report.ood.iter().map(|_| OOD.iter().map(heading).collect::<String>()).collect();
    let mean = if has_mean { heading(&MEAN) } else { String::new() };
    let method = "<th scope=\"col\" aria-sort=\"none\" data-first=\"ascending\"><button type=\"button\">Method</button></th>";
    let group_row = if groups.is_empty() {
        String::new()
    } else {
        format!("<tr><td></td>{groups}<td colspan=\"{ungrouped}\"></td></tr>\n")
    };
    format!(
        "{group_row}<tr>{method}{sets}{}{mean}{}{}</tr>\n",
        heading(&RCC),
        heading(&TIME),
        heading(&MEMORY)
    )
}

fn heading(column: &Column<'_>) -> String {
    let first = if column.higher_is_better { "descending" } else { "ascending" };
    let Column { title, hint, .. } = column;
    format!(
        "<th scope=\"col\" aria-sort=\"none\" data-first=\"{first}\" title=\"{hint}\"><button type=\"button\">{title}</button></th>"
    )
}

/// A cell without a value. The page's script sorts it after all numbers.
const MISSING: &str = "<td data-v=\"\">–</td>";

fn row(method: &Method, sets: usize, has_mean: bool) -> String {
    let family = match method.family {
        Family::Nuq => "NUQ",
        Family::Logits => "logits",
        Family::Embeddings => "embeddings",
        Family::Both => "logits and embeddings",
        Family::Members => "ensemble members",
    };
    let class = if method.family == Family::Nuq { " class=\"nuq\"" } else { "" };
    let cells = |i: usize| method.ood.get(i).map_or(MISSING.repeat(3), set_cells);
    let ood: String = (0..sets).map(cells).collect();
    let mean = |mean: f64| number(mean, &number_format::fixed(mean, 3));
    let mean = method.mean_roc_auc.map_or(MISSING.to_owned(), mean);
    let time = |milliseconds: f64| number(milliseconds, &number_format::milliseconds(milliseconds));
    format!(
        "<tr{class}><th scope=\"row\"><span>{name}</span><small>{family}</small></th>{ood}{}{}{}{}</tr>\n",
        cell(method.rcc_auc, 4),
        if has_mean { mean } else { String::new() },
        method.milliseconds.map_or(MISSING.to_owned(), time),
        number(method.bytes as f64, &number_format::bytes(method.bytes)),
        name = safe(&method.name),
    )
}

fn set_cells(cells: &OodCells) -> String {
    [cells.roc_auc, cells.aupr, cells.fpr95].map(|value| cell(value, 3)).concat()
}

fn cell(cell: Cell, decimals: usize) -> String {
    let text = |value: f64| number_format::fixed(value, decimals);
    let interval = cell.interval;
    let class = if cell.is_best { " class=\"best\"" } else { "" };
    format!(
        "<td{class} data-v=\"{}\">{}<small>{}–{}</small></td>",
        interval.value,
        text(interval.value),
        text(interval.low),
        text(interval.high)
    )
}

fn number(value: f64, text: &str) -> String {
    format!("<td data-v=\"{value}\">{text}</td>")
}
