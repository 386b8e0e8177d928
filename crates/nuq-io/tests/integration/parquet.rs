//! Parquet files written by pyarrow, by pandas and by nuq, and damaged ones.

use std::fs;
use std::path::{Path, PathBuf};

use nuq::Label;
use nuq_io::{
    ArraySpec, EmbeddingsFile, Error, KeptColumn, ParquetColumn, ParquetWriter, ReadOptions, read_labels,
    read_targets,
};

fn data(name: &str) -> ArraySpec {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    folder.join(name).to_string_lossy().parse().unwrap()
}

fn open(spec: &ArraySpec) -> EmbeddingsFile {
    EmbeddingsFile::open(spec).unwrap()
}

fn read_error(name: &str) -> String {
    EmbeddingsFile::open(&data(name)).and_then(EmbeddingsFile::read).unwrap_err().to_string()
}

/// The embeddings that `tests/data/make.py` writes to the files: (10 × row + column) / 2.
fn expected() -> Vec<f32> {
    (0..4).flat_map(|i| (0..3).map(move |j| (10 * i + j) as f32 / 2.0)).collect()
}

#[test]
fn every_kind_of_column_gives_the_same_rows() {
    for name in ["list.parquet", "list.parquet:list", "fixed.parquet", "several.parquet:large"] {
        let mut file = open(&data(name));
        assert_eq!((file.len(), file.dim()), (4, 3), "{name}");
        assert_eq!(file.values(1..3).unwrap(), expected()[3..9], "{name}, a block");
        assert_eq!(file.read().unwrap().as_slice(), expected(), "{name}");
    }
    let whole: Vec<f32> = expected().iter().map(|v| v.trunc()).collect();
    assert_eq!(open(&data("several.parquet:integers")).read().unwrap().as_slice(), whole);
    for name in ["several.parquet:-large_number,float,int,missing", "flat.parquet:-target"] {
        let spec = data(name);
        if name.starts_with("flat") {
            assert_eq!(
                open(&spec).read().unwrap().as_slice(),
                expected(),
                "the index of pandas is not a coordinate"
            );
        } else {
            let error = EmbeddingsFile::open(&spec).err().unwrap().to_string();
            assert!(error.contains(": it holds no column of numbers, apart from excluded ones;"), "{error}");
        }
    }
    let named = open(&data("flat.parquet:-target"));
    assert_eq!(named.column_names().unwrap().len(), 3);
    assert_eq!(open(&data("list.parquet")).column_names(), None);
    let target = data("flat.parquet:target");
    assert_eq!(EmbeddingsFile::open_excluding(&data("flat.parquet"), &[&target]).unwrap().dim(), 3);
}

#[test]
fn blocks_can_be_read_in_any_order() {
    for name in ["list.parquet", "flat.parquet:-target"] {
        let mut file = open(&data(name));
        for rows in [0..1, 1..2, 2..4, 0..2, 3..4, 1..3, 3..4, 0..0, 0..4] {
            let values = file.values(rows.clone()).unwrap();
            assert_eq!(values, expected()[3 * rows.start..3 * rows.end], "{name}, rows {rows:?}");
        }
    }
}

#[test]
fn columns_are_labels_and_targets() {
    let ints = |values: &[i128]| values.iter().map(|&v| Label::Int(v)).collect::<Vec<_>>();
    let words = |values: &[&str]| values.iter().map(|&v| Label::from(v)).collect::<Vec<_>>();
    let read = |name: &str| read_labels(&data(name)).unwrap();
    assert_eq!(read("list.parquet:int"), ints(&[3, -1, 3, 1 << 40]));
    assert_eq!(read("several.parquet:text"), words(&["cat", "über", "eel", "dog"]));
    assert_eq!(read("several.parquet:dictionary"), words(&["cat", "über", "eel", "dog"]));
    assert_eq!(read("several.parquet:bool"), [true, false, true, true].map(Label::Bool));
    assert_eq!(read("flat.parquet:class"), words(&["a", "b", "a", "b"]));
    assert_eq!(read("flat.parquet:target"), ints(&[1, 2, 3, 4]));
    assert_eq!(read_targets(&data("several.parquet:float")).unwrap(), [1.0, 2.5, 1.0, 0.0]);
    assert_eq!(read_targets(&data("list.parquet:int")).unwrap()[3], (1u64 << 40) as f64);
    let ends = |result: Result<(), Error>, end: &str| {
        let text = result.unwrap_err().to_string();
        assert!(text.ends_with(end), "{text}");
    };
    let labels = |name: &str| read_labels(&data(name)).map(drop);
    ends(
        labels("several.parquet:missing"),
        "several.parquet:missing: the label of row 1 is missing: remove the row",
    );
    ends(
        labels("several.parquet:float"),
        "the label of row 1 is 2.5, not an integer: give integers or strings, or use --targets for numbers",
    );
    ends(labels("several.parquet:list"), "is not supported: labels are booleans, integers or strings");
    ends(labels("flat.parquet:no"), "has no column `no`; there are: c0, c1, c2, class, target");
    let targets = |name: &str| read_targets(&data(name)).map(drop);
    ends(targets("several.parquet:missing"), "row 1 has no target");
    ends(targets("several.parquet:text"), "its type Utf8 is not supported: targets are numbers");
}

