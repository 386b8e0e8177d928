//! Where scores go: csv, lines of JSON, parquet, or arrays in an npz file; all of it or nothing.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::arrays::Arrays;
use super::columns::{Column, Columns, Said};
use super::parquet;
use crate::error::Error;
use crate::output::label_json;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Csv,
    JsonLines,
    Npz,
    Parquet,
}

/// The kind that a name's ending says.
pub(super) fn kind_of(out: &Path, as_json: bool) -> Result<Kind, Error> {
    match out.extension().map(|e| e.to_string_lossy().to_lowercase()).as_deref() {
        Some("csv") => Ok(Kind::Csv),
        Some("jsonl" | "ndjson") => Ok(Kind::JsonLines),
        Some("npz") => Ok(Kind::Npz),
        Some("parquet") if parquet::IS_THERE => Ok(Kind::Parquet),
        Some("parquet") => Err(Error::Usage(format!(
            "--out {}: this nuq was built without parquet; build it with `--features parquet`, or write .npz",
            out.display()
        ))),
        _ if out.as_os_str() == "-" => Ok(if as_json { Kind::JsonLines } else { Kind::Csv }),
        _ => Err(Error::Usage(format!(
            "--out {}: scores go to .csv, .jsonl, .npz or .parquet files, or to -",
            out.display()
        ))),
    }
}

/// A file that is being written.
pub(super) struct Sink<'s> {
    kind: Kind,
    writer: &'s mut dyn Write,
    /// Whether the names of the columns were written.
    is_begun: bool,
    /// Those of an npz file, which is written at the end.
    arrays: Arrays,
    /// A parquet file, whose groups are written as they fill.
    groups: parquet::Groups,
}

impl Sink<'_> {
    /// Opens a sink, lets `fill` fill it, and gives the file its name when all went well.
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
                is_begun: false,
                arrays: Arrays::default(),
                groups: parquet::Groups::default(),
            };
            match fill_and_finish(&mut sink, fill) {
                Ok(()) => Ok(()),
                Err(Filling::Io(error)) => Err(error),
                Err(Filling::Other(error)) => {
                    failed = Some(error);
                    Err(io::Error::other("scoring stopped"))
                }
            }
        };
        let result = if out.as_os_str() == "-" {
            let mut stdout = io::BufWriter::new(io::stdout().lock());
            match write(&mut stdout).and_then(|()| stdout.flush()) {
                // Whoever closed the other end (`nuq … | head`) has seen enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                result => result.map_err(|source| Error::Write { path: "standard output".into(), source }),
            }
        } else {
            nuq_io::write_atomically(out, |file| write(file)).map_err(Error::from)
        };
        match failed {
            Some(error) => Err(error),
            None => result,
        }
    }

    /// Writes a block.
    pub(super) fn take(&mut self, block: &Columns) -> Result<(), Error> {
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
        if !self.is_begun {
            self.is_begun = true;
            let mut names: Vec<String> = block.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
            for i in 1..=block.neighbors.as_ref().map_or(0, |_| block.per_row) {
                names.extend(["id", "distance", "says"].map(|what| format!("neighbor_{i}_{what}")));
            }
            writeln!(self.writer, "{}", names.join(","))?;
        }
        for row in 0..block.rows {
            let mut cells: Vec<String> = block.columns.iter().map(|(_, column)| column.cell(row)).collect();
            if let Some(neighbors) = &block.neighbors {
                for neighbor in &neighbors[row] {
                    let said = match &neighbor.said {
                        Said::Label(label) => quoted(&label.to_string()),
                        Said::Target(target) => target.to_string(),
                    };
                    cells.extend([neighbor.id.to_string(), neighbor.distance.to_string(), said]);
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
                let list = neighbors[row].iter().map(|neighbor| match &neighbor.said {
                    Said::Label(label) => {
                        json!({"id": neighbor.id, "distance": neighbor.distance, "label": label_json(label)})
                    }
                    Said::Target(target) => {
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

enum Filling {
    Io(io::Error),
    Other(Error),
}

fn fill_and_finish(
    sink: &mut Sink<'_>,
    fill: impl FnOnce(&mut Sink<'_>) -> Result<(), Error>,
) -> Result<(), Filling> {
    match fill(sink) {
        Ok(()) => sink.finish().map_err(Filling::Io),
        Err(Error::Write { source, .. }) => Err(Filling::Io(source)),
        Err(other) => Err(Filling::Other(other)),
    }
}

impl Column {
    fn cell(&self, row: usize) -> String {
        match self {
            Column::Integers(values) => values[row].map_or(String::new(), |v| v.to_string()),
            Column::Numbers(values) => values[row].map_or(String::new(), |v| v.to_string()),
            Column::Labels(values) => {
                values[row].as_ref().map_or(String::new(), |label| quoted(&label.to_string()))
            }
            Column::Words(values) => values[row].unwrap_or_default().to_owned(),
        }
    }

    fn json(&self, row: usize) -> Value {
        match self {
            Column::Integers(values) => json!(values[row]),
            // JSON has no infinity; the logarithms beside it say how large.
            Column::Numbers(values) => json!(values[row]),
            Column::Labels(values) => values[row].as_ref().map_or(Value::Null, label_json),
            Column::Words(values) => json!(values[row]),
        }
    }
}

/// A cell of a csv file, in quotes where it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
