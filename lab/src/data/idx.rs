//! Reader of IDX files, the format of MNIST and similar data sets. Files may be compressed with gzip.
//!
//! The header is two zero bytes, the element type, the number of dimensions and the size of each dimension as a big-endian 32-bit integer.
//! The values follow.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::DataError;
use crate::{Images, LabError, Labeled};

/// Element type of unsigned bytes, the only supported one.
const UNSIGNED_BYTE: u8 = 0x08;
/// Upper limit for the number of values in a file.
const MAX_VALUES: usize = 1 << 31;

/// Reads gray images. Bytes are scaled to `[0, 1]`.
///
/// # Errors
/// If the file cannot be read or is not an IDX file of images.
pub fn read_images(path: &Path) -> Result<Images, LabError> {
    let (sizes, bytes) = read(path, 3)?;
    let pixels = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    Images::new(1, sizes[1], sizes[2], pixels)
}

/// Reads labels.
///
/// # Errors
/// If the file cannot be read or is not an IDX file of labels.
pub fn read_labels(path: &Path) -> Result<Vec<usize>, LabError> {
    let (_, bytes) = read(path, 1)?;
    Ok(bytes.into_iter().map(usize::from).collect())
}

/// Reads images and labels of a data set with ten classes.
///
/// # Errors
/// If a file cannot be read, or the numbers of images and labels differ.
pub fn read_labeled(images: &Path, labels: &Path) -> Result<Labeled, LabError> {
    Labeled::new(read_images(images)?, read_labels(labels)?, 10)
}

/// Reads the sizes and values of an array with the given number of dimensions.
fn read(path: &Path, dimensions: usize) -> Result<(Vec<usize>, Vec<u8>), DataError> {
    let bad = |problem: String| DataError::BadFile { path: path.to_owned(), problem };
    let mut reader = open(path)?;
    let head = take(&mut reader, path, 0, 4 + 4 * dimensions)?;
    if head[..3] != [0, 0, UNSIGNED_BYTE] {
        return Err(bad("it is not an IDX file of unsigned bytes".to_owned()));
    }
    if usize::from(head[3]) != dimensions {
        return Err(bad(format!("its array has {} dimensions, not {dimensions}", head[3])));
    }
    let size = |four: &[u8]| four.iter().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
    let sizes: Vec<usize> = head[4..].chunks(4).map(size).collect();
    let total = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    let total = total.filter(|&total| 0 < total && total < MAX_VALUES);
    let total = total.ok_or_else(|| bad(format!("its dimensions {sizes:?} are invalid")))?;
    let bytes = take(&mut reader, path, head.len(), total)?;
    // The end of a gzip file contains a checksum, so this read can find damage too.
    match reader.take(1).read_to_end(&mut vec![]) {
        Ok(0) => Ok((sizes, bytes)),
        Ok(_) => Err(bad("it is longer than its header states".to_owned())),
        Err(error) => Err(read_error(path, error)),
    }
}

/// Opens a file and decompresses it if it starts with the gzip magic number.
fn open(path: &Path) -> Result<Box<dyn Read>, DataError> {
    let failed = |source| DataError::Read { path: path.to_owned(), source };
    let mut start = Vec::new();
    File::open(path).map_err(failed)?.take(2).read_to_end(&mut start).map_err(failed)?;
    let file = BufReader::new(File::open(path).map_err(failed)?);
    if start == [0x1f, 0x8b] { Ok(Box::new(MultiGzDecoder::new(file))) } else { Ok(Box::new(file)) }
}

/// Reads exactly `count` bytes after the first `start` bytes of a file. The buffer grows with the data, so that a wrong header cannot cause a
/// huge allocation.
fn take(reader: &mut impl Read, path: &Path, start: usize, count: usize) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    match reader.take(count as u64).read_to_end(&mut bytes) {
        Err(error) => Err(read_error(path, error)),
        Ok(got) if got < count => {
            Err(DataError::Truncated { path: path.to_owned(), got: start + got, expected: start + count })
        }
        Ok(_) => Ok(bytes),
    }
}

/// The error of a failed read. Errors of the operating system have a number; errors of the decompression have none.
fn read_error(path: &Path, source: io::Error) -> DataError {
    let path = path.to_owned();
    if source.raw_os_error().is_some() {
        return DataError::Read { path, source };
    }
    DataError::BadFile { path, problem: format!("it cannot be decompressed: {source}; download it again") }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn image_file() -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        bytes.extend([0, 255, 51, 102]);
        bytes
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn error_message(bytes: &[u8]) -> String {
        let file = file(bytes);
        let message = read_images(file.path()).unwrap_err().to_string();
        message.replace(&file.path().display().to_string(), "FILE")
    }

    #[test]
    fn plain_and_compressed_files_are_read() {
        let mut packed = GzEncoder::new(vec![], Compression::fast());
        packed.write_all(&image_file()).unwrap();
        for bytes in [image_file(), packed.finish().unwrap()] {
            let images = read_images(file(&bytes).path()).unwrap();
            assert_eq!((images.shape(), images.len()), ([1, 1, 2], 2));
            assert_eq!(images.pixels, [0.0, 1.0, 0.2, 0.4]);
        }
    }

    #[test]
    fn damaged_files_have_specific_errors() {
        let whole = image_file();
        assert_eq!(
            error_message(&whole[..18]),
            "FILE is truncated: it has 18 of 20 bytes; download it again"
        );
        assert_eq!(error_message(&whole[..3]), "FILE is truncated: it has 3 of 16 bytes; download it again");
        assert_eq!(error_message(&[&whole[..], &[1]].concat()), "FILE: it is longer than its header states");
        assert_eq!(
            error_message(b"\x89PNG\r\n\x1a\n0123456789"),
            "FILE: it is not an IDX file of unsigned bytes"
        );
        let labels = [0, 0, 8, 1, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(error_message(&labels), "FILE: its array has 1 dimensions, not 3");
        let huge = [0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(error_message(&huge).ends_with("are invalid"));
    }

    #[test]
    fn damaged_gzip_file_is_an_error() {
        let mut packed = GzEncoder::new(vec![], Compression::fast());
        packed.write_all(&image_file()).unwrap();
        let mut bytes = packed.finish().unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        assert!(error_message(&bytes).starts_with("FILE"));
    }

    #[test]
    fn wrong_checksum_of_a_gzip_file_is_not_an_error_of_its_length() {
        let mut packed = GzEncoder::new(vec![], Compression::fast());
        packed.write_all(&image_file()).unwrap();
        let mut bytes = packed.finish().unwrap();
        // The last eight bytes are the checksum and the length.
        let checksum = bytes.len() - 8;
        bytes[checksum] ^= 0xff;
        let message = error_message(&bytes);
        assert!(message.starts_with("FILE: it cannot be decompressed: "), "{message}");
        assert!(message.ends_with("; download it again"), "{message}");
    }

    #[test]
    fn failed_read_is_not_an_error_of_the_decompression() {
        struct BrokenDisk;
        impl Read for BrokenDisk {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                // EIO.
                Err(io::Error::from_raw_os_error(5))
            }
        }
        let message = take(&mut BrokenDisk, Path::new("FILE"), 0, 4).unwrap_err().to_string();
        assert!(message.starts_with("FILE cannot be read: "), "{message}");
    }

    #[test]
    fn image_and_label_counts_must_match() {
        let (images, labels) = (file(&image_file()), file(&[0, 0, 8, 1, 0, 0, 0, 1, 7]));
        let error = read_labeled(images.path(), labels.path()).unwrap_err();
        assert!(matches!(error, LabError::LabelCount { images: 2, labels: 1 }));
    }
}
