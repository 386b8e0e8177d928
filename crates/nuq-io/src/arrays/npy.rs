//! Reads npy files, the format of `numpy.save`.

use std::io::Read;

use super::element::Element;
use super::source::{Source, open_file};
use super::{ArraySpec, StoredArray};
use crate::Error;

/// Opens a file and reads its header.
pub(crate) fn open(spec: &ArraySpec) -> Result<StoredArray, Error> {
    if let Some(name) = &spec.name {
        let problem = format!("a .npy file holds a single array without a name: remove `:{name}`");
        return Err(Error::BadFile { spec: spec.clone(), problem });
    }
    let mut file = open_file(spec)?;
    let (element, shape, is_fortran, header) = read_header(&mut file, spec)?;
    Ok(StoredArray { source: Source::File(file, header), element, shape, is_fortran })
}

/// Reads the header: element type, shape, whether the order is column-major, and the offset of the values.
pub(crate) fn read_header(
    reader: &mut impl Read,
    spec: &ArraySpec,
) -> Result<(Element, Vec<usize>, bool, u64), Error> {
    let bad = |problem: &str| Error::BadFile { spec: spec.clone(), problem: problem.to_owned() };
    let mut take = |len: usize| {
        let mut bytes = vec![0; len];
        reader
            .read_exact(&mut bytes)
            .map_err(|_| bad("it is not a numpy array: its header is incomplete"))?;
        Ok(bytes)
    };
    let start = take(8)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(bad("it does not begin with the bytes of a numpy array"));
    }
    let (lengths, length) = match start[6] {
        1 => (2, take(2)?),
        2 | 3 => (4, take(4)?),
        _ => return Err(bad("its version of the npy format is not supported")),
    };
    let length = length.iter().rev().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
    if length > 1 << 20 {
        return Err(bad("its header is too long"));
    }
    let text = String::from_utf8_lossy(&take(length)?).into_owned();
    let field = |name: &str| {
        let after = text.split(&format!("'{name}'")).nth(1)?;
        Some(after.trim_start().strip_prefix(':')?.trim_start())
    };
    let quoted = |text: &str| {
        let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        text[1..].split(quote).next().map(str::to_owned)
    };
    let descr = field("descr")
        .and_then(quoted)
        .ok_or_else(|| bad("it is a structured array: save one plain array"))?;
    let is_fortran = field("fortran_order").is_some_and(|text| text.starts_with("True"));
    let shape = field("shape")
        .and_then(|text| text.strip_prefix('('))
        .and_then(|text| text.split(')').next())
        .and_then(|text| {
            let sizes = text.split(',').map(str::trim).filter(|size| !size.is_empty());
            sizes.map(|size| size.parse().ok()).collect::<Option<Vec<usize>>>()
        })
        .ok_or_else(|| bad("its shape cannot be read"))?;
    let element = Element::from_numpy(&descr, spec)?;
    // Later products of the sizes must not overflow.
    let bytes = shape.iter().try_fold(element.size().max(1), |product, &size| product.checked_mul(size));
    if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(bad("its shape exceeds the address space"));
    }
    Ok((element, shape, is_fortran, (8 + lengths + length) as u64))
}
