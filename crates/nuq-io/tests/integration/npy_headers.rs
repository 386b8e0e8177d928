//! Headers of npy files, compared with numpy. The cases are in `tests/data/npy_headers.json`, which
//! `make_npy_headers.py` writes.

use std::fs;
use std::path::Path;

use nuq_io::{ArraySpec, EmbeddingsFile, read_labels};
use serde_json::Value;

#[test]
fn headers_are_read_as_numpy_reads_them_or_rejected() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/npy_headers.json");
    let cases: Vec<Value> = serde_json::from_slice(&fs::read(table).unwrap()).unwrap();
    let values: Vec<u8> = (0..12u8).flat_map(|v| f32::from(v).to_le_bytes()).collect();
    let folder = tempfile::tempdir().unwrap();
    let spec = ArraySpec { path: folder.path().join("x.npy"), name: None };
    for case in &cases {
        let header = case["header"].as_str().unwrap();
        let major = case["version"][0].as_u64().unwrap() as u8;
        let minor = case["version"][1].as_u64().unwrap() as u8;
        let length_size = if major == 1 { 2 } else { 4 };
        let length = &(header.len() as u32).to_le_bytes()[..length_size];
        let file = [b"\x93NUMPY", &[major, minor][..], length, header.as_bytes(), &values].concat();
        fs::write(&spec.path, file).unwrap();
        let rows = EmbeddingsFile::open(&spec).and_then(|mut file| file.values(0..file.len()));
        match (&case["rows"], rows) {
            (Value::Array(expected), Ok(rows)) => {
                let expected = expected.iter().flat_map(|row| row.as_array().unwrap());
                let expected: Vec<f32> = expected.map(|v| v.as_f64().unwrap() as f32).collect();
                assert_eq!(rows, expected, "{major}.{minor} {header:?}");
            }
            // nuq may reject a header that numpy reads, but not a header that a valid file may have (`is_variant`).
            (Value::Array(_), Err(error)) => assert!(case["is_variant"] == false, "{header:?}: {error}"),
            (Value::Null, rows) => {
                assert!(rows.is_err() && read_labels(&spec).is_err(), "{major}.{minor} {header:?}");
            }
            // numpy reads an array that is empty, not two-dimensional or not numeric. nuq rejects the file or reads no values.
            (_, rows) => assert!(rows.unwrap_or_default().is_empty(), "{major}.{minor} {header:?}"),
        }
    }
}

#[test]
fn errors_name_the_field_of_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ArraySpec { path: folder.path().join("x.npy"), name: None };
    let error = |header: &str| {
        // The header of version 1 is encoded in Latin-1.
        let header: Vec<u8> = header.chars().map(|c| u8::try_from(c).unwrap()).collect();
        let length = (header.len() as u16).to_le_bytes();
        let file = [b"\x93NUMPY\x01\x00", &length[..], &header, &[0; 48]].concat();
        fs::write(&spec.path, file).unwrap();
        EmbeddingsFile::open(&spec).err().unwrap().to_string()
    };
    for (header, part) in [
        ("{'descr': '<f4', 'fortran_order': 1, 'shape': (4, 3)}", "fortran_order in its header is neither"),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': [4, 3]}",
            "the shape in its header is not a tuple",
        ),
        ("{'descr': '<f4', 'fortran_order': False}", "must have the keys descr, fortran_order and shape"),
        (
            "{'descr': 4, 'fortran_order': False, 'shape': (4, 3)}",
            "descr in its header is not an element type",
        ),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,)}", "it is a structured array"),
        ("{'descr': [('é', '<f4')], 'fortran_order': False, 'shape': (4,)}", "it is a structured array"),
        ("{'descr': '>U1', 'fortran_order': False, 'shape': (4,)}", "its type >U1 is big-endian"),
    ] {
        let text = error(header);
        assert!(text.contains(part), "{text}");
    }
}
