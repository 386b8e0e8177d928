//! Result tables: measured values over several seeds, with the paper's numbers.

use serde::{Deserialize, Serialize};

/// A result table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Title, including the unit.
    pub title: String,
    /// Header of the first column, which contains the row names.
    pub corner: String,
    /// Headers of the value columns.
    pub columns: Vec<String>,
    /// Rows of the table.
    pub rows: Vec<TableRow>,
    /// Number format.
    pub unit: Unit,
    /// Whether higher or lower values are better. The best value of each column is bold.
    pub better: Better,
    /// Data set of the paper's numbers, if it differs from the data set of the table.
    #[serde(default, rename = "paper_of", skip_serializing_if = "Option::is_none")]
    pub paper_data_set: Option<String>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// Name in the first column.
    pub name: String,
    /// One cell per value column.
    pub cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Measured values, one per seed. Empty if not evaluated.
    pub values: Vec<f64>,
    /// The paper's number as printed.
    pub paper: Option<String>,
}

/// Number format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Fractions as percentages with one decimal.
    Percent,
    /// Four decimals.
    Fine,
    /// Three significant digits, or more if the integer part has more. Values below 0.0001 or from a million on are in scientific notation.
    Plain,
}

/// Whether higher or lower values of a column are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Higher values are better.
    Higher,
    /// Lower values are better.
    Lower,
    /// Values are not ranked.
    Neither,
}

impl Cell {
    /// A cell with one value per seed.
    #[must_use]
    pub fn new(values: Vec<f64>) -> Self {
        Self { values, paper: None }
    }

    /// A cell with a single value.
    #[must_use]
    pub fn single(value: f64) -> Self {
        Self::new(vec![value])
    }

    /// Adds the paper's number.
    #[must_use]
    pub fn with_paper(self, paper: impl Into<Option<&'static str>>) -> Self {
        Self { paper: paper.into().map(str::to_owned), ..self }
    }

    /// Mean over seeds, or `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.values.is_empty()).then(|| self.values.iter().sum::<f64>() / self.values.len() as f64)
    }

    /// Sample standard deviation over seeds, or `None` for fewer than two values.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean().filter(|_| self.values.len() > 1)?;
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        Some((squares / (self.values.len() - 1) as f64).sqrt())
    }

    /// Mean and standard deviation (0 for a single value).
    #[must_use]
    pub fn mean_and_deviation(&self) -> Option<(f64, f64)> {
        Some((self.mean()?, self.deviation().unwrap_or(0.0)))
    }
}

impl Unit {
    /// Formats a mean with an optional standard deviation.
    #[must_use]
    pub fn text(self, mean: f64, deviation: Option<f64>) -> String {
        let format_value = |value: f64| match self {
            Unit::Percent => format!("{:.1}", 100.0 * value),
            Unit::Fine => format!("{value:.4}"),
            Unit::Plain => three_digits(value),
        };
        match deviation {
            Some(deviation) => format!("{} ± {}", format_value(mean), format_value(deviation)),
            None => format_value(mean),
        }
    }
}

/// Formats a value as described at [`Unit::Plain`].
fn three_digits(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    match magnitude {
        -4..=5 => format!("{value:.*}", (2 - magnitude).max(0) as usize),
        _ => format!("{value:.2e}"),
    }
}

impl Table {
    /// Finds a cell by row name and column header.
    #[must_use]
    pub fn cell(&self, row: &str, column: &str) -> Option<&Cell> {
        let column = self.columns.iter().position(|name| name == column)?;
        self.rows.iter().find(|candidate| candidate.name == row)?.cells.get(column)
    }

    /// Mean of a row over all columns, or `None` if a cell is empty or there is no such row.
    #[must_use]
    pub fn row_mean(&self, row: &str) -> Option<f64> {
        let means = self.columns.iter().map(|column| self.cell(row, column).and_then(Cell::mean));
        let means: Vec<f64> = means.collect::<Option<_>>()?;
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    }

    /// Row name and column header of the first value that is NaN or infinite.
    #[must_use]
    pub fn not_finite(&self) -> Option<(&str, &str)> {
        let invalid_column =
            |row: &'_ TableRow| row.cells.iter().position(|cell| !cell.values.iter().all(|v| v.is_finite()));
        let (row, column) = self.rows.iter().find_map(|row| Some((row, invalid_column(row)?)))?;
        Some((&row.name, self.columns.get(column).map_or("", String::as_str)))
    }

