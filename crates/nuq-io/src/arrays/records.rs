//! Reads the records of a csv or tsv file one by one, with a limit on their size.

use std::io::{self, Read};

use csv::{ByteRecord, ReaderBuilder, StringRecord};

use super::ArraySpec;
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
    reader: csv::Reader<LimitedReader>,
}

/// A record and the number of its first line in the file, counted from one.
pub(super) struct Record {
    pub(super) cells: StringRecord,
    pub(super) line: u64,
}

impl Records {
    /// Reads from an input. If the first line of a comma-separated table contains semicolons and no comma, semicolons are the
    /// separator.
    pub(super) fn open(spec: &ArraySpec, input: Input, delimiter: u8) -> Self {
        let delimiter = match delimiter {
            b',' if has_semicolons(&input.start) => b';',
            other => other,
        };
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .buffer_capacity(BUFFER)
            .from_reader(LimitedReader { reader: input.into_reader(), bytes: 0 });
        Self { spec: spec.clone(), reader }
    }

    /// The next record, or `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Error> {
        self.reader.get_mut().bytes = 0;
        let line = self.reader.position().line();
        let bad = |problem: String| Error::BadFile { spec: self.spec.clone(), problem };
        let mut record = ByteRecord::new();
        match self.reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if self.reader.get_ref().is_exceeded() => {
                let limit = MAX_BYTES >> 20;
                return Err(bad(format!(
                    "line {line} is longer than {limit} MiB: separate the rows by line breaks and close every quote"
                )));
            }
            Err(error) => {
                return Err(match error.into_kind() {
                    csv::ErrorKind::Io(source) => read_error(&self.spec, source),
                    csv::ErrorKind::UnequalLengths { expected_len, len, .. } => bad(format!(
                        "line {line} has {len} columns, but the lines before have {expected_len}"
                    )),
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
        let line = record.position().map_or(line, csv::Position::line);
        let cells = StringRecord::from_byte_record(record)
            .map_err(|_| bad(format!("line {line} is not valid UTF-8: re-encode the file as UTF-8")))?;
        Ok(Some(Record { cells, line }))
    }
}

/// Counts the bytes since the last record and fails if there are too many.
struct LimitedReader {
    reader: Box<dyn Read + Send>,
    bytes: usize,
}

impl LimitedReader {
    fn is_exceeded(&self) -> bool {
        self.bytes > MAX_BYTES
    }
}

impl Read for LimitedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buffer)?;
        self.bytes += len;
        if self.is_exceeded() { Err(io::Error::other("a record is too long")) } else { Ok(len) }
    }
}

/// Whether the first line is separated by semicolons, as spreadsheets write it in locales with a decimal comma.
fn has_semicolons(start: &[u8]) -> bool {
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    !line.contains(&b',') && line.contains(&b';')
}
