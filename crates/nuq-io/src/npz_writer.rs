//! Writes npz archives, the format of `numpy.savez`.

use std::io::{self, Cursor, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A named array to write. If a constructor is called with a `width`, the values are a matrix of `width` columns in row-major
/// order; otherwise the array has one dimension.
pub struct NpzArray<'a> {
    name: &'a str,
    descr: String,
    shape: String,
    bytes: Vec<u8>,
}

impl<'a> NpzArray<'a> {
    /// An array of 64-bit integers.
    #[must_use]
    pub fn integers(name: &'a str, values: &[i64], width: Option<usize>) -> Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self { name, descr: "<i8".to_owned(), shape: shape(values.len(), width), bytes }
    }

    /// An array of double-precision numbers.
    #[must_use]
    pub fn numbers(name: &'a str, values: &[f64], width: Option<usize>) -> Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self { name, descr: "<f8".to_owned(), shape: shape(values.len(), width), bytes }
    }

    /// An array of single-precision numbers.
    #[must_use]
    pub fn singles(name: &'a str, values: &[f32], width: Option<usize>) -> Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self { name, descr: "<f4".to_owned(), shape: shape(values.len(), width), bytes }
    }

    /// An array of booleans.
    #[must_use]
    pub fn booleans(name: &'a str, values: &[bool], width: Option<usize>) -> Self {
        let bytes = values.iter().map(|&v| u8::from(v)).collect();
        Self { name, descr: "|b1".to_owned(), shape: shape(values.len(), width), bytes }
    }

    /// An array of strings. Shorter strings are padded with zeros to the length of the longest.
    #[must_use]
    pub fn strings(name: &'a str, values: &[String], width: Option<usize>) -> Self {
        let longest = values.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
        let mut bytes = Vec::with_capacity(values.len() * longest * 4);
        for text in values {
            let characters = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(longest);
            bytes.extend(characters.flat_map(u32::to_le_bytes));
        }
        Self { name, descr: format!("<U{longest}"), shape: shape(values.len(), width), bytes }
    }
}

fn shape(len: usize, width: Option<usize>) -> String {
    match width {
        Some(width) => format!("({}, {width})", len.checked_div(width).unwrap_or(0)),
        None => format!("({len},)"),
    }
}

/// Writes an npz archive without compression. Equal arrays give equal bytes.
///
/// # Errors
/// The error of `writer`.
pub fn write_npz(writer: &mut dyn Write, arrays: &[NpzArray<'_>]) -> io::Result<()> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default())
        .large_file(arrays.iter().any(|array| array.bytes.len() > 1 << 30));
    for NpzArray { name, descr, shape, bytes } in arrays {
        archive.start_file(format!("{name}.npy"), options)?;
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        // Ten bytes precede the header. It is padded with spaces and ends with a newline, so that the values begin at a
        // multiple of 64 bytes.
        let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
        archive.write_all(b"\x93NUMPY\x01\x00")?;
        archive.write_all(&(length as u16).to_le_bytes())?;
        archive.write_all(format!("{header:<width$}\n", width = length - 1).as_bytes())?;
        archive.write_all(bytes)?;
    }
    writer.write_all(archive.finish()?.get_ref())
}