    /// The table as Markdown. If the paper has numbers for a column, the next column contains them.
    #[must_use]
    pub fn markdown(&self) -> String {
        let has_paper =
            |i: usize| self.rows.iter().any(|row| row.cells.get(i).is_some_and(|cell| cell.paper.is_some()));
        let paper =
            self.paper_data_set.as_ref().map_or("paper".to_owned(), |data_set| format!("paper ({data_set})"));
        let mut head = format!("| {} |", self.corner);
        let mut rule = "| --- |".to_owned();
        for (i, column) in self.columns.iter().enumerate() {
            head.push_str(&format!(" {column} |"));
            rule.push_str(" ---: |");
            if has_paper(i) {
                head.push_str(&format!(" {paper} |"));
                rule.push_str(" ---: |");
            }
        }
        let mut text = format!("**{}**\n\n{head}\n{rule}\n", self.title);
        for row in &self.rows {
            text.push_str(&format!("| {} |", row.name));
            for (i, cell) in row.cells.iter().enumerate() {
                text.push_str(&format!(" {} |", self.format_cell(i, cell)));
                if has_paper(i) {
                    text.push_str(&format!(" {} |", cell.paper.as_deref().unwrap_or("")));
                }
            }
            text.push('\n');
        }
        text
    }

    fn format_cell(&self, column: usize, cell: &Cell) -> String {
        let Some(mean) = cell.mean() else { return String::new() };
        let text = self.unit.text(mean, cell.deviation());
        // A value is bold if its printed number equals that of the best value.
        let printed = |value: f64| self.unit.text(value, None);
        if self.best(column).is_some_and(|best| printed(best) == printed(mean)) {
            format!("**{text}**")
        } else {
            text
        }
    }

    /// The best mean of a column; `None` if fewer than two of its cells have values, or if values are not ranked.
    fn best(&self, column: usize) -> Option<f64> {
        let means = || self.rows.iter().filter_map(|row| row.cells.get(column)?.mean());
        match self.better {
            _ if means().count() < 2 => None,
            Better::Higher => means().reduce(f64::max),
            Better::Lower => means().reduce(f64::min),
            Better::Neither => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table with a single value per cell.
    pub(crate) fn numbers<const N: usize>(columns: [&str; N], rows: &[(&str, [f64; N])]) -> Table {
        let row = |(name, values): &(&str, [f64; N])| TableRow {
            name: (*name).to_owned(),
            cells: values.iter().copied().map(Cell::single).collect(),
        };
        Table {
            title: String::new(),
            corner: String::new(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.iter().map(row).collect(),
            unit: Unit::Percent,
            better: Better::Higher,
            paper_data_set: None,
        }
    }

    pub(crate) fn table() -> Table {
        let row = |name: &str, cells: Vec<Cell>| TableRow { name: name.to_owned(), cells };
        Table {
            title: "ROC-AUC (%)".to_owned(),
            corner: "method".to_owned(),
            columns: vec!["SVHN".to_owned(), "Smooth".to_owned()],
            rows: vec![
                row("MaxProb", vec![Cell::new(vec![0.8, 0.9]).with_paper("79.7 ± 1.3"), Cell::default()]),
                row("NUQ", vec![Cell::new(vec![0.9, 0.9]), Cell::single(0.5)]),
            ],
            unit: Unit::Percent,
            better: Better::Higher,
            paper_data_set: None,
        }
    }

    #[test]
    fn values_with_the_same_printed_number_as_the_best_are_bold() {
        let table = numbers(["SVHN"], &[("a", [0.98601]), ("b", [0.98604]), ("c", [0.97])]);
        let text = Table { better: Better::Higher, unit: Unit::Percent, ..table }.markdown();
        assert!(text.contains("| a | **98.6** |") && text.contains("| b | **98.6** |"), "{text}");
        assert!(text.contains("| c | 97.0 |"), "{text}");
    }

    #[test]
    fn row_mean_requires_all_cells() {
        assert_eq!(table().row_mean("NUQ"), Some(0.7));
        assert_eq!((table().row_mean("MaxProb"), table().row_mean("DDU")), (None, None));
    }

    #[test]
    fn non_finite_value_is_located() {
        assert_eq!(table().not_finite(), None);
        let table = numbers(["SVHN", "Smooth"], &[("DDU", [0.1, 0.2]), ("NUQ", [0.3, f64::NAN])]);
        assert_eq!(table.not_finite(), Some(("NUQ", "Smooth")));
    }

    #[test]
    fn paper_data_set_is_in_the_header() {
        let text = Table { paper_data_set: Some("CIFAR-100".to_owned()), ..table() }.markdown();
        assert!(text.contains("| method | SVHN | paper (CIFAR-100) | Smooth |"), "{text}");
    }

    #[test]
    fn markdown_contains_paper_numbers() {
        let expected = "\
**ROC-AUC (%)**

| method | SVHN | paper | Smooth |
| --- | ---: | ---: | ---: |
| MaxProb | 85.0 ± 7.1 | 79.7 ± 1.3 |  |
| NUQ | **90.0 ± 0.0** |  | 50.0 |
";
        assert_eq!(table().markdown(), expected);
        assert_eq!(table().cell("NUQ", "Smooth"), Some(&Cell::single(0.5)));
        assert_eq!(table().cell("NUQ", "LSUN"), None);
    }

    #[test]
    fn values_have_three_significant_digits() {
        assert_eq!(
            [0.0123456, 1234.5, 12.3, 0.0, 1.5e-7].map(three_digits),
            ["0.0123", "1234", "12.3", "0.00", "1.50e-7"]
        );
        assert_eq!(Unit::Fine.text(0.06591, None), "0.0659");
    }
}
