//! Tables of text: csv and tsv, with or without a header.
//!
//! The first line is a header when none of its cells is a number and some cell below is, when it numbers the columns or
//! leaves the first name empty as pandas does (that column of row numbers is then left out), or when it holds the column
//! that was asked for.

use std::fs::File;

use csv::{Reader, ReaderBuilder, StringRecord};
use nuq::Label;

use super::ArraySpec;
use super::source::open_file;
use crate::Error;

pub(crate) struct Table {
    /// Column names, when the first line is not numbers and the rest is not like it.
    header: Option<Vec<String>>,
    records: Vec<StringRecord>,
}

impl Table {
    pub(crate) fn open(spec: &ArraySpec, delimiter: u8) -> Result<Self, Error> {
        let mut reader: Reader<File> =
            ReaderBuilder::new().delimiter(delimiter).has_headers(false).from_reader(open_file(spec)?);
        let mut records = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|e| Error::BadFile { spec: spec.clone(), problem: e.to_string() })?;
            records.push(record);
        }
        let is_number = |cell: &str| cell.trim().parse::<f64>().is_ok();
        // A header names columns: it has no number in it, and where a name was asked for it has that.
        let is_header = records.first().is_some_and(|first| match &spec.name {
            Some(name) => first.iter().any(|cell| cell.trim() == name),
            // pandas leaves the name of its index empty,
            None if first.len() > 1 && first[0].is_empty() => true,
            // and numbers the columns of a frame without names.
            None if first.len() > 1 && first.iter().enumerate().all(|(i, cell)| cell == i.to_string()) => {
                true
            }
            None => {
                !first.iter().any(is_number)
                    && (records.len() == 1 || records[1..].iter().any(|row| row.iter().any(is_number)))
            }
        });
        let header = is_header.then(|| records.remove(0).iter().map(|cell| cell.trim().to_owned()).collect());
        let mut table = Self { header, records };
        table.drop_index();
        Ok(table)
    }

    /// Leaves out the row numbers that pandas writes as a first column without a name.
    fn drop_index(&mut self) {
        if let Some(header) = &mut self.header
            && header.len() > 1
            && header[0].is_empty()
        {
            header.remove(0);
            self.records.iter_mut().for_each(|record| *record = record.iter().skip(1).collect());
        }
    }

    /// The line of a record in the file, as editors count.
    fn line(&self, row: usize) -> usize {
        row + 1 + usize::from(self.header.is_some())
    }

    /// All columns as numbers, and how many columns there are.
    pub(crate) fn numbers(self, spec: &ArraySpec) -> Result<(Vec<f32>, usize), Error> {
        if let Some(name) = &spec.name {
            let problem = format!("embeddings are all columns of a table; leave `:{name}` out");
            return Err(Error::BadFile { spec: spec.clone(), problem });
        }
        let dim = self.records.first().map_or(0, StringRecord::len);
        if dim == 0 {
            let problem = "the table has no rows".to_owned();
            return Err(Error::BadFile { spec: spec.clone(), problem });
        }
        let mut values = Vec::with_capacity(self.records.len() * dim);
        for (row, record) in self.records.iter().enumerate() {
            for (column, cell) in record.iter().enumerate() {
                values.push(match cell.trim() {
                    // What is missing is not a number: refused or skipped with those.
                    "" => f32::NAN,
                    cell => cell.parse().map_err(|_| self.bad_cell(spec, row, column, cell))?,
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

    /// Integers when all are, strings otherwise.
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

    /// The column of a name, or the only one.
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

    fn bad_cell(&self, spec: &ArraySpec, row: usize, column: usize, cell: &str) -> Error {
        let name = self.header.as_ref().and_then(|header| header.get(column));
        let column = name.map_or(format!("column {column}"), |name| format!("column `{name}`"));
        let problem = format!("line {}, {column} is `{cell}`, not a number", self.line(row));
        Error::BadFile { spec: spec.clone(), problem }
    }
}
