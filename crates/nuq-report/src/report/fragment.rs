//! The report as a compact HTML fragment, for notebooks.

use crate::drawing::escape::html as safe;
use crate::drawing::number_format;
use crate::report::figures::ReportFigures;
use crate::report::{Cell, Family, Method, Report};

const STYLE: &str = include_str!("../../assets/fragment.css");

impl Report {
    /// Summary, table of methods and up to two figures as one HTML element with its own style.
    ///
    /// The fragment has no script, makes no network requests, and is legible on light and dark backgrounds. All its CSS
    /// rules are restricted to the class `nuq-report`.
    #[must_use]
    pub fn html_fragment(&self) -> String {
        let summary: String = self.summary.lines().map(|line| format!("<p>{}</p>\n", safe(line))).collect();
        let (table, figures) = (self.fragment_table(), self.fragment_figures());
        format!("<div class=\"nuq-report\">\n<style>{STYLE}</style>\n{summary}{table}{figures}</div>\n")
    }

    fn fragment_table(&self) -> String {
        if self.methods.is_empty() {
            return String::new();
        }
        let has_mean = self.ood.len() > 1;
        let heading = |title: &str| format!("<th scope=\"col\">{}</th>", safe(title));
        let mut head = heading("Method");
        head.extend(self.ood.iter().map(|set| heading(&format!("ROC-AUC, {}", set.name))));
        if has_mean {
            head += &heading("mean ROC-AUC");
        }
        head += &["RCC-AUC", "ms / 1000"].map(heading).concat();
        let rows: String = self.methods.iter().map(|method| row(method, self.ood.len(), has_mean)).collect();
        let separation = if self.ood.is_empty() {
            ""
        } else {
            " ROC-AUC (higher is better): separation of out-of-distribution rows from test rows."
        };
        format!(
            "<div class=\"nuq-scroll\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n\
             <p class=\"nuq-note\"><b>Bold</b>: no other method is significantly better. RCC-AUC (lower is better): ranking \
             of the prediction errors.{separation} ms / 1000: milliseconds per 1000 queries.</p>\n"
        )
    }

    /// The risk-coverage curve and the first ROC curve.
    fn fragment_figures(&self) -> String {
        let ReportFigures { errors, roc, .. } = ReportFigures::new(self);
        let figures: String =
            errors.iter().take(1).chain(roc.iter().take(1)).map(|drawing| drawing.static_html()).collect();
        if figures.is_empty() { figures } else { format!("<div class=\"nuq-figures\">\n{figures}</div>\n") }
    }
}

fn row(method: &Method, sets: usize, has_mean: bool) -> String {
    let class = if method.family == Family::Nuq { " class=\"nuq-own\"" } else { "" };
    let missing = || "<td>–</td>".to_owned();
    let ood: String = (0..sets)
        .map(|set| method.ood.get(set).map_or_else(missing, |cells| cell(cells.roc_auc, 3)))
        .collect();
    let number = |value: f64| format!("<td>{}</td>", number_format::fixed(value, 3));
    let mean = if has_mean { method.mean_roc_auc.map_or_else(missing, number) } else { String::new() };
    format!(
        "<tr{class}><th scope=\"row\">{}</th>{ood}{mean}{}<td>{}</td></tr>\n",
        safe(&method.name),
        cell(method.rcc_auc, 4),
        method.milliseconds.map_or("–".to_owned(), number_format::milliseconds)
    )
}

fn cell(cell: Cell, decimals: usize) -> String {
    let class = if cell.is_best { " class=\"nuq-best\"" } else { "" };
    let half = 0.5 * (cell.interval.high - cell.interval.low);
    format!(
        "<td{class}>{} ± {}</td>",
        number_format::fixed(cell.interval.value, decimals),
        number_format::fixed(half, decimals)
    )
}
