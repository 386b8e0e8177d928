//! A table: our numbers over several seeds, and the paper's beside them.

use serde::{Deserialize, Serialize};

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Above it: what its numbers are.
    pub title: String,
    /// What its rows are.
    pub corner: String,
    /// What its columns are.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<TableRow>,
    /// How numbers are written.
    pub unit: Unit,
    /// Which number of a column is best, and bold.
    pub better: Better,
    /// What the paper's numbers are of, where not of the same data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper_of: Option<String>,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// What it is about.
    pub name: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

/// A number.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Ours, a value for each seed; none where there is nothing to say.
    pub values: Vec<f64>,
    /// The paper's, as it prints it.
    pub paper: Option<String>,
}

/// How numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Shares of one in percent, as the paper has them.
    Percent,
    /// With four decimals.
    Fine,
    /// With three significant digits.
    Plain,
}

/// Which number of a column is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// The highest.
    Higher,
    /// The lowest.
    Lower,
    /// None.
    Neither,
}

impl Cell {
    /// Numbers of several seeds.
    pub fn new(values: Vec<f64>) -> Self {
        Self { values, paper: None }
    }

    /// One number.
    pub fn one(value: f64) -> Self {
        Self::new(vec![value])
    }

    /// The same with the paper's number.
    pub fn beside(self, paper: impl Into<Option<&'static str>>) -> Self {
        Self { paper: paper.into().map(str::to_owned), ..self }
    }

    /// The mean over seeds.
    pub fn mean(&self) -> Option<f64> {
        (!self.values.is_empty()).then(|| self.values.iter().sum::<f64>() / self.values.len() as f64)
    }

    /// The standard deviation over seeds, of a sample; `None` of one.
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean().filter(|_| self.values.len() > 1)?;
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        Some((squares / (self.values.len() - 1) as f64).sqrt())
    }

    /// Mean and deviation for a figure.
    pub fn dot(&self) -> Option<(f64, f64)> {
        Some((self.mean()?, self.deviation().unwrap_or(0.0)))
    }
}

impl Unit {
    /// A number, with its deviation where there is one.
    pub fn text(self, mean: f64, deviation: Option<f64>) -> String {
        let one = |value: f64| match self {
            Unit::Percent => format!("{:.1}", 100.0 * value),
            Unit::Fine => format!("{value:.4}"),
            Unit::Plain => significant(value),
        };
        match deviation {
            Some(deviation) => format!("{} ± {}", one(mean), one(deviation)),
            None => one(mean),
        }
    }
}

/// Three digits that count.
fn significant(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    match magnitude {
        -4..=5 => format!("{value:.*}", (2 - magnitude).max(0) as usize),
        _ => format!("{value:.2e}"),
    }
}

impl Table {
    /// The cell of a row and a column.
    pub fn cell(&self, row: &str, column: &str) -> Option<&Cell> {
        let column = self.columns.iter().position(|name| name == column)?;
        self.rows.iter().find(|found| found.name == row)?.cells.get(column)
    }

    /// The mean of a row over all columns; none where a column has no number, for it would be the mean of something else.
    pub fn row_mean(&self, row: &str) -> Option<f64> {
        let means = self.columns.iter().map(|column| self.cell(row, column).and_then(Cell::mean));
        let means: Vec<f64> = means.collect::<Option<_>>()?;
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    }

    /// The row and the column of a number that is none: infinite, or not a number.
    pub fn not_finite(&self) -> Option<(&str, &str)> {
        let cells =
            |row: &'_ TableRow| row.cells.iter().position(|cell| !cell.values.iter().all(|v| v.is_finite()));
        let (row, column) = self.rows.iter().find_map(|row| Some((row, cells(row)?)))?;
        Some((&row.name, self.columns.get(column).map_or("", String::as_str)))
    }

