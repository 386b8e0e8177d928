//! Tests of arrays that are read in several blocks, or mapped.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use nuq_io::{AllValues, ArraySpec, EmbeddingsFile};

const MIB: usize = 1 << 20;

/// Writes an npy array of zeros, and then `values`: pairs of a position in the array and a number. The zeros are a hole of the file and
/// take no disk space. `kind` is the element type, with the prefix `F` for Fortran order. `header` is the length of the header in bytes.
fn write(
    path: &Path,
    kind: &str,
    shape: (usize, usize),
    header: usize,
    values: &[(usize, f64)],
) -> ArraySpec {
    let (rows, dim) = shape;
    let is_fortran = if kind.starts_with('F') { "True" } else { "False" };
    let kind = kind.trim_start_matches('F');
    let text = format!("{{'descr': '<{kind}', 'fortran_order': {is_fortran}, 'shape': ({rows}, {dim}), }}");
    let mut file = File::create(path).unwrap();
    file.write_all(b"\x93NUMPY\x01\x00").unwrap();
    file.write_all(&(header as u16).to_le_bytes()).unwrap();
    file.write_all(format!("{text:<0$}\n", header - 1).as_bytes()).unwrap();
    let size: usize = kind[1..].parse().unwrap();
    file.set_len((10 + header + rows * dim * size) as u64).unwrap();
    for &(at, value) in values {
        file.seek(SeekFrom::Start((10 + header + at * size) as u64)).unwrap();
        match size {
            4 => file.write_all(&(value as f32).to_le_bytes()).unwrap(),
            _ => file.write_all(&value.to_le_bytes()).unwrap(),
        }
    }
    ArraySpec { path: path.to_owned(), name: None }
}

fn map(spec: &ArraySpec) -> AllValues {
    EmbeddingsFile::open(spec).unwrap().map().unwrap()
}

#[test]
fn values_of_all_blocks_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    let (rows, dim) = (400_000, 3);
    let last = rows * dim - 1;
    let spec = write(&path, "f8", (rows, dim), 118, &[(1, 0.5), (900_001, -2.0), (last, 7.25)]);
    let values = EmbeddingsFile::open(&spec).unwrap().into_values().unwrap();
    assert_eq!((values.len(), values[1], values[900_001], values[last]), (rows * dim, 0.5, -2.0, 7.25));
    assert_eq!(values.iter().filter(|v| **v != 0.0).count(), 3);
    let part = EmbeddingsFile::open(&spec).unwrap().values(300_000..rows).unwrap();
    assert_eq!((part[1], part.len()), (-2.0, 300_000));
    let spec = write(&path, "f8", (rows, dim), 118, &[(900_001, 1e300)]);
    let error = EmbeddingsFile::open(&spec).unwrap().values(100_000..rows).unwrap_err().to_string();
    assert!(error.contains("row 300000, column 1"), "{error}");
}

#[test]
fn large_arrays_of_f32_in_c_order_are_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    // 64 MiB, the size from which arrays are mapped.
    let (rows, dim) = (64 * MIB / 4 / 16, 16);
    let values = [(0, 1.5), (rows * dim - 1, -3.0)];
    // The values begin at a multiple of 4 bytes if the header has 118 bytes, and at an odd address if it has 119.
    let cases = [
        ("f4", rows, 118, true),
        ("f4", rows - 1, 118, false),
        ("f4", rows, 119, false),
        ("f8", rows, 118, false),
        ("Ff4", rows, 118, false),
    ];
    for (kind, rows, header, is_mapped) in cases {
        let values = &values[..if rows * dim > values[1].0 { 2 } else { 1 }];
        let read = map(&write(&path, kind, (rows, dim), header, values));
        assert_eq!(read.mapped.is_some(), is_mapped, "{kind} {rows} {header}");
        assert_eq!((read.values.len(), read.values[0]), (rows * dim, 1.5));
        assert!(values.len() < 2 || read.values[rows * dim - 1] == -3.0, "{kind} {header}");
    }
}

#[test]
fn changes_of_a_mapped_file_are_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    let spec = write(&path, "f4", (MIB, 16), 118, &[]);
    let mapped = map(&spec).mapped.unwrap();
    mapped.verify_unchanged().unwrap();
    // Another file of the same name does not affect the mapped file.
    std::fs::rename(&path, folder.path().join("old.npy")).unwrap();
    write(&path, "f4", (4, 4), 118, &[]);
    mapped.verify_unchanged().unwrap();
    let file = OpenOptions::new().write(true).open(folder.path().join("old.npy")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
    let error = mapped.verify_unchanged().unwrap_err().to_string();
    assert!(error.ends_with("x.npy: it was changed while it was in use: run the command again"), "{error}");
}

#[test]
fn a_truncated_array_is_an_error_and_not_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    let spec = write(&path, "f4", (MIB, 16), 118, &[]);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(64 * MIB as u64).unwrap();
    let error = EmbeddingsFile::open(&spec).and_then(EmbeddingsFile::map).err().unwrap().to_string();
    assert!(error.ends_with("it is truncated: it ends before the end of the array"), "{error}");
}
