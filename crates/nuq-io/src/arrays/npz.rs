//! Reads npz archives, the format of `numpy.savez`: zip archives of npy files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use zip::{CompressionMethod, ZipArchive};

use super::npy::read_header;
use super::source::{Source, open_file};
use super::{ArraySpec, Contents, StoredArray};
use crate::Error;

/// The names of the arrays in an npz file, in the order of the file.
///
/// # Errors
/// If the file cannot be read or is not an npz archive.
pub fn npz_names(path: &Path) -> Result<Vec<String>, Error> {
    Ok(names(&archive(&ArraySpec { path: path.to_owned(), name: None })?))
}

fn archive(spec: &ArraySpec) -> Result<ZipArchive<File>, Error> {
    let file = open_file(spec)?;
    ZipArchive::new(file).map_err(|_| {
        let problem = "it is truncated or not an npz archive: write it again".to_owned();
        Error::BadFile { spec: spec.clone(), problem }
    })
}

fn names(archive: &ZipArchive<File>) -> Vec<String> {
    archive.file_names().map(|name| name.strip_suffix(".npy").unwrap_or(name).to_owned()).collect()
}

/// Opens an array. The type and shape of a compressed array are checked before its values are unpacked.
pub(crate) fn open(spec: &ArraySpec, contents: Contents) -> Result<StoredArray, Error> {
    let bad = |problem: String| Error::BadFile { spec: spec.clone(), problem };
    let mut archive = archive(spec)?;
    let name = choose(spec, names(&archive))?;
    let member = format!("{name}.npy");
    let (start, is_stored, size, checksum) = {
        let entry = archive.by_name(&member).map_err(|e| bad(e.to_string()))?;
        let is_stored = entry.compression() == CompressionMethod::Stored && !entry.encrypted();
        (entry.data_start(), is_stored, entry.size(), entry.crc32())
    };
    if is_stored {
        // Uncompressed values can be read from the archive in blocks.
        let mut file = open_file(spec)?;
        let failed = |source| Error::Read { path: spec.path.clone(), source };
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        if crc_of(&mut file, size).map_err(failed)? != checksum {
            return Err(bad("its checksum does not match: the file is damaged".to_owned()));
        }
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let (element, shape, is_fortran, header) = read_header(&mut file, spec)?;
        return Ok(StoredArray { source: Source::File(file, start + header), element, shape, is_fortran });
    }
    let mut entry = archive.by_name(&member).map_err(|e| bad(e.to_string()))?;
    let (element, shape, is_fortran, _) = read_header(&mut entry, spec)?;
    contents.check(spec, element, &shape)?;
    let wanted = shape.iter().product::<usize>() * element.size();
    // The declared size is not trusted; the shape limits how much is read.
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve(wanted.min(usize::try_from(size).unwrap_or(usize::MAX)));
    reserved.map_err(|_| bad("it does not fit into memory".to_owned()))?;
    // Read one byte more than expected: the zip reader compares the checksum at the end of the entry.
    let mut entry = entry.take(wanted as u64 + 1);
    entry.read_to_end(&mut bytes).map_err(|e| bad(format!("it cannot be unpacked: {e}")))?;
    if bytes.len() > wanted {
        return Err(bad("it holds more values than its shape".to_owned()));
    }
    Ok(StoredArray { source: Source::Memory(bytes), element, shape, is_fortran })
}

/// The checksum of the next `left` bytes of a file.
fn crc_of(file: &mut impl Read, mut left: u64) -> std::io::Result<u32> {
    let mut buffer = vec![0; 1 << 20];
    let mut checksum = crc32fast::Hasher::new();
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