#[test]
fn unreadable_columns_are_errors() {
    let contains = |name: &str, part: &str| {
        let text = read_error(name);
        assert!(text.contains(part), "{name}: {text}");
    };
    contains("several.parquet", "has several columns; name one as");
    contains("several.parquet:ragged", "row 1 has 2 numbers, the first has 1: give lists of equal length");
    contains("several.parquet:lists_missing", "row 1, column 0 is NaN");
    contains("several.parquet:large_number", "row 1, column 0 is 1e39, beyond the range of f32");
    contains(
        "several.parquet:float",
        "column `float` does not contain lists of numbers; these columns do: list, large",
    );
    contains(
        "flat.parquet:c0",
        "column `c0` does not contain lists of numbers; remove `:c0` to read all columns of numbers",
    );
    contains("several.parquet:no", "has no column `no`; there are: list, large");
    contains("flat.parquet:-no", "has no column `no`; there are: c0, c1");
    let mut missing = open(&data("several.parquet:lists_missing"));
    let values = missing.values(0..4).unwrap();
    assert!(values[2].is_nan() && values[3].is_nan() && values[5].is_nan(), "{values:?}");
    assert_eq!((values[4], values[6]), (3.0, 4.0));
}

fn write(path: &Path, blocks: Vec<Vec<(&str, ParquetColumn)>>) {
    nuq_io::write_atomically(path, |file| {
        let mut writer = ParquetWriter::default();
        for block in blocks {
            writer.append(block, file)?;
        }
        writer.finish(file)
    })
    .unwrap();
}

#[test]
fn files_written_in_blocks_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.parquet");
    const ROWS: usize = 40_000;
    let block = |first: usize| {
        let rows = first..first + ROWS;
        let list = |i: usize| Some(vec![i as f64, 0.5]);
        vec![
            ("n", ParquetColumn::Integers(rows.clone().map(|i| Some(i as i64)).collect())),
            ("word", ParquetColumn::Strings(rows.clone().map(|i| Some(format!("w{i}"))).collect())),
            ("x", ParquetColumn::NumberLists(rows.clone().map(list).collect())),
            ("y", ParquetColumn::Numbers(rows.clone().map(|i| (i != 7).then_some(i as f64)).collect())),
            ("ids", ParquetColumn::IntegerLists(rows.clone().map(|i| Some(vec![i as i64])).collect())),
            (
                "words",
                ParquetColumn::StringLists(rows.map(|i| (i > 0).then(|| vec![format!("{i}")])).collect()),
            ),
        ]
    };
    // Each block is smaller than a row group; both together are larger.
    write(&path, vec![block(0), block(ROWS)]);
    let named = |name: &str| ArraySpec { path: path.clone(), name: Some(name.to_owned()) };
    let mut file = open(&named("x"));
    assert_eq!((file.len(), file.dim()), (2 * ROWS, 2));
    for first in (0..2 * ROWS).step_by(8192) {
        let rows = first..(2 * ROWS).min(first + 8192);
        let expected: Vec<f32> = rows.clone().flat_map(|i| [i as f32, 0.5]).collect();
        assert_eq!(file.values(rows).unwrap(), expected);
    }
    assert_eq!(file.values(70_000..70_001).unwrap(), [70_000.0, 0.5], "an earlier row");
    assert_eq!(read_labels(&named("word")).unwrap()[79_999], *"w79999");
    assert_eq!(read_labels(&named("n")).unwrap()[65_536], Label::Int(65_536));
    assert!(read_targets(&named("y")).unwrap_err().to_string().ends_with("row 7 has no target"));
    assert_eq!(open(&named("ids")).dim(), 1);
}

/// Reads the embeddings and labels of a file.
fn read_all(path: &Path, name: Option<&str>, labels: &str) -> Result<(Vec<f32>, Vec<Label>), Error> {
    let spec = |name: Option<&str>| ArraySpec { path: path.to_owned(), name: name.map(str::to_owned) };
    let mut file = EmbeddingsFile::open(&spec(name))?;
    let values = file.values(0..file.len())?;
    Ok((values, read_labels(&spec(Some(labels)))?))
}

/// A file, the selection of the columns of its embeddings (the text that follows `PATH:` in an argument), and the column of its labels.
const FILES: [(&str, Option<&str>, &str); 4] = [
    ("list.parquet", None, "text"),
    ("fixed.parquet", None, "int"),
    ("flat.parquet", Some("-target"), "class"),
    ("several.parquet", Some("lists_missing"), "dictionary"),
];

