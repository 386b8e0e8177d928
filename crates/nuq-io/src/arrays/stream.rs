//! An array in a stream, which can only be read from front to back: standard input, a pipe, or compressed data.

use std::io::{self, Read};

use super::ArraySpec;
use super::source::{longer_than_shape, out_of_memory, truncated};
use crate::Error;

/// Largest size of the first buffer. A buffer for more bytes grows with the data.
const FIRST_BUFFER: u64 = 16 << 20;

/// Opens the stream again, at the first byte of the array.
type Reopen = Box<dyn Fn() -> Result<Box<dyn Read + Send>, Error> + Send>;

/// The bytes of an array. They are not stored: memory holds only the block that [`read`](Self::read) returns.
pub(crate) struct Stream {
    reader: Box<dyn Read + Send>,
    /// Number of bytes of the array that have been read.
    position: u64,
    /// Length of the array in bytes.
    len: u64,
    /// Number of bytes of the array that the zip archive declares; `None` if the array is not in an archive.
    declared: Option<u64>,
    /// `None` if the stream can be read only once.
    reopen: Option<Reopen>,
}

impl Stream {
    /// A stream whose next byte is the first of an array of `len` bytes.
    pub(crate) fn new(reader: Box<dyn Read + Send>, len: u64) -> Self {
        Self { reader, position: 0, len, declared: None, reopen: None }
    }

    /// Sets the function that opens the stream again.
    pub(crate) fn reopened_by(
        self,
        reopen: impl Fn() -> Result<Box<dyn Read + Send>, Error> + Send + 'static,
    ) -> Self {
        Self { reopen: Some(Box::new(reopen)), ..self }
    }

    /// Sets the number of bytes that the zip archive declares. Another length of the array is an error.
    pub(crate) fn declared(self, declared: u64) -> Self {
        Self { declared: Some(declared), ..self }
    }

    /// Returns an error if `len` exceeds the number of declared bytes.
    pub(crate) fn verify_length(&self, spec: &ArraySpec, len: u64) -> Result<(), Error> {
        match self.declared {
            Some(declared) if len > declared => Err(truncated(spec)),
            _ => Ok(()),
        }
    }

    /// Reads `len` bytes at position `at`. Bytes before `at` are skipped. If `at` is before the current position, the stream is
    /// opened again.
    pub(crate) fn read(&mut self, spec: &ArraySpec, at: u64, len: u64) -> Result<Vec<u8>, Error> {
        let failed = |error| read_error(spec, error);
        if at < self.position {
            let problem = || "it can be read only once: save it to a file".to_owned();
            let reopen = self.reopen.as_ref();
            let reopen = reopen.ok_or_else(|| Error::BadFile { spec: spec.clone(), problem: problem() })?;
            self.reader = reopen()?;
            self.position = 0;
        }
        self.position +=
            io::copy(&mut (&mut self.reader).take(at - self.position), &mut io::sink()).map_err(failed)?;
        let mut bytes = Vec::new();
        // The length comes from a header, and the number of declared bytes from the directory of an archive. Both may be wrong.
        let first = len.min(FIRST_BUFFER) as usize;
        bytes.try_reserve_exact(first).map_err(|_| out_of_memory(spec))?;
        (&mut self.reader).take(len).read_to_end(&mut bytes).map_err(failed)?;
        self.position += bytes.len() as u64;
        if bytes.len() as u64 != len {
            return Err(truncated(spec));
        }
        if self.position == self.len {
            self.verify_end(spec)?;
        }
        Ok(bytes)
    }

    /// Reads one more byte, because decoders compare checksums at the end of their data. In an archive, a byte after the array is an error.
    fn verify_end(&mut self, spec: &ArraySpec) -> Result<(), Error> {
        let mut rest = Vec::with_capacity(1);
        let len =
            (&mut self.reader).take(1).read_to_end(&mut rest).map_err(|error| read_error(spec, error))?;
        if len > 0 && self.declared.is_some() {
            return Err(longer_than_shape(spec));
        }
        Ok(())
    }
}

