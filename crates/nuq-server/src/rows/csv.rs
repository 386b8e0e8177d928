//! csv data in blocks, with or without a header line.

use std::io::{self, Read};

use csv::{ByteRecord, Reader, ReaderBuilder};
use nuq::Label;

use super::{BLOCK, Blocks, BodyReader, Columns, Failure, embeddings};
use crate::batch::Rows;
use crate::error::ApiError;

pub(super) struct CsvBlocks {
    reader: Reader<LineEnds>,
    columns: Columns,
    /// The names in the header; `None` without a header, or if it numbers the columns.
    names: Option<Vec<String>>,
    /// The first line if it is a row and not a header.
    first: Option<ByteRecord>,
    /// Whether the first column contains row numbers. pandas writes them in a column with an empty name.
    has_index: bool,
    /// Number of rows that have been read.
    rows: usize,
    /// Whether a block was returned. A body without rows has one empty block.
    is_started: bool,
    failure: Failure,
}

/// Replaces the line ends `\r\n` and `\r` by `\n`, and adds one to a last line without a line end, because the csv reader counts lines by `\n`.
struct LineEnds {
    body: BodyReader,
    /// The last byte of the body that was read; `\n` before the first byte.
    last: u8,
}

impl Read for LineEnds {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.body.read(buffer)?;
            if read == 0 && !buffer.is_empty() && !matches!(self.last, b'\r' | b'\n') {
                self.last = b'\n';
                buffer[0] = b'\n';
                return Ok(1);
            }
            let mut kept = 0;
            for at in 0..read {
                let byte = buffer[at];
                let is_second = byte == b'\n' && self.last == b'\r';
                self.last = byte;
                if !is_second {
                    buffer[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
            }
            // If all bytes that were read are dropped, more are read, because 0 would mean the end of the data.
            if kept > 0 || read == 0 {
                return Ok(kept);
            }
        }
    }
}

/// Number of columns from which a first line 0, 1, 2, … is certainly a header. The command line has the same number for files.
const NUMBERED_COLUMNS: usize = 10;

/// The meaning of the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstLine {
    Row,
    /// Names of columns.
    Header,
    /// 0, 1, 2, …, as pandas writes for columns without names.
    Numbers,
}

impl FirstLine {
    /// Classifies the first line by the rules of the command line, without the other lines, because they may not have arrived yet. A line
    /// without numbers is a header, and a line with numbers is a row, except the names of the training columns and the headers of pandas.
    /// An error for a line of numbers that may be either.
    fn of(record: &ByteRecord, columns: &Columns) -> Result<Self, ApiError> {
        let cells = || record.iter().map(<[u8]>::trim_ascii);
        let is_numbered =
            record.len() > 1 && cells().enumerate().all(|(i, cell)| cell == i.to_string().as_bytes());
        if is_numbered && record.len() == columns.count && record.len() < NUMBERED_COLUMNS {
            let message = "the first line is 0, 1, 2, …, and may be a row or the numbers that pandas writes for columns without names: write \
                           the row with decimal points, or remove the line";
            return Err(ApiError::invalid(message));
        }
        if is_numbered {
            return Ok(Self::Numbers);
        }
        // A line with one column more than the model and an empty first cell is the header of a table with an index, which pandas writes as
        // the first column.
        let has_index = record.len() == columns.count + 1 && cells().next().is_some_and(<[u8]>::is_empty);
        let names = || cells().skip(usize::from(has_index));
        let are_numbers = names().all(|cell| number(cell).is_some());
        if has_index {
            return match are_numbers && !are_increasing(names()) {
                true => Err(ApiError::invalid(
                    "the first line has an empty cell and numbers, and may be a row or a header: write the names of the columns, with an \
                     empty name for the row numbers",
                )),
                false => Ok(Self::Header),
            };
        }
        if columns.are_names(names()) {
            return match are_numbers && record.len() < NUMBERED_COLUMNS {
                true => Err(ApiError::invalid(
                    "the first line may be a row or the names of the columns, which are numbers: write the row with decimal points, or \
                     remove the line",
                )),
                false => Ok(Self::Header),
            };
        }
        // Cells with missing values do not make a line a header. Such a line is a row, and an error names its missing value later.
        let is_row = cells().any(|cell| number(cell).is_some() || !cell.is_empty() && is_missing(cell))
            || cells().all(<[u8]>::is_empty);
        Ok(if is_row { Self::Row } else { Self::Header })
    }
}

