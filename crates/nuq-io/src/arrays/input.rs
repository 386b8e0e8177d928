//! Opens an input: a file, a pipe or standard input, compressed or not.

use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ArraySpec;
use super::compression::Compression;
use super::source::open_file;
use super::stream::read_error;
use crate::Error;

/// Number of bytes at the beginning of an input that are examined to recognize its format.
const START: u64 = 8192;

/// The bytes of standard input, once [`buffer_stdin`] has read them.
static HELD: OnceLock<Vec<u8>> = OnceLock::new();

/// Reads standard input into memory. Several arrays with the path `-` can be read afterwards, for example a table and its column of
/// labels. Without this call, the first array reads standard input to its end, and the next array finds it empty.
///
/// # Errors
/// If standard input cannot be read.
pub fn buffer_stdin() -> Result<(), Error> {
    // The lock makes a second thread wait for the first. Otherwise it would read the empty rest of standard input and might store that.
    let mut stdin = io::stdin().lock();
    if HELD.get().is_none() {
        let mut bytes = Vec::new();
        let failed = |source| Error::Read { path: "standard input".into(), source };
        stdin.read_to_end(&mut bytes).map_err(failed)?;
        HELD.set(bytes).expect("only the owner of the lock sets the bytes");
    }
    Ok(())
}

/// An opened input at its first byte.
pub(crate) struct Input {
    pub(super) bytes: Bytes,
    /// The first bytes, unpacked: [`START`] bytes, or all if there are fewer.
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
            return match HELD.get() {
                Some(bytes) => Self::stream(Box::new(&bytes[..]), spec, true),
                None => Self::stream(Box::new(io::stdin()), spec, false),
            };
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

    /// Whether the input can be opened again. This is so for a regular file, and for standard input that is in memory.
    pub(super) fn can_reopen(&self) -> bool {
        matches!(self.bytes, Bytes::File(_) | Bytes::Stream { can_reopen: true, .. })
    }

    /// A reader of all unpacked bytes.
    pub(super) fn into_reader(self) -> Box<dyn Read + Send> {
        match self.bytes {
            Bytes::File(file) => Box::new(file),
            Bytes::Stream { reader, .. } => reader,
        }
    }

    /// The file, for formats that are not read from front to back. The bytes of a stream are copied to a temporary file.
    pub(super) fn into_file(self, spec: &ArraySpec) -> Result<File, Error> {
        match self.bytes {
            Bytes::File(file) => Ok(file),
            Bytes::Stream { mut reader, .. } => {
                let (mut file, path) = temporary_file()?;
                let mut buffer = vec![0; 1 << 20];
                loop {
                    match reader.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(len) => io::Write::write_all(&mut file, &buffer[..len])
                            .map_err(|source| Error::Write { path: path.clone(), source })?,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(read_error(spec, error)),
                    }
                }
                file.seek(SeekFrom::Start(0)).map_err(|source| Error::Write { path, source })?;
                Ok(file)
            }
        }
    }
}

/// Creates a temporary file without a name. The operating system deletes the file when it is closed.
///
/// # Errors
/// [`Error::Write`] if the file cannot be created.
pub fn unnamed_file() -> Result<File, Error> {
    temporary_file().map(|(file, _)| file)
}

/// A temporary file whose name is removed at once, so that the operating system deletes the file when it is closed. The path is
/// the former name, for error messages.
fn temporary_file() -> Result<(File, PathBuf), Error> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("nuq-input-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let failed = |source| Error::Write { path: path.clone(), source };
    let file = file.map_err(failed)?;
    fs::remove_file(&path).map_err(failed)?;
    Ok((file, path))
}

/// Returns the first bytes of a reader. The reader is then at its first byte again.
fn peek(reader: &mut Box<dyn Read + Send>, spec: &ArraySpec) -> Result<Vec<u8>, Error> {
    let mut start = Vec::new();
    reader.take(START).read_to_end(&mut start).map_err(|error| read_error(spec, error))?;
    let rest = std::mem::replace(reader, Box::new(io::empty()));
    *reader = Box::new(Cursor::new(start.clone()).chain(rest));
    Ok(start)
}