    /// The table in markdown. A column of the paper's numbers stands beside each column that has some.
    pub fn markdown(&self) -> String {
        let has_paper =
            |i: usize| self.rows.iter().any(|row| row.cells.get(i).is_some_and(|cell| cell.paper.is_some()));
        let paper = self.paper_of.as_ref().map_or("paper".to_owned(), |of| format!("paper ({of})"));
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
                text.push_str(&format!(" {} |", self.number(i, cell)));
                if has_paper(i) {
                    text.push_str(&format!(" {} |", cell.paper.as_deref().unwrap_or("")));
                }
            }
            text.push('\n');
        }
        text
    }

    fn number(&self, column: usize, cell: &Cell) -> String {
        let Some(mean) = cell.mean() else { return String::new() };
        let text = self.unit.text(mean, cell.deviation());
        // What reads the same is as good.
        let read = |value: f64| self.unit.text(value, None);
        if self.best(column).is_some_and(|best| read(best) == read(mean)) {
            format!("**{text}**")
        } else {
            text
        }
    }

    /// The best number of a column of several.
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

    /// A table of one number a cell.
    pub(crate) fn numbers<const N: usize>(columns: [&str; N], rows: &[(&str, [f64; N])]) -> Table {
        let row = |(name, values): &(&str, [f64; N])| TableRow {
            name: (*name).to_owned(),
            cells: values.iter().copied().map(Cell::one).collect(),
        };
        Table {
            title: String::new(),
            corner: String::new(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.iter().map(row).collect(),
            unit: Unit::Percent,
            better: Better::Higher,
            paper_of: None,
        }
    }

    pub(crate) fn table() -> Table {
        let row = |name: &str, cells: Vec<Cell>| TableRow { name: name.to_owned(), cells };
        Table {
            title: "ROC-AUC (%)".to_owned(),
            corner: "method".to_owned(),
            columns: vec!["SVHN".to_owned(), "Smooth".to_owned()],
            rows: vec![
                row("MaxProb", vec![Cell::new(vec![0.8, 0.9]).beside("79.7 ± 1.3"), Cell::default()]),
                row("NUQ", vec![Cell::new(vec![0.9, 0.9]), Cell::one(0.5)]),
            ],
            unit: Unit::Percent,
            better: Better::Higher,
            paper_of: None,
        }
    }

    #[test]
    fn what_reads_the_same_is_equally_bold() {
        let table = numbers(["SVHN"], &[("a", [0.98601]), ("b", [0.98604]), ("c", [0.97])]);
        let text = Table { better: Better::Higher, unit: Unit::Percent, ..table }.markdown();
        assert!(text.contains("| a | **98.6** |") && text.contains("| b | **98.6** |"), "{text}");
        assert!(text.contains("| c | 97.0 |"), "{text}");
    }

    #[test]
    fn a_row_with_a_hole_has_no_mean() {
        assert_eq!(table().row_mean("NUQ"), Some(0.7));
        assert_eq!((table().row_mean("MaxProb"), table().row_mean("DDU")), (None, None));
    }

    #[test]
    fn what_is_no_number_is_found() {
        assert_eq!(table().not_finite(), None);
        let of = numbers(["SVHN", "Smooth"], &[("DDU", [0.1, 0.2]), ("NUQ", [0.3, f64::NAN])]);
        assert_eq!(of.not_finite(), Some(("NUQ", "Smooth")));
    }

    #[test]
    fn other_data_of_the_paper_are_named() {
        let text = Table { paper_of: Some("CIFAR-100".to_owned()), ..table() }.markdown();
        assert!(text.contains("| method | SVHN | paper (CIFAR-100) | Smooth |"), "{text}");
    }

    #[test]
    fn the_papers_numbers_stand_beside_ours() {
        let expected = "\
**ROC-AUC (%)**

| method | SVHN | paper | Smooth |
| --- | ---: | ---: | ---: |
| MaxProb | 85.0 ± 7.1 | 79.7 ± 1.3 |  |
| NUQ | **90.0 ± 0.0** |  | 50.0 |
";
        assert_eq!(table().markdown(), expected);
        assert_eq!(table().cell("NUQ", "Smooth"), Some(&Cell::one(0.5)));
        assert_eq!(table().cell("NUQ", "LSUN"), None);
    }

    #[test]
    fn numbers_have_the_digits_that_count() {
        assert_eq!(
            [0.0123456, 1234.5, 12.3, 0.0, 1.5e-7].map(significant),
            ["0.0123", "1234", "12.3", "0.00", "1.50e-7"]
        );
        assert_eq!(Unit::Fine.text(0.06591, None), "0.0659");
    }
}
