//! The type of the entries of an array, and their conversion to numbers or labels.

use half::{bf16, f16};
use nuq::Label;

use super::ArraySpec;
use crate::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    F32,
    F64,
    /// Signed integers of this many bytes.
    Signed(usize),
    /// Unsigned integers of this many bytes.
    Unsigned(usize),
    Bool,
    /// Strings of this many UTF-32 characters, padded with zeros.
    Unicode(usize),
    /// Strings of this many bytes, padded with zeros.
    Bytes(usize),
}

/// Length limit of labels in characters.
const MAX_LENGTH: usize = 1 << 20;

impl Element {
    /// The largest label in floats of this type. Larger ones may be rounded integers: the type does not represent every integer.
    pub(super) fn largest_label(self) -> f64 {
        match self {
            Self::Bf16 => 255.0,
            Self::F16 => 2047.0,
            Self::F32 => 16_777_215.0,
            // Slightly below 2⁵³.
            _ => 9e15,
        }
    }

    /// Parses a numpy type such as `<f4`. The error of an unsupported type suggests a conversion.
    pub(crate) fn from_numpy(descr: &str, spec: &ArraySpec) -> Result<Self, Error> {
        let refuse = |problem: String| Err(Error::BadFile { spec: spec.clone(), problem });
        if !descr.is_ascii() {
            return refuse("its element type is not valid: the file is damaged".to_owned());
        }
        let (order, kind) = descr.split_at(descr.len().min(1));
        let digits = kind.get(1..).filter(|size| size.bytes().all(|byte| byte.is_ascii_digit()));
        let size = digits.and_then(|size| size.parse::<usize>().ok());
        if !matches!(order, "<" | ">" | "=" | "|") {
            return refuse(format!("its type {descr} is not supported: save floats, integers or strings"));
        }
        // The byte order does not matter for single bytes. The characters of `U` have four bytes, those of `S` have one.
        let is_single_byte = size == Some(1) && !kind.starts_with('U') || kind.starts_with('S');
        if order == ">" && size.is_some() && !is_single_byte {
            return refuse(format!(
                "its type {descr} is big-endian: save array.astype(array.dtype.newbyteorder('<'))"
            ));
        }
        match (kind.get(..1), size) {
            (Some("f"), Some(2)) => Ok(Self::F16),
            (Some("f"), Some(4)) => Ok(Self::F32),
            (Some("f"), Some(8)) => Ok(Self::F64),
            (Some("i"), Some(size @ (1 | 2 | 4 | 8))) => Ok(Self::Signed(size)),
            (Some("u"), Some(size @ (1 | 2 | 4 | 8))) => Ok(Self::Unsigned(size)),
            (Some("b"), Some(1)) => Ok(Self::Bool),
            (Some("U"), Some(size @ 1..=MAX_LENGTH)) => Ok(Self::Unicode(size)),
            (Some("S"), Some(size @ 1..=MAX_LENGTH)) => Ok(Self::Bytes(size)),
            (Some("O"), _) => refuse(
                "it holds Python objects, which are not supported: save embeddings as array.astype('float32'), labels as \
                 array.astype(str)"
                    .to_owned(),
            ),
            _ => refuse(format!("its type {descr} is not supported: save floats, integers or strings")),
        }
    }

    pub(crate) fn from_safetensors(name: &str) -> Option<Self> {
        Some(match name {
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "F32" => Self::F32,
            "F64" => Self::F64,
            "I8" => Self::Signed(1),
            "I16" => Self::Signed(2),
            "I32" => Self::Signed(4),
            "I64" => Self::Signed(8),
            "U8" => Self::Unsigned(1),
            "U16" => Self::Unsigned(2),
            "U32" => Self::Unsigned(4),
            "U64" => Self::Unsigned(8),
            "BOOL" => Self::Bool,
            _ => return None,
        })
    }

