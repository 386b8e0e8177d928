//! Compressed arrays and tables: read in blocks, recognized by their contents, verified by their checksums.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use nuq_io::{ArraySpec, EmbeddingsFile, Format, ReadOptions, read_labels, read_members};
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

const TABLE: &str = "x,y\n1,2\n3,4\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn npy(rows: usize, dim: usize, is_fortran: &str, values: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': {is_fortran}, 'shape': ({rows}, {dim}), }}\n");
    let values: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &values].concat()
}

/// An npz archive with the compressed array `x`.
fn npz(array: &[u8]) -> Vec<u8> {
    npz_with(CompressionMethod::Deflated, array)
}

fn npz_with(compression: CompressionMethod, array: &[u8]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(compression);
    archive.start_file("x.npy", options).unwrap();
    archive.write_all(array).unwrap();
    archive.finish().unwrap().into_inner()
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> ArraySpec {
    fs::write(folder.join(name), bytes).unwrap();
    ArraySpec { path: folder.join(name), name: None }
}

fn error_of(spec: &ArraySpec) -> String {
    EmbeddingsFile::open(spec).and_then(EmbeddingsFile::read).unwrap_err().to_string()
}

#[test]
fn blocks_of_a_compressed_array_are_read_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<f32> = (0..3000).map(|v| v as f32).collect();
    for (name, bytes) in
        [("x.npz", npz(&npy(1000, 3, "False", &values))), ("x.npy.gz", gzip(&npy(1000, 3, "False", &values)))]
    {
        let mut file = EmbeddingsFile::open(&write(folder.path(), name, &bytes)).unwrap();
        assert_eq!((file.len(), file.dim()), (1000, 3), "{name}");
        for rows in [0..10, 10..400, 900..1000, 5..7, 0..1000] {
            assert_eq!(file.values(rows.clone()).unwrap(), values[3 * rows.start..3 * rows.end], "{name}");
        }
    }
}

#[test]
fn compressed_arrays_in_fortran_order_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let array = npy(2, 3, "True", &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    for (name, bytes) in [("x.npz", npz(&array)), ("x.npy.gz", gzip(&array))] {
        let mut file = EmbeddingsFile::open(&write(folder.path(), name, &bytes)).unwrap();
        assert_eq!(file.values(1..2).unwrap(), [3.0, 4.0, 5.0], "{name}");
        assert_eq!(file.values(0..1).unwrap(), [0.0, 1.0, 2.0], "{name}");
    }
}

#[test]
fn gzip_is_recognized_by_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["x.csv.gz", "x.csv", "x", "x.npy"] {
        let file = EmbeddingsFile::open(&write(folder.path(), name, &gzip(TABLE.as_bytes())));
        match file {
            Ok(file) => assert_eq!(file.read().unwrap().as_slice(), [1.0, 2.0, 3.0, 4.0], "{name}"),
            Err(error) => {
                let expected = "its name ends in .npy, but it contains text";
                assert!(name == "x.npy" && error.to_string().contains(expected), "{name}: {error}");
            }
        }
    }
    let tabs = write(folder.path(), "y.tsv.gz", &gzip(b"class\tx\ncat\t1\ndog\t2\n"));
    let labels = ArraySpec { name: Some("class".to_owned()), ..tabs.clone() };
    assert_eq!(read_labels(&labels).unwrap()[1], *"dog");
    let spec: ArraySpec = tabs.path.with_file_name("y.tsv.gz:class").to_string_lossy().parse().unwrap();
    assert_eq!(spec, labels);
    // Two concatenated gzip files are read as one file, as gunzip does.
    let both = [gzip(b"1,2\n"), gzip(b"3,4\n")].concat();
    assert_eq!(EmbeddingsFile::open(&write(folder.path(), "two.csv.gz", &both)).unwrap().len(), 2);
}

#[test]
fn logits_of_ensemble_members_are_read_from_gzip() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for name in ["members-f32.npy", "members-fortran.npy"] {
        let plain = ArraySpec { path: data.join(name), name: None };
        let packed = write(folder.path(), &format!("{name}.gz"), &gzip(&fs::read(&plain.path).unwrap()));
        let (plain, packed) = (read_members(&plain).unwrap(), read_members(&packed).unwrap());
        assert_eq!(plain.len(), packed.len());
        assert!(plain.iter().zip(&packed).all(|(a, b)| a.as_slice() == b.as_slice()), "{name}");
    }
}

/// The sizes in the header exceed every memory, so that a test that allocates them fails.
#[test]
fn memory_is_not_allocated_for_members_that_a_compressed_file_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    for is_fortran in ["False", "True"] {
        let header = format!(
            "{{'descr': '<f4', 'fortran_order': {is_fortran}, 'shape': (64, 1048576, 1073741824), }}\n"
        );
        let length = (header.len() as u16).to_le_bytes();
        let array = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &[0; 100]].concat();
        for (name, bytes) in [("m.npy.gz", gzip(&array)), ("m.npz", npz(&array))] {
            let error = read_members(&write(folder.path(), name, &bytes)).unwrap_err().to_string();
            let end = "it is truncated: it ends before the end of the array";
            assert!(error.ends_with(end), "{name}, {is_fortran}: {error}");
        }
    }
}

