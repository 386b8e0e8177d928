//! Opens an input: a file, a pipe or standard input, compressed or not.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};

use super::ArraySpec;
use super::compression::Compression;
use super::source::open_file;
use super::stream::read_error;
use crate::Error;

/// Number of bytes from which the format is recognized.
const START: u64 = 8192;

/// An opened input at its first byte.
pub(crate) struct Input {
    pub(super) bytes: Bytes,
    /// The first bytes, unpacked. All of them if there are fewer than [`START`].
    pub(super) start: Vec<u8>,
}

pub(super) enum Bytes {
    /// A file that can be read at any position.
    File(File),
    /// Unpacked bytes that are read from front to back.
    Stream { reader: Box<dyn Read + Send>, can_reopen: bool },
}

impl Input {
    pub(super) fn open(spec: &ArraySpec) -> Result<Self, Error> {
        if spec.is_stdin() {
            return Self::stream(Box::new(io::stdin()), spec, false);
        }
        let mut file = open_file(spec)?;
        let failed = |source| Error::Read { path: spec.path.clone(), source };
        if !file.metadata().map_err(failed)?.is_file() {
            return Self::stream(Box::new(file), spec, false);
        }
        let mut start = Vec::new();
        (&mut file).take(START).read_to_end(&mut start).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        match Compression::of(&start) {
            None => Ok(Self { bytes: Bytes::File(file), start }),
            Some(_) => Self::stream(Box::new(file), spec, true),
        }
    }

    fn stream(mut reader: Box<dyn Read + Send>, spec: &ArraySpec, can_reopen: bool) -> Result<Self, Error> {
        let mut start = peek(&mut reader, spec)?;
        if let Some(compression) = Compression::of(&start) {
            reader = compression.unpack(reader, spec)?;
            start = peek(&mut reader, spec)?;
        }
        Ok(Self { bytes: Bytes::Stream { reader, can_reopen }, start })
    }

    /// All unpacked bytes from the first.
    pub(super) fn into_reader(self) -> Box<dyn Read + Send> {
        match self.bytes {
            Bytes::File(file) => Box::new(file),
            Bytes::Stream { reader, .. } => reader,
        }
    }

    /// The file, for formats that are not read from front to back.
    pub(super) fn into_file(self, spec: &ArraySpec, format: super::Format) -> Result<File, Error> {
        match self.bytes {
            Bytes::File(file) => Ok(file),
            Bytes::Stream { .. } => {
                let problem = format!(
                    "{format} data are read only from an uncompressed file, not from standard input, a pipe, gzip or zstd data: \
                     save them to a file"
                );
                Err(Error::BadFile { spec: spec.clone(), problem })
            }
        }
    }
}

/// The first bytes of a reader, which is then at its first byte again.
fn peek(reader: &mut Box<dyn Read + Send>, spec: &ArraySpec) -> Result<Vec<u8>, Error> {
    let mut start = Vec::new();
    reader.take(START).read_to_end(&mut start).map_err(|error| read_error(spec, error))?;
    let rest = std::mem::replace(reader, Box::new(io::empty()));
    *reader = Box::new(Cursor::new(start.clone()).chain(rest));
    Ok(start)
}
