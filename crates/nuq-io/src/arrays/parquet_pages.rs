//! Checks the page headers of a parquet file before the parquet library reads them.
//!
//! The values of a column in a row group are in pages, one after the other, and each page has a header. For page headers the library has the same
//! defect as for the footer (see [`parquet_footer`](super::parquet_footer)): it skips as many elements as an unknown list or map states, up to 2³¹,
//! even if the file has ended. A page header of a valid file has neither lists nor maps of booleans, and ends before the file ends.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use parquet::file::metadata::ParquetMetaData;

use super::parquet_footer::Type::{self, Boolean, Integer, Struct};
use super::parquet_footer::{STATISTICS, Walk};
use super::thrift::Compact;

/// The fields of a page header.
const HEADER: &[(i64, Type)] = &[
    (1, Integer),
    (2, Integer),
    (COMPRESSED_SIZE, Integer),
    (4, Integer),
    (5, Struct(&[(1, Integer), (2, Integer), (3, Integer), (4, Integer), (5, Struct(STATISTICS))])),
    (6, Struct(&[])),
    (7, Struct(&[(1, Integer), (2, Integer), (3, Boolean)])),
    (
        8,
        Struct(&[
            (1, Integer),
            (2, Integer),
            (3, Integer),
            (4, Integer),
            (5, Integer),
            (6, Integer),
            (7, Boolean),
            (8, Struct(STATISTICS)),
        ]),
    ),
];
/// The field with the number of bytes of the page after the header.
const COMPRESSED_SIZE: i64 = 3;
/// The number of bytes that are read for a header at first. Nearly all headers are shorter.
const FIRST_BYTES: u64 = 1 << 12;
/// Longer headers count as damaged. Valid headers contain two values of the column at most.
const MAX_BYTES: u64 = 1 << 24;

/// The problem of a page header, if the library must not read it. Other damage is left to the library, whose errors and
/// panics are returned as errors.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn problem(file: &mut File, metadata: &ParquetMetaData) -> io::Result<Option<&'static str>> {
    let end = file.seek(SeekFrom::End(0))?;
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let (mut at, mut left) = column.byte_range();
        while left > 0 && at < end {
            let (header, size) = match header_at(file, at, end)? {
                Header::Valid { length, page } => (length, page),
                Header::Invalid(problem) => return Ok(Some(problem)),
            };
            // The library refuses a page that is longer than the rest of the column.
            let Some(length) =
                size.and_then(|size| header.checked_add(size)).filter(|length| *length <= left)
            else {
                break;
            };
            (at, left) = (at + length, left - length);
        }
    }
    Ok(None)
}

enum Header {
    /// The number of bytes of the header, and of the page after it; `None` if the header does not state the latter.
    Valid { length: u64, page: Option<u64> },
    /// The problem.
    Invalid(&'static str),
}

/// Reads the header at a position of a file that has `end` bytes.
fn header_at(file: &mut File, at: u64, end: u64) -> io::Result<Header> {
    let mut size = FIRST_BYTES;
    loop {
        let mut bytes = vec![];
        file.seek(SeekFrom::Start(at))?;
        file.take(size).read_to_end(&mut bytes)?;
        let header = header_of(&bytes);
        // A header that is not valid may be incomplete in these bytes.
        if matches!(header, Header::Valid { .. }) || size >= MAX_BYTES.min(end - at) {
            return Ok(header);
        }
        size *= 16;
    }
}

fn header_of(bytes: &[u8]) -> Header {
    let (mut walk, mut page) = (Walk::default(), None);
    let mut reader = Compact::new(bytes);
    let read = reader.fields(|reader, id, kind| match HEADER.iter().find(|(known, _)| *known == id) {
        Some(&(COMPRESSED_SIZE, field)) if field.is(kind) => {
            page = Some(reader.integer()?);
            Some(())
        }
        Some((_, field)) => walk.value(reader, *field, kind),
        None => reader.skip(kind, 0),
    });
    match (read, page) {
        // The library reads the size of a page as a number of 32 bits.
        (Some(()), Some(page)) if i32::try_from(page).is_err() => {
            Header::Invalid("the size of a page does not fit into 32 bits")
        }
        (Some(()), page) => {
            let length = (bytes.len() - reader.remaining()) as u64;
            Header::Valid { length, page: page.and_then(|page| u64::try_from(page).ok()) }
        }
        (None, _) if reader.has_booleans() => {
            Header::Invalid("a page header has a list or map of booleans, which the format does not have")
        }
        (None, _) => Header::Invalid("a page header is not valid"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problem of a header; an empty text if it is valid.
    fn problem_of(bytes: &[u8]) -> &'static str {
        match header_of(bytes) {
            Header::Valid { .. } => "",
            Header::Invalid(problem) => problem,
        }
    }

    #[test]
    fn the_lengths_of_a_header_and_its_page_are_read() {
        // type = 0, uncompressed size = 100, compressed size = 80, and a byte of the page.
        let Header::Valid { length, page } = header_of(&[0x15, 0, 0x15, 200, 1, 0x15, 160, 1, 0, 99]) else {
            panic!()
        };
        assert_eq!((length, page), (9, Some(80)));
        let Header::Valid { page, .. } = header_of(&[0x15, 0, 0]) else { panic!() };
        assert_eq!(page, None);
    }

    #[test]
    fn lists_of_booleans_and_headers_beyond_the_end_are_errors() {
        // Field 15: a list of 2³¹ − 1 booleans, a list of 2³¹ − 1 doubles, and a map of 2³¹ − 1 doubles.
        let booleans = "a page header has a list or map of booleans, which the format does not have";
        assert_eq!(problem_of(&[0xf9, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0]), booleans);
        let invalid = "a page header is not valid";
        assert_eq!(problem_of(&[0xf9, 0xf7, 0xff, 0xff, 0xff, 0xff, 7, 0]), invalid);
        assert_eq!(problem_of(&[0xfb, 0xff, 0xff, 0xff, 0xff, 7, 0x77, 0]), invalid);
        // The compressed size as a binary, and with more than 32 bits.
        assert_eq!(problem_of(&[0x38, 0, 0]), invalid);
        assert_eq!(
            problem_of(&[0x36, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0]),
            "the size of a page does not fit into 32 bits"
        );
    }
}