#[test]
fn damaged_compressed_data_are_errors_or_give_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<f32> = (0..300).map(|v| (v * v) as f32).collect();
    let (array, table) = (npy(100, 3, "False", &values), "1,2\n".repeat(1000));
    for (name, whole) in
        [("x.npz", npz(&array)), ("x.npy.gz", gzip(&array)), ("x.csv.gz", gzip(table.as_bytes()))]
    {
        let right = EmbeddingsFile::open(&write(folder.path(), name, &whole)).unwrap().read().unwrap();
        for at in (0..whole.len()).step_by(3) {
            assert!(!error_of(&write(folder.path(), name, &whole[..at])).is_empty(), "{at} bytes of {name}");
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            let file = EmbeddingsFile::open(&write(folder.path(), name, &changed));
            if let Ok(rows) = file.and_then(EmbeddingsFile::read) {
                assert_eq!(rows.as_slice(), right.as_slice(), "byte {at} of {name}");
            }
        }
    }
    let mut checksum = gzip(&array);
    let at = checksum.len() - 6;
    checksum[at] ^= 1;
    let error = error_of(&write(folder.path(), "x.npy.gz", &checksum));
    assert!(
        error.contains("x.npy.gz: it cannot be unpacked (") && error.ends_with("the file is damaged"),
        "{error}"
    );
}

#[test]
fn wrong_sizes_of_compressed_arrays_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let values = [0.0; 12];
    let truncated = "it is truncated: it ends before the end of the array";
    for rows in [5, 1 << 40] {
        let array = npy(rows, 3, "False", &values);
        let stored = npz_with(CompressionMethod::Stored, &array);
        for (name, bytes) in [("x.npz", npz(&array)), ("stored.npz", stored), ("x.npy.gz", gzip(&array))] {
            let error = error_of(&write(folder.path(), name, &bytes));
            assert!(error.ends_with(truncated), "{rows} rows, {name}: {error}");
        }
    }
    for compression in [CompressionMethod::Deflated, CompressionMethod::Stored] {
        let shorter = npz_with(compression, &npy(3, 3, "False", &values));
        let error = error_of(&write(folder.path(), "x.npz", &shorter));
        assert!(error.ends_with("it holds more values than its shape states"), "{error}");
    }
    let labels = read_labels(&write(folder.path(), "y.npy.gz", &gzip(&npy(1 << 30, 1 << 20, "False", &[]))));
    let error = labels.unwrap_err().to_string();
    assert!(error.ends_with("has the shape 1073741824 × 1048576; needed: one entry per row"), "{error}");
}

#[test]
fn a_compressed_npz_archive_is_read_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    // An npz archive is not read from front to back, so the unpacked archive is copied to a temporary file.
    let array = npy(2, 2, "False", &[1.0, 2.0, 3.0, 4.0]);
    let spec = write(folder.path(), "x.npz.gz", &gzip(&npz(&array)));
    let mut file = EmbeddingsFile::open(&spec).unwrap();
    assert_eq!(file.values(1..2).unwrap(), [3.0, 4.0]);
    // To read an earlier row, the array is unpacked again.
    assert_eq!(file.values(0..1).unwrap(), [1.0, 2.0]);
}

#[test]
fn the_format_can_be_given() {
    let folder = tempfile::tempdir().unwrap();
    let open = |spec: &ArraySpec, format| {
        let file = ReadOptions::new().format(format).embeddings(spec, &[]);
        file.map(|file| (file.len(), file.dim())).map_err(|error| error.to_string())
    };
    let tabs = write(folder.path(), "x.csv", b"1\t2\n3\t4\n");
    assert_eq!(open(&tabs, Format::Tsv), Ok((2, 2)));
    let error = open(&tabs, Format::Npy).unwrap_err();
    assert!(error.contains("x.csv: it contains text, but --format npy is given"), "{error}");
    let array = write(folder.path(), "x.tsv", &npy(2, 1, "False", &[1.0, 2.0]));
    assert_eq!(open(&array, Format::Npy), Ok((2, 1)));
    assert_eq!(EmbeddingsFile::open(&array).unwrap().len(), 2);
    let error = open(&array, Format::Tsv).unwrap_err();
    assert!(error.contains("x.tsv: it contains npy data, but --format tsv is given"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_once() {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name is a string that ends with zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let writer = path.clone();
    let values: Vec<f32> = (0..30_000).map(|v| v as f32).collect();
    let array = npy(10_000, 3, "False", &values);
    let thread = std::thread::spawn(move || fs::write(writer, array).unwrap());
    let mut file = EmbeddingsFile::open(&ArraySpec { path, name: None }).unwrap();
    assert_eq!(file.values(0..9000).unwrap(), values[..27_000]);
    assert_eq!(file.values(9000..10_000).unwrap(), values[27_000..]);
    let error = file.values(0..1).unwrap_err().to_string();
    assert!(error.ends_with("it can be read only once: save it to a file"), "{error}");
    thread.join().unwrap();
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_is_recognized_by_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    let packed = zstd::encode_all(TABLE.as_bytes(), 1).unwrap();
    for name in ["x.csv.zst", "x.csv", "x"] {
        let file = EmbeddingsFile::open(&write(folder.path(), name, &packed)).unwrap();
        assert_eq!(file.read().unwrap().as_slice(), [1.0, 2.0, 3.0, 4.0], "{name}");
    }
    let error = error_of(&write(folder.path(), "x.csv.zst", &packed[..packed.len() - 1]));
    assert!(error.contains("x.csv.zst: it cannot be unpacked ("), "{error}");
}

#[cfg(not(feature = "zstd"))]
#[test]
fn zstd_needs_a_feature() {
    let folder = tempfile::tempdir().unwrap();
    let error = error_of(&write(folder.path(), "x.csv", b"\x28\xb5\x2f\xfd\x04\x00"));
    assert!(error.ends_with("build it with `--features zstd`, or compress with gzip"), "{error}");
}
