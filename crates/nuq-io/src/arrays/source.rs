//! The bytes of an array: a range of a file, a stream, or a buffer in memory.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::ArraySpec;
use super::stream::Stream;
use crate::Error;

pub(crate) enum Source {
    /// A file and the offset of the array in bytes.
    File(File, u64),
    Stream(Stream),
    Memory(Vec<u8>),
}

impl Source {
    /// Verifies that `len` bytes exist. Call it before allocating memory for the size in a header, which may be wrong. The length
    /// of a stream may be unknown; its buffers grow with the data.
    pub(crate) fn verify_length(&self, spec: &ArraySpec, len: usize) -> Result<(), Error> {
        let available = match self {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::Stream(stream) => return stream.verify_length(spec, len as u64),
            Source::File(file, offset) => {
                let failed = |source| Error::Read { path: spec.path.clone(), source };
                file.metadata().map_err(failed)?.len().saturating_sub(*offset)
            }
        };
        if len as u64 <= available { Ok(()) } else { Err(truncated(spec)) }
    }

    /// Reads `len` bytes at position `at`. The file is read, not mapped, because mapped pages count as memory of the process.
    pub(crate) fn read(&mut self, spec: &ArraySpec, at: usize, len: usize) -> Result<Cow<'_, [u8]>, Error> {
        self.verify_length(spec, at.saturating_add(len))?;
        match self {
            Source::Memory(bytes) => Ok(Cow::Borrowed(&bytes[at..at + len])),
            Source::Stream(stream) => stream.read(spec, at as u64, len as u64).map(Cow::Owned),
            Source::File(file, offset) => {
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(len).map_err(|_| out_of_memory(spec))?;
                file.seek(SeekFrom::Start(*offset + at as u64))
                    .and_then(|_| file.take(len as u64).read_to_end(&mut bytes))
                    .map_err(|source| Error::Read { path: spec.path.clone(), source })?;
                // The file may have become shorter since its length was verified.
                if bytes.len() == len { Ok(Cow::Owned(bytes)) } else { Err(truncated(spec)) }
            }
        }
    }
}

pub(super) fn truncated(spec: &ArraySpec) -> Error {
    Error::BadFile {
        spec: spec.clone(),
        problem: "it is truncated: it ends before the end of the array".to_owned(),
    }
}

pub(super) fn longer_than_shape(spec: &ArraySpec) -> Error {
    let problem = "it holds more values than its shape states".to_owned();
    Error::BadFile { spec: spec.clone(), problem }
}

pub(super) fn out_of_memory(spec: &ArraySpec) -> Error {
    Error::BadFile { spec: spec.clone(), problem: "it does not fit into memory".to_owned() }
}

/// Opens a file. The error for a directory states that it is a folder.
pub(crate) fn open_file(spec: &ArraySpec) -> Result<File, Error> {
    let failed = |source| Error::Read { path: spec.path.clone(), source };
    let file = File::open(&spec.path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        let source =
            std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder: name a file in it");
        return Err(failed(source));
    }
    Ok(file)
}
