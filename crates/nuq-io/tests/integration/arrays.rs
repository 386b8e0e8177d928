//! Tests of reading arrays and tables.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use nuq::Label;
use nuq_io::{
    ArraySpec, EmbeddingsFile, NpzArray, npz_names, read_labels, read_members, read_targets, write_npz,
};
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

fn data(name: &str) -> ArraySpec {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    folder.join(name).to_string_lossy().parse().unwrap()
}

fn open(spec: &ArraySpec) -> EmbeddingsFile {
    EmbeddingsFile::open(spec).unwrap()
}

fn read_error(spec: &ArraySpec) -> String {
    EmbeddingsFile::open(spec).and_then(EmbeddingsFile::read).unwrap_err().to_string()
}

fn ints(values: &[i128]) -> Vec<Label> {
    values.iter().map(|&v| Label::Int(v)).collect()
}

fn words(values: &[&str]) -> Vec<Label> {
    values.iter().map(|&v| Label::from(v)).collect()
}

#[test]
fn every_type_and_order_gives_the_same_rows() {
    let expected: Vec<f32> = (0..4).flat_map(|i| (0..3).map(move |j| (10 * i + j) as f32 / 2.0)).collect();
    for name in [
        "rows-f16.npy",
        "rows-f32.npy",
        "rows-f64.npy",
        "rows-fortran.npy",
        "stored.npz:x",
        "packed.npz:x",
        "single.npz",
        "tensors.safetensors:x",
        "tensors.safetensors:half",
    ] {
        let mut file = open(&data(name));
        assert_eq!((file.len(), file.dim()), (4, 3), "{name}");
        assert_eq!(file.values(1..3).unwrap(), expected[3..9], "{name}, in blocks");
        assert_eq!(file.read().unwrap().as_slice(), expected, "{name}");
    }
    let doubled: Vec<f32> = expected.iter().map(|v| 2.0 * v).collect();
    assert_eq!(open(&data("rows-int16.npy")).read().unwrap().as_slice(), doubled);
}

#[test]
fn labels_are_booleans_integers_or_strings() {
    let read = |name: &str| read_labels(&data(name)).unwrap();
    assert_eq!(read("labels-int.npy"), ints(&[3, -1, 3, 1 << 40]));
    assert_eq!(read("labels-bool.npy"), [true, false, true, true].map(Label::Bool));
    assert_eq!(read("labels-float.npy"), ints(&[1, 2, 1, 0]));
    assert_eq!(read("labels-text.npy"), words(&["cat", "über", "eel", "dog"]));
    assert_eq!(read("labels-bytes.npy"), words(&["cat", "dog", "cat", "a"]));
    assert_eq!(read("labels-column.npy"), ints(&[1, 2, 3, 4]));
    assert_eq!(read("stored.npz:y"), ints(&[0, 1, 0, 1]));
    assert_eq!(read("packed.npz:y"), words(&["a", "b", "a", "b"]));
    assert_eq!(read("tensors.safetensors:y"), ints(&[0, 1, 0, 1]));
    let error = read_labels(&data("labels-half.npy")).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "labels-half.npy: the label of row 1 is 2.5, not an integer: give integers or strings, or use --targets for numbers"
        ),
        "{error}"
    );
    assert_eq!(read_targets(&data("labels-half.npy")).unwrap(), [1.0, 2.5, 1.0, 0.0]);
}