/// Whether the cells are increasing integers, as the numbers of columns are.
fn are_increasing<'c>(cells: impl Iterator<Item = &'c [u8]>) -> bool {
    let integer = |cell: &[u8]| str::from_utf8(cell).ok()?.parse::<u64>().ok();
    cells.map(integer).collect::<Option<Vec<u64>>>().is_some_and(|numbers| numbers.is_sorted_by(|a, b| a < b))
}

impl CsvBlocks {
    pub(super) fn open(body: BodyReader, columns: Columns) -> Result<Self, ApiError> {
        let failure = body.failure();
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(LineEnds { body, last: b'\n' });
        let mut record = ByteRecord::new();
        reader.read_byte_record(&mut record).map_err(|error| failure.or(damaged(&error)))?;
        let first_line = FirstLine::of(&record, &columns)?;
        let is_header = first_line != FirstLine::Row;
        let has_index = is_header && record.len() > 1 && record[0].trim_ascii().is_empty();
        let mut header = None;
        if is_header {
            // A line without commas is one cell. The header of a model with one column may be such a cell.
            if record.len() == 1 && columns.count != 1 {
                check_separator(&record[0])?;
            }
            let names = record.iter().skip(usize::from(has_index));
            let names: Vec<String> =
                names.map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned()).collect();
            columns.check_count(names.len())?;
            columns.check_names(&names)?;
            header = (first_line == FirstLine::Header).then_some(names);
        }
        let first = (!is_header).then_some(record);
        Ok(Self { reader, columns, names: header, first, has_index, rows: 0, is_started: false, failure })
    }

    fn push(&mut self, record: &ByteRecord, values: &mut Vec<f32>) -> Result<(), ApiError> {
        let cells = record.iter().skip(usize::from(self.has_index));
        let line = record.position().map_or(0, csv::Position::line);
        if cells.len() != self.columns.count {
            let message = format!(
                "line {line} has {} columns, but the model was fitted to {}",
                cells.len(),
                self.columns.count
            );
            return Err(ApiError::invalid(message));
        }
        for (column, cell) in cells.enumerate() {
            let Some(value) = number(cell) else {
                let remedy = if line == 1 { ": if the line is a header, remove it" } else { "" };
                return Err(ApiError::invalid(format!(
                    "line {line}, column {} is `{}`, not a number{remedy}",
                    self.column(column),
                    shortened(&String::from_utf8_lossy(cell))
                )));
            };
            if !value.is_finite() {
                return Err(ApiError::invalid(format!(
                    "line {line}, column {} is {value}: all values must be finite 32-bit numbers",
                    self.column(column)
                )));
            }
            values.push(value);
        }
        self.rows += 1;
        Ok(())
    }

    /// Refuses a blank line between the rows of one column, where it is an empty cell. `line` is the line before the record was read. The csv
    /// reader ignores blank lines, so later rows would have the results of other rows.
    fn check_blank_lines(&self, line: u64, record: &ByteRecord) -> Result<(), ApiError> {
        // A quoted cell may contain line breaks.
        let breaks = record.iter().flatten().filter(|byte| **byte == b'\n').count() as u64;
        let lines = (self.reader.position().line() - line).saturating_sub(breaks);
        if self.columns.count == 1 && record.len() == 1 && lines > 1 {
            let message = format!("row {} is a blank line: write its value, or remove the line", self.rows);
            return Err(ApiError::invalid(message));
        }
        Ok(())
    }

    /// A column as in the messages of the command line: its name if there is a header, otherwise its number, counted from zero.
    fn column(&self, column: usize) -> String {
        match &self.names {
            Some(names) => format!("`{}`", shortened(&names[column])),
            None => column.to_string(),
        }
    }
}

