//! Reads npz archives, the format of `numpy.savez`: zip archives of npy files.
//!
//! numpy gives the members of an archive the ending `.npy`, which is not part of the name of the array. Other programs write members
//! without this ending, and members that are not arrays. As in `numpy.load`, an array can be named with or without the ending, and the
//! contents of a member decide whether it is an array.

use std::cell::Cell;
use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use crc32fast::Hasher;
use flate2::read::DeflateDecoder;
use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::element::Element;
use super::npy::{MAGIC, read_header};
use super::source::{Source, longer_than_shape, open_file, truncated};
use super::stream::{Stream, read_error, system_error};
use super::{ArraySpec, StoredArray};
use crate::Error;

/// The ending of the members that numpy writes.
const ENDING: &str = ".npy";

/// The names of the members of an npz file, in the order of the file. The ending `.npy` of a member is removed, unless the archive has
/// another member with the shorter name.
///
/// # Errors
/// If the file cannot be read or is not an npz archive.
pub fn npz_names(path: &Path) -> Result<Vec<String>, Error> {
    let spec = ArraySpec { path: path.to_owned(), name: None };
    Ok(names(&archive(&spec, open_file(&spec)?)?))
}

fn archive<R: Read + Seek>(spec: &ArraySpec, file: R) -> Result<Archive<R>, Error> {
    let failure = Failure::default();
    // The library reads the fields of the list of members one by one, so the file is read through a buffer.
    let reader = BufReader::new(Observed { reader: file, failure: Rc::clone(&failure) });
    ZipArchive::new(reader).map_err(|_| {
        failure.get().map_or_else(
            || {
                let problem = "it is truncated or not an npz archive: write it again".to_owned();
                Error::BadFile { spec: spec.clone(), problem }
            },
            |code| Error::Read { path: spec.path.clone(), source: io::Error::from_raw_os_error(code) },
        )
    })
}

/// An archive whose list of members has been read.
type Archive<R> = ZipArchive<BufReader<Observed<R>>>;

/// The error number of the last error of the operating system.
type Failure = Rc<Cell<Option<i32>>>;

/// A reader that records errors of the operating system, because the zip library reports some of them as an invalid archive.
struct Observed<R> {
    reader: R,
    failure: Failure,
}

impl<R> Observed<R> {
    fn record<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.failure.set(error.raw_os_error());
        }
        result
    }
}

impl<R: Read> Read for Observed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.reader.read(buffer);
        self.record(result)
    }
}

impl<R: Seek> Seek for Observed<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let result = self.reader.seek(to);
        self.record(result)
    }
}

fn names<R: Read + Seek>(archive: &ZipArchive<R>) -> Vec<String> {
    let name = |member: &str| match member.strip_suffix(ENDING) {
        Some(name) if archive.index_for_name(name).is_none() => name.to_owned(),
        _ => member.to_owned(),
    };
    archive.file_names().map(name).collect()
}

/// Opens an array and reads its header.
pub(crate) fn open(spec: &ArraySpec, file: File) -> Result<StoredArray, Error> {
    let failed = |source| Error::Read { path: spec.path.clone(), source };
    let mut archive = archive(spec, file.try_clone().map_err(failed)?)?;
    let name = match &spec.name {
        // A complete name, such as `x.npy`, is accepted although `names` may list the member without its ending.
        Some(member) if archive.index_for_name(member).is_some() => member.clone(),
        _ => choose(spec, names(&archive))?,
    };
    // Messages about the member contain its name, also if none was requested.
    let spec = &spec.named(&name);
    let ending = if archive.index_for_name(&name).is_some() { "" } else { ENDING };
    let entry = archive.by_name(&format!("{name}{ending}"));
    let entry = entry.map_err(|error| {
        let bad = || Error::BadFile { spec: spec.clone(), problem: error.to_string() };
        system_error(spec, &error).unwrap_or_else(bad)
    })?;
    let member = Member::of(&entry);
    let method = entry.compression();
    drop(entry);
    match method {
        CompressionMethod::Stored => member.open_stored(spec, file),
        CompressionMethod::Deflated => member.open_deflated(spec, file),
        _ => {
            let problem = "its compression is not supported: write it with numpy.savez_compressed".to_owned();
            Err(Error::BadFile { spec: spec.clone(), problem })
        }
    }
}

/// Location of an npy file in an archive.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// Offset of its first byte in the archive.
    start: u64,
    /// Size in the archive in bytes.
    packed: u64,
    /// Declared size without compression in bytes.
    size: u64,
    checksum: u32,
}

impl Member {
    fn of<R: Read>(entry: &ZipFile<'_, R>) -> Self {
        let (packed, size) = (entry.compressed_size(), entry.size());
        Self { start: entry.data_start(), packed, size, checksum: entry.crc32() }
    }

    /// Sets the position of a file to the first byte of the member.
    fn seek(&self, spec: &ArraySpec, mut file: &File) -> Result<(), Error> {
        let result = file.seek(SeekFrom::Start(self.start));
        result.map(|_| ()).map_err(|source| Error::Read { path: spec.path.clone(), source })
    }