#[test]
fn unreadable_arrays_are_errors_with_a_hint() {
    let ends = |name: &str, end: &str| {
        let text = read_error(&data(name));
        assert!(text.ends_with(end), "{name}: {text}");
    };
    ends("stored.npz:z", "stored.npz holds no array `z`; there are: x, y");
    ends("tensors.safetensors:z", "holds no array `z`; there are: half, x, y");
    let text = read_error(&data("stored.npz"));
    assert!(
        text.contains("holds several arrays; name one as") && text.ends_with("there are: x, y"),
        "{text}"
    );
    ends("rows-f32.npy:x", "a .npy file holds a single array without a name: remove `:x`");
    ends("rows-one-dimension.npy", "has one dimension of 3; needed: rows × columns");
    ends("rows-nan.npy", "rows-nan.npy: row 2, column 1 is NaN: every coordinate must be finite");
    ends(
        "rows-objects.npy",
        "it holds Python objects, which are not supported: save embeddings as array.astype('float32'), labels as \
         array.astype(str)",
    );
    ends(
        "rows-big-endian.npy",
        "its type >f4 is big-endian: save array.astype(array.dtype.newbyteorder('<'))",
    );
    ends("labels-text.npy", "labels-text.npy: it holds strings where numbers are needed");
    ends("make.py", "to read a table with another extension, use --format csv or --format tsv");
    let missing = read_error(&data("nowhere.npy"));
    assert!(missing.starts_with("cannot read ") && missing.contains("nowhere.npy: "), "{missing}");
}

#[test]
fn tables_are_read_with_and_without_a_header() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| -> ArraySpec {
        fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_string_lossy().parse().unwrap()
    };
    let named = |spec: &ArraySpec, name: &str| ArraySpec { name: Some(name.to_owned()), ..spec.clone() };
    assert_eq!(open(&write("a.csv", "1,2\n3,4\n")).read().unwrap().as_slice(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(open(&write("pandas.csv", "0,1\n5,6.5\n")).read().unwrap().as_slice(), [5.0, 6.5]);
    assert_eq!(
        open(&write("index.csv", ",a,b\n0,5,6\n1,7,8\n")).read().unwrap().as_slice(),
        [5.0, 6.0, 7.0, 8.0]
    );
    assert_eq!(open(&write("numbers.csv", ",0,1\n0,5,6\n")).read().unwrap().as_slice(), [5.0, 6.0]);
    let missing = read_error(&write("missing.csv", "a,b\n1,\n"));
    assert!(missing.ends_with("row 0, column 1 is NaN: every coordinate must be finite"), "{missing}");
    let unlabeled = read_labels(&write("unlabeled.csv", "class,x\ncat,1\n,2\n")).unwrap_err().to_string();
    assert!(unlabeled.contains("has several columns"), "{unlabeled}");
    let unlabeled = read_labels(&named(&write("unlabeled.csv", "class,x\ncat,1\n,2\n"), "class"));
    assert!(unlabeled.unwrap_err().to_string().ends_with("the label of line 3 is missing: remove the row"));
    assert_eq!(open(&write("b.tsv", "p\tq\n1\t 2e1\n")).read().unwrap().as_slice(), [1.0, 20.0]);
    let mixed = write("c.csv", "class,weight\n\"cat, big\",1.5\ndog,2\n");
    assert_eq!(read_labels(&named(&mixed, "class")).unwrap(), words(&["cat, big", "dog"]));
    assert_eq!(read_targets(&named(&mixed, "weight")).unwrap(), [1.5, 2.0]);
    let error = read_labels(&named(&mixed, "clas")).unwrap_err().to_string();
    assert!(error.ends_with("has no column `clas`; there are: class, weight"), "{error}");
    assert_eq!(read_labels(&write("d.csv", "7\n8\n7\n")).unwrap(), ints(&[7, 8, 7]));
    assert_eq!(read_labels(&write("e.csv", "cat\ndog\n")).unwrap(), words(&["cat", "dog"]));
    let error = read_error(&write("f.csv", "x,y\n1,2\n3,four\n"));
    assert!(
        error.contains(
            "f.csv: line 3, column `y` is `four`, not a number; if `y` is not a coordinate, exclude it as"
        ) && error.ends_with("f.csv:-y"),
        "{error}"
    );
    let ragged = read_error(&write("g.csv", "1,2\n3\n"));
    assert!(ragged.contains("g.csv"), "{ragged}");
    assert!(read_error(&write("h.csv", "")).ends_with("h.csv: the table has no rows"));
}

#[test]
fn excluded_columns_are_not_coordinates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    fs::write(&path, "x,class,y,id\n1,cat,2,a\n3,dog,4,b\n").unwrap();
    let named = |name: &str| ArraySpec { path: path.clone(), name: Some(name.to_owned()) };
    let whole = ArraySpec { path: path.clone(), name: None };
    assert_eq!(open(&named("-class,id")).read().unwrap().as_slice(), [1.0, 2.0, 3.0, 4.0]);
    // The column of the labels, with another path to the same file.
    let other_path = ArraySpec { path: folder.path().join("./t.csv"), ..named("class") };
    let rows = EmbeddingsFile::open_excluding(&named("-id"), &[&other_path]).unwrap();
    assert_eq!(rows.read().unwrap().as_slice(), [1.0, 2.0, 3.0, 4.0]);
    let rest = EmbeddingsFile::open_excluding(&whole, &[&other_path]).err().unwrap().to_string();
    assert!(rest.contains("line 2, column `id` is `a`, not a number; if `id` is not a coordinate"), "{rest}");
    assert!(read_error(&named("-no")).ends_with("has no column `no`; there are: x, class, y, id"));
    assert!(read_error(&named("x")).contains("remove `:x`, or exclude the other columns as"));
    assert!(read_error(&named("-x,y,id,class")).ends_with("all columns are excluded"));
}

