//! npz archives with correct sizes and checksums. Without them, nearly every changed member of an archive would be refused before it is read
//! as an array.

use std::io::{Cursor, Read, Write};

use fastrand::Rng;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// Largest size of an unpacked member in bytes. Larger members are not mutated.
const MAX_MEMBER: u64 = 1 << 16;

/// The members of an archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Archive {
    pub members: Vec<Member>,
}

/// An array of an archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub name: String,
    pub bytes: Vec<u8>,
    pub is_deflated: bool,
}

impl Archive {
    /// The members of a file; `None` if it is not an archive, if it has no member, or if a member is damaged or too large.
    pub fn parse(file: &[u8]) -> Option<Self> {
        let mut archive = ZipArchive::new(Cursor::new(file)).ok()?;
        let count = archive.len();
        let member = |index| {
            let mut entry = archive.by_index(index).ok()?;
            let (name, is_deflated) =
                (entry.name().to_owned(), entry.compression() == CompressionMethod::Deflated);
            let mut bytes = vec![];
            let size = entry.by_ref().take(MAX_MEMBER + 1).read_to_end(&mut bytes).ok()?;
            (size as u64 <= MAX_MEMBER).then_some(Member { name, bytes, is_deflated })
        };
        let members: Vec<Member> = (0..count).map(member).collect::<Option<_>>()?;
        (!members.is_empty()).then_some(Self { members })
    }

    /// A file with these members; `None` if two members have the same name, or if a name is too long.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut writer = ZipWriter::new(Cursor::new(vec![]));
        for Member { name, bytes, is_deflated } in &self.members {
            let method = if *is_deflated { CompressionMethod::Deflated } else { CompressionMethod::Stored };
            writer.start_file(name.as_str(), SimpleFileOptions::default().compression_method(method)).ok()?;
            writer.write_all(bytes).ok()?;
        }
        Some(writer.finish().ok()?.into_inner())
    }

    /// Changes, removes or renames a member. `mutate_bytes` mutates an array.
    pub fn mutate(&mut self, mutate_bytes: impl FnOnce(&mut Vec<u8>), random: &mut Rng) {
        let count = self.members.len();
        let (at, other) = (random.usize(..count), random.usize(..count));
        match random.u8(..8) {
            0 if count > 1 => drop(self.members.remove(at)),
            1 => self.members[at].is_deflated ^= true,
            2 => {
                let name = &self.members[other].name;
                let stem = name.strip_suffix(".npy").unwrap_or(name);
                let names = [String::new(), stem.to_owned(), format!("{name}.npy"), format!("folder/{name}")];
                self.members[at].name = random.choice(names).expect("there are names");
            }
            3 => self.members[at].bytes = self.members[other].bytes.clone(),
            _ => mutate_bytes(&mut self.members[at].bytes),
        }
    }

    /// Copies a member of another archive: in place of the member with its name, or after the last one.
    pub fn cross(&mut self, other: &Self, random: &mut Rng) {
        let copied = random.choice(&other.members).expect("an archive has a member");
        match self.members.iter_mut().find(|member| member.name == copied.name) {
            Some(member) => *member = copied.clone(),
            None => self.members.push(copied.clone()),
        }
    }

    /// Archives with one of the given arrays in place of a member, stored and compressed.
    pub fn edits<'a>(&'a self, arrays: &'a [Vec<u8>]) -> impl Iterator<Item = Self> + 'a {
        let places = (0..self.members.len())
            .flat_map(move |at| arrays.iter().flat_map(move |array| [(at, array, false), (at, array, true)]));
        places.map(|(at, array, is_deflated)| {
            let mut edited = self.clone();
            let name = edited.members[at].name.clone();
            edited.members[at] = Member { name, bytes: array.clone(), is_deflated };
            edited
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::npy;

    fn archive() -> Archive {
        let member = |name: &str, is_deflated| Member {
            name: name.to_owned(),
            bytes: npy("<f4", "(2, 1)", &[0; 8]),
            is_deflated,
        };
        Archive { members: vec![member("rows.npy", false), member("labels.npy", true)] }
    }

    #[test]
    fn an_archive_is_read_as_it_was_written() {
        assert_eq!(Archive::parse(&archive().bytes().unwrap()), Some(archive()));
        assert_eq!(Archive::parse(b"PK\x03\x04"), None);
    }

    #[test]
    fn mutated_archives_have_correct_checksums() {
        let mut random = Rng::with_seed(7);
        let mut changed = 0;
        for _ in 0..200 {
            let mut mutated = archive();
            mutated.mutate(|bytes| *bytes.last_mut().unwrap() ^= 1, &mut random);
            let Some(bytes) = mutated.bytes() else { continue };
            assert_eq!(Archive::parse(&bytes).as_ref(), Some(&mutated));
            changed += usize::from(mutated.members.len() == 2 && mutated != archive());
        }
        assert!(changed > 100, "{changed}");
    }

    #[test]
    fn every_member_is_replaced_by_every_array() {
        let arrays = [npy("<f8", "(1,)", &[0; 8]), npy("<i4", "(1,)", &[0; 4])];
        let archive = archive();
        let edits: Vec<_> = archive.edits(&arrays).collect();
        assert_eq!(edits.len(), 2 * 2 * 2);
        assert!(edits.iter().all(|edit| edit.bytes().is_some() && *edit != archive));
    }
}
