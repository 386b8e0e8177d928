//! Plain-text table of the methods.

use crate::drawing::number_format;
use crate::report::{Cell, Interval, Method, Report};

/// Maximum width in characters.
const MAX_WIDTH: usize = 110;
/// Choices of columns that are omitted from a table that is too wide. The first choice with which the table is narrow enough is used. If
/// there is none, the last choice is used.
const OMITTED: [&[&str]; 4] = [&[], &["memory"], &["AUPR"], &["AUPR", "memory"]];
/// Maximum length of a name. The longest built-in name is "ensemble mutual information".
const MAX_NAME: usize = 27;

/// A column with two header lines: `group`, the name of the OOD set or nothing, and `title`.
struct Column {
    group: String,
    title: &'static str,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        cells.max(self.title.chars().count())
    }
}

impl Report {
    /// Table of the methods in aligned plain text: values ± half the width of their confidence intervals. A star marks a value if no
    /// other method is significantly better.
    #[must_use]
    pub fn table(&self) -> String {
        let mut columns = self.columns();
        let names: Vec<String> = self.methods.iter().map(|method| truncate(&method.name, MAX_NAME)).collect();
        let name_width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
        let width = |omitted: &&&[&str]| {
            let shown = columns.iter().filter(|column| !omitted.contains(&column.title));
            shown.map(|column| column.width() + 2).sum::<usize>() + name_width
        };
        let omitted = OMITTED.iter().find(|choice| width(choice) <= MAX_WIDTH).unwrap_or(&OMITTED[3]);
        columns.retain(|column| !omitted.contains(&column.title));
        let mut lines = vec![groups(&columns, name_width)];
        lines.push(line(&format!("{:name_width$}", "method"), &columns, |column| column.title));
        for (i, name) in names.iter().enumerate() {
            lines.push(line(&format!("{name:name_width$}"), &columns, |column| &column.cells[i]));
        }
        lines.push(legend(&columns, omitted));
        lines.retain(|line| !line.is_empty());
        lines.join("\n") + "\n"
    }

    fn columns(&self) -> Vec<Column> {
        let column = |group: &str, title, cell: &dyn Fn(&Method) -> String| Column {
            group: group.to_owned(),
            title,
            cells: self.methods.iter().map(cell).collect(),
        };
        let mut columns = Vec::new();
        for (i, set) in self.ood.iter().enumerate() {
            let cells = |method: &Method| method.ood.get(i).copied();
            let pick = |pick: fn(&crate::report::OodCells) -> Cell| {
                move |method: &Method| cells(method).map_or("–".to_owned(), |cells| value(pick(&cells), 3))
            };
            columns.push(column(&set.name, "ROC-AUC", &pick(|cells| cells.roc_auc)));
            columns.push(column(&set.name, "AUPR", &pick(|cells| cells.aupr)));
            columns.push(column(&set.name, "FPR95", &pick(|cells| cells.fpr95)));
        }
        columns.push(column("", "RCC-AUC", &|method| value(method.rcc_auc, 4)));
        if self.methods.iter().any(|method| method.mean_roc_auc.is_some()) {
            let mean = |method: &Method| method.mean_roc_auc.map_or("–".to_owned(), |mean| short(mean, 3));
            columns.push(column("", "mean", &mean));
        }
        let milliseconds =
            |method: &Method| method.milliseconds.map_or("–".to_owned(), number_format::milliseconds);
        columns.push(column("", "ms", &milliseconds));
        columns.push(column("", "memory", &|method| number_format::bytes(method.bytes)));
        columns
    }
}

/// A value ± half the width of its interval. A star or a space follows, which aligns the digits of a column.
fn value(cell: Cell, decimals: usize) -> String {
    let Cell { interval: Interval { value, low, high }, is_best } = cell;
    let star = if is_best { '*' } else { ' ' };
    format!("{}±{}{star}", short(value, decimals), short(0.5 * (high - low), decimals))
}

/// A number without the zero before its decimal point.
fn short(value: f64, decimals: usize) -> String {
    let text = number_format::fixed(value, decimals);
    text.strip_prefix('0').filter(|rest| rest.starts_with('.')).map_or(text.clone(), str::to_owned)
}

fn line<'a>(name: &str, columns: &'a [Column], cell: impl Fn(&'a Column) -> &'a str) -> String {
    let mut line = name.to_owned();
    for column in columns {
        let (cell, width) = (cell(column), column.width());
        // The heading ends above the last digit, not above the star.
        let cell = if cell == column.title && column.cells.iter().any(|c| c.contains('±')) {
            format!("{cell} ")
        } else {
            cell.to_owned()
        };
        line.push_str(&format!("  {cell:>width$}"));
    }
    line.trim_end().to_owned()
}

/// First header line: the names of the OOD sets above their columns.
fn groups(columns: &[Column], name_width: usize) -> String {
    let mut line = " ".repeat(name_width);
    let mut i = 0;
    while i < columns.len() {
        let span = columns[i..].iter().take_while(|column| column.group == columns[i].group).count();
        let width = columns[i..i + span].iter().map(|column| column.width() + 2).sum::<usize>() - 2;
        let name = truncate(&columns[i].group, width.saturating_sub(3));
        let label = if name.is_empty() { String::new() } else { format!("{name} ") };
        let fill = if name.is_empty() { ' ' } else { '─' };
        let rest: String = std::iter::repeat_n(fill, width - label.chars().count()).collect();
        line.push_str(&format!("  {label}{rest}"));
        i += span;
    }
    line.trim_end().to_owned()
}

fn legend(columns: &[Column], omitted: &[&str]) -> String {
    let has = |title: &str| columns.iter().any(|column| column.title == title);
    let mut text =
        "\n* no other method is significantly better (paired bootstrap, level 0.05)\n  ".to_owned();
    if has("mean") {
        text.push_str("mean: mean ROC-AUC; ");
    }
    text.push_str("ms: milliseconds per 1000 queries");
    if has("memory") {
        text.push_str("; memory: required in addition to the model");
    }
    if !omitted.is_empty() {
        text.push_str(&format!("\n  not shown because of the table width: {}", omitted.join(", ")));
    }
    text
}

fn truncate(text: &str, max_length: usize) -> String {
    let is_long = text.chars().count() > max_length;
    let start: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(max_length).collect();
    match start.char_indices().last() {
        Some((end, _)) if is_long => format!("{}…", &start[..end]),
        _ => start,
    }
}
