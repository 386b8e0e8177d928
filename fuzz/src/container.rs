//! Corrects the checksums of changed model files, according to docs/model-format.md.
//!
//! The checksums detect nearly every change of a model file. With corrected checksums, a target also reaches the code that runs after
//! the checksums are verified.

const HEADER: usize = 32;
const ENTRY: usize = 64;

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