#[test]
fn a_truncated_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("cut.parquet");
    for (name, column, labels) in FILES {
        let whole = fs::read(data(name).path).unwrap();
        // Every length that removes at most the last 100 bytes, which are in the footer, and some shorter ones.
        for len in (0..whole.len() - 100).step_by(17).chain(whole.len() - 100..whole.len()) {
            fs::write(&path, &whole[..len]).unwrap();
            let error = read_all(&path, column, labels).unwrap_err().to_string();
            assert!(
                error.contains("it is truncated, damaged or not a parquet file"),
                "{len} of {name}: {error}"
            );
        }
    }
}

#[test]
fn a_changed_byte_causes_no_panic_and_no_wrong_value_in_pages_with_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("damaged.parquet");
    for ((name, column, labels), step) in FILES.into_iter().zip([1, 11, 5, 13]) {
        let whole = fs::read(data(name).path).unwrap();
        let expected = read_all(&data(name).path, column, labels).unwrap();
        let footer = u32::from_le_bytes(whole[whole.len() - 8..][..4].try_into().unwrap()) as usize;
        for at in (0..whole.len()).step_by(step) {
            let mut bytes = whole.clone();
            bytes[at] ^= [0x01, 0x10, 0x80, 0xff][at % 4];
            fs::write(&path, &bytes).unwrap();
            let read = read_all(&path, column, labels);
            // Pages of these two files have checksums; footers never have one.
            let has_checksum =
                ["list.parquet", "fixed.parquet"].contains(&name) && at < whole.len() - 8 - footer;
            if let (Ok(read), true) = (read, has_checksum) {
                assert_eq!(read, expected, "byte {at}");
            }
        }
    }
}

/// Kept columns are columns of the input that are copied to the output.
#[test]
fn kept_columns_have_their_types() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ArraySpec { path: folder.path().join("kept.parquet"), name: None };
    const ROWS: i64 = 3000;
    let integers: Vec<Option<i64>> = (0..ROWS).map(|i| (i % 7 > 0).then_some(i)).collect();
    let numbers: Vec<Option<f64>> = (0..ROWS).map(|i| Some(i as f64 / 4.0)).collect();
    let flags: Vec<Option<bool>> = (0..ROWS).map(|i| Some(i % 2 == 0)).collect();
    let names: Vec<Option<String>> = (0..ROWS).map(|i| (i % 5 > 0).then(|| format!("image {i}"))).collect();
    nuq_io::write_atomically(&spec.path, |file| {
        let mut writer = ParquetWriter::default();
        let columns = vec![
            ("name", ParquetColumn::Strings(names.clone())),
            ("x", ParquetColumn::Numbers(numbers.clone())),
            ("id", ParquetColumn::Integers(integers.clone())),
            ("flag", ParquetColumn::Booleans(flags.clone())),
            ("weight", ParquetColumn::Numbers(numbers.clone())),
            ("list", ParquetColumn::NumberLists((0..ROWS).map(|_| Some(vec![1.0])).collect())),
        ];
        writer.append(columns, file)?;
        writer.finish(file)
    })
    .unwrap();
    let spec = ArraySpec { name: Some("-weight,list".to_owned()), ..spec };
    let kept = ["id", "name", "flag", "weight"].map(str::to_owned);
    let mut file = ReadOptions::new().embeddings_keeping(&spec, &[], &kept).unwrap();
    assert_eq!(file.dim(), 1);
    for rows in [0..0, 0..1000, 1000..2500, 2500..3000, 3000..3000, 10..20] {
        let expected = [
            KeptColumn::Integers(integers[rows.clone()].to_vec()),
            KeptColumn::Strings(names[rows.clone()].to_vec()),
            KeptColumn::Booleans(flags[rows.clone()].to_vec()),
            KeptColumn::Numbers(numbers[rows.clone()].to_vec()),
        ];
        assert_eq!(file.kept(rows.clone()).unwrap(), expected, "{rows:?}");
    }
    // A name can be repeated.
    let twice = ["name", "name", "flag"].map(str::to_owned);
    let mut file = ReadOptions::new().embeddings_keeping(&spec, &[], &twice).unwrap();
    let name = KeptColumn::Strings(names[..9].to_vec());
    assert_eq!(file.kept(0..9).unwrap(), [name.clone(), name, KeptColumn::Booleans(flags[..9].to_vec())]);
    let error = ReadOptions::new().embeddings_keeping(&spec, &[], &["list".to_owned()]);
    let error = error.err().unwrap().to_string();
    assert!(
        error.contains("column `list` has the type List(") && error.ends_with("convert it to strings"),
        "{error}"
    );
}
