//! Tables of results as text: csv, tsv or JSON lines.

use std::io::{self, Write};

use serde_json::{Map, Value};

use crate::column::Column;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableFormat {
    Csv,
    Tsv,
    JsonLines,
}

impl TableFormat {
    /// The format of a file with this extension; `None` if it is another format.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            _ => None,
        }
    }

    /// The format of standard output.
    pub(crate) fn of_stdout(as_json: bool) -> Self {
        if as_json { Self::JsonLines } else { Self::Csv }
    }

    fn separator(self) -> char {
        if self == Self::Tsv { '\t' } else { ',' }
    }

    /// Writes one line of a csv or tsv table.
    pub(crate) fn write_line<T: AsRef<str>>(self, to: &mut dyn Write, cells: &[T]) -> io::Result<()> {
        for (i, cell) in cells.iter().enumerate() {
            if i > 0 {
                write!(to, "{}", self.separator())?;
            }
            self.write_cell(to, cell.as_ref())?;
        }
        writeln!(to)
    }

    /// Writes a cell, quoted if necessary.
    fn write_cell(self, to: &mut dyn Write, cell: &str) -> io::Result<()> {
        if cell.contains([self.separator(), '"', '\n', '\r']) {
            write!(to, "\"{}\"", cell.replace('"', "\"\""))
        } else {
            to.write_all(cell.as_bytes())
        }
    }

    /// Writes a whole table.
    pub(crate) fn write(self, to: &mut dyn Write, columns: &[(&str, Column)]) -> io::Result<()> {
        if self != Self::JsonLines {
            let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            self.write_line(to, &names)?;
        }
        for row in 0..columns.first().map_or(0, |(_, column)| column.len()) {
            if self == Self::JsonLines {
                let cells = columns.iter().map(|(name, column)| ((*name).to_owned(), column.json(row)));
                writeln!(to, "{}", Value::Object(cells.collect::<Map<_, _>>()))?;
            } else {
                let cells: Vec<String> = columns.iter().map(|(_, column)| column.cell(row)).collect();
                self.write_line(to, &cells)?;
            }
        }
        Ok(())
    }
}
