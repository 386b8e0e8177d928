//! Writes npy files.

/// The bytes of an npy file in row-major order. `element` and `shape` are in the notation of Python, such as `<f4` and `(2, 3)`.
pub fn npy(element: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    ordered(element, "False", shape, values)
}

/// The bytes of an npy file in column-major order.
pub fn npy_in_column_order(element: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    ordered(element, "True", shape, values)
}

fn ordered(element: &str, is_fortran: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{element}', 'fortran_order': {is_fortran}, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), values].concat()
}