impl Blocks for CsvBlocks {
    fn next(&mut self) -> Result<Option<Rows>, ApiError> {
        self.reader.get_mut().body.restart();
        let (first, mut values) = (self.rows, Vec::new());
        if let Some(record) = self.first.take() {
            self.push(&record, &mut values)?;
        }
        let mut record = ByteRecord::new();
        while self.rows - first < BLOCK && !(self.rows > first && self.reader.get_ref().body.is_half_full()) {
            let line = self.reader.position().line();
            let has_more = self.reader.read_byte_record(&mut record);
            if !has_more.map_err(|error| self.failure.or(damaged(&error)))? {
                break;
            }
            self.check_blank_lines(line, &record)?;
            self.push(&record, &mut values)?;
        }
        let is_end = self.rows == first && self.is_started;
        self.is_started = true;
        if is_end {
            return Ok(None);
        }
        Ok(Some(Rows { embeddings: embeddings(values, self.columns.count, first)?, logits: None }))
    }
}

/// Refuses a first line whose cells are separated by semicolons or tabs.
fn check_separator(line: &[u8]) -> Result<(), ApiError> {
    let separators = match nuq_io::cell_separator(line) {
        Some(b';') => "semicolons",
        Some(b'\t') => "tabs",
        _ => return Ok(()),
    };
    let message = format!("the first line has {separators} and no comma: separate the values by commas");
    Err(ApiError::invalid(message))
}

/// The first characters of a cell, for messages.
fn shortened(cell: &str) -> String {
    cell.chars().take(40).collect()
}

/// Whether a cell is empty or a word for a missing value.
fn is_missing(cell: &[u8]) -> bool {
    str::from_utf8(cell).is_ok_and(|cell| Label::MISSING.contains(&cell.trim()))
}

/// A cell as a number.
fn number(cell: &[u8]) -> Option<f32> {
    str::from_utf8(cell).ok()?.trim().parse().ok()
}

fn damaged(error: &csv::Error) -> ApiError {
    ApiError::invalid(format!("the csv data cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The meaning of a first line for a model with two columns, which may have names.
    fn first_line(line: &str, names: Option<[&str; 2]>) -> Result<FirstLine, String> {
        let names = names.map(|names| names.map(str::to_owned).to_vec());
        let record: Vec<&str> = line.split(',').collect();
        FirstLine::of(&ByteRecord::from(record), &Columns { count: 2, names }).map_err(|error| error.message)
    }

    #[test]
    fn a_first_line_with_a_number_is_a_row_unless_it_has_the_names_of_the_columns() {
        for line in ["1.5,2.x", "1,2", "x,2", "nan,x", "1.5,", ",1.5", "NA,x", ","] {
            assert_eq!(first_line(line, None), Ok(FirstLine::Row), "{line}");
            assert_eq!(first_line(line, Some(["a", "b"])), Ok(FirstLine::Row), "{line}");
        }
        for line in ["x,y", ",y", " ,x,y", ",0,1", ",1.5,x", "x,y,z"] {
            assert_eq!(first_line(line, None), Ok(FirstLine::Header), "{line}");
        }
        assert_eq!(first_line("1.5, 2.x", Some(["1.5", "2.x"])), Ok(FirstLine::Header));
        assert_eq!(first_line("0,1,2", None), Ok(FirstLine::Numbers));
        for (line, names) in [("0,1", None), ("10,20", Some(["10", "20"])), (",1.5,0.5", None)] {
            let message = first_line(line, names).unwrap_err();
            assert!(message.contains("may be a row or"), "{line}: {message}");
        }
        assert_eq!(first_line("10.0,20", Some(["10", "20"])), Ok(FirstLine::Row));
    }
}
