//! Reads the records of a csv or tsv file one by one, with a limit on their size.

use std::io::{self, BufRead, BufReader, Read};

use csv::{ByteRecord, ReaderBuilder, StringRecord};

use super::ArraySpec;
use super::format::cell_separator;
use super::input::Input;
use super::stream::read_error;
use crate::Error;

/// Size limit of one record in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Number of bytes that are read at a time.
const BUFFER: usize = 64 << 10;

/// Limit on the number of columns.
const MAX_COLUMNS: usize = 1 << 20;

pub(super) struct Records {
    spec: ArraySpec,
    /// The separator of the cells.
    delimiter: u8,
    reader: csv::Reader<LimitedReader>,
    /// A record that was read but not yet returned.
    held: Option<Record>,
}

/// A record and the number of its first line in the file, counted from one.
pub(super) struct Record {
    pub(super) cells: StringRecord,
    pub(super) line: u64,
    /// The number of blank lines before the record.
    pub(super) blank_lines: u64,
}

impl Records {
    /// Reads from an input. If the first line of a comma-separated table contains semicolons and no comma, semicolons are the
    /// separator. Spreadsheets write such tables in locales with a decimal comma.
    pub(super) fn open(spec: &ArraySpec, input: Input, delimiter: u8) -> Self {
        let delimiter = match delimiter {
            b',' if cell_separator(&input.start) == Some(b';') => b';',
            other => other,
        };
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .buffer_capacity(BUFFER)
            .from_reader(LimitedReader::new(input.into_reader()));
        Self { spec: spec.clone(), delimiter, reader, held: None }
    }

    /// The separator of the cells.
    pub(super) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// The next row of a table of coordinates, or `None` at the end of the file. In a table with one column, a blank line between other lines
    /// is a row with an empty cell.
    pub(super) fn next_row(&mut self) -> Result<Option<Record>, Error> {
        let Some(mut record) = self.next()? else { return Ok(None) };
        if record.cells.len() != 1 || record.blank_lines == 0 {
            return Ok(Some(record));
        }
        let line = record.line - record.blank_lines;
        record.blank_lines -= 1;
        self.held = Some(record);
        Ok(Some(Record { cells: StringRecord::from(vec![""]), line, blank_lines: 0 }))
    }

    /// Ignores the blank lines before the next record.
    pub(super) fn skip_blank_lines(&mut self) -> Result<(), Error> {
        let record = self.next()?;
        self.held = record.map(|record| Record { blank_lines: 0, ..record });
        Ok(())
    }

    /// The next record, or `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Error> {
        match self.held.take() {
            Some(record) => Ok(Some(record)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Option<Record>, Error> {
        self.reader.get_mut().bytes = 0;
        let start = self.reader.position().line();
        let bad = |problem: String| Error::BadFile { spec: self.spec.clone(), problem };
        let mut record = ByteRecord::new();
        let read = self.reader.read_byte_record(&mut record);
        // The csv reader skips blank lines. A quoted cell may contain line breaks.
        let breaks = record.iter().flatten().filter(|byte| **byte == b'\n').count() as u64;
        let blank_lines = (self.reader.position().line() - start).saturating_sub(breaks + 1);
        let line = start + blank_lines;
        match read {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if self.reader.get_ref().is_exceeded() => {
                let limit = MAX_BYTES >> 20;
                // The record is incomplete: blank lines before it cannot be distinguished from line breaks in a quoted cell.
                let has_breaks = self.reader.position().line() > start;
                let row = if has_breaks { "the row that begins at or after " } else { "" };
                return Err(bad(format!(
                    "{row}line {start} is longer than {limit} MiB: separate the rows by line breaks and close every quote"
                )));
            }
            Err(error) => {
                return Err(match error.into_kind() {
                    csv::ErrorKind::Io(source) => read_error(&self.spec, source),
                    csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                        let is_split = self.delimiter == b',' && expected_len == 1;
                        let number = split_number(&record).filter(|_| is_split);
                        bad(format!(
                            "line {line} has {len} column{}, but the lines before have {expected_len}{}",
                            if len == 1 { "" } else { "s" },
                            number.map_or(String::new(), |number| decimal_comma(&number))
                        ))
                    }
                    other => bad(format!("line {line} cannot be parsed ({other:?})")),
                });
            }
        }
        if record.len() > MAX_COLUMNS {
            let columns = record.len();
            return Err(bad(format!(
                "line {line} has {columns} columns; at most {MAX_COLUMNS} are supported"
            )));
        }
        let cells = StringRecord::from_byte_record(record)
            .map_err(|_| bad(format!("line {line} is not valid UTF-8: re-encode the file as UTF-8")))?;
        Ok(Some(Record { cells, line, blank_lines }))
    }
}

/// Reads a text, removes each `\r` before `\n`, and adds `\n` if the last line does not end in it: the csv reader counts lines by `\n`, and with
/// `\r\n` it would count a line only after it has returned the record. Programs that convert `\n` to `\r\n` twice write `\r\r\n`. Counts the bytes
/// since the last record and fails if there are too many.
struct LimitedReader {
    reader: BufReader<Box<dyn Read + Send>>,
    bytes: usize,
    /// Number of `\r` that were read and not passed on, because `\n` may follow.
    returns: usize,
    /// The last byte that was passed on.
    last: u8,
}

impl LimitedReader {
    fn new(reader: Box<dyn Read + Send>) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER, reader), bytes: 0, returns: 0, last: b'\n' }
    }

    fn is_exceeded(&self) -> bool {
        self.bytes + self.returns > MAX_BYTES
    }

    /// Passes on some bytes of the file: at least one, or none at the end of the file.
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len < buffer.len() && (len == 0 || !self.reader.buffer().is_empty()) && !self.is_exceeded() {
            let input = match self.reader.fill_buf() {
                // A signal arrived before the first byte.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let free = &mut buffer[len..];
            if input.first() == Some(&b'\r') {
                let count = input.iter().take_while(|byte| **byte == b'\r').count();
                self.returns += count;
                self.reader.consume(count);
            } else if self.returns > 0 && input.first() != Some(&b'\n') {
                let count = self.returns.min(free.len());
                free[..count].fill(b'\r');
                self.returns -= count;
                len += count;
            } else if input.is_empty() {
                break;
            } else {
                self.returns = 0;
                let part = &input[..input.len().min(free.len())];
                // Most tables have no `\r`, and `contains` is several times as fast as `position`.
                let end = part.contains(&b'\r').then(|| part.iter().position(|byte| *byte == b'\r'));
                let count = end.flatten().unwrap_or(part.len());
                free[..count].copy_from_slice(&part[..count]);
                self.reader.consume(count);
                len += count;
            }
        }
        Ok(len)
    }
}

