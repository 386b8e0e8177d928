//! The container format of a model file: a header, a table of named sections, and the sections, each with a checksum.
//!
//! ```text
//! 0    8 bytes  "NUQMODEL"
//! 8    u32      format version
//! 12   u32      number of sections n
//! 16   u64      length of the file
//! 24   u32      CRC-32 of bytes 0..24 and of the table
//! 28   u32      zero
//! 32   n × 64   the table: name (40 bytes of UTF-8, zeros after it), offset u64, length u64, CRC-32 u32, zero u32
//! ...           sections, each at a multiple of 64
//! ```
//!
//! All numbers are little-endian.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::AnyBitPattern;
use nuq::nuq_neighbors::SharedSlice;
use nuq::nuq_neighbors::cancel::checkpoint;

use crate::file_bytes::FileBytes;
use crate::index::ROWS_ABSENT;
use crate::mapped_array::MappedArray;
use crate::{Error, shards};

// Arrays are written with the byte order of memory, which must therefore be little-endian.
const _: () = assert!(cfg!(target_endian = "little"), "model files are little-endian");

/// The newest version of the model file format that is read. It is written for models without training rows, whose rows are in a
/// vector database, because earlier programs cannot read such files. All other files have version 3.
pub const FORMAT_VERSION: u32 = 4;

/// The version of files that earlier programs can read.
const VERSION_WITH_ROWS: u32 = 3;

const MAGIC: &[u8; 8] = b"NUQMODEL";
/// Length of the header in bytes.
const HEADER: usize = 32;
/// Length of a table entry in bytes.
const ENTRY: usize = 64;
/// Length of the name in a table entry in bytes.
const NAME: usize = 40;
const ALIGNMENT: usize = 64;
/// Upper bound on the number of sections of every format version; a larger count is damage.
const MAX_SECTIONS: usize = 1024;

/// Number of bytes that are written or verified between two check points for cancellation.
const BLOCK: usize = 1 << 20;

/// A section to write.
pub(crate) struct Section<'s> {
    pub(crate) name: &'s str,
    pub(crate) bytes: &'s [u8],
}

/// The header and the table of a file with these sections, and the length of the file.
fn header(sections: &[Section<'_>]) -> (Vec<u8>, usize) {
    let mut at = (HEADER + ENTRY * sections.len()).next_multiple_of(ALIGNMENT);
    let mut table = Vec::with_capacity(ENTRY * sections.len());
    for section in sections {
        assert!(section.name.len() <= NAME, "a section name fits its table entry");
        let mut name = [0u8; NAME];
        name[..section.name.len()].copy_from_slice(section.name.as_bytes());
        table.extend_from_slice(&name);
        table.extend_from_slice(&(at as u64).to_le_bytes());
        table.extend_from_slice(&(section.bytes.len() as u64).to_le_bytes());
        table.extend_from_slice(&checksum(section.bytes).to_le_bytes());
        table.extend_from_slice(&[0; 4]);
        at = (at + section.bytes.len()).next_multiple_of(ALIGNMENT);
    }
    let mut header = Vec::with_capacity(HEADER);
    header.extend_from_slice(MAGIC);
    let is_without_rows = sections.iter().any(|section| section.name == ROWS_ABSENT);
    let version = if is_without_rows { FORMAT_VERSION } else { VERSION_WITH_ROWS };
    header.extend_from_slice(&version.to_le_bytes());
    header.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    header.extend_from_slice(&(at as u64).to_le_bytes());
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&header);
    checksum.update(&table);
    header.extend_from_slice(&checksum.finalize().to_le_bytes());
    header.extend_from_slice(&[0; 4]);
    header.extend_from_slice(&table);
    (header, at)
}

