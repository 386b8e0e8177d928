//! Reads the rows of a request. JSON is read into memory as a whole; npy, csv and Arrow data are read in blocks. The first bytes of a
//! body determine its format.

mod arrow;
mod csv;
mod json;
mod npy;

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes};
use nuq::{Embeddings, FittedModel, Model};
use tokio::runtime::Handle;

pub(crate) use json::{Matrix, Numbers, parse as parse_json};

use crate::App;
use crate::batch::Rows;
use crate::error::ApiError;
use crate::limits::{Frames, Memory};

/// Largest number of rows of a block. The blocks of a request are scored one after the other.
pub(crate) const BLOCK: usize = 1024;

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Npy,
    Csv,
    Arrow,
}

impl Format {
    /// The format of a body that begins with `start`; an error if it is none of these.
    pub(crate) fn of(start: &[u8]) -> Result<Self, ApiError> {
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
        match text.first() {
            Some(b'{' | b'[') => Ok(Self::Json),
            _ if start.starts_with(b"\x93NUMPY") => Ok(Self::Npy),
            _ if start.starts_with(&[0xff; 4]) => Ok(Self::Arrow),
            Some(byte) if (b' '..0x7f).contains(byte) && !start.starts_with(b"PK") => Ok(Self::Csv),
            None => {
                Err(ApiError::invalid("the body is empty: send rows as JSON, npy, csv or an Arrow stream"))
            }
            _ => Err(ApiError::invalid(
                "the body is neither JSON nor npy nor csv nor an Arrow stream: send one of these, uncompressed",
            )),
        }
    }
}

/// The columns that the rows of a request must have.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    pub(crate) count: usize,
    /// Names of the columns of the training rows.
    names: Option<Vec<String>>,
}

impl Columns {
    pub(crate) fn of(model: &Model<'_>) -> Self {
        Self { count: model.index().dim(), names: model.column_names().map(<[String]>::to_vec) }
    }

    fn check_count(&self, count: usize) -> Result<(), ApiError> {
        if count == self.count {
            return Ok(());
        }
        Err(ApiError::invalid(format!(
            "the rows have {count} columns, but the model was fitted to {}: use embeddings of the same layer",
            self.count
        )))
    }

    /// Whether these are the names of the columns of the training rows.
    fn are_names<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> bool {
        self.names.as_ref().is_some_and(|expected| expected.iter().map(String::as_bytes).eq(names))
    }

    /// Checks that columns have the names that the training rows have. The names 0, 1, 2, … mean that the columns have no names.
    fn check_names(&self, names: &[String]) -> Result<(), ApiError> {
        let are_numbers = names.iter().enumerate().all(|(i, name)| *name == i.to_string());
        let (Some(expected), false) = (&self.names, are_numbers) else { return Ok(()) };
        match expected.iter().zip(names).position(|(expected, name)| expected != name) {
            None => Ok(()),
            Some(i) => Err(ApiError::invalid(format!(
                "column {i} is {:?}, but in the training rows it is {:?}: reorder or rename the columns",
                names[i], expected[i]
            ))),
        }
    }
}

/// Blocks of rows.
pub(crate) trait Blocks {
    /// The next rows, at most [`BLOCK`]; `None` at the end.
    fn next(&mut self) -> Result<Option<Rows>, ApiError>;
}

/// The blocks of a streamed body.
pub(crate) fn stream(
    format: Format,
    body: BodyReader,
    columns: Columns,
) -> Result<Box<dyn Blocks>, ApiError> {
    Ok(match format {
        Format::Npy => Box::new(npy::NpyBlocks::open(body, &columns)?),
        Format::Csv => Box::new(csv::CsvBlocks::open(body, columns)?),
        Format::Arrow => Box::new(arrow::ArrowBlocks::open(body, columns)?),
        Format::Json => unreachable!("JSON is held in memory"),
    })
}

/// Divides rows in memory into blocks.
pub(crate) struct HeldBlocks {
    rows: Rows,
    next: usize,
    /// The memory of the rows, which counts toward the limit.
    _memory: Memory,
}

impl HeldBlocks {
    pub(crate) fn new(rows: Rows, memory: Memory) -> Self {
        Self { rows, next: 0, _memory: memory }
    }
}

impl Blocks for HeldBlocks {
    fn next(&mut self) -> Result<Option<Rows>, ApiError> {
        let (first, len) = (self.next, self.rows.embeddings.len());
        // A request without rows has one empty block, so that the response contains its columns, such as the header line of csv.
        if first >= len && first > 0 || self.next == usize::MAX {
            return Ok(None);
        }
        let last = len.min(first + BLOCK);
        self.next = if last == 0 { usize::MAX } else { last };
        Ok(Some(part(&self.rows, first..last)))
    }
}