    /// Size of one entry in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
            Self::Signed(size) | Self::Unsigned(size) | Self::Bytes(size) => size,
            Self::Bool => 1,
            Self::Unicode(size) => 4 * size,
        }
    }

    /// Returns an error if the entries are strings.
    pub(crate) fn check_number(self, spec: &ArraySpec) -> Result<(), Error> {
        match self {
            Self::Unicode(_) | Self::Bytes(_) => {
                let problem = "it holds strings where numbers are needed".to_owned();
                Err(Error::BadFile { spec: spec.clone(), problem })
            }
            _ => Ok(()),
        }
    }

    /// Position and value of the first finite `f64` that overflows `f32`.
    pub(crate) fn first_overflow(self, bytes: &[u8]) -> Option<(usize, f64)> {
        if self != Self::F64 {
            return None;
        }
        let is_overflow = |v: &f64| v.is_finite() && (*v as f32).is_infinite();
        self.f64s(bytes).into_iter().enumerate().find(|(_, v)| is_overflow(v))
    }

    /// Entries as `f32`; empty for strings, which [`check_number`](Self::check_number) rejects.
    pub(crate) fn f32s(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::F32 => each(bytes, f32::from_le_bytes),
            Self::F16 => each(bytes, |b| f16::from_le_bytes(b).to_f32()),
            Self::Bf16 => each(bytes, |b| bf16::from_le_bytes(b).to_f32()),
            _ => self.f64s(bytes).into_iter().map(|v| v as f32).collect(),
        }
    }

    /// Entries as `f64`; empty for strings, which [`check_number`](Self::check_number) rejects.
    pub(crate) fn f64s(self, bytes: &[u8]) -> Vec<f64> {
        match self {
            Self::F64 => each(bytes, f64::from_le_bytes),
            Self::F32 | Self::F16 | Self::Bf16 => self.f32s(bytes).into_iter().map(f64::from).collect(),
            _ => self.integers(bytes).unwrap_or_default().into_iter().map(|v| v as f64).collect(),
        }
    }

    /// Entries as labels; `None` for floats. The error is the row of a string that is not valid Unicode.
    pub(crate) fn labels(self, bytes: &[u8]) -> Result<Option<Vec<Label>>, usize> {
        let texts = |text: fn(&[u8]) -> Option<String>| {
            let entries = bytes.chunks_exact(self.size()).enumerate();
            entries.map(|(row, entry)| text(entry).map(Label::Text).ok_or(row)).collect::<Result<Vec<_>, _>>()
        };
        match self {
            Self::Unicode(_) => texts(unicode).map(Some),
            Self::Bytes(_) => texts(utf8).map(Some),
            Self::Bool => Ok(Some(bytes.iter().map(|&byte| Label::Bool(byte != 0)).collect())),
            _ => Ok(self.integers(bytes).map(|values| values.into_iter().map(Label::Int).collect())),
        }
    }

    fn integers(self, bytes: &[u8]) -> Option<Vec<i128>> {
        Some(match self {
            Self::Signed(1) => each(bytes, |b| i8::from_le_bytes(b).into()),
            Self::Signed(2) => each(bytes, |b| i16::from_le_bytes(b).into()),
            Self::Signed(4) => each(bytes, |b| i32::from_le_bytes(b).into()),
            Self::Signed(_) => each(bytes, |b| i64::from_le_bytes(b).into()),
            Self::Unsigned(1) => each(bytes, |b: [u8; 1]| b[0].into()),
            Self::Bool => each(bytes, |b: [u8; 1]| i128::from(b[0] != 0)),
            Self::Unsigned(2) => each(bytes, |b| u16::from_le_bytes(b).into()),
            Self::Unsigned(4) => each(bytes, |b| u32::from_le_bytes(b).into()),
            Self::Unsigned(_) => each(bytes, |b| u64::from_le_bytes(b).into()),
            _ => return None,
        })
    }
}

fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&entry| read(entry)).collect()
}

fn unicode(entry: &[u8]) -> Option<String> {
    let characters = each(entry, u32::from_le_bytes).into_iter();
    let text: String = characters.map(char::from_u32).collect::<Option<_>>()?;
    Some(text.trim_end_matches('\0').to_owned())
}

fn utf8(entry: &[u8]) -> Option<String> {
    let text = str::from_utf8(entry).ok()?;
    Some(text.trim_end_matches('\0').to_owned())
}