#[test]
fn semicolons_separate_a_table_without_commas() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    fs::write(&path, "x;y\n1;2\n3;4\n").unwrap();
    assert_eq!(open(&ArraySpec { path, name: None }).read().unwrap().as_slice(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn a_truncated_file_is_an_error_or_gives_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["rows-f32.npy", "stored.npz", "packed.npz", "tensors.safetensors"] {
        let whole = fs::read(data(name).path).unwrap();
        let path = folder.path().join(name);
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let name = if name.ends_with(".npy") { None } else { Some("x".to_owned()) };
            let spec = ArraySpec { path: path.clone(), name };
            let read = EmbeddingsFile::open(&spec).and_then(EmbeddingsFile::read);
            // If the file is truncated after the end of the array, all rows are read. An error must not contain a term of the zip
            // library, such as EOCD (end of central directory).
            match read {
                Ok(rows) => assert_eq!(rows.len(), 4, "{} bytes of {}", len, path.display()),
                Err(error) => assert!(!error.to_string().contains("EOCD"), "{error}"),
            }
        }
    }
}

fn numpy(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    numpy_ordered(descr, "False", shape, values)
}

fn numpy_ordered(descr: &str, is_fortran: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {is_fortran}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}

#[test]
fn sizes_in_headers_are_verified_before_memory_is_allocated() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| -> ArraySpec {
        fs::write(folder.path().join(name), bytes).unwrap();
        folder.path().join(name).to_string_lossy().parse().unwrap()
    };
    let huge = write("a.npy", &numpy("<f4", "(1000000000, 100000)", &[]));
    assert!(
        read_error(&huge).ends_with("it is truncated: it ends before the end of the array"),
        "{}",
        read_error(&huge)
    );
    let wrap = write("b.npy", &numpy("<f4", "(4611686018427387904, 4)", &[]));
    assert!(read_error(&wrap).ends_with("its shape exceeds the address space"), "{}", read_error(&wrap));
    let empty = write("empty.npy", &numpy("<f4", "(0, 4611686018427387904)", &[]));
    assert!(read_error(&empty).ends_with("its shape exceeds the address space"), "{}", read_error(&empty));
    let tensor = r#"{"x":{"dtype":"F32","shape":[0,4611686018427387904],"data_offsets":[0,0]}}"#;
    let tensor = write("empty.safetensors", &[&tensor.len().to_le_bytes(), tensor.as_bytes()].concat());
    assert!(read_error(&tensor).ends_with("its shape does not fit its bytes"), "{}", read_error(&tensor));
    for descr in ["<U4611686018427387904", "\u{fffd}f4", "", "<U0"] {
        let labels = read_labels(&write("c.npy", &numpy(descr, "(2,)", &[0; 16])));
        assert!(labels.is_err(), "{descr:?}");
    }
    for (shape, offsets) in [
        ("[576460752303423488,4]", "[0,9223372036854775808]"),
        ("[0,5]", "[18446744073709551615,18446744073709551615]"),
    ] {
        let header = format!("{{\"x\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}");
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        let spec = write("d.safetensors", &bytes);
        assert!(read_error(&spec).ends_with("its shape does not fit its bytes"), "{}", read_error(&spec));
    }
    // A value beyond the range of `f32` is an error as well.
    let overflow = write("e.npy", &numpy("<f8", "(1, 2)", &[1.0f64, 1e39].map(f64::to_le_bytes).concat()));
    assert!(
        read_error(&overflow).contains("row 0, column 1 is 1e39, beyond the range of f32"),
        "{}",
        read_error(&overflow)
    );
    // `İ` has more bytes in lowercase, so positions in a text in lowercase differ from those in the original text.
    let odd: ArraySpec = "İ.npz:".parse().unwrap();
    assert_eq!(odd.name.as_deref(), Some(""));
}