    /// Opens a member that is not compressed. Its values are read from the archive in any order, so its checksum is verified first.
    fn open_stored(self, spec: &ArraySpec, mut file: File) -> Result<StoredArray, Error> {
        self.seek(spec, &file)?;
        let checksum =
            crc_of(&mut file, self.size).map_err(|source| Error::Read { path: spec.path.clone(), source })?;
        if checksum != self.checksum {
            let problem = "its checksum does not match: the file is damaged".to_owned();
            return Err(Error::BadFile { spec: spec.clone(), problem });
        }
        self.seek(spec, &file)?;
        let (element, shape, is_fortran, header) = read_member_header(&mut file, spec)?;
        let (len, stored) =
            (shape.iter().product::<usize>() * element.size(), self.size.saturating_sub(header));
        // The sizes must be equal: bytes after the member belong to the next member of the archive.
        match (len as u64).cmp(&stored) {
            Ordering::Greater => Err(truncated(spec)),
            Ordering::Less => Err(longer_than_shape(spec)),
            Ordering::Equal => Ok(StoredArray {
                source: Source::File(file, self.start + header),
                element,
                shape,
                is_fortran,
            }),
        }
    }

    /// Opens a compressed member. It is unpacked block by block; the checksum is compared at its end.
    fn open_deflated(self, spec: &ArraySpec, file: File) -> Result<StoredArray, Error> {
        let mut reader = self.unpacked(spec, &file)?;
        let (element, shape, is_fortran, header) = read_member_header(&mut reader, spec)?;
        let len = shape.iter().product::<usize>() * element.size();
        let owned = spec.clone();
        let values = move || {
            let mut reader = self.unpacked(&owned, &file)?;
            io::copy(&mut (&mut reader).take(header), &mut io::sink())
                .map_err(|error| read_error(&owned, error))?;
            Ok(reader)
        };
        let stream =
            Stream::new(reader, len as u64).declared(self.size.saturating_sub(header)).reopened_by(values);
        Ok(StoredArray { source: Source::Stream(stream), element, shape, is_fortran })
    }

    /// A reader of the unpacked bytes. All clones of a file share its position. So a reader that was returned by an earlier call must
    /// not be used any more.
    fn unpacked(&self, spec: &ArraySpec, file: &File) -> Result<Box<dyn Read + Send>, Error> {
        self.seek(spec, file)?;
        let packed = file.try_clone().map_err(|source| Error::Read { path: spec.path.clone(), source })?;
        let packed = packed.take(self.packed);
        Ok(Box::new(Checked {
            reader: DeflateDecoder::new(packed),
            hasher: Hasher::new(),
            expected: self.checksum,
        }))
    }
}

/// Reads the header of a member. A member that is not an array is an error.
fn read_member_header(
    reader: &mut impl Read,
    spec: &ArraySpec,
) -> Result<(Element, Vec<usize>, bool, u64), Error> {
    let mut start = [0; MAGIC.len()];
    let is_array = match reader.read_exact(&mut start) {
        Ok(()) => start == *MAGIC,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(read_error(spec, error)),
    };
    if !is_array {
        let problem = "this member of the archive is not a numpy array: name another one, or write the arrays with numpy.savez";
        return Err(Error::BadFile { spec: spec.clone(), problem: problem.to_owned() });
    }
    read_header(&mut (&start[..]).chain(reader), spec)
}

/// A reader that, at the end of its data, compares the checksum of all bytes read with the expected one.
struct Checked<R> {
    reader: R,
    hasher: Hasher,
    expected: u32,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buffer)?;
        self.hasher.update(&buffer[..len]);
        if len == 0 && !buffer.is_empty() && self.hasher.clone().finalize() != self.expected {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum does not match"));
        }
        Ok(len)
    }
}

/// The checksum of the next `left` bytes of a file.
fn crc_of(file: &mut impl Read, mut left: u64) -> io::Result<u32> {
    let mut buffer = vec![0; 1 << 20];
    let mut checksum = Hasher::new();
    while left > 0 {
        let len = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut buffer[..len])?;
        checksum.update(&buffer[..len]);
        left -= len as u64;
    }
    Ok(checksum.finalize())
}

/// The requested array, or the only one if none was requested.
pub(crate) fn choose(spec: &ArraySpec, mut present: Vec<String>) -> Result<String, Error> {
    present.sort_unstable();
    match &spec.name {
        Some(name) if present.contains(name) => Ok(name.clone()),
        None if present.len() == 1 => Ok(present.remove(0)),
        _ => Err(Error::NoSuchArray { spec: spec.clone(), present }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    /// A reader that fails at one read. The number of this read, counted from 0, is the second field.
    struct Failing(Cursor<Vec<u8>>, usize);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let is_failing = self.1 == 0;
            self.1 = self.1.wrapping_sub(1);
            if is_failing { Err(io::Error::from_raw_os_error(5)) } else { self.0.read(buffer) }
        }
    }

    impl Seek for Failing {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn errors_of_the_system_are_not_reported_as_damaged_archives() {
        let mut writer = ZipWriter::new(Cursor::new(vec![]));
        for name in ["x.npy", "y.npy"] {
            writer.start_file(name, SimpleFileOptions::default()).unwrap();
            writer.write_all(&[7; 100]).unwrap();
        }
        let bytes = writer.finish().unwrap().into_inner();
        let spec = ArraySpec { path: "a.npz".into(), name: None };
        let open = |n| archive(&spec, Failing(Cursor::new(bytes.clone()), n));
        let succeeding = (0..1000).find(|&n| open(n).is_ok()).expect("a limited number of reads");
        assert!(succeeding > 1);
        for n in 0..succeeding {
            assert!(matches!(open(n), Err(Error::Read { .. })), "read {n}");
        }
        let damaged = archive(&spec, Cursor::new(bytes[..100].to_vec()));
        assert!(matches!(damaged, Err(Error::BadFile { .. })));
    }
}