/// The [fingerprint](Container::fingerprint) of a file with these sections.
pub(crate) fn fingerprint(sections: &[Section<'_>]) -> u64 {
    let (header, len) = header(sections);
    fingerprint_of(&header, len)
}

/// The fingerprint: the checksum in the header in the upper 32 bits, and the length of the file in the lower 32 bits.
fn fingerprint_of(header: &[u8], len: usize) -> u64 {
    let checksum = u32::from_le_bytes(header[24..28].try_into().expect("the header has a checksum"));
    u64::from(checksum) << 32 | (len as u64 & 0xffff_ffff)
}

/// Writes the header, the table and the sections in the given order.
pub(crate) fn write(file: &mut dyn Write, sections: &[Section<'_>]) -> io::Result<()> {
    let (header, _) = header(sections);
    file.write_all(&header)?;
    let mut written = header.len();
    for section in sections {
        pad(file, &mut written)?;
        for block in section.bytes.chunks(BLOCK) {
            checkpoint();
            file.write_all(block)?;
        }
        written += section.bytes.len();
    }
    pad(file, &mut written)
}

/// The CRC-32 checksum of a section.
fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for block in bytes.chunks(BLOCK) {
        checkpoint();
        hasher.update(block);
    }
    hasher.finalize()
}

fn pad(file: &mut dyn Write, written: &mut usize) -> io::Result<()> {
    let gap = written.next_multiple_of(ALIGNMENT) - *written;
    *written += gap;
    file.write_all(&[0; ALIGNMENT][..gap])
}

/// An entry of the section table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionInfo {
    /// Name of the section.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    offset: usize,
    checksum: u32,
}

/// How the bytes of a file are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The file is mapped, and must not be changed in place.
    Mapped,
    /// The file is copied into memory.
    Copied,
}

/// A mapped or copied file whose header and table have been verified. Sections are verified on request.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    path: PathBuf,
    map: Arc<FileBytes>,
    sections: Arc<Vec<SectionInfo>>,
}

