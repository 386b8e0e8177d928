//! Compressed inputs, recognized by their first bytes.

use std::io::{BufReader, Read};

use super::ArraySpec;
use crate::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// The compression of data that begin with `start`.
    pub(super) fn of(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// A reader of the unpacked bytes.
    pub(super) fn unpack(
        self,
        packed: Box<dyn Read + Send>,
        spec: &ArraySpec,
    ) -> Result<Box<dyn Read + Send>, Error> {
        match self {
            Self::Gzip => Ok(Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(packed)))),
            Self::Zstd => zstd(packed, spec),
        }
    }
}

#[cfg(feature = "zstd")]
fn zstd(packed: Box<dyn Read + Send>, spec: &ArraySpec) -> Result<Box<dyn Read + Send>, Error> {
    let decoder = zstd::stream::read::Decoder::new(packed);
    Ok(Box::new(decoder.map_err(|error| super::stream::read_error(spec, error))?))
}

#[cfg(not(feature = "zstd"))]
fn zstd(_: Box<dyn Read + Send>, spec: &ArraySpec) -> Result<Box<dyn Read + Send>, Error> {
    Err(Error::WithoutZstd { path: spec.file_name().into() })
}
