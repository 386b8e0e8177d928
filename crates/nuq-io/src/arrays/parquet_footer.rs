//! Checks the footer of a parquet file before the parquet library reads it.
//!
//! A footer has no checksum, and the library trusts some numbers in it: those of the schema ([`parquet_schema`]), and the lengths of lists of
//! booleans. The format has no such lists, so the library skips them, and it takes seconds for each, whatever the length of the file.
//! They are errors here, and so are lists, integers and field ids that are too long, because the library reads them in another way than this check.
//!
//! The library ignores the types that a footer states for the fields that it knows. A wrong type would therefore hide a list from this check. Wrong
//! types are errors too. [`FILE`] defines the fields that the library reads.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::parquet_schema;
use super::thrift::{BINARY, BYTE, Compact, DOUBLE, FALSE, I16, I32, I64, LIST, STRUCT, TRUE};

/// The bytes at the end of a file: the length of the footer in 4 bytes, and `PAR1`.
const END: u64 = 8;

/// The type of a field in the definition of the format.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Boolean,
    Byte,
    /// An integer of 16, 32 or 64 bits. All of them are written in the same way.
    Integer,
    Double,
    Binary,
    List(&'static Type),
    /// A structure with the ids and types of its fields.
    Struct(&'static [(i64, Type)]),
}
use Type::{Binary, Boolean, Byte, Double, Integer, List, Struct};

const FILE: &[(i64, Type)] = &[
    (1, Integer),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, Integer),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Binary),
    (7, List(&Struct(&[]))),
];
const SCHEMA_ELEMENT: &[(i64, Type)] = &[
    (1, Integer),
    (2, Integer),
    (3, Integer),
    (4, Binary),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, Integer),
    (9, Integer),
    (10, Struct(LOGICAL_TYPE)),
];
const LOGICAL_TYPE: &[(i64, Type)] = &[
    (1, Struct(&[])),
    (2, Struct(&[])),
    (3, Struct(&[])),
    (4, Struct(&[])),
    (5, Struct(&[(1, Integer), (2, Integer)])),
    (6, Struct(&[])),
    (7, Struct(TIME)),
    (8, Struct(TIME)),
    (10, Struct(&[(1, Byte), (2, Boolean)])),
    (11, Struct(&[])),
    (12, Struct(&[])),
    (13, Struct(&[])),
    (14, Struct(&[])),
    (15, Struct(&[])),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, Integer)])),
];
const TIME: &[(i64, Type)] = &[(1, Boolean), (2, Struct(TIME_UNIT))];
const TIME_UNIT: &[(i64, Type)] = &[(1, Struct(&[])), (2, Struct(&[])), (3, Struct(&[]))];
const ROW_GROUP: &[(i64, Type)] = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, Integer),
    (3, Integer),
    (4, List(&Struct(&[(1, Integer), (2, Boolean), (3, Boolean)]))),
    (5, Integer),
    (7, Integer),
];
const COLUMN_CHUNK: &[(i64, Type)] =
    &[(1, Binary), (2, Integer), (3, Struct(COLUMN)), (4, Integer), (5, Integer), (6, Integer), (7, Integer)];
const COLUMN: &[(i64, Type)] = &[
    (1, Integer),
    (2, List(&Integer)),
    (3, List(&Binary)),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, List(&Struct(KEY_VALUE))),
    (9, Integer),
    (10, Integer),
    (11, Integer),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, Integer), (2, Integer), (3, Integer)]))),
    (14, Integer),
    (15, Integer),
    (16, Struct(&[(1, Integer), (2, List(&Integer)), (3, List(&Integer))])),
    (17, Struct(&[(1, Struct(BOUNDING_BOX)), (2, List(&Integer))])),
];
pub(super) const STATISTICS: &[(i64, Type)] = &[
    (1, Binary),
    (2, Binary),
    (3, Integer),
    (4, Integer),
    (5, Binary),
    (6, Binary),
    (7, Boolean),
    (8, Boolean),
    (9, Integer),
];
const BOUNDING_BOX: &[(i64, Type)] =
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];
const KEY_VALUE: &[(i64, Type)] = &[(1, Binary), (2, Binary)];

impl Type {
    /// Whether a footer may state this type for the field.
    pub(super) fn is(self, kind: u8) -> bool {
        match self {
            Boolean => matches!(kind, TRUE | FALSE),
            Byte => kind == BYTE,
            Integer => matches!(kind, I16 | I32 | I64),
            Double => kind == DOUBLE,
            Binary => kind == BINARY,
            List(_) => kind == LIST,
            Struct(_) => kind == STRUCT,
        }
    }
}