impl Container {
    /// Maps a file. For a folder, it opens the manifest of a sharded model.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Self::open_as(path, Access::Mapped)
    }

    /// Maps a file or copies it into memory. For a folder, it opens the manifest of a sharded model.
    pub(crate) fn open_as(path: &Path, access: Access) -> Result<Self, Error> {
        let path = &shards::manifest_of(path);
        let failed = |source: io::Error| Error::Read { path: path.to_owned(), source };
        if path.as_os_str() == "-" && !path.exists() {
            let problem =
                "a model is mapped from a file and cannot be read from standard input; save it to a file";
            return Err(Error::NotAModel { path: path.to_owned(), problem: problem.to_owned() });
        }
        // Opening a pipe would wait for another process.
        let kind = fs::metadata(path).map_err(failed)?;
        if kind.is_dir() {
            return Err(failed(shards::no_manifest(path)));
        }
        if !kind.is_file() {
            let problem = "it is not a regular file, and a model is mapped from a file: save it to a file";
            return Err(Error::NotAModel { path: path.to_owned(), problem: problem.to_owned() });
        }
        let file = File::open(path).map_err(failed)?;
        let map = match access {
            Access::Mapped => FileBytes::map(&file, path),
            Access::Copied => FileBytes::copy(&file),
        };
        let map = map.map_err(failed)?;
        let sections = read_table(path, &map)?;
        Ok(Self { path: path.to_owned(), map: Arc::new(map), sections: Arc::new(sections) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Verifies that a mapped file was not changed since it was opened; see [`FileBytes::verify_unchanged`].
    pub(crate) fn verify_unchanged(&self) -> io::Result<()> {
        self.map.verify_unchanged()
    }

    /// Releases the pages of a mapped file; see [`FileBytes::release_pages`].
    pub(crate) fn release_pages(&self) {
        self.map.release_pages();
    }

    /// Format version of the file.
    pub(crate) fn version(&self) -> u32 {
        u32::from_le_bytes(self.map[8..12].try_into().expect("the header has four bytes of version"))
    }

    /// Combines the checksum of header and table, which covers the checksums of all sections, with the length of the
    /// file.
    pub(crate) fn fingerprint(&self) -> u64 {
        fingerprint_of(&self.map, self.map.len())
    }

    pub(crate) fn sections(&self) -> &[SectionInfo] {
        &self.sections
    }

    fn section(&self, name: &str) -> Option<&SectionInfo> {
        self.sections.iter().find(|section| section.name == name)
    }

    fn required(&self, name: &str) -> Result<&SectionInfo, Error> {
        self.section(name).ok_or_else(|| Error::damaged(&self.path, name, "it is missing"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.section(name).is_some()
    }

    fn slice(&self, section: &SectionInfo) -> &[u8] {
        &self.map[section.offset..section.offset + section.bytes as usize]
    }

    /// Compares a section with its checksum.
    pub(crate) fn verify(&self, name: &str) -> Result<(), Error> {
        let section = self.required(name)?;
        if checksum(self.slice(section)) == section.checksum {
            Ok(())
        } else {
            Err(Error::damaged(&self.path, name, "its checksum does not match; restore the file from a copy"))
        }
    }

    /// Verifies all sections and the padding between them.
    pub(crate) fn verify_all(&self) -> Result<(), Error> {
        self.sections.iter().try_for_each(|section| self.verify(&section.name))?;
        self.verify_padding()
    }

    /// Verifies that the bytes between the sections are zero.
    fn verify_padding(&self) -> Result<(), Error> {
        let mut at = HEADER + ENTRY * self.sections.len();
        let mut sections: Vec<&SectionInfo> = self.sections.iter().collect();
        sections.sort_by_key(|section| section.offset);
        for section in sections {
            let gap = self.map.get(at..section.offset).unwrap_or_default();
            if gap.iter().any(|&byte| byte != 0) {
                return Err(Error::damaged(&self.path, &section.name, "the padding before it is not zero"));
            }
            at = section.offset + section.bytes as usize;
        }
        match self.map.get(at..).unwrap_or_default().iter().any(|&byte| byte != 0) {
            true => {
                Err(Error::damaged(&self.path, "table", "the padding after the last section is not zero"))
            }
            false => Ok(()),
        }
    }

    /// The bytes of a section, verified.
    pub(crate) fn read(&self, name: &str) -> Result<&[u8], Error> {
        self.verify(name)?;
        Ok(self.slice(self.required(name)?))
    }

    /// A section as an array in the mapped file. Nothing is read or verified; call [`verify`](Self::verify) before use.
    pub(crate) fn values<T: AnyBitPattern + Send + Sync>(
        &self,
        name: &str,
    ) -> Result<SharedSlice<'static, T>, Error> {
        let section = self.required(name)?;
        let bytes = section.offset..section.offset + section.bytes as usize;
        match bytemuck::try_cast_slice::<u8, T>(&self.map[bytes.clone()]) {
            Ok(_) => Ok(SharedSlice::shared(Arc::new(MappedArray::new(self.map.clone(), bytes)))),
            Err(problem) => Err(Error::damaged(&self.path, name, problem.to_string())),
        }
    }
}

fn read_table(path: &Path, file: &[u8]) -> Result<Vec<SectionInfo>, Error> {
    let not_a_model = |problem: &str| Error::NotAModel { path: path.to_owned(), problem: problem.to_owned() };
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    if !file.starts_with(MAGIC) {
        return Err(not_a_model("it does not begin with the bytes NUQMODEL"));
    }
    if file.len() < HEADER {
        return Err(not_a_model("it ends within its header"));
    }
    let (version, count) = (u32_at(8), u32_at(12) as usize);
    if version > FORMAT_VERSION {
        return Err(Error::NewerFormat { path: path.to_owned(), found: version, known: FORMAT_VERSION });
    }
    let damaged = |problem: String| Error::damaged(path, "table", problem);
    if count > MAX_SECTIONS {
        return Err(damaged(format!("it has {count} sections, and no format has more than {MAX_SECTIONS}")));
    }
    if file.len() < HEADER + ENTRY * count {
        return Err(damaged("the file ends within it".to_owned()));
    }
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&file[..24]);
    checksum.update(&file[HEADER..HEADER + ENTRY * count]);
    if checksum.finalize() != u32_at(24) || u32_at(28) != 0 {
        return Err(damaged("its checksum does not match; restore the file from a copy".to_owned()));
    }
    if u64_at(16) != file.len() as u64 {
        let (len, stated) = (file.len(), u64_at(16));
        let problem = format!("the file has {len} bytes, not {stated}: it is truncated or extended");
        return Err(damaged(problem));
    }
    (0..count)
        .map(|i| {
            let at = HEADER + ENTRY * i;
            let name = file[at..at + NAME].split(|&byte| byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            let (offset, bytes) = (u64_at(at + NAME), u64_at(at + NAME + 8));
            let end = offset.checked_add(bytes).filter(|&end| end <= file.len() as u64);
            if end.is_none() || !(offset as usize).is_multiple_of(ALIGNMENT) {
                let problem = format!("section `{name}` lies outside the file or is not aligned to 64 bytes");
                return Err(damaged(problem));
            }
            Ok(SectionInfo { name, bytes, offset: offset as usize, checksum: u32_at(at + NAME + 16) })
        })
        .collect()
}
