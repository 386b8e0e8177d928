//! Reads and writes the container of model files, and corrects the checksums of changed files, according to docs/model-format.md.
//!
//! The checksums detect nearly every change of a model file. With corrected checksums, a target also reaches the code that runs after
//! the checksums are verified. This code is independent of the code under test, and does not verify anything.

const HEADER: usize = 32;
const ENTRY: usize = 64;
const NAME: usize = 40;
const ALIGNMENT: usize = 64;

/// The contents of a model file.
pub struct Container {
    pub version: u32,
    pub sections: Vec<Section>,
}

/// A section of a model file.
#[derive(Clone)]
pub struct Section {
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Container {
    /// The contents of a file; `None` if the file is too short, or if a section is not within the file.
    pub fn parse(file: &[u8]) -> Option<Self> {
        let u32_at = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
        let entries = file.get(HEADER..)?.chunks_exact(ENTRY).take(u32_at(12)? as usize);
        let section = |entry: &[u8]| {
            let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight bytes"));
            let (offset, length) = (number(NAME) as usize, number(NAME + 8) as usize);
            let name = String::from_utf8_lossy(&entry[..NAME]).trim_end_matches('\0').to_owned();
            Some(Section { name, bytes: file.get(offset..offset.checked_add(length)?)?.to_vec() })
        };
        Some(Self { version: u32_at(8)?, sections: entries.map(section).collect::<Option<_>>()? })
    }

    /// A file with these contents and correct checksums.
    pub fn bytes(&self) -> Vec<u8> {
        let mut at = (HEADER + ENTRY * self.sections.len()).next_multiple_of(ALIGNMENT);
        let mut file = b"NUQMODEL".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend((self.sections.len() as u32).to_le_bytes());
        // `with_checksums` sets the length of the file and the checksums.
        file.resize(HEADER, 0);
        for Section { name, bytes } in &self.sections {
            let start = file.len();
            file.extend(name.bytes().take(NAME));
            file.resize(start + NAME, 0);
            file.extend([at as u64, bytes.len() as u64].into_iter().flat_map(u64::to_le_bytes));
            file.resize(start + ENTRY, 0);
            at = (at + bytes.len()).next_multiple_of(ALIGNMENT);
        }
        for Section { bytes, .. } in &self.sections {
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
            file.extend_from_slice(bytes);
        }
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        with_checksums(&file).expect("the file has a complete table")
    }
}

/// The file with the correct length and the correct checksums of its sections and of its table; `None` if it is
/// shorter than its header and its table.
pub fn with_checksums(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = bytes.to_vec();
    let sections = u32::from_le_bytes(file.get(12..16)?.try_into().ok()?) as usize;
    let table = HEADER..HEADER.checked_add(sections.checked_mul(ENTRY)?)?;
    file.get(table.clone())?;
    let len = file.len() as u64;
    file[16..24].copy_from_slice(&len.to_le_bytes());
    for entry in table.clone().step_by(ENTRY) {
        let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
        let (offset, length) = (number(entry + 40) as usize, number(entry + 48) as usize);
        let Some(section) = offset.checked_add(length).and_then(|end| file.get(offset..end)) else {
            continue;
        };
        let checksum = crc32fast::hash(section);
        file[entry + 56..entry + 60].copy_from_slice(&checksum.to_le_bytes());
    }
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&file[..24]);
    checksum.update(&file[table]);
    file[24..28].copy_from_slice(&checksum.finalize().to_le_bytes());
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_as_it_was_read() {
        let file = crate::small_models::small_model();
        assert_eq!(Container::parse(&file).unwrap().bytes(), file);
    }
}