/// The bytes of the file do not limit the number of columns if there are no rows.
#[test]
fn an_array_without_rows_is_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    for is_fortran in ["False", "True"] {
        fs::write(&path, numpy_ordered("<f4", is_fortran, "(0, 1152921504606846976)", &[])).unwrap();
        let mut file = open(&ArraySpec { path: path.clone(), name: None });
        assert_eq!((file.len(), file.dim()), (0, 1 << 60), "{is_fortran}");
        assert_eq!(file.values(0..0).unwrap(), [0f32; 0], "{is_fortran}");
        assert_eq!(file.into_values().unwrap(), [0f32; 0], "{is_fortran}");
    }
}

#[test]
fn a_changed_byte_of_an_archive_never_changes_the_values() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["stored.npz", "packed.npz"] {
        let whole = fs::read(data(name).path).unwrap();
        let path = folder.path().join(name);
        let spec = ArraySpec { path: path.clone(), name: Some("x".to_owned()) };
        fs::write(&path, &whole).unwrap();
        let right = open(&spec).read().unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, &bytes).unwrap();
            if let Ok(rows) = EmbeddingsFile::open(&spec).and_then(EmbeddingsFile::read) {
                assert_eq!(rows.as_slice(), right.as_slice(), "byte {at} of {name}");
            }
        }
    }
}

#[test]
fn written_archives_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.npz");
    let words = ["é".to_owned(), "longer".to_owned()];
    let arrays = [
        NpzArray::numbers("x", &[1.0, 2.0, 3.0, 4.0], Some(2)),
        NpzArray::integers("y", &[5, -6], None),
        NpzArray::strings("z", &words, None),
    ];
    let mut bytes = Vec::new();
    write_npz(&mut bytes, &arrays).unwrap();
    fs::write(&path, bytes).unwrap();
    let named = |name: &str| ArraySpec { path: path.clone(), name: Some(name.to_owned()) };
    assert_eq!(open(&named("x")).read().unwrap().row(1), [3.0, 4.0]);
    assert_eq!(read_labels(&named("y")).unwrap(), ints(&[5, -6]));
    assert_eq!(read_labels(&named("z")).unwrap(), self::words(&["é", "longer"]));
}

/// The values of an ensemble member, as `tests/data/make.py` writes them.
fn member(member: usize) -> Vec<f32> {
    let value = |i: usize, j: usize| (10 * i + j) as f32 / 2.0 + 100.0 * member as f32;
    (0..4).flat_map(|i| (0..3).map(move |j| value(i, j))).collect()
}

