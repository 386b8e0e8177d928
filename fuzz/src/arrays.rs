//! Checks of the readers of arrays and tables.

use std::path::Path;

use nuq::{Embeddings, Label};
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
    if let Ok(labels) = read_labels(spec) {
        check_labels(&labels);
    }
    if let Ok(targets) = read_targets(spec) {
        let bits = |targets: &[f64]| targets.iter().map(|target| target.to_bits()).collect::<Vec<_>>();
        let again = read_targets(&written(NpzArray::numbers("targets", &targets, None)));
        assert_eq!(
            bits(&targets),
            bits(&again.expect("written targets can be read")),
            "written targets differ"
        );
    }
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

/// Checks that labels are the same after they were written and read again.
fn check_labels(labels: &[Label]) {
    let texts: Vec<String> = labels.iter().map(Label::to_string).collect();
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    // An array of strings pads them with zeros, so it cannot represent a string that ends with zero.
    if labels.len().saturating_mul(width) > MAX_VALUES || texts.iter().any(|text| text.ends_with('\0')) {
        return;
    }
    let again = read_labels(&written(NpzArray::strings("labels", &texts, None)));
    let again = again.expect("written labels can be read").iter().map(Label::to_string).collect::<Vec<_>>();
    assert_eq!(texts, again, "written labels differ");
}

/// Writes an array to a file, and refers to it.
fn written(array: NpzArray<'_>) -> ArraySpec {
    let mut bytes = vec![];
    write_npz(&mut bytes, &[array]).expect("writing to memory cannot fail");
    ArraySpec { path: file::write("written.npz", &bytes), name: None }
}

fn written_and_read(embeddings: &Embeddings<'_>) -> Vec<f32> {
    let array = NpzArray::singles("rows", embeddings.as_slice(), Some(embeddings.dim()));
    let mut file = EmbeddingsFile::open(&written(array)).expect("written rows can be opened");
    file.values(0..file.len()).expect("written rows can be read")
}

fn to_bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
