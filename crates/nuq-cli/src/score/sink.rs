//! Output of scores: csv, JSON lines, parquet, or arrays in an npz file. A file is written atomically.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::arrays::Arrays;
use super::columns::{Column, Columns, Truth, TruthKind};
use super::parquet;
use crate::error::Error;
use crate::escape::Escaped;
use crate::output::{csv_cell, label_json, stdout_error};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Csv,
    JsonLines,
    Npz,
    Parquet,
}

/// The format, from the extension of the file name.
pub(super) fn kind_of(out: &Path, as_json: bool) -> Result<Kind, Error> {
    match out.extension().map(|e| e.to_string_lossy().to_lowercase()).as_deref() {
        Some("csv") => Ok(Kind::Csv),
        Some("jsonl" | "ndjson") => Ok(Kind::JsonLines),
        Some("npz") => Ok(Kind::Npz),
        Some("parquet") if parquet::IS_AVAILABLE => Ok(Kind::Parquet),
        Some("parquet") => Err(Error::Usage(format!(
            "--out {}: this build of nuq has no parquet support; build it with `--features parquet`, or write an .npz file",
            out.display()
        ))),
        _ if out.as_os_str() == "-" => Ok(if as_json { Kind::JsonLines } else { Kind::Csv }),
        _ => Err(Error::Usage(format!(
            "--out {}: the output must be a .csv, .jsonl, .npz or .parquet file, or -",
            out.display()
        ))),
    }
}

/// The output while it is being written.
pub(super) struct Sink<'s> {
    kind: Kind,
    writer: &'s mut dyn Write,
    /// Whether the header line was written.
    has_header: bool,
    /// The arrays of an npz file, written at the end.
    arrays: Arrays,
    /// The row groups of a parquet file, written as they fill.
    groups: parquet::Groups,
}

impl Sink<'_> {
    /// Opens the output and calls `fill`. The file gets its name only after `fill` succeeded.
    pub(super) fn with(
        kind: Kind,
        out: &Path,
        fill: impl FnOnce(&mut Sink<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut failed = None;
        let write = |writer: &mut dyn Write| {
            let mut sink = Sink {
                kind,
                writer,
                has_header: false,
                arrays: Arrays::default(),
                groups: parquet::Groups::default(),
            };
            match fill_and_finish(&mut sink, fill) {
                Ok(()) => Ok(()),
                Err(FillError::Io(error)) => Err(error),
                Err(FillError::Other(error)) => {
                    failed = Some(error);
                    Err(io::Error::other("scoring stopped"))
                }
            }
        };
        let result = if out.as_os_str() == "-" {
            let mut stdout = io::BufWriter::new(io::stdout().lock());
            let written = match io::stdout().is_terminal() {
                true => write(&mut Escaped(&mut stdout)),
                false => write(&mut stdout),
            };
            written.and_then(|()| stdout.flush()).map_err(stdout_error)
        } else {
            nuq_io::write_atomically(out, |file| write(file)).map_err(Error::from)
        };
        match failed {
            Some(error) => Err(error),
            None => result,
        }
    }

    /// Writes a block.
    pub(super) fn write(&mut self, block: &Columns) -> Result<(), Error> {
        match self.kind {
            Kind::Csv => self.csv(block),
            Kind::JsonLines => self.json_lines(block),
            Kind::Npz => {
                self.arrays.append(block);
                Ok(())
            }
            Kind::Parquet => self.groups.append(block, self.writer),
        }
        .map_err(|source| Error::Write { path: "the scores".into(), source })
    }

    fn csv(&mut self, block: &Columns) -> io::Result<()> {
        if !self.has_header {
            self.has_header = true;
            let mut names: Vec<String> = block.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
            for i in 1..=block.neighbors.as_ref().map_or(0, |_| block.per_row) {
                let truth = if block.truth_kind == TruthKind::Targets { "target" } else { "label" };
                names.extend(["id", "distance", truth].map(|field| format!("neighbor_{i}_{field}")));
            }
            writeln!(self.writer, "{}", names.join(","))?;
        }
        for row in 0..block.rows {
            let mut cells: Vec<String> = block.columns.iter().map(|(_, column)| column.cell(row)).collect();
            if let Some(neighbors) = &block.neighbors {
                for neighbor in &neighbors[row] {
                    let truth = match &neighbor.truth {
                        Truth::Label(label) => csv_cell(&label.to_string()),
                        Truth::Target(target) => target.to_string(),
                    };
                    cells.extend([neighbor.id.to_string(), neighbor.distance.to_string(), truth]);
                }
                let width = block.columns.len() + 3 * block.per_row;
                cells.resize(width, String::new());
            }
            writeln!(self.writer, "{}", cells.join(","))?;
        }
        Ok(())
    }

    fn json_lines(&mut self, block: &Columns) -> io::Result<()> {
        for row in 0..block.rows {
            let mut object = Map::new();
            for (name, column) in &block.columns {
                object.insert((*name).to_owned(), column.json(row));
            }
            if let Some(neighbors) = &block.neighbors {
                let list = neighbors[row].iter().map(|neighbor| match &neighbor.truth {
                    Truth::Label(label) => {
                        json!({"id": neighbor.id, "distance": neighbor.distance, "label": label_json(label)})
                    }
                    Truth::Target(target) => {
                        json!({"id": neighbor.id, "distance": neighbor.distance, "target": target})
                    }
                });
                object.insert("neighbors".to_owned(), list.collect());
            }
            writeln!(self.writer, "{}", Value::Object(object))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.kind {
            Kind::Csv | Kind::JsonLines => Ok(()),
            Kind::Npz => self.arrays.write(self.writer),
            Kind::Parquet => std::mem::take(&mut self.groups).finish(self.writer),
        }
    }
}

/// An error while the output was filled.
enum FillError {
    Io(io::Error),
    Other(Error),
}

fn fill_and_finish(
    sink: &mut Sink<'_>,
    fill: impl FnOnce(&mut Sink<'_>) -> Result<(), Error>,
) -> Result<(), FillError> {
    match fill(sink) {
        Ok(()) => sink.finish().map_err(FillError::Io),
        Err(Error::Write { source, .. }) => Err(FillError::Io(source)),
        Err(other) => Err(FillError::Other(other)),
    }
}

impl Column {
    fn cell(&self, row: usize) -> String {
        match self {
            Column::Integers(values) => values[row].map_or(String::new(), |v| v.to_string()),
            Column::Numbers(values) => values[row].map_or(String::new(), |v| v.to_string()),
            Column::Labels(values) => {
                values[row].as_ref().map_or(String::new(), |label| csv_cell(&label.to_string()))
            }
            Column::Booleans(values) => values[row].map_or(String::new(), |v| v.to_string()),
        }
    }

    fn json(&self, row: usize) -> Value {
        match self {
            Column::Integers(values) => json!(values[row]),
            // JSON cannot represent infinity; it is written as null. The logarithms are finite.
            Column::Numbers(values) => json!(values[row]),
            Column::Labels(values) => values[row].as_ref().map_or(Value::Null, label_json),
            Column::Booleans(values) => json!(values[row]),
        }
    }
}
