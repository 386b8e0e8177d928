//! Reads the records of a csv or tsv file one by one, with a limit on their size.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use csv::{ByteRecord, ReaderBuilder, StringRecord};

use super::ArraySpec;
use super::source::open_file;
use crate::Error;

/// Size limit of one record in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Limit on the number of columns.
const MAX_COLUMNS: usize = 1 << 20;

pub(super) struct Records<'s> {
    spec: &'s ArraySpec,
    reader: csv::Reader<LimitedReader>,
}

/// A record and the number of its first line in the file, counted from one.
pub(super) struct Record {
    pub(super) cells: StringRecord,
    pub(super) line: u64,
}

impl<'s> Records<'s> {
    /// Opens a file. If the first line of a comma-separated file contains semicolons and no comma, semicolons are the
    /// separator.
    pub(super) fn open(spec: &'s ArraySpec, delimiter: u8) -> Result<Self, Error> {
        let mut file = BufReader::new(open_file(spec)?);
        let delimiter = match delimiter {
            b',' if is_semicolons(&mut file, spec)? => b';',
            other => other,
        };
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .from_reader(LimitedReader { file, bytes: 0 });
        Ok(Self { spec, reader })
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
                    csv::ErrorKind::Io(source) => Error::Read { path: self.spec.path.clone(), source },
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
    file: BufReader<File>,
    bytes: usize,
}

impl LimitedReader {
    fn is_exceeded(&self) -> bool {
        self.bytes > MAX_BYTES
    }
}

impl Read for LimitedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read(buffer)?;
        self.bytes += len;
        if self.is_exceeded() { Err(io::Error::other("a record is too long")) } else { Ok(len) }
    }
}

/// Whether the first line is separated by semicolons, as spreadsheets write it in locales with a decimal comma.
fn is_semicolons(file: &mut BufReader<File>, spec: &ArraySpec) -> Result<bool, Error> {
    let start = file.fill_buf().map_err(|source| Error::Read { path: spec.path.clone(), source })?;
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(!line.contains(&b',') && line.contains(&b';'))
}
