//! Reads safetensors files: a JSON header, then tensors in C order.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

use serde::Deserialize;

use super::element::Element;
use super::npy::fits_address_space;
use super::npz::choose;
use super::source::Source;
use super::stream::system_error;
use super::{ArraySpec, StoredArray};
use crate::Error;

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

pub(crate) fn open(spec: &ArraySpec, mut file: File) -> Result<StoredArray, Error> {
    let bad = |problem: String| Error::BadFile { spec: spec.clone(), problem };
    let mut length = [0u8; 8];
    file.read_exact(&mut length).map_err(|error| {
        let too_short = || bad("it is not a safetensors file: it is too short".to_owned());
        system_error(spec, &error).unwrap_or_else(too_short)
    })?;
    let length = u64::from_le_bytes(length);
    if length > 100 << 20 {
        return Err(bad("it is not a safetensors file: its header is too long".to_owned()));
    }
    // The buffer grows while the header is read, because its stated length may be wrong.
    let mut header = Vec::new();
    (&mut file)
        .take(length)
        .read_to_end(&mut header)
        .map_err(|source| Error::Read { path: spec.path.clone(), source })?;
    if header.len() as u64 != length {
        return Err(bad("it is truncated: its header is incomplete".to_owned()));
    }
    let mut entries: HashMap<String, serde_json::Value> = serde_json::from_slice(&header)
        .map_err(|e| bad(format!("it is not a safetensors file: its header is not JSON ({e})")))?;
    entries.remove("__metadata__");
    let name = choose(spec, entries.keys().cloned().collect())?;
    let tensor: Tensor = serde_json::from_value(entries.remove(&name).unwrap_or_default())
        .map_err(|e| bad(format!("its header does not describe a tensor ({e})")))?;
    let element = Element::from_safetensors(&tensor.dtype).ok_or_else(|| {
        bad(format!("its type {} is not supported: save F32, F16, BF16, F64 or integers", tensor.dtype))
    })?;
    let (start, end) = tensor.data_offsets;
    let fits = |bytes: usize| start.checked_add(bytes as u64) == Some(end) && end <= u64::MAX >> 1;
    if !fits_address_space(element, &tensor.shape)
        || !fits(element.size() * tensor.shape.iter().product::<usize>())
    {
        return Err(bad("its shape does not fit its bytes".to_owned()));
    }
    let source = Source::File(file, 8 + length + start);
    Ok(StoredArray { source, element, shape: tensor.shape, is_fortran: false })
}