impl Read for LimitedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = self.read_some(buffer)?;
        if len == 0 && self.last != b'\n' {
            (buffer[0], len) = (b'\n', 1);
        }
        if let Some(last) = buffer[..len].last() {
            self.last = *last;
        }
        self.bytes += len;
        if self.is_exceeded() { Err(io::Error::other("a record is too long")) } else { Ok(len) }
    }
}

/// The number with a decimal comma, such as `1,5`, if the two cells of a record may be its parts.
fn split_number(record: &ByteRecord) -> Option<String> {
    let (2, Some(integer), Some(decimals)) = (record.len(), record.get(0), record.get(1)) else {
        return None;
    };
    let (integer, decimals) =
        (str::from_utf8(integer).ok()?.trim_start(), str::from_utf8(decimals).ok()?.trim_end());
    let is_digit = |character: char| character.is_ascii_digit();
    let is_number = format!("{integer}.{decimals}").parse::<f64>().is_ok();
    (is_number && integer.ends_with(is_digit) && decimals.starts_with(is_digit))
        .then(|| format!("{integer},{decimals}"))
}

/// The end of the message for a table of one column whose numbers may have decimal commas. With the separator `;`, pandas reads each line
/// as one cell.
fn decimal_comma(number: &str) -> String {
    format!(
        ": if `{number}` is one number with a decimal comma, write decimal points, for example in Python with \
         pandas.read_csv(path, sep=';', decimal=',').to_csv(path, index=False)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its text in pieces of at most the given size. A signal interrupts the reader before each piece.
    struct Pieces(Vec<u8>, usize, bool);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.2 = !self.2;
            if self.2 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let len = self.1.min(self.0.len()).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0.drain(..len);
            Ok(len)
        }
    }

    /// Otherwise the read of a pipe that never ends would not end.
    #[test]
    fn a_run_of_returns_is_limited_like_a_record() {
        let mut reader = LimitedReader::new(Box::new(io::repeat(b'\r')));
        assert_eq!(reader.read(&mut [0; 8]).unwrap_err().to_string(), "a record is too long");
    }

    #[test]
    fn every_line_ends_in_a_line_feed() {
        for size in 1..5 {
            for (text, expected) in [
                ("", ""),
                ("a", "a\n"),
                ("a\n", "a\n"),
                ("a\r\n\r\nb", "a\n\nb\n"),
                ("a\rb\r", "a\rb\r\n"),
                ("\r\r\n", "\n"),
                ("a\r\r\n\r\r\rb\r\r", "a\n\r\r\rb\r\r\n"),
            ] {
                let mut reader = LimitedReader::new(Box::new(Pieces(text.into(), size, false)));
                let mut read = String::new();
                let mut buffer = [0; 8];
                loop {
                    match reader.read(&mut buffer).unwrap() {
                        0 => break,
                        len => read += std::str::from_utf8(&buffer[..len]).unwrap(),
                    }
                }
                assert_eq!(read, expected, "{text:?} in pieces of {size}");
            }
        }
    }
}
