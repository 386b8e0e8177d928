//! Compression of output files, chosen by their names.

use std::io::{self, Write};
use std::path::Path;

use crate::Error;

/// The compression of an output file.
///
/// ```
/// use nuq_io::OutputCompression;
/// let compression = OutputCompression::of("scores.csv.gz".as_ref())?;
/// let mut bytes = Vec::new();
/// compression.write(&mut bytes, |writer| writer.write_all(b"row,label\n"))?;
/// assert_eq!(bytes[..2], [0x1f, 0x8b]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputCompression {
    /// The file is not compressed.
    None,
    /// gzip, for names that end in `.gz`.
    Gzip,
    /// zstd, for names that end in `.zst`.
    Zstd,
}

impl OutputCompression {
    /// The compression of a file with this name.
    ///
    /// # Errors
    /// [`Error::WithoutZstd`] for `.zst` if the feature `zstd` is disabled.
    pub fn of(path: &Path) -> Result<Self, Error> {
        match path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).as_deref() {
            Some("gz") => Ok(Self::Gzip),
            Some("zst") if cfg!(feature = "zstd") => Ok(Self::Zstd),
            Some("zst") => Err(Error::WithoutZstd { path: path.to_owned() }),
            _ => Ok(Self::None),
        }
    }

    /// Calls `write` with a writer that compresses to `to`. Equal contents give equal bytes.
    ///
    /// # Errors
    /// The error of `write` or `to`.
    pub fn write(
        self,
        to: &mut dyn Write,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::None => write(to),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(to, flate2::Compression::default());
                write(&mut encoder)?;
                encoder.finish().map(drop)
            }
            Self::Zstd => write_zstd(to, write),
        }
    }
}

#[cfg(feature = "zstd")]
fn write_zstd(to: &mut dyn Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut encoder = zstd::stream::write::Encoder::new(to, zstd::DEFAULT_COMPRESSION_LEVEL)?;
    encoder.include_checksum(true)?;
    write(&mut encoder)?;
    encoder.finish().map(drop)
}

#[cfg(not(feature = "zstd"))]
fn write_zstd(_: &mut dyn Write, _: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
