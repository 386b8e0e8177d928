//! IDX files, the format of MNIST and of all that imitate it: two zeros, the type, the number of dimensions, their sizes as
//! big-endian integers of four bytes, then the values. Plain or packed by gzip.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::DataError;
use crate::{Images, LabError, Labeled};

/// The type of unsigned bytes, the only one that pictures and labels come in.
const BYTES: u8 = 0x08;
/// No set has a file larger than this.
const LARGEST: usize = 1 << 31;

/// Gray pictures, from bytes to values between 0 and 1.
pub fn read_images(path: &Path) -> Result<Images, LabError> {
    let (sizes, bytes) = read(path, 3)?;
    let pixels = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    Images::new(1, sizes[1], sizes[2], pixels)
}

/// Labels, a byte each.
pub fn read_labels(path: &Path) -> Result<Vec<usize>, LabError> {
    let (_, bytes) = read(path, 1)?;
    Ok(bytes.into_iter().map(usize::from).collect())
}

/// The pictures and labels of a set of ten classes.
pub fn read_labeled(images: &Path, labels: &Path) -> Result<Labeled, LabError> {
    Labeled::new(read_images(images)?, read_labels(labels)?, 10)
}

/// The sizes of an array of so many dimensions, and its bytes.
fn read(path: &Path, dimensions: usize) -> Result<(Vec<usize>, Vec<u8>), DataError> {
    let bad = |problem: String| DataError::BadFile { path: path.to_owned(), problem };
    let mut reader = open(path)?;
    let head = take(&mut reader, path, 4 + 4 * dimensions)?;
    if head[..3] != [0, 0, BYTES] {
        return Err(bad("it does not begin as an IDX file of bytes does".to_owned()));
    }
    if usize::from(head[3]) != dimensions {
        return Err(bad(format!("its array has {} dimensions, not {dimensions}", head[3])));
    }
    let size = |four: &[u8]| four.iter().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
    let sizes: Vec<usize> = head[4..].chunks(4).map(size).collect();
    let total = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    let total = total.filter(|&total| 0 < total && total < LARGEST);
    let total = total.ok_or_else(|| bad(format!("its sizes {sizes:?} are those of no set of pictures")))?;
    let bytes = take(&mut reader, path, total)?;
    match reader.read(&mut [0]) {
        Ok(0) => Ok((sizes, bytes)),
        _ => Err(bad("it holds more than its sizes say".to_owned())),
    }
}

/// The file, unpacked where it is packed.
fn open(path: &Path) -> Result<Box<dyn Read>, DataError> {
    let failed = |source| DataError::Read { path: path.to_owned(), source };
    let mut start = Vec::new();
    File::open(path).map_err(failed)?.take(2).read_to_end(&mut start).map_err(failed)?;
    let file = BufReader::new(File::open(path).map_err(failed)?);
    if start == [0x1f, 0x8b] { Ok(Box::new(MultiGzDecoder::new(file))) } else { Ok(Box::new(file)) }
}

/// The next bytes, as many as wanted or an error that says how many there are. What a header promises is not allocated
/// before it is there.
fn take(reader: &mut impl Read, path: &Path, expected: usize) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    let read = reader.take(expected as u64).read_to_end(&mut bytes);
    match read {
        Err(error) => {
            let problem = format!("it cannot be unpacked: {error}; bring it again");
            Err(DataError::BadFile { path: path.to_owned(), problem })
        }
        Ok(got) if got < expected => Err(DataError::Truncated { path: path.to_owned(), got, expected }),
        Ok(_) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn pictures() -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        bytes.extend([0, 255, 51, 102]);
        bytes
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn refusal(bytes: &[u8]) -> String {
        let file = file(bytes);
        let said = read_images(file.path()).unwrap_err().to_string();
        said.replace(&file.path().display().to_string(), "FILE")
    }

    #[test]
    fn plain_and_packed_files_read_alike() {
        let mut packed = GzEncoder::new(vec![], Compression::fast());
        packed.write_all(&pictures()).unwrap();
        for bytes in [pictures(), packed.finish().unwrap()] {
            let images = read_images(file(&bytes).path()).unwrap();
            assert_eq!((images.shape(), images.len()), ([1, 1, 2], 2));
            assert_eq!(images.pixels, [0.0, 1.0, 0.2, 0.4]);
        }
    }

    #[test]
    fn damage_is_told_by_file_and_kind() {
        let whole = pictures();
        assert_eq!(refusal(&whole[..18]), "FILE is cut short: it holds 2 of 4 bytes; bring it again");
        assert_eq!(refusal(&whole[..3]), "FILE is cut short: it holds 3 of 16 bytes; bring it again");
        assert_eq!(refusal(&[&whole[..], &[1]].concat()), "FILE: it holds more than its sizes say");
        assert_eq!(
            refusal(b"\x89PNG\r\n\x1a\n0123456789"),
            "FILE: it does not begin as an IDX file of bytes does"
        );
        let labels = [0, 0, 8, 1, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(refusal(&labels), "FILE: its array has 1 dimensions, not 3");
        let huge = [0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(refusal(&huge).ends_with("are those of no set of pictures"));
    }

    #[test]
    fn a_packed_file_that_is_damaged_is_refused() {
        let mut packed = GzEncoder::new(vec![], Compression::fast());
        packed.write_all(&pictures()).unwrap();
        let mut bytes = packed.finish().unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        assert!(refusal(&bytes).starts_with("FILE"));
    }

    #[test]
    fn labels_must_match_pictures() {
        let (images, labels) = (file(&pictures()), file(&[0, 0, 8, 1, 0, 0, 0, 1, 7]));
        let refused = read_labeled(images.path(), labels.path()).unwrap_err();
        assert!(matches!(refused, LabError::LabelCount { images: 2, labels: 1 }));
    }
}