/// A range of rows.
pub(crate) fn part(rows: &Rows, range: std::ops::Range<usize>) -> Rows {
    let cut = |embeddings: &Embeddings<'static>| {
        if range == (0..embeddings.len()) {
            return embeddings.clone();
        }
        let dim = embeddings.dim();
        let values = embeddings.as_slice()[range.start * dim..range.end * dim].to_vec();
        Embeddings::new(values, dim).expect("rows of valid embeddings are valid")
    };
    Rows { embeddings: cut(&rows.embeddings), logits: rows.logits.as_ref().map(cut) }
}

/// Values as embeddings; `first` is the number of the first row in messages.
fn embeddings(values: Vec<f32>, columns: usize, first: usize) -> Result<Embeddings<'static>, ApiError> {
    Embeddings::new(values, columns).map_err(|error| match error {
        nuq_neighbors::Error::NotFinite { row, column, value } => ApiError::invalid(format!(
            "row {}, column {column} is {value}: all values must be finite",
            first + row
        )),
        other => ApiError::invalid(other.to_string()),
    })
}

/// Reads a streamed body. It blocks, so it is used on a thread for blocking tasks.
pub(crate) struct BodyReader {
    frames: Frames,
    runtime: Handle,
    current: Bytes,
    /// Number of bytes that were read for the current block of rows, which may span several parts of the body.
    used: usize,
    /// Largest number of bytes of a block.
    limit: usize,
    memory: Memory,
    app: Arc<App>,
    failure: Failure,
}

/// The reason why a body could not be read. It is stored here, because the readers of the formats do not include it in their errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<ApiError>>>);

impl Failure {
    /// The stored reason if there is one, otherwise `error`.
    fn or(&self, error: ApiError) -> ApiError {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(error)
    }
}

impl BodyReader {
    /// The body that begins with `start` and continues with `frames`.
    pub(crate) fn new(app: Arc<App>, start: Vec<u8>, frames: Frames) -> Self {
        let limit = app.capacity.limits.body_bytes;
        Self {
            frames,
            runtime: Handle::current(),
            current: start.into(),
            used: 0,
            limit,
            memory: Memory::default(),
            app,
            failure: Failure::default(),
        }
    }

    /// Begins a block, for which the limits of bytes and time apply anew.
    fn restart(&mut self) {
        self.used = 0;
        self.frames.restart();
    }

    /// Number of rows of `row_bytes` bytes that fit into a block, at least 1.
    fn rows_per_block(&self, row_bytes: usize) -> usize {
        (self.limit / row_bytes.max(1)).clamp(1, BLOCK)
    }

    /// Whether the current block should end, because further rows could exceed the largest size of a block.
    fn is_half_full(&self) -> bool {
        self.used > self.limit / 2
    }

    fn failure(&self) -> Failure {
        self.failure.clone()
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = (|| {
            while self.current.is_empty() {
                match self.runtime.block_on(self.frames.next())? {
                    Some(chunk) => self.current = chunk,
                    None => return Ok(0),
                }
            }
            let len = buffer.len().min(self.current.len());
            self.used += len;
            if self.used > self.limit {
                return Err(ApiError::too_large(
                    "block_too_large",
                    format!(
                        "a block of rows has more than {} bytes (--max-body-bytes): send shorter rows or record batches",
                        self.limit
                    ),
                ));
            }
            self.memory.grow(&self.app, self.used)?;
            buffer[..len].copy_from_slice(&self.current[..len]);
            self.current.advance(len);
            Ok(len)
        })();
        result.map_err(|error: ApiError| {
            *self.failure.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            io::Error::other("the body could not be read")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_determine_the_format() {
        let format = |start: &[u8]| Format::of(start).ok();
        assert_eq!(format(b" \n[[1,2]]"), Some(Format::Json));
        assert_eq!(format(b"{\"rows\":[]}"), Some(Format::Json));
        assert_eq!(format(b"\x93NUMPY\x01\0"), Some(Format::Npy));
        assert_eq!(format(b"\xff\xff\xff\xff\x10\0\0\0"), Some(Format::Arrow));
        assert_eq!(format(b"a,b\n1,2\n"), Some(Format::Csv));
        assert_eq!(format(b"\xef\xbb\xbfa,b\n"), Some(Format::Csv));
        assert_eq!(format(b"-1.5,2\n"), Some(Format::Csv));
        // The beginning of a Parquet file, `PAR1`, is text. It is taken for csv here, and the csv reader refuses it.
        assert_eq!(format(b"PAR1\0"), Some(Format::Csv));
        for start in [&b""[..], b"\x1f\x8b\x08", b"PK\x03\x04", b"\0\0"] {
            assert_eq!(format(start), None, "{start:?}");
        }
    }
}