#[test]
fn logits_of_ensemble_members_are_read_in_every_type_and_order() {
    for name in [
        "members-f16.npy",
        "members-f32.npy",
        "members-f64.npy",
        "members-fortran.npy",
        "members-stored.npz:m",
        "members-stored.npz:fortran",
        "members-packed.npz:m",
        "members-packed.npz:fortran",
        "members.safetensors:m",
        "members.safetensors:half",
    ] {
        let members = read_members(&data(name)).unwrap();
        assert_eq!(members.len(), 2, "{name}");
        for (i, logits) in members.iter().enumerate() {
            assert_eq!((logits.dim(), logits.as_slice()), (3, &*member(i)), "{name}, member {i}");
        }
    }
}

#[test]
fn arrays_that_are_not_logits_of_ensemble_members_are_errors_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| -> ArraySpec {
        fs::write(folder.path().join(name), bytes).unwrap();
        folder.path().join(name).to_string_lossy().parse().unwrap()
    };
    let error_of = |spec: &ArraySpec| read_members(spec).unwrap_err().to_string();
    let needed = "needed: an array of members × rows × classes, none of them zero (numpy.stack of one array per member)";
    let shape = error_of(&data("rows-f32.npy"));
    assert!(shape.ends_with(&format!("rows-f32.npy has the shape 4 × 3; {needed}")), "{shape}");
    let tensor = error_of(&data("members.safetensors:x"));
    assert!(tensor.ends_with(&format!("members.safetensors:x has the shape 4 × 3; {needed}")), "{tensor}");
    // Shapes with a size of zero. The last shape has so many members that a vector with one entry per member would exceed the memory.
    for shape in ["(0, 4, 3)", "(4, 0, 3)", "(4, 3, 0)", "(1000000000000, 0, 3)"] {
        let none = error_of(&write("none.npy", &numpy("<f4", shape, &[])));
        assert!(none.ends_with(needed), "{shape}: {none}");
    }
    for (shape, end) in [
        ("(2, 4, 3)", "it is truncated: it ends before the end of the array"),
        ("(1000000000, 1000, 1000)", "it is truncated: it ends before the end of the array"),
        ("(4611686018427387904, 4, 1)", "its shape exceeds the address space"),
    ] {
        // The bytes of one member; the header claims more.
        let error = error_of(&write("truncated.npy", &numpy("<f4", shape, &[0; 48])));
        assert!(error.ends_with(end), "{shape}: {error}");
    }
    let whole = fs::read(data("members-fortran.npy").path).unwrap();
    let cut = error_of(&write("cut.npy", &whole[..whole.len() - 1]));
    assert!(cut.ends_with("cut.npy: it is truncated: it ends before the end of the array"), "{cut}");
    let nan = error_of(&data("members-nan.npy"));
    assert!(
        nan.ends_with("members-nan.npy, member 1: row 2, column 1 is NaN: every coordinate must be finite"),
        "{nan}"
    );
    let values = [1.0f64, 1e39].map(f64::to_le_bytes).concat();
    for is_fortran in ["False", "True"] {
        let overflow =
            error_of(&write("overflow.npy", &numpy_ordered("<f8", is_fortran, "(2, 1, 1)", &values)));
        let expected = "overflow.npy, member 1: row 0, column 0 is 1e39, beyond the range of f32";
        assert!(overflow.contains(expected), "{is_fortran}: {overflow}");
        // Member 1 overflows in row 0, and member 0 in row 1.
        let values = if is_fortran == "True" { [1.0, 5e39, 1e39, 1.0] } else { [1.0, 1e39, 5e39, 1.0] };
        let values = values.map(f64::to_le_bytes).concat();
        let both = error_of(&write("both.npy", &numpy_ordered("<f8", is_fortran, "(2, 2, 1)", &values)));
        assert!(both.contains("both.npy, member 0: row 1, column 0 is 1e39, beyond"), "{is_fortran}: {both}");
    }
    let words = error_of(&write("words.npy", &numpy("<U1", "(1, 1, 1)", &[0; 4])));
    assert!(words.ends_with("words.npy: it holds strings where numbers are needed"), "{words}");
    for name in ["table.csv", "table.tsv", "table.parquet"] {
        let table = error_of(&write(name, b"1,2\n3,4\n"));
        assert!(table.contains(&format!("{name}: a table has no third dimension: save an array")), "{table}");
    }
    assert!(error_of(&data("members-stored.npz")).ends_with("there are: fortran, m"));
    let text = read_error(&data("members-f32.npy"));
    assert!(text.ends_with("members-f32.npy has the shape 2 × 4 × 3; needed: rows × columns"), "{text}");
}