/// The error of the operating system that caused another error, if there is one.
pub(super) fn system_error(spec: &ArraySpec, error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            let source = io::Error::from_raw_os_error(code);
            return Some(Error::Read { path: spec.file_name().into(), source });
        }
        cause = error.source();
    }
    None
}

/// The error of a stream: damaged data, or an error of the operating system.
pub(super) fn read_error(spec: &ArraySpec, error: io::Error) -> Error {
    if error.raw_os_error().is_some() {
        return Error::Read { path: spec.file_name().into(), source: error };
    }
    if error.kind() == io::ErrorKind::OutOfMemory {
        return out_of_memory(spec);
    }
    Error::BadFile {
        spec: spec.clone(),
        problem: format!("it cannot be unpacked ({error}): the file is damaged"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Counts the bytes that were taken from an endless stream.
    struct Counted(Arc<AtomicU64>);

    impl Read for Counted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(7);
            self.0.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            Ok(buffer.len())
        }
    }

    fn spec() -> ArraySpec {
        ArraySpec { path: "x.npz".into(), name: None }
    }

    #[test]
    fn an_error_of_the_system_is_not_taken_for_a_damaged_file() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(5))
            }
        }
        let failed = || io::Error::from_raw_os_error(5);
        let is_read = |error: Option<Error>| matches!(error, Some(Error::Read { source, .. }) if source.raw_os_error() == Some(5));
        assert!(is_read(system_error(&spec(), &failed())));
        assert!(is_read(system_error(&spec(), &zip::result::ZipError::Io(failed()))));
        assert!(system_error(&spec(), &io::Error::from(io::ErrorKind::UnexpectedEof)).is_none());
        let header = super::super::npy::read_header(&mut Failing, &spec()).map(drop);
        assert!(is_read(header.err()));
    }

    #[test]
    fn only_the_requested_block_is_read_and_stored() {
        const BLOCK: u64 = 1 << 16;
        let count = Arc::new(AtomicU64::new(0));
        let mut stream = Stream::new(Box::new(Counted(Arc::clone(&count))), 1 << 50).declared(1 << 50);
        for block in 0..100 {
            let bytes = stream.read(&spec(), block * BLOCK, BLOCK).unwrap();
            assert_eq!((bytes.len() as u64, bytes.capacity() as u64), (BLOCK, BLOCK));
            assert_eq!(count.load(Ordering::Relaxed), (block + 1) * BLOCK);
        }
    }

    #[test]
    fn memory_is_not_allocated_for_a_wrong_length_in_a_header() {
        let mut stream = Stream::new(Box::new(&[0u8; 100][..]), 1 << 60);
        let error = stream.read(&spec(), 0, 1 << 60).unwrap_err().to_string();
        assert_eq!(error, "x.npz: it is truncated: it ends before the end of the array");
        // The declared size may be wrong too.
        let mut stream = Stream::new(Box::new(&[0u8; 100][..]), 1 << 60).declared(1 << 60);
        let error = stream.read(&spec(), 0, 1 << 60).unwrap_err().to_string();
        assert_eq!(error, "x.npz: it is truncated: it ends before the end of the array");
        let stream = stream.declared(100);
        assert!(stream.verify_length(&spec(), 101).is_err() && stream.verify_length(&spec(), 100).is_ok());
    }

    #[test]
    fn earlier_bytes_are_read_from_a_stream_that_is_opened_again() {
        let open = || Ok(Box::new(&[1u8, 2, 3, 4][..]) as Box<dyn Read + Send>);
        let mut stream = Stream::new(open().unwrap(), 4).reopened_by(open);
        assert_eq!(stream.read(&spec(), 2, 2).unwrap(), [3, 4]);
        assert_eq!(stream.read(&spec(), 1, 2).unwrap(), [2, 3]);
        let mut stream = Stream::new(open().unwrap(), 4);
        assert_eq!(stream.read(&spec(), 2, 1).unwrap(), [3]);
        let error = stream.read(&spec(), 0, 1).unwrap_err().to_string();
        assert!(error.ends_with("it can be read only once: save it to a file"), "{error}");
    }
}
