//! Checks the schema of a parquet file before the parquet library reads it.
//!
//! A footer has no checksum. Each element of its schema states the number of its children. The library allocates memory for that number,
//! and it calls itself once per level of nesting, so a damaged number can exhaust the memory, and a deep schema can exhaust the stack.
//! Both would end the process.
//!
//! The footer is written in the compact protocol of Thrift. Everything but the schema is skipped.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Largest number of nested groups. Files have at most a few.
const MAX_DEPTH: usize = 64;

/// The bytes at the end of a file: the length of the footer in 4 bytes, and `PAR1`.
const END: u64 = 8;

/// Field ids in the definition of the format. The fields of the footer are the version, the schema, the number of rows, and fields with
/// higher ids. The fields 1 to 9 of a schema element are integers, except the name.
const VERSION: i64 = 1;
const SCHEMA: i64 = 2;
const NUM_ROWS: i64 = 3;
const NAME: i64 = 4;
const NUM_CHILDREN: i64 = 5;
const LAST_INTEGER: i64 = 9;

/// Types of the compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// The problem of the schema, if the library must not read it. Other damage is left to the library, which returns errors for it.
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
    Ok(children(&footer).and_then(|children| problem_of(&children)))
}

/// The problem of a schema whose elements have these numbers of children. The elements are in depth-first order.
fn problem_of(children: &[i64]) -> Option<&'static str> {
    // The numbers of children that are still to come, from the root to the current group.
    let mut groups: Vec<i64> = vec![];
    for &count in children {
        if usize::try_from(count).is_ok_and(|count| count > children.len()) {
            return Some("its schema states more children than it has elements");
        }
        while groups.pop_if(|remaining| *remaining == 0).is_some() {}
        if let Some(remaining) = groups.last_mut() {
            *remaining -= 1;
        }
        if count > 0 {
            groups.push(count);
        }
        if groups.len() > MAX_DEPTH {
            return Some("its schema is nested too deeply");
        }
    }
    None
}

/// The number of children of each element of the schema; `None` if the library returns an error before it uses the schema. The library
/// uses the schema as soon as it has read it. It ignores the stated types of the fields that it knows, and so does this function.
fn children(footer: &[u8]) -> Option<Vec<i64>> {
    let mut reader = Compact { bytes: footer };
    let mut children = None;
    // `fields` returns `None` after the schema was read, and also if the footer is damaged. Both end the search.
    let _ = reader.fields(|reader, id, kind| match id {
        SCHEMA => {
            children = reader.schema();
            None
        }
        VERSION | NUM_ROWS => reader.varint().map(|_| ()),
        _ => reader.skip(kind, 0),
    });
    children
}

/// A reader of the compact protocol. Its functions return `None` at the end of the bytes, and for values that are not valid.
struct Compact<'b> {
    bytes: &'b [u8],
}

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn advance(&mut self, count: usize) -> Option<()> {
        self.bytes = self.bytes.get(count..)?;
        Some(())
    }

    /// An unsigned integer: seven bits per byte, and a bit that says whether another byte follows.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A signed integer. Its sign is the lowest bit of the unsigned integer.
    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Number and type of the elements of a list. Each element takes at least one byte.
    fn list(&mut self) -> Option<(usize, u8)> {
        let head = self.byte()?;
        let count =
            if head >> 4 == 15 { usize::try_from(self.varint()?).ok()? } else { usize::from(head >> 4) };
        (count <= self.bytes.len()).then_some((count, head & 0x0f))
    }

    /// The number of children of each element of a schema.
    fn schema(&mut self) -> Option<Vec<i64>> {
        let (count, element) = self.list()?;
        let mut children = vec![];
        for _ in 0..count {
            if element != STRUCT {
                return None;
            }
            let mut number = 0;
            self.fields(|reader, id, kind| match id {
                NUM_CHILDREN => {
                    // A number beyond 32 bits is not valid.
                    let value = reader.integer()?;
                    number = if i32::try_from(value).is_ok() { value } else { i64::MAX };
                    Some(())
                }
                NAME => reader.skip(BINARY, 0),
                1..=LAST_INTEGER => reader.varint().map(|_| ()),
                _ => reader.skip(kind, 0),
            })?;
            children.push(number);
        }
        Some(children)
    }

    /// Calls `read` with the id and the type of each field of a structure.
    fn fields(&mut self, mut read: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut id = 0;
        loop {
            let head = self.byte()?;
            if head & 0x0f == 0 {
                return Some(());
            }
            id = if head >> 4 == 0 { self.integer()? } else { id + i64::from(head >> 4) };
            read(self, id, head & 0x0f)?;
        }
    }

    /// Skips the value of a field. `depth` is the number of structures and containers around the value.
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            // The type of a field is its value.
            TRUE | FALSE => Some(()),
            BYTE => self.advance(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.advance(8),
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.advance(length)
            }
            _ if depth == MAX_DEPTH => None,
            LIST | SET => {
                let (count, element) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(element, depth + 1))
            }
            MAP => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 0x0f, depth + 1)
                })
            }
            STRUCT => self.fields(|reader, _, kind| reader.skip(kind, depth + 1)),
            _ => None,
        }
    }

    /// Skips an element of a list or map, in which a boolean takes one byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            TRUE | FALSE => self.advance(1),
            kind => self.skip(kind, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_children_are_bounded_by_the_elements() {
        assert_eq!(problem_of(&[]), None);
        assert_eq!(problem_of(&[2, 0, 1, 0]), None);
        assert_eq!(problem_of(&[2, 0, 5, 0]), Some("its schema states more children than it has elements"));
        // The library returns an error for negative numbers.
        assert_eq!(problem_of(&[-1]), None);
    }

    #[test]
    fn the_depth_of_a_schema_is_bounded() {
        let nested = |depth: usize| [vec![1; depth], vec![0]].concat();
        assert_eq!(problem_of(&nested(MAX_DEPTH)), None);
        assert_eq!(problem_of(&nested(MAX_DEPTH + 1)), Some("its schema is nested too deeply"));
        // Groups beside each other are not nested.
        let beside: Vec<i64> = std::iter::once(200).chain([1, 0].repeat(200)).collect();
        assert_eq!(problem_of(&beside), None);
    }

    #[test]
    fn the_schema_is_found_among_other_fields() {
        // version = 1; schema = [{num_children = 1}, {name = "x"}]; num_rows = 3; a list of two booleans; a map; the end.
        let footer = [
            0x15, 2, 0x19, 0x2c, 0x55, 2, 0, 0x48, 1, b'x', 0, 0x16, 6, 0x19, 0x21, 1, 2, 0x1b, 1, 0x58, 2,
            1, b'y', 0,
        ];
        assert_eq!(children(&footer), Some(vec![1, 0]));
        for length in 0..footer.len() {
            // The schema ends with byte 10. Later damage does not hide it.
            let expected = (length > 10).then(|| vec![1, 0]);
            assert_eq!(children(&footer[..length]), expected, "{length}");
        }
        // A list of 2⁶² elements.
        assert_eq!(children(&[0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f]), None);
        // The stated type of the number of children is a wrong one, which the library ignores.
        assert_eq!(children(&[0x29, 0x1c, 0x58, 0x80, 0x80, 0x04, 0, 0]), Some(vec![0x8000]));
    }
}
