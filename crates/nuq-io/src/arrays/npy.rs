//! Reads npy files, the format of `numpy.save`.

use std::io::{self, Read};

use super::element::Element;
use super::input::{Bytes, Input};
use super::python_literal::{Literal, parse_dictionary};
use super::source::Source;
use super::stream::{Stream, read_error, system_error};
use super::{ArraySpec, StoredArray};
use crate::Error;

/// The first bytes of npy data.
pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Length limit of the header in bytes. numpy has the same limit.
const MAX_HEADER: usize = 10_000;

/// The header of npy data that are read from front to back, such as the body of a request.
#[derive(Debug, Clone)]
pub struct NpyHeader {
    element: Element,
    shape: Vec<usize>,
    is_fortran: bool,
}

impl NpyHeader {
    /// Reads the header of an array of numbers. `reader` is then at the first value.
    ///
    /// # Errors
    /// [`Error::BadFile`] for a header that is damaged or not supported, or an array that does not hold numbers; [`Error::Read`] if the
    /// operating system reports an error.
    ///
    /// ```
    /// use nuq_io::NpyHeader;
    /// let mut data = b"\x93NUMPY\x01\0\x3a\0{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}\n".to_vec();
    /// data.extend([1.5f32, -2.0].map(f32::to_le_bytes).as_flattened());
    /// let mut reader = &data[..];
    /// let header = NpyHeader::read(&mut reader)?;
    /// assert_eq!(header.shape(), [1, 2]);
    /// assert_eq!(header.values(reader), Ok(vec![1.5, -2.0]));
    /// # Ok::<(), nuq_io::Error>(())
    /// ```
    pub fn read(reader: &mut impl Read) -> Result<Self, Error> {
        let spec = ArraySpec { path: "the array".into(), name: None };
        let (element, shape, is_fortran, _) = read_header(reader, &spec)?;
        element.check_number(&spec)?;
        Ok(Self { element, shape, is_fortran })
    }

    /// The sizes of the dimensions. Their product times [`element_size`](Self::element_size) does not overflow.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Whether the values are in column-major order.
    #[must_use]
    pub fn is_fortran(&self) -> bool {
        self.is_fortran
    }

    /// Size of one value in bytes.
    #[must_use]
    pub fn element_size(&self) -> usize {
        self.element.size()
    }

    /// Converts the bytes of some values to 32-bit numbers.
    ///
    /// # Errors
    /// Position and value of the first finite value that exceeds the range of 32-bit numbers.
    pub fn values(&self, bytes: &[u8]) -> Result<Vec<f32>, (usize, f64)> {
        match self.element.first_overflow(bytes) {
            Some(overflow) => Err(overflow),
            None => Ok(self.element.f32s(bytes)),
        }
    }
}

/// Reads the header of an array.
pub(crate) fn open(spec: &ArraySpec, input: Input) -> Result<StoredArray, Error> {
    if let Some(name) = &spec.name {
        let problem = format!("a .npy file holds a single array without a name: remove `:{name}`");
        return Err(Error::BadFile { spec: spec.clone(), problem });
    }
    match input.bytes {
        Bytes::File(mut file) => {
            let (element, shape, is_fortran, header) = read_header(&mut file, spec)?;
            Ok(StoredArray { source: Source::File(file, header), element, shape, is_fortran })
        }
        Bytes::Stream { mut reader, can_reopen } => {
            let (element, shape, is_fortran, header) = read_header(&mut reader, spec)?;
            let len = shape.iter().product::<usize>() * element.size();
            let mut stream = Stream::new(reader, len as u64);
            if can_reopen {
                let spec = spec.clone();
                stream = stream.reopened_by(move || values(&spec, header));
            }
            Ok(StoredArray { source: Source::Stream(stream), element, shape, is_fortran })
        }
    }
}

