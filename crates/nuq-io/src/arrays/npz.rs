//! numpy's archives of several arrays: zip files of npy files.

use std::io::{Read, Seek, SeekFrom};

use zip::{CompressionMethod, ZipArchive};

use super::npy::read_header;
use super::source::{Source, open_file};
use super::{ArraySpec, Stored};
use crate::Error;

pub(crate) fn open(spec: &ArraySpec) -> Result<Stored, Error> {
    let bad = |problem: String| Error::BadFile { spec: spec.clone(), problem };
    let file = open_file(spec)?;
    let mut archive = ZipArchive::new(file).map_err(|e| bad(format!("it is no npz archive: {e}")))?;
    let present: Vec<String> =
        archive.file_names().map(|name| name.strip_suffix(".npy").unwrap_or(name).to_owned()).collect();
    let name = choose(spec, present)?;
    let member = format!("{name}.npy");
    let (start, is_stored, size) = {
        let entry = archive.by_name(&member).map_err(|e| bad(e.to_string()))?;
        let is_stored = entry.compression() == CompressionMethod::Stored && !entry.encrypted();
        (entry.data_start(), is_stored, entry.size())
    };
    if is_stored {
        // Read from the archive itself, block by block.
        let mut file = open_file(spec)?;
        file.seek(SeekFrom::Start(start))
            .map_err(|source| Error::Read { path: spec.path.clone(), source })?;
        let (element, shape, is_fortran, header) = read_header(&mut file, spec)?;
        return Ok(Stored { source: Source::File(file, start + header), element, shape, is_fortran });
    }
    let mut entry = archive.by_name(&member).map_err(|e| bad(e.to_string()))?;
    let (element, shape, is_fortran, _) = read_header(&mut entry, spec)?;
    // The declared size is a hint only: what unpacks to more is read as far as the shape goes.
    let mut bytes = Vec::with_capacity((size as usize).min(1 << 30));
    let wanted = shape.iter().product::<usize>() * element.size();
    entry
        .take(wanted as u64)
        .read_to_end(&mut bytes)
        .map_err(|e| bad(format!("it cannot be unpacked: {e}")))?;
    Ok(Stored { source: Source::Memory(bytes), element, shape, is_fortran })
}

/// The array asked for, or the only one there is.
pub(crate) fn choose(spec: &ArraySpec, mut present: Vec<String>) -> Result<String, Error> {
    present.sort_unstable();
    match &spec.name {
        Some(name) if present.contains(name) => Ok(name.clone()),
        None if present.len() == 1 => Ok(present.remove(0)),
        _ => Err(Error::NoSuchArray { spec: spec.clone(), present }),
    }
}
