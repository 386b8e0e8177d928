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
    /// The number of blank lines before the record.
    pub(super) blank_lines: u64,
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
            .from_reader(LimitedReader::new(input.into_reader()));
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
                        "line {line} has {len} column{}, but the lines before have {expected_len}",
                        if len == 1 { "" } else { "s" }
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
        // The csv reader skips blank lines. A quoted cell may contain line breaks.
        let breaks = record.iter().flatten().filter(|byte| **byte == b'\n').count() as u64;
        let blank_lines = (self.reader.position().line() - line).saturating_sub(breaks + 1);
        let line = line + blank_lines;
        let cells = StringRecord::from_byte_record(record)
            .map_err(|_| bad(format!("line {line} is not valid UTF-8: re-encode the file as UTF-8")))?;
        Ok(Some(Record { cells, line, blank_lines }))
    }
}

/// Reads a text, replaces `\r\n` by `\n`, and adds `\n` if the last line does not end in it. Counts the bytes since the last
/// record and fails if there are too many.
struct LimitedReader {
    reader: Box<dyn Read + Send>,
    bytes: usize,
    /// Whether the last byte that was read is a `\r`, which is passed on unless `\n` follows.
    has_return: bool,
    /// The last byte that was passed on.
    last: u8,
}

impl LimitedReader {
    fn new(reader: Box<dyn Read + Send>) -> Self {
        Self { reader, bytes: 0, has_return: false, last: b'\n' }
    }

    fn is_exceeded(&self) -> bool {
        self.bytes > MAX_BYTES
    }

    /// Reads some bytes of the file: at least one, or none at the end of the file.
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let start = usize::from(self.has_return);
            let len = match self.reader.read(&mut buffer[start..]) {
                // A signal arrived before the first byte.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if self.has_return {
                buffer[0] = b'\r';
                self.has_return = false;
            }
            let kept = match len {
                0 => start,
                _ => self.without_returns(&mut buffer[..start + len]),
            };
            if kept > 0 || len == 0 {
                return Ok(kept);
            }
        }
    }

    /// Removes each `\r` before `\n` and a last `\r`. Returns the number of bytes that are left.
    fn without_returns(&mut self, bytes: &mut [u8]) -> usize {
        if !bytes.contains(&b'\r') {
            return bytes.len();
        }
        let mut kept = 0;
        for i in 0..bytes.len() {
            match (bytes[i], bytes.get(i + 1)) {
                (b'\r', Some(b'\n')) => {}
                (b'\r', None) => self.has_return = true,
                (byte, _) => {
                    bytes[kept] = byte;
                    kept += 1;
                }
            }
        }
        kept
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

/// Whether the first line is separated by semicolons. Spreadsheets write such tables in locales with a decimal comma.
fn has_semicolons(start: &[u8]) -> bool {
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    !line.contains(&b',') && line.contains(&b';')
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

    #[test]
    fn every_line_ends_in_a_line_feed() {
        for size in 1..5 {
            for (text, expected) in [
                ("", ""),
                ("a", "a\n"),
                ("a\n", "a\n"),
                ("a\r\n\r\nb", "a\n\nb\n"),
                ("a\rb\r", "a\rb\r\n"),
                ("\r\r\n", "\r\n"),
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
