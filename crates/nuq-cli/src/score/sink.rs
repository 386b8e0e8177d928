//! Where scores go: csv, lines of JSON, or arrays in an npz file; all of it or nothing.

use std::io::{self, Write};
use std::path::Path;

use nuq::Label;
use nuq_io::{NpzArray, write_npz};
use serde_json::{Map, Value, json};

use super::columns::{Column, Columns, Said};
use crate::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Csv,
    JsonLines,
    Npz,
}

/// The kind that a name's ending says.
pub(super) fn kind_of(out: &Path, as_json: bool) -> Result<Kind, Error> {
    match out.extension().map(|e| e.to_string_lossy().to_lowercase()).as_deref() {
        Some("csv") => Ok(Kind::Csv),
        Some("jsonl" | "ndjson") => Ok(Kind::JsonLines),
        Some("npz") => Ok(Kind::Npz),
        _ if out.as_os_str() == "-" => Ok(if as_json { Kind::JsonLines } else { Kind::Csv }),
        _ => Err(Error::Usage(format!(
            "--out {}: scores go to .csv, .jsonl or .npz files, or to -",
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
    /// Blocks of an npz file, which is written at the end.
    kept: Vec<Kept>,
}

/// An array that grows block by block.
struct Kept {
    name: String,
    values: Values,
}

enum Values {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Words(Vec<String>),
    /// Numbers, so many a row.
    Wide(Vec<f64>, usize),
    WideIntegers(Vec<i64>, usize),
    WideWords(Vec<String>, usize),
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
            let mut sink = Sink { kind, writer, is_begun: false, kept: vec![] };
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
                self.keep(block);
                Ok(())
            }
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

    fn keep(&mut self, block: &Columns) {
        for (name, column) in &block.columns {
            let values = match column {
                Column::Integers(values) => {
                    Values::Integers(values.iter().map(|v| v.unwrap_or_default()).collect())
                }
                Column::Numbers(values) => {
                    Values::Numbers(values.iter().map(|v| v.unwrap_or(f64::NAN)).collect())
                }
                Column::Labels(values) => match values.iter().map(|v| v.as_ref().and_then(integer)).collect()
                {
                    Some(integers) => Values::Integers(integers),
                    None => Values::Words(
                        values.iter().map(|v| v.as_ref().map_or(String::new(), Label::to_string)).collect(),
                    ),
                },
                Column::Words(values) => {
                    Values::Words(values.iter().map(|v| v.unwrap_or_default().to_owned()).collect())
                }
            };
            self.append(name, values);
        }
        if let Some(neighbors) = &block.neighbors {
            let width = block.per_row;
            let wide = |of: &dyn Fn(usize, usize) -> Option<f64>| {
                (0..block.rows)
                    .flat_map(|row| (0..width).map(move |i| of(row, i).unwrap_or(f64::NAN)))
                    .collect()
            };
            let ids = (0..block.rows).flat_map(|row| {
                (0..width).map(move |i| neighbors[row].get(i).map_or(-1, |n| i64::from(n.id)))
            });
            self.append("neighbor_ids", Values::WideIntegers(ids.collect(), width));
            let distances = wide(&|row, i| neighbors[row].get(i).map(|n| n.distance));
            self.append("neighbor_distances", Values::Wide(distances, width));
            let said = |row: usize, i: usize| neighbors[row].get(i).map(|neighbor| &neighbor.said);
            let targets = wide(&|row, i| match said(row, i) {
                Some(Said::Target(target)) => Some(*target),
                _ => None,
            });
            let labels = (0..block.rows).flat_map(|row| (0..width).map(move |i| (row, i)));
            let labels = labels.map(|(row, i)| match said(row, i) {
                Some(Said::Label(label)) => label.to_string(),
                _ => String::new(),
            });
            match block.columns.iter().any(|(name, _)| *name == "label") {
                true => self.append("neighbor_labels", Values::WideWords(labels.collect(), width)),
                false => self.append("neighbor_targets", Values::Wide(targets, width)),
            }
        }
    }

    fn append(&mut self, name: &str, values: Values) {
        let Some(kept) = self.kept.iter_mut().find(|kept| kept.name == name) else {
            self.kept.push(Kept { name: name.to_owned(), values });
            return;
        };
        match (&mut kept.values, values) {
            (Values::Integers(all), Values::Integers(more)) => all.extend(more),
            (Values::Numbers(all), Values::Numbers(more)) => all.extend(more),
            (Values::Words(all), Values::Words(more)) => all.extend(more),
            (Values::Wide(all, _), Values::Wide(more, _)) => all.extend(more),
            (Values::WideIntegers(all, _), Values::WideIntegers(more, _)) => all.extend(more),
            (Values::WideWords(all, _), Values::WideWords(more, _)) => all.extend(more),
            // Integer labels of which a later block lacks some: all of them become strings.
            (all @ Values::Integers(_), Values::Words(more)) => {
                let Values::Integers(numbers) = all else { unreachable!("matched above") };
                let mut words: Vec<String> = numbers.iter().map(i64::to_string).collect();
                words.extend(more);
                *all = Values::Words(words);
            }
            (Values::Words(all), Values::Integers(more)) => all.extend(more.iter().map(i64::to_string)),
            _ => unreachable!("a column keeps its kind"),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.kind != Kind::Npz {
            return Ok(());
        }
        let arrays: Vec<NpzArray<'_>> = self
            .kept
            .iter()
            .map(|Kept { name, values }| match values {
                Values::Integers(values) => NpzArray::integers(name, values, None),
                Values::Numbers(values) => NpzArray::numbers(name, values, None),
                Values::Words(values) => NpzArray::words(name, values, None),
                Values::WideWords(values, width) => NpzArray::words(name, values, Some(*width)),
                Values::Wide(values, width) => NpzArray::numbers(name, values, Some(*width)),
                Values::WideIntegers(values, width) => NpzArray::integers(name, values, Some(*width)),
            })
            .collect();
        write_npz(self.writer, &arrays)
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

/// The label as an integer that numpy holds.
fn integer(label: &Label) -> Option<i64> {
    match label {
        Label::Int(value) => i64::try_from(*value).ok(),
        Label::Text(_) => None,
    }
}

fn label_json(label: &Label) -> Value {
    match label {
        Label::Int(value) => i64::try_from(*value).map_or_else(|_| json!(value.to_string()), |v| json!(v)),
        Label::Text(text) => json!(text),
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