/// The problem of the footer of a file, if the library must not read it. Other damage is left to the library, whose errors and panics
/// are returned as errors.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn problem(file: &mut File) -> io::Result<Option<&'static str>> {
    let length = file.seek(SeekFrom::End(0))?;
    let Some(end) = length.checked_sub(END) else { return Ok(None) };
    let mut bytes = [0; 4];
    file.seek(SeekFrom::Start(end))?;
    file.read_exact(&mut bytes)?;
    let Some(start) = end.checked_sub(u32::from_le_bytes(bytes).into()) else { return Ok(None) };
    let mut footer = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(end - start).read_to_end(&mut footer)?;
    Ok(problem_of(&footer).or_else(|| parquet_schema::problem(&footer)))
}

fn problem_of(footer: &[u8]) -> Option<&'static str> {
    let mut walk = Walk::default();
    let mut reader = Compact::new(footer);
    // The walk also ends if the footer is damaged in another way. The library then returns an error at the same byte.
    let _ = walk.structure(&mut reader, FILE);
    match () {
        () if reader.has_booleans() => {
            Some("its footer has a list of booleans, which the format does not have")
        }
        () if reader.is_too_long() => {
            Some("its footer has a list, an integer or a field id that is too long")
        }
        () if walk.has_wrong_type => Some("a field of its footer has a wrong type"),
        () => None,
    }
}

/// Reads all fields of a footer or of a page header.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) has_wrong_type: bool,
}

impl Walk {
    pub(super) fn structure(&mut self, reader: &mut Compact<'_>, fields: &[(i64, Type)]) -> Option<()> {
        reader.fields(|reader, id, kind| match fields.iter().find(|(known, _)| *known == id) {
            Some((_, field)) => self.value(reader, *field, kind),
            None => reader.skip(kind, 0),
        })
    }

    /// Reads the value of a field or an element whose type is stated as `kind`.
    pub(super) fn value(&mut self, reader: &mut Compact<'_>, field: Type, kind: u8) -> Option<()> {
        if !field.is(kind) {
            self.has_wrong_type = true;
            return None;
        }
        match field {
            Struct(fields) => self.structure(reader, fields),
            List(element) => {
                let (count, kind) = reader.list()?;
                (0..count).try_for_each(|_| self.value(reader, *element, kind))
            }
            Boolean | Byte | Integer | Double | Binary => reader.skip(kind, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_maps_of_booleans_are_errors() {
        let problem = Some("its footer has a list of booleans, which the format does not have");
        // Field 15: a list of 2³¹ − 1 booleans; the same as an element of another list; a map of booleans.
        assert_eq!(problem_of(&[0xf9, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0]), problem);
        assert_eq!(problem_of(&[0xf9, 0x19, 0xf2, 0xff, 0xff, 0xff, 0xff, 7, 0]), problem);
        assert_eq!(problem_of(&[0xfb, 0xff, 0xff, 0xff, 0xff, 7, 0x11, 0]), problem);
        // An empty list.
        assert_eq!(problem_of(&[0xf9, 0x01, 0]), None);
    }

    #[test]
    fn lists_longer_than_the_footer_and_integers_that_the_library_truncates_are_errors() {
        let problem = Some("its footer has a list, an integer or a field id that is too long");
        // The version in eleven bytes, and the field id 65538, which the library reads as 2, the schema.
        let version = [&[0x15][..], &[0x80; 10], &[0, 0]].concat();
        assert_eq!(problem_of(&version), problem);
        assert_eq!(problem_of(&[0x09, 0x84, 0x80, 0x08, 0x1c, 0, 0]), problem);
        // A list of 2³¹ − 1 lists, the first of which is a list of booleans.
        assert_eq!(
            problem_of(&[0xf9, 0xf9, 0xff, 0xff, 0xff, 0xff, 7, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0]),
            problem
        );
    }

    #[test]
    fn wrong_types_of_known_fields_are_errors() {
        // version = 1, as an integer of 16, 32 or 64 bits.
        for kind in [0x14, 0x15, 0x16] {
            assert_eq!(problem_of(&[kind, 2, 0]), None);
        }
        let problem = Some("a field of its footer has a wrong type");
        // The version as a binary, and a list of integers as the schema.
        assert_eq!(problem_of(&[0x18, 0, 0]), problem);
        assert_eq!(problem_of(&[0x29, 0x15, 2, 0]), problem);
    }
}
