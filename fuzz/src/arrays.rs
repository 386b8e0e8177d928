//! Checks of the readers of arrays and tables.

use nuq::Embeddings;
use std::path::Path;

use nuq_io::{
    ArraySpec, EmbeddingsFile, Error, NpzArray, read_images, read_labels, read_members, read_targets,
    write_npz,
};

use crate::{allocation, file};

/// Largest number of values that are compared. A header may declare more rows than a test can read within its time limit, for example
/// rows without columns.
const MAX_VALUES: usize = 1 << 20;

/// The first bytes of files, by extension.
const MAGIC: [(&str, &[u8]); 4] =
    [("npy", b"\x93NUMPY"), ("npz", b"PK\x03\x04"), ("npz", b"PK\x05\x06"), ("parquet", b"PAR1")];

/// Reads the bytes from a file with this extension: the array without a name, and one of the named arrays or columns.
pub fn check(bytes: &[u8], extension: &str) {
    // The first bytes of a file decide which reader is used. Files of another binary format are left to the target of that format.
    if MAGIC.iter().any(|(format, magic)| *format != extension && bytes.starts_with(magic)) {
        return;
    }
    match extension {
        "parquet" => allocation::limit_for_parquet(bytes.len()),
        _ => allocation::limit_for(bytes.len()),
    }
    let path = file::write(&format!("input.{extension}"), bytes);
    let named = some_name(&path, bytes);
    for name in [None].into_iter().chain(named.map(Some)) {
        check_array(&ArraySpec { path: path.clone(), name });
    }
}

/// The name of an array or column of a file, or for a table also all columns other than the first one. The bytes of the file decide which; `None`
/// if the file has no names.
fn some_name(path: &Path, bytes: &[u8]) -> Option<String> {
    // The error of a name that the file does not have lists its names.
    let unknown = ArraySpec { path: path.to_owned(), name: Some("\u{1}".to_owned()) };
    let mut names = match EmbeddingsFile::open(&unknown) {
        Err(Error::NoSuchArray { present, .. }) => present,
        Err(Error::NoSuchColumn { mut present, .. }) => {
            present.extend(present.first().map(|first| format!("-{first}")));
            present
        }
        _ => vec![],
    };
    let count = names.len();
    (count > 0).then(|| names.swap_remove(crc32fast::hash(bytes) as usize % count))
}

/// Reads an array as embeddings, labels, targets, members of an ensemble and images.
fn check_array(spec: &ArraySpec) {
    if let Ok(file) = EmbeddingsFile::open(spec) {
        if file.len().saturating_mul(file.dim().max(1)) <= MAX_VALUES {
            check_embeddings(spec, file);
        }
    }
    // A second reading must give the same values or the same error.
    same(read_labels(spec), read_labels(spec));
    let bits = |targets: Vec<f64>| targets.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    same(read_targets(spec).map(bits), read_targets(spec).map(bits));
    // These are another interpretation of the same values.
    let _ = (read_images(spec), read_members(spec));
}

/// Checks that rows read in blocks are equal to rows read at once, and that rows are the same after they were written and read again.
fn check_embeddings(spec: &ArraySpec, mut file: EmbeddingsFile) {
    let (rows, dim) = (file.len(), file.dim());
    let Ok(values) = file.values(0..rows) else { return };
    assert_eq!(values.len(), rows * dim, "there is one value per row and column");
    let mut blocks = EmbeddingsFile::open(spec).expect("the file has been opened before");
    let block = rows.div_ceil(3).max(1);
    let in_blocks: Vec<f32> = (0..rows)
        .step_by(block)
        .flat_map(|first| {
            blocks.values(first..rows.min(first + block)).expect("all rows have been read before")
        })
        .collect();
    assert_eq!(to_bits(&values), to_bits(&in_blocks), "blocks of rows differ from all rows");
    let Ok(embeddings) = file.read() else { return };
    assert_eq!(to_bits(&values), to_bits(&written_and_read(&embeddings)), "written rows differ");
}

fn written_and_read(embeddings: &Embeddings<'_>) -> Vec<f32> {
    let mut bytes = vec![];
    let array = NpzArray::singles("rows", embeddings.as_slice(), Some(embeddings.dim()));
    write_npz(&mut bytes, &[array]).expect("writing to memory cannot fail");
    let spec = ArraySpec { path: file::write("written.npz", &bytes), name: None };
    let mut file = EmbeddingsFile::open(&spec).expect("written rows can be opened");
    file.values(0..file.len()).expect("written rows can be read")
}

fn to_bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(one: Result<T, nuq_io::Error>, other: Result<T, nuq_io::Error>) {
    match (one, other) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
        (one, other) => panic!("the first reading gave {one:?}, the second {other:?}"),
    }
}
