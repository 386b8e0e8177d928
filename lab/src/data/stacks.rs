//! Arrays of three dimensions in npz files: gray pictures, or the logits of several members. Numbers of one byte, or of floating
//! point in two or four; row after row.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::DataError;

/// Sizes and values.
pub(super) struct Stack {
    pub(super) shape: [usize; 3],
    pub(super) values: Vec<f32>,
}

/// No array of these is larger.
const LARGEST: usize = 1 << 31;

/// The names of the arrays in a file.
pub(super) fn names(path: &Path) -> Result<Vec<String>, DataError> {
    let archive = open(path)?;
    Ok(archive.file_names().filter_map(|name| Some(name.strip_suffix(".npy")?.to_owned())).collect())
}

/// An array of three dimensions; a name that is not there is refused.
pub(super) fn read(path: &Path, name: &str) -> Result<Stack, DataError> {
    let bad = |problem: String| DataError::BadFile { path: path.to_owned(), problem };
    let mut archive = open(path)?;
    let mut entry =
        archive.by_name(&format!("{name}.npy")).map_err(|error| bad(format!("its array {name}: {error}")))?;
    let header =
        header(&mut entry).ok_or_else(|| bad(format!("its array {name} is no plain numpy array")))?;
    let (kind, shape) = parse(&header).ok_or_else(|| {
        bad(format!(
            "its array {name} must have three dimensions of u1, f2 or f4 in C order, and has {header}"
        ))
    })?;
    let count = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    let count = count.filter(|&count| count < LARGEST);
    let count = count.ok_or_else(|| bad(format!("its array {name} is larger than any set")))?;
    let expected = count * kind.size();
    let mut bytes = Vec::new();
    entry
        .take(expected as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| bad(format!("its array {name} cannot be unpacked: {error}")))?;
    if bytes.len() != expected {
        return Err(DataError::Truncated { path: path.to_owned(), got: bytes.len(), expected });
    }
    Ok(Stack { shape, values: kind.widened(&bytes) })
}

fn open(path: &Path) -> Result<zip::ZipArchive<File>, DataError> {
    let file = File::open(path).map_err(|source| DataError::Read { path: path.to_owned(), source })?;
    zip::ZipArchive::new(file).map_err(|_| DataError::BadFile {
        path: path.to_owned(),
        problem: "it is cut short or not an npz archive: write it again".to_owned(),
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Byte,
    Half,
    Single,
}

impl Kind {
    fn size(self) -> usize {
        match self {
            Kind::Byte => 1,
            Kind::Half => 2,
            Kind::Single => 4,
        }
    }

    fn widened(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Kind::Byte => bytes.iter().map(|&byte| f32::from(byte)).collect(),
            Kind::Half => {
                bytes.chunks(2).map(|pair| half::f16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
            }
            Kind::Single => bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        }
    }
}

/// The text that says type and shape.
fn header(reader: &mut impl Read) -> Option<String> {
    let mut start = [0; 10];
    reader.read_exact(&mut start).ok()?;
    if start[..7] != *b"\x93NUMPY\x01" {
        return None;
    }
    let mut text = vec![0; usize::from(u16::from_le_bytes([start[8], start[9]]))];
    reader.read_exact(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).trim().to_owned())
}

fn parse(header: &str) -> Option<(Kind, [usize; 3])> {
    let kind = [("'|u1'", Kind::Byte), ("'<f2'", Kind::Half), ("'<f4'", Kind::Single)]
        .into_iter()
        .find(|(descr, _)| header.contains(descr))?
        .1;
    let sizes = header.split_once("'shape': (")?.1.split_once(')')?.0;
    let sizes: Option<Vec<usize>> =
        sizes.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| s.parse().ok()).collect();
    let shape = <[usize; 3]>::try_from(sizes?).ok()?;
    header.contains("'fortran_order': False").then_some((kind, shape))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn npz(header: &str, values: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut archive = zip::ZipWriter::new(file.reopen().unwrap());
        archive.start_file("x.npy", zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(b"\x93NUMPY\x01\x00").unwrap();
        archive.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        archive.write_all(header.as_bytes()).unwrap();
        archive.write_all(values).unwrap();
        archive.finish().unwrap();
        file
    }

    fn text(descr: &str, shape: &str) -> String {
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n")
    }

    #[test]
    fn bytes_and_halves_are_widened() {
        let file = npz(&text("|u1", "1, 2, 2"), &[0, 1, 2, 255]);
        let stack = read(file.path(), "x").unwrap();
        assert_eq!((stack.shape, stack.values), ([1, 2, 2], vec![0.0, 1.0, 2.0, 255.0]));
        // 0x3c00 is one.
        let file = npz(&text("<f2", "2, 1, 1"), &[0, 0x3c, 0, 0xbc]);
        assert_eq!(read(file.path(), "x").unwrap().values, [1.0, -1.0]);
        assert_eq!(names(file.path()).unwrap(), ["x"]);
    }

    #[test]
    fn damage_is_refused() {
        let said = |file: &tempfile::NamedTempFile, name: &str| {
            read(file.path(), name).map(|_| ()).unwrap_err().to_string()
        };
        let short = npz(&text("<f4", "1, 1, 2"), &[0; 7]);
        assert!(said(&short, "x").ends_with("it holds 7 of 8 bytes; bring it again"));
        assert!(said(&short, "y").contains("its array y"));
        assert!(said(&npz(&text("<f4", "2, 2"), &[0; 16]), "x").contains("must have three dimensions"));
        let huge = npz(&text("<f4", "4294967296, 4294967296, 4"), &[]);
        assert!(said(&huge, "x").contains("larger than any set"));
        assert!(said(&npz("junk", &[]), "x").contains("must have three dimensions"));
        let mut none = tempfile::NamedTempFile::new().unwrap();
        none.write_all(b"nothing").unwrap();
        assert!(said(&none, "x").contains("not an npz archive"));
    }
}
