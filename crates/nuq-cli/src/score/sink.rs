//! Output of scores: csv, tsv, JSON lines, parquet, or arrays in an npz file. A file is written atomically.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::arrays::Arrays;
use super::columns::{Columns, Truth, TruthKind};
use super::parquet;
use crate::destination::Destination;
use crate::error::Error;
use crate::output::label_json;
use crate::table_format::TableFormat;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Table(TableFormat),
    Npz,
    Parquet,
}

/// The format, from the extension of the file name.
pub(super) fn kind_of(to: &Destination<'_>, as_json: bool) -> Result<Kind, Error> {
    if to.has_no_format() {
        return Ok(Kind::Table(TableFormat::of_stdout(as_json)));
    }
    let (extension, path) = (to.extension(), to.path().display());
    let kind = match extension.as_deref() {
        Some("npz") => Kind::Npz,
        Some("parquet") if parquet::IS_AVAILABLE => Kind::Parquet,
        Some("parquet") => {
            return Err(Error::Usage(format!(
                "--out {path}: this build of nuq has no parquet support; build it with `--features parquet`, or write an .npz file"
            )));
        }
        extension => match extension.and_then(TableFormat::of_extension) {
            Some(format) => return Ok(Kind::Table(format)),
            None => {
                return Err(Error::Usage(format!(
                    "--out {path}: the output must be a .csv, .tsv, .jsonl or .ndjson file, also compressed (.gz or .zst), an .npz or \
                     .parquet file, or -"
                )));
            }
        },
    };
    if to.is_compressed() {
        return Err(Error::Usage(format!(
            "--out {path}: only .csv, .tsv, .jsonl and .ndjson files are compressed with gzip or zstd"
        )));
    }
    Ok(kind)
}

/// The output while it is being written.
pub(super) struct Sink<'s> {
    kind: Kind,
    writer: &'s mut dyn Write,
    /// Whether the header line was written.
    has_header: bool,
    /// The arrays of an npz file, written at the end.
    arrays: Arrays,
    /// The row groups of a parquet file. Each is written when it is complete.
    groups: parquet::Groups,
}

impl Sink<'_> {
    /// Opens the output and calls `fill`. A file has a temporary name until `fill` has succeeded.
    pub(super) fn with(
        kind: Kind,
        to: &Destination<'_>,
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
        let result = to.write(write);
        match failed {
            Some(error) => Err(error),
            None => result,
        }
    }

    /// Writes a block.
    pub(super) fn write(&mut self, block: &Columns) -> Result<(), Error> {
        match self.kind {
            Kind::Table(TableFormat::JsonLines) => self.json_lines(block),
            Kind::Table(format) => self.lines(format, block),
            Kind::Npz => {
                self.arrays.append(block);
                Ok(())
            }
            Kind::Parquet => self.groups.append(block, self.writer),
        }
        .map_err(|source| Error::Write { path: "the scores".into(), source })
    }

    fn lines(&mut self, format: TableFormat, block: &Columns) -> io::Result<()> {
        if !self.has_header {
            self.has_header = true;
            let mut names: Vec<String> = block.columns.iter().map(|(name, _)| name.to_string()).collect();
            for i in 1..=block.neighbors.as_ref().map_or(0, |_| block.per_row) {
                let truth = if block.truth_kind == TruthKind::Targets { "target" } else { "label" };
                names.extend(["id", "distance", truth].map(|field| format!("neighbor_{i}_{field}")));
            }
            format.write_line(self.writer, &names)?;
        }
        for row in 0..block.rows {
            let mut cells: Vec<String> = block.columns.iter().map(|(_, column)| column.cell(row)).collect();
            if let Some(neighbors) = &block.neighbors {
                for neighbor in &neighbors[row] {
                    let truth = match &neighbor.truth {
                        Truth::Label(label) => label.to_string(),
                        Truth::Target(target) => target.to_string(),
                    };
                    cells.extend([neighbor.id.to_string(), neighbor.distance.to_string(), truth]);
                }
                let width = block.columns.len() + 3 * block.per_row;
                cells.resize(width, String::new());
            }
            format.write_line(self.writer, &cells)?;
        }
        Ok(())
    }

    fn json_lines(&mut self, block: &Columns) -> io::Result<()> {
        for row in 0..block.rows {
            let mut object = Map::new();
            for (name, column) in &block.columns {
                object.insert(name.to_string(), column.json(row));
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
            Kind::Table(_) => Ok(()),
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
