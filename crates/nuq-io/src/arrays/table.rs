//! Reads csv and tsv tables, with or without a header.
//!
//! The first line is a header in each of these cases:
//! - none of its cells is a number, and a cell below is;
//! - it holds the names 0, 1, 2, … that pandas gives to unnamed columns;
//! - its first name is empty, as pandas writes the name of its index; that column is then ignored;
//! - it holds all requested columns.
//!
//! If the first line of a csv file contains semicolons and no comma, semicolons are the separator.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};

use csv::{Reader, ReaderBuilder, StringRecord};
use nuq::Label;

use super::ArraySpec;
use super::source::open_file;
use crate::Error;

pub(crate) struct Table {
    /// Column names, if the first line is a header.
    header: Option<Vec<String>>,
    records: Vec<StringRecord>,
}

impl Table {
    /// Reads a table. A first line that contains all of `names` is a header.
    pub(crate) fn open(spec: &ArraySpec, delimiter: u8, names: &[String]) -> Result<Self, Error> {
        let mut file = BufReader::new(open_file(spec)?);
        let delimiter = match delimiter {
            b',' if is_semicolons(&mut file, spec)? => b';',
            other => other,
        };
        let mut reader: Reader<BufReader<File>> =
            ReaderBuilder::new().delimiter(delimiter).has_headers(false).from_reader(file);
        let mut records = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|e| Error::BadFile { spec: spec.clone(), problem: e.to_string() })?;
            records.push(record);
        }
        let is_header = is_header(&records, names);
        let header = is_header.then(|| records.remove(0).iter().map(|cell| cell.trim().to_owned()).collect());
        let mut table = Self { header, records };
        table.drop_index();
        Ok(table)
    }

    /// Removes the index that pandas writes as a first column without a name.
    fn drop_index(&mut self) {
        if let Some(header) = &mut self.header
            && header.len() > 1
            && header[0].is_empty()
        {
            header.remove(0);
            self.records.iter_mut().for_each(|record| *record = record.iter().skip(1).collect());
        }
    }

    /// The line number of a record in the file, counted from one.
    fn line(&self, row: usize) -> usize {
        row + 1 + usize::from(self.header.is_some())
    }

    /// All columns except `without` as numbers in row-major order, and the number of these columns.
    pub(crate) fn numbers(self, spec: &ArraySpec, without: &[String]) -> Result<(Vec<f32>, usize), Error> {
        let bad = |problem: &str| Error::BadFile { spec: spec.clone(), problem: problem.to_owned() };
        let columns = self.records.first().map_or(0, StringRecord::len);
        if columns == 0 {
            return Err(bad("the table has no rows"));
        }
        let excluded: Result<HashSet<usize>, Error> =
            without.iter().map(|name| self.column(&spec.named(name))).collect();
        let excluded = excluded?;
        let dim = columns - excluded.len();
        if dim == 0 {
            return Err(bad("no column is left: all columns are excluded"));
        }
        let mut values = Vec::with_capacity(self.records.len() * dim);
        for (row, record) in self.records.iter().enumerate() {
            for (column, cell) in record.iter().enumerate().filter(|(column, _)| !excluded.contains(column)) {
                values.push(match cell.trim() {
                    // A missing value is NaN, which is rejected or skipped later.
                    "" => f32::NAN,
                    cell => cell.parse().map_err(|_| self.bad_coordinate(spec, row, column, cell))?,
                });
            }
        }
        Ok((values, dim))
    }

    pub(crate) fn targets(self, spec: &ArraySpec) -> Result<Vec<f64>, Error> {
        let column = self.column(spec)?;
        let read = |(row, record): (usize, &StringRecord)| {
            let cell = record.get(column).unwrap_or_default();
            cell.trim().parse::<f64>().map_err(|_| self.bad_cell(spec, row, column, cell))
        };
        self.records.iter().enumerate().map(read).collect()
    }

    /// A column as labels: integers if all cells are integers, strings otherwise.
    pub(crate) fn labels(self, spec: &ArraySpec) -> Result<Vec<Label>, Error> {
        let column = self.column(spec)?;
        let is_empty = |record: &StringRecord| record.get(column).unwrap_or_default().trim().is_empty();
        if let Some(row) = self.records.iter().position(is_empty) {
            let problem = format!("line {} has no label", self.line(row));
            return Err(Error::BadFile { spec: spec.clone(), problem });
        }
        let cells = || self.records.iter().map(|record| record.get(column).unwrap_or_default().trim());
        let integers: Option<Vec<Label>> = cells().map(|cell| cell.parse().ok().map(Label::Int)).collect();
        Ok(integers.unwrap_or_else(|| cells().map(Label::from).collect()))
    }

    /// The requested column, or the only one if none was requested.
    fn column(&self, spec: &ArraySpec) -> Result<usize, Error> {
        let columns = self.records.first().map_or(0, StringRecord::len);
        let found = match (&spec.name, &self.header) {
            (Some(name), Some(header)) => header.iter().position(|column| column == name),
            (None, _) if columns == 1 => Some(0),
            _ => None,
        };
        found.ok_or_else(|| Error::NoSuchArray {
            spec: spec.clone(),
            present: self
                .header
                .clone()
                .unwrap_or_else(|| (0..columns).map(|i| format!("(column {i}, unnamed)")).collect()),
        })
    }

    fn name(&self, column: usize) -> Option<&String> {
        self.header.as_ref().and_then(|header| header.get(column))
    }

    fn bad_cell(&self, spec: &ArraySpec, row: usize, column: usize, cell: &str) -> Error {
        let column = self.name(column).map_or(format!("column {column}"), |name| format!("column `{name}`"));
        let problem = format!("line {}, {column} is `{cell}`, not a number", self.line(row));
        Error::BadFile { spec: spec.clone(), problem }
    }

    /// The error of a cell of a table of embeddings. It suggests to exclude the column.
    fn bad_coordinate(&self, spec: &ArraySpec, row: usize, column: usize, cell: &str) -> Error {
        match (self.bad_cell(spec, row, column, cell), self.name(column)) {
            (Error::BadFile { spec, problem }, Some(name)) => {
                let hint =
                    format!("if `{name}` is not a coordinate, exclude it as {}:-{name}", spec.path.display());
                Error::BadFile { problem: format!("{problem}; {hint}"), spec }
            }
            (error, _) => error,
        }
    }
}

/// Whether the first line is a header; see the module documentation.
fn is_header(records: &[StringRecord], names: &[String]) -> bool {
    let Some((first, rest)) = records.split_first() else { return false };
    let has = |name: &String| first.iter().any(|cell| cell.trim() == name);
    if !names.is_empty() && names.iter().all(has) {
        return true;
    }
    let is_numbered = || first.iter().enumerate().all(|(i, cell)| cell == i.to_string());
    if first.len() > 1 && (first[0].is_empty() || is_numbered()) {
        return true;
    }
    let is_number = |cell: &str| cell.trim().parse::<f64>().is_ok();
    let has_number = |row: &StringRecord| row.iter().any(is_number);
    !has_number(first) && (rest.is_empty() || rest.iter().any(has_number))
}

/// Whether the first line is separated by semicolons, as spreadsheets write it in locales with a decimal comma.
fn is_semicolons(file: &mut BufReader<File>, spec: &ArraySpec) -> Result<bool, Error> {
    let start = file.fill_buf().map_err(|source| Error::Read { path: spec.path.clone(), source })?;
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(!line.contains(&b',') && line.contains(&b';'))
}
