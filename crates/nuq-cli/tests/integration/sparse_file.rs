//! Large sparse npy files.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes an npy array of `rows` × `dim` numbers that starts with `values`; the rest is zero and takes no disk space.
pub(crate) fn write(path: &Path, rows: usize, dim: usize, values: &[f32]) {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dim}), }}\n");
    let mut file = File::create(path).unwrap();
    file.write_all(b"\x93NUMPY\x01\x00").unwrap();
    file.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.write_all(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    file.set_len((10 + header.len() + 4 * rows * dim) as u64).unwrap();
}
