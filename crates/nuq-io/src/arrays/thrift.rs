//! A reader of the compact protocol of Thrift, in which the footer and the page headers of a parquet file are written.

/// Types of the compact protocol.
pub(super) const TRUE: u8 = 1;
pub(super) const FALSE: u8 = 2;
pub(super) const BYTE: u8 = 3;
pub(super) const I16: u8 = 4;
pub(super) const I32: u8 = 5;
pub(super) const I64: u8 = 6;
pub(super) const DOUBLE: u8 = 7;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
pub(super) const SET: u8 = 10;
pub(super) const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Largest number of structures and containers around a skipped value.
const MAX_SKIPPED_DEPTH: usize = 64;

/// A reader of the compact protocol. Its functions return `None` at the end of the bytes, and for values that are not valid.
pub(super) struct Compact<'b> {
    bytes: &'b [u8],
    /// Whether the reader stopped at a list or map of booleans.
    has_booleans: bool,
    /// Whether the reader stopped at a value that no writer writes: a list of more elements than bytes follow, an integer of more than ten
    /// bytes, or a field id beyond 16 bits.
    is_too_long: bool,
}

impl<'b> Compact<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, has_booleans: false, is_too_long: false }
    }

    /// Whether the reader stopped at a list or map of booleans. The format of parquet files has none, and the parquet library skips
    /// as many booleans as such a list states, up to 2³¹, whatever the length of the file.
    pub(super) fn has_booleans(&self) -> bool {
        self.has_booleans
    }

    /// Whether the reader stopped at a list of more elements than bytes follow, at an integer of more than ten bytes, or at a field id beyond 16
    /// bits. The parquet library reads the elements until the bytes end, and truncates the integers.
    pub(super) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// The number of bytes that are not read yet.
    pub(super) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    pub(super) fn advance(&mut self, count: usize) -> Option<()> {
        self.bytes = self.bytes.get(count..)?;
        Some(())
    }

    /// An unsigned integer: seven bits per byte, and a bit that says whether another byte follows.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        self.is_too_long = true;
        None
    }

    /// A signed integer in zigzag encoding: its sign is the lowest bit of the unsigned integer.
    pub(super) fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Number and type of the elements of a list; `None` for a list of booleans. Each element takes at least one byte.
    pub(super) fn list(&mut self) -> Option<(usize, u8)> {
        let head = self.byte()?;
        let count =
            if head >> 4 == 15 { usize::try_from(self.varint()?).ok()? } else { usize::from(head >> 4) };
        let element = head & 0x0f;
        self.has_booleans |= count > 0 && matches!(element, TRUE | FALSE);
        self.is_too_long |= count > self.bytes.len();
        (count <= self.bytes.len() && !self.has_booleans).then_some((count, element))
    }

    /// Calls `read` with the id and the type of each field of a structure.
    pub(super) fn fields(&mut self, mut read: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut id = 0;
        loop {
            let head = self.byte()?;
            if head & 0x0f == 0 {
                return Some(());
            }
            id = if head >> 4 == 0 { self.integer()? } else { id + i64::from(head >> 4) };
            if i16::try_from(id).is_err() {
                self.is_too_long = true;
                return None;
            }
            read(self, id, head & 0x0f)?;
        }
    }

    /// Skips the value of a field. `depth` is the number of structures and containers around the value.
    pub(super) fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            // The type of a field is its value.
            TRUE | FALSE => Some(()),
            BYTE => self.advance(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.advance(8),
            UUID => self.advance(16),
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.advance(length)
            }
            _ if depth == MAX_SKIPPED_DEPTH => None,
            LIST | SET => {
                let (count, element) = self.list()?;
                (0..count).try_for_each(|_| self.skip(element, depth + 1))
            }
            MAP => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                let kinds = [kinds >> 4, kinds & 0x0f];
                self.has_booleans |= kinds.iter().any(|kind| matches!(*kind, TRUE | FALSE));
                if self.has_booleans {
                    return None;
                }
                (0..count).try_for_each(|_| kinds.iter().try_for_each(|&kind| self.skip(kind, depth + 1)))
            }
            STRUCT => self.fields(|reader, _, kind| reader.skip(kind, depth + 1)),
            _ => None,
        }
    }
}