#[test]
fn npz_names_lists_the_arrays() {
    let mut names = npz_names(&data("stored.npz").path).unwrap();
    names.sort();
    assert!(names.contains(&"x".to_owned()), "{names:?}");
    let error = npz_names(&data("rows-f32.npy").path).unwrap_err().to_string();
    assert!(error.contains("not an npz archive"), "{error}");
}

/// An npz archive of members with the given names and contents.
fn archive(compression: CompressionMethod, members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(compression);
    for (name, bytes) in members {
        archive.start_file(*name, options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn members_of_archives_are_read_with_and_without_the_ending_npy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    let array = |value: f32| numpy("<f4", "(1, 1)", &value.to_le_bytes());
    let read = |name: Option<&str>| {
        let spec = ArraySpec { path: path.clone(), name: name.map(str::to_owned) };
        let rows = EmbeddingsFile::open(&spec).and_then(EmbeddingsFile::read);
        rows.map(|rows| rows.as_slice()[0]).map_err(|error| error.to_string())
    };
    for compression in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let [x, y, z, other_z] = [1.0, 2.0, 3.0, 4.0].map(array);
        fs::write(&path, archive(compression, &[("x", &x[..])])).unwrap();
        assert_eq!((read(None), read(Some("x"))), (Ok(1.0), Ok(1.0)), "{compression}");

        let members: [(&str, &[u8]); 6] = [
            ("x.npy", &x),
            ("y", &y),
            ("z", &z),
            ("z.npy", &other_z),
            ("note", b"some text"),
            ("short", b"a"),
        ];
        fs::write(&path, archive(compression, &members)).unwrap();
        assert_eq!(npz_names(&path).unwrap(), ["x", "y", "z", "z.npy", "note", "short"]);
        // numpy.load returns the same arrays for these names.
        for (name, value) in [("x", 1.0), ("x.npy", 1.0), ("y", 2.0), ("z", 3.0), ("z.npy", 4.0)] {
            assert_eq!(read(Some(name)), Ok(value), "{name}, {compression}");
        }
        for name in ["note", "short"] {
            let error = read(Some(name)).unwrap_err();
            let expected =
                format!("a.npz:{name}: this member of the archive is not a numpy array: name another");
            assert!(error.contains(&expected), "{compression}: {error}");
        }
        for name in [None, Some("y.npy")] {
            let error = read(name).unwrap_err();
            assert!(error.ends_with("there are: note, short, x, y, z, z.npy"), "{compression}: {error}");
        }
    }
}

/// Names of archive members are compared, and never used as paths.
#[test]
fn names_in_archives_are_not_paths() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("hostile.npz");
    let absolute = folder.path().join("absolute").to_string_lossy().into_owned();
    let names = ["../outside", &absolute, "..", "sub/x", "x\\y", "C:x", ""];
    let arrays = names.map(|name| NpzArray::numbers(name, &[1.0, 2.0, 3.0, 4.0], Some(2)));
    let mut bytes = Vec::new();
    write_npz(&mut bytes, &arrays).unwrap();
    fs::write(&path, bytes).unwrap();
    assert_eq!(npz_names(&path).unwrap().len(), names.len());
    for name in names {
        let spec = ArraySpec { path: path.clone(), name: Some(name.to_owned()) };
        assert_eq!(open(&spec).read().unwrap().row(1), [3.0, 4.0], "{name}");
    }
    let files = |folder: &Path| fs::read_dir(folder).unwrap().count();
    assert_eq!((files(folder.path()), files(&inner)), (1, 1), "nothing is unpacked");
}
