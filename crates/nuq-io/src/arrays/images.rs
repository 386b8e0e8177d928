//! Reads images, one per row: an array of rows × height × width, with or without channels.

use super::element::Element;
use super::{ArrayFile, ArraySpec, Contents, ReadOptions, open};
use crate::Error;

/// Description of the valid shapes.
pub(super) const SHAPE: &str =
    "rows × height × width (gray) or rows × height × width × channels with 1, 3 or 4 channels";

/// Images of equal size, one per row, with one byte per channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
    /// 1 for gray; 3 for red, green and blue; 4 for red, green, blue and opacity.
    pub channels: usize,
    bytes: Vec<u8>,
}

impl Images {
    /// The bytes of the image of a row: its lines from top to bottom, pixel by pixel. `None` if there is no such row.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let size = self.height * self.width * self.channels;
        self.bytes.get(row.checked_mul(size)?..row.checked_add(1)?.checked_mul(size)?)
    }
}

/// Reads images, an array of unsigned bytes in a .npy, .npz or .safetensors file.
///
/// # Errors
/// If the file cannot be read or is a table, or if its array does not consist of unsigned bytes in C order, or does not have the shape
/// rows × height × width \[× channels\] with 1, 3 or 4 channels.
///
/// ```
/// use nuq_io::{ArraySpec, read_images};
/// let path = std::env::temp_dir().join(format!("nuq-images-{}.npy", std::process::id()));
/// let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), }\n";
/// let file = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &[1, 2, 3, 4, 5, 6]].concat();
/// std::fs::write(&path, file)?;
/// let images = read_images(&ArraySpec { path: path.clone(), name: None })?;
/// assert_eq!((images.width, images.get(1), images.get(2)), (3, Some(&[4, 5, 6][..]), None));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_images(spec: &ArraySpec) -> Result<Images, Error> {
    let bad = |problem: &str| Error::BadFile { spec: spec.clone(), problem: problem.to_owned() };
    let ArrayFile::Stored(mut stored) = open(spec, &[], ReadOptions::new(), Contents::Images)? else {
        return Err(bad("a table holds no images: save them to a .npy or .npz file"));
    };
    if stored.element != Element::Unsigned(1) {
        return Err(bad("images have one unsigned byte per channel: save array.astype('uint8')"));
    }
    if stored.is_fortran {
        return Err(bad("its images are in Fortran order: save numpy.ascontiguousarray(array)"));
    }
    let (height, width) = (stored.shape[1], stored.shape[2]);
    let channels = stored.shape.get(3).copied().unwrap_or(1);
    let bytes = stored.source.read(spec, 0, stored.shape.iter().product())?.into_owned();
    Ok(Images { height, width, channels, bytes })
}
