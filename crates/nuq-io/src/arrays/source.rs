//! The bytes of an array: a stretch of a file, read when asked for, or memory where they had to be unpacked.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::ArraySpec;
use crate::Error;

pub(crate) enum Source {
    /// From an offset on.
    File(File, u64),
    Memory(Vec<u8>),
}

impl Source {
    /// Whether there are so many bytes: a header may claim more, which must be known before memory is taken.
    pub(crate) fn check(&self, spec: &ArraySpec, len: usize) -> Result<(), Error> {
        let there = match self {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::File(file, offset) => {
                let failed = |source| Error::Read { path: spec.path.clone(), source };
                file.metadata().map_err(failed)?.len().saturating_sub(*offset)
            }
        };
        if len as u64 <= there { Ok(()) } else { Err(cut_short(spec)) }
    }

    /// `len` bytes from `at` on. Reading rather than mapping keeps memory flat while a large file goes by.
    pub(crate) fn read(&mut self, spec: &ArraySpec, at: usize, len: usize) -> Result<Cow<'_, [u8]>, Error> {
        self.check(spec, at.saturating_add(len))?;
        match self {
            Source::Memory(bytes) => Ok(Cow::Borrowed(&bytes[at..at + len])),
            Source::File(file, offset) => {
                let mut bytes = vec![0; len];
                file.seek(SeekFrom::Start(*offset + at as u64))
                    .and_then(|_| file.read_exact(&mut bytes))
                    .map_err(|source| Error::Read { path: spec.path.clone(), source })?;
                Ok(Cow::Owned(bytes))
            }
        }
    }
}

fn cut_short(spec: &ArraySpec) -> Error {
    Error::BadFile {
        spec: spec.clone(),
        problem: "it ends before its array does: it was cut short".to_owned(),
    }
}

/// Opens a file, saying so when it is a folder.
pub(crate) fn open_file(spec: &ArraySpec) -> Result<File, Error> {
    let failed = |source| Error::Read { path: spec.path.clone(), source };
    let file = File::open(&spec.path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder")));
    }
    Ok(file)
}