/// Opens a stream again, at its first value.
fn values(spec: &ArraySpec, header: u64) -> Result<Box<dyn Read + Send>, Error> {
    let mut reader = Input::open(spec)?.into_reader();
    io::copy(&mut (&mut reader).take(header), &mut io::sink()).map_err(|error| read_error(spec, error))?;
    Ok(reader)
}

/// Reads the header: element type, shape, whether the order is column-major, and the offset of the values.
pub(crate) fn read_header(
    reader: &mut impl Read,
    spec: &ArraySpec,
) -> Result<(Element, Vec<usize>, bool, u64), Error> {
    let bad = |problem: &str| Error::BadFile { spec: spec.clone(), problem: problem.to_owned() };
    let mut take = |len: usize| {
        let mut bytes = vec![0; len];
        reader.read_exact(&mut bytes).map_err(|error| {
            let incomplete = || bad("it is not a numpy array: its header is incomplete");
            system_error(spec, &error).unwrap_or_else(incomplete)
        })?;
        Ok(bytes)
    };
    let start = take(8)?;
    if !start.starts_with(MAGIC) {
        return Err(bad("it does not begin with the bytes of a numpy array"));
    }
    let (length_size, length) = match (start[6], start[7]) {
        (1, 0) => (2, take(2)?),
        (2 | 3, 0) => (4, take(4)?),
        _ => return Err(bad("its version of the npy format is not supported")),
    };
    let length = length.iter().rev().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
    if length > MAX_HEADER {
        return Err(bad("its header is too long: save one plain array"));
    }
    let bytes = take(length)?;
    // Versions 1 and 2 encode the header in Latin-1, where each byte is one character.
    let text = match start[6] {
        1 | 2 => bytes.iter().copied().map(char::from).collect(),
        _ => String::from_utf8(bytes).map_err(|_| bad("its header is not valid: the file is damaged"))?,
    };
    let (descr, is_fortran, shape) = parse_header(&text, start[6] < 3).map_err(bad)?;
    let element = Element::from_numpy(&descr, spec)?;
    if !fits_address_space(element, &shape) {
        return Err(bad("its shape exceeds the address space"));
    }
    Ok((element, shape, is_fortran, (8 + length_size + length) as u64))
}

/// Whether the size of an element, multiplied by all sizes of the shape or by some of them, does not overflow. Later code need not check
/// such products. A size of zero counts as 1, because a product of only some sizes may omit it.
pub(super) fn fits_address_space(element: Element, shape: &[usize]) -> bool {
    let bytes =
        shape.iter().try_fold(element.size().max(1), |product, &size| product.checked_mul(size.max(1)));
    bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
}

/// Parses the dictionary of a header: element type, whether the order is column-major, and shape. Exactly these three keys are
/// allowed. `allow_long` permits the suffix `L` of Python 2 after integers. The error is the message.
fn parse_header(text: &str, allow_long: bool) -> Result<(String, bool, Vec<usize>), &'static str> {
    let entries = parse_dictionary(text, allow_long)
        .ok_or("its header is not a dictionary of plain values: the file is damaged")?;
    let value = |key: &str| entries.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let (Some(descr), Some(order), Some(shape), 3) =
        (value("descr"), value("fortran_order"), value("shape"), entries.len())
    else {
        return Err(
            "its header must have the keys descr, fortran_order and shape, and no other: the file is damaged",
        );
    };
    let Literal::Boolean(is_fortran) = order else {
        return Err("fortran_order in its header is neither True nor False: the file is damaged");
    };
    let size = |size: &Literal| if let Literal::Integer(size) = size { Some(*size) } else { None };
    let sizes = if let Literal::Tuple(sizes) = shape { sizes.iter().map(size).collect() } else { None };
    let sizes: Vec<usize> =
        sizes.ok_or("the shape in its header is not a tuple of sizes: the file is damaged")?;
    match descr {
        Literal::Text(descr) => Ok((descr.clone(), *is_fortran, sizes)),
        Literal::List(_) | Literal::Tuple(_) => Err("it is a structured array: save one plain array"),
        _ => Err("descr in its header is not an element type: the file is damaged"),
    }
}
