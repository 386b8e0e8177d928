//! Headers and limits of csv and tsv tables.

use std::fs;
use std::path::Path;

use nuq::Label;
use nuq_io::{ArraySpec, EmbeddingsFile, Error, Format, Header, KeptColumn, ReadOptions};

const AMBIGUOUS: &str = "its first line may be a header or a row: choose with --header yes or --header no";

fn write(folder: &Path, text: &str) -> ArraySpec {
    let path = folder.join("t.csv");
    fs::write(&path, text).unwrap();
    ArraySpec { path, name: None }
}

/// A first line of different integers may hold the numbers of the columns if no other line consists of integers. Two integers are column
/// numbers only if they are 0 and 1 or 1 and 2, in any order. The line 0, 1, 2, … is certainly a header then, because pandas writes it.
#[test]
fn a_first_line_of_possible_column_numbers_is_ambiguous() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |text: &str, header| {
        let options = ReadOptions::new().header(header);
        options.embeddings(&write(folder.path(), text), &[]).map(|file| file.len())
    };
    for text in [
        "1,2\n0.5,1\n",
        "1,2,3,4,5,6,7,8\n0,0,0,0,0,0,0,0.5\n",
        "10,20,30\n1.5,2,3\n",
        "2,0,1\n0.5,1,2\n",
        "1,0\n0.5,1\n",
    ] {
        let error = rows(text, Header::Auto).unwrap_err().to_string();
        assert!(error.ends_with(AMBIGUOUS), "{text}: {error}");
        assert_eq!(rows(text, Header::Yes).unwrap(), 1, "{text}");
        assert_eq!(rows(text, Header::No).unwrap(), 2, "{text}");
    }
    for (text, expected) in
        [("1,2\n3,4\n", 2), ("1,2\n", 1), ("3,1,1\n0.5,1,2\n", 2), ("3,1\n0.5,1\n", 2), ("0,1\n0.5,1\n", 1)]
    {
        assert_eq!(rows(text, Header::Auto).unwrap(), expected, "{text}");
    }
    assert_eq!(rows("x,y\n1,2\n", Header::Auto).unwrap(), 1);
    let text = rows("x,y\n1,2\n", Header::No).unwrap_err().to_string();
    assert!(text.ends_with("line 1, column 0 is `x`, not a number"), "{text}");
}

#[test]
fn a_number_beyond_the_range_of_f32_is_an_error_and_infinity_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let read =
        |text: &str| ReadOptions::new().embeddings(&write(folder.path(), text), &[]).map(|file| file.len());
    for (text, expected) in [
        (
            "a,b\n1,2\n3,-1e39\n",
            "line 3, column `b` is -1e39, beyond the range of f32 (±3.4e38): rescale the data",
        ),
        ("1.5,1e999\n", "line 1, column 1 is 1e999, beyond the range of f32 (±3.4e38): rescale the data"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    assert_eq!(read("1.5,inf\n1,-Infinity\n1,3e38\n").unwrap(), 3);
}

#[test]
fn a_requested_name_in_a_row_of_numbers_is_ambiguous() {
    let folder = tempfile::tempdir().unwrap();
    let read = |text: &str, header| {
        let spec = ArraySpec { name: Some("2".to_owned()), ..write(folder.path(), text) };
        ReadOptions::new().header(header).labels(&spec)
    };
    let rows = "5.1,2,0\n4.9,2,0\n6.1,3,1\n";
    let error = read(rows, Header::Auto).unwrap_err().to_string();
    assert!(error.ends_with(AMBIGUOUS), "{error}");
    assert_eq!(read(rows, Header::Yes).unwrap().len(), 2);
    // A first line of column numbers is a header.
    assert_eq!(read("0,1,2\n5.1,2,0\n", Header::Auto).unwrap().len(), 1);
}

#[test]
fn a_possible_column_name_among_labels_is_ambiguous() {
    let folder = tempfile::tempdir().unwrap();
    let labels = |text: &str, header| {
        let options = ReadOptions::new().header(header);
        options.labels(&write(folder.path(), text)).map(|labels| labels.len())
    };
    for text in ["class\ncat\ndog\ncat\ndog\n", "0\ncat\ndog\nbird\nfish\n"] {
        let error = labels(text, Header::Auto).unwrap_err().to_string();
        assert!(error.ends_with(AMBIGUOUS), "{text}: {error}");
        assert_eq!(labels(text, Header::Yes).unwrap(), 4, "{text}");
        assert_eq!(labels(text, Header::No).unwrap(), 5, "{text}");
    }
    // A string alone may be a header without labels; a number alone is a label.
    let error = labels("cat\n", Header::Auto).unwrap_err().to_string();
    assert!(error.ends_with(AMBIGUOUS), "{error}");
    assert_eq!(labels("cat\n", Header::No).unwrap(), 1);
    for (text, expected) in
        [("cat\ndog\ncat\n", 3), ("cat\ndog\n", 2), ("class\n1\n2\n", 2), ("3\n1\n2\n", 3), ("3\n", 1)]
    {
        assert_eq!(labels(text, Header::Auto).unwrap(), expected, "{text}");
    }
    let named = write(folder.path(), "class\ncat\n");
    let named = ArraySpec { name: Some("class".to_owned()), ..named };
    assert_eq!(ReadOptions::new().labels(&named).unwrap().len(), 1);
    let error = ReadOptions::new().header(Header::No).labels(&named).unwrap_err().to_string();
    let end =
        "columns have no names with --header no: give the number of a column, 0 to 0, in place of `class`";
    assert!(error.ends_with(end), "{error}");
}

#[test]
fn tables_are_read_in_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..20).map(|i| format!("r{i};{i}.5;-{i}\n")).collect();
    for (text, header) in [(format!("id;x;y\n{lines}"), Header::Auto), (lines.clone(), Header::No)] {
        let spec = write(folder.path(), &text);
        let id = [if header == Header::No { "0" } else { "id" }.to_owned()];
        let options = ReadOptions::new().header(header);
        let mut whole = options.embeddings_keeping(&spec, &[], &id).unwrap();
        let mut blocks = options.in_blocks().embeddings_keeping(&spec, &[], &id).unwrap();
        assert_eq!((blocks.len(), blocks.dim()), (20, 2));
        assert_eq!(blocks.column_names(), whole.column_names());
        // To read an earlier block, the file is opened again.
        for rows in [0..7, 7..14, 14..20, 3..5, 4..4, 0..20] {
            assert_eq!(blocks.values(rows.clone()).unwrap(), whole.values(rows.clone()).unwrap(), "{rows:?}");
            assert_eq!(blocks.kept(rows.clone()).unwrap(), whole.kept(rows.clone()).unwrap(), "{rows:?}");
        }
        assert_eq!(blocks.kept(2..4).unwrap(), whole.kept(2..4).unwrap());
        // While the table is open, its file is replaced: by fewer rows, fewer columns, more columns.
        for other in ["r0;1;2\n".to_owned(), "r;1\n".repeat(30), "r;1;2;3\n".repeat(30)] {
            fs::write(&spec.path, &text).unwrap();
            let mut blocks = options.in_blocks().embeddings_keeping(&spec, &[], &id).unwrap();
            fs::write(&spec.path, other).unwrap();
            let error = blocks.values(10..12).unwrap_err().to_string();
            assert!(error.ends_with("it was changed while it was read: run the command again"), "{error}");
        }
        let bad = write(folder.path(), &text.replace("19.5", "two"));
        let error = options.in_blocks().embeddings_keeping(&bad, &[], &id).err().unwrap().to_string();
        assert!(error.contains("is `two`, not a number"), "{error}");
    }
}

/// As for labels and targets, a blank line between the lines of one column is a missing value. If it were ignored, the rows below it
/// would have other numbers.
#[test]
fn a_blank_line_of_one_column_is_a_missing_coordinate() {
    let folder = tempfile::tempdir().unwrap();
    let nan = f32::NAN;
    for (text, expected) in [
        ("x\n1\n\n2\n", &[1.0, nan, 2.0][..]),
        ("x\n1\n\"\"\n2\n", &[1.0, nan, 2.0]),
        ("\n\nx\n1\n\n\n2\n\n\n", &[1.0, nan, nan, 2.0]),
        // A blank line between the header and the first number is missing too.
        ("x\r\n\r\n1\r\n\r\n2", &[nan, 1.0, nan, 2.0]),
        ("x\r\r\n1\r\r\n2", &[1.0, 2.0]),
        ("x\r\r\n1\r\n\r\r\n2\r\r\n", &[1.0, nan, 2.0]),
        ("\n1.5\n\n\n2\n3\n\n4\n\n", &[1.5, nan, nan, 2.0, 3.0, nan, 4.0]),
        ("x,y\n1,2\n\n3,4\n", &[1.0, 2.0, 3.0, 4.0]),
        ("\n\n1,2\n\n3,4\n", &[1.0, 2.0, 3.0, 4.0]),
    ] {
        let spec = write(folder.path(), text);
        let mut whole = ReadOptions::new().embeddings(&spec, &[]).unwrap();
        let mut blocks = ReadOptions::new().in_blocks().embeddings(&spec, &[]).unwrap();
        let rows = expected.len() / whole.dim();
        assert_eq!((whole.len(), blocks.len()), (rows, rows), "{text:?}");
        // Every block, forward and backward.
        for first in (0..rows).chain((0..rows).rev()) {
            for end in first..=rows {
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                let part = bits(&expected[first * whole.dim()..end * whole.dim()]);
                assert_eq!(bits(&whole.values(first..end).unwrap()), part, "{text:?} {first}..{end}");
                assert_eq!(bits(&blocks.values(first..end).unwrap()), part, "{text:?} {first}..{end}");
            }
        }
    }
    let error_of = |options: ReadOptions, text: &str| {
        let file = options.embeddings(&write(folder.path(), text), &[]);
        file.and_then(EmbeddingsFile::read).err().unwrap().to_string()
    };
    for options in [ReadOptions::new(), ReadOptions::new().in_blocks()] {
        let error = error_of(options, "x\n1\n2\n\n3\n");
        assert!(error.contains("row 2, column 0 is NaN"), "{error}");
        let error = error_of(options, "x\n1\n\n\nfour\n");
        assert!(error.contains("line 5, column `x` is `four`"), "{error}");
        let error = error_of(options.rows(2), "x\n1\n\n2\n");
        assert!(error.ends_with("has more than 2 rows; needed: 2"), "{error}");
    }
}

#[test]
fn decimal_commas_are_errors_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    for (text, line, cell, separator) in [
        ("x;y\n1,5;2\n", 2, "1,5", ";"),
        ("1,5;2,5\n3,5;4,5\n", 1, "5;2", ";"),
        ("x,y\n\"1,5\",2\n", 2, "1,5", ","),
        ("x\ty\n1.5\t-2,5e3\n", 2, "-2,5e3", "\\t"),
    ] {
        let spec = write(folder.path(), text);
        let format = if text.contains('\t') { Format::Tsv } else { Format::Csv };
        let error = ReadOptions::new().format(format).embeddings(&spec, &[]).err().unwrap().to_string();
        let expected =
            format!("line {line} has the cell `{cell}`: numbers with a decimal comma are not supported");
        assert!(error.contains(&expected), "{error}");
        assert_eq!(error.contains("header=None"), line == 1, "{error}");
        assert!(error.contains(&format!("pandas.read_csv(path, sep='{separator}'")), "{error}");
    }
    let targets = ReadOptions::new().targets(&write(folder.path(), "y\n\"0,5\"\n")).unwrap_err().to_string();
    assert!(targets.contains("decimal points"), "{targets}");
}

#[test]
fn decimal_commas_in_a_table_with_one_name_are_an_error_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let error = |text: &str| {
        let spec = write(folder.path(), text);
        let of_rows = ReadOptions::new().embeddings(&spec, &[]).err().unwrap().to_string();
        assert_eq!(of_rows, ReadOptions::new().targets(&spec).unwrap_err().to_string());
        of_rows
    };
    let columns = "line 2 has 2 columns, but the lines before have 1";
    for number in ["1,5", "-0,25", "2,5e-3"] {
        let text = error(&format!("x\n{number}\n3,5\n"));
        let hint =
            format!("{columns}: if `{number}` is one number with a decimal comma, write decimal points");
        assert!(text.contains(&hint) && text.ends_with("decimal=',').to_csv(path, index=False)"), "{text}");
    }
    // These cells are not the parts of a number.
    for cells in ["1,cat", "1,-5", "1.5,2", "1,"] {
        assert!(error(&format!("x\n{cells}\n")).ends_with(columns), "{cells}");
    }
    // Without a header, these are two columns of integers.
    let rows = ReadOptions::new().embeddings(&write(folder.path(), "1,5\n2,5\n"), &[]).unwrap();
    assert_eq!(rows.read().unwrap().as_slice(), [1.0, 5.0, 2.0, 5.0]);
}

#[test]
fn columns_without_names_are_selected_by_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let rows = write(folder.path(), "0.5,cat,1.5\n2.5,dog,3.5\n");
    let column = |name: &str| ArraySpec { name: Some(name.to_owned()), ..rows.clone() };
    let options = ReadOptions::new().header(Header::No);
    assert_eq!(options.labels(&column("1")).unwrap(), [Label::from("cat"), Label::from("dog")]);
    let values = options.embeddings(&rows, &[&column("1")]).unwrap().values(0..2).unwrap();
    assert_eq!(values, [0.5, 1.5, 2.5, 3.5]);
    assert_eq!(options.embeddings(&column("-0,1"), &[]).unwrap().values(0..2).unwrap(), [1.5, 3.5]);
    let error = options.labels(&column("3")).unwrap_err().to_string();
    assert!(error.ends_with("give the number of a column, 0 to 2, in place of `3`"), "{error}");
    let error = ReadOptions::new().labels(&column("1")).unwrap_err().to_string();
    assert!(error.contains("select columns by their numbers, 0 to 2, with --header no"), "{error}");
}

#[test]
fn column_names_are_those_of_the_coordinates() {
    let folder = tempfile::tempdir().unwrap();
    let names = |text: &str, name: Option<&str>, header| {
        let spec = ArraySpec { name: name.map(str::to_owned), ..write(folder.path(), text) };
        let file = ReadOptions::new().header(header).embeddings(&spec, &[]).unwrap();
        file.column_names().map(|names| names.join(" "))
    };
    let table = "b, a ,class\n1,2,0\n3,4.5,1\n";
    assert_eq!(names(table, None, Header::Auto).as_deref(), Some("b a class"));
    assert_eq!(names(table, Some("-class"), Header::Auto).as_deref(), Some("b a"));
    assert_eq!(names(",b,a\n0,1,2\n1,3,4.5\n", None, Header::Auto).as_deref(), Some("b a"));
    for header in [Header::Auto, Header::Yes] {
        let spaces = " ,b,a\n0,1,2\n1,3,4\n";
        assert_eq!(names(spaces, None, header).as_deref(), Some("b a"), "{header:?}");
    }
    assert_eq!(names("1,2.5\n3,4\n", None, Header::Auto), None);
    assert_eq!(
        names("0,1,2\n3,4,5.5\n", None, Header::Auto),
        None,
        "the numbers that pandas writes for unnamed columns are not names"
    );
    assert_eq!(names("2,1,0\n3,4,5.5\n", None, Header::Yes).as_deref(), Some("2 1 0"));
}

#[test]
fn a_repeated_name_of_a_selected_column_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let table = write(folder.path(), "class,x,class\n0,1,2\n1,3,4\n");
    let labels = ArraySpec { name: Some("class".to_owned()), ..table.clone() };
    let expected = "columns 0 and 2 have the same name `class`: rename one of them";
    let error = ReadOptions::new().labels(&labels).unwrap_err().to_string();
    assert!(error.ends_with(expected), "{error}");
    let error = ReadOptions::new().embeddings(&table, &[&labels]).err().unwrap().to_string();
    assert!(error.ends_with(expected), "{error}");
    // Names that are not used may be equal.
    assert_eq!(ReadOptions::new().embeddings(&table, &[]).unwrap().dim(), 3);
}

#[test]
fn lines_and_columns_have_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let error = |text: &str| {
        let spec = write(folder.path(), text);
        let rows = ReadOptions::new().embeddings(&spec, &[]).err().unwrap().to_string();
        (rows, ReadOptions::new().labels(&spec).unwrap_err().to_string())
    };
    let long = "0.25,".repeat(4 << 20);
    let quoted = format!("a,b\n\"{}", "1,2\n".repeat(5 << 20));
    let after_blank_lines = format!("a,b\n\n\n{long}");
    let from_line_2 = "the row that begins at or after line 2";
    for (text, row) in [(long, "line 1"), (quoted, from_line_2), (after_blank_lines, from_line_2)] {
        let expected =
            format!(": {row} is longer than 16 MiB: separate the rows by line breaks and close every quote");
        let (rows, labels) = error(&text);
        assert!(rows.ends_with(&expected), "{rows}");
        // In the other tables, the first line is short. Reading labels stops after it, because it has two columns.
        assert!(labels.ends_with(&expected) || row == from_line_2, "{labels}");
    }
    for (blank_lines, line) in [("", 1), ("\n\n", 3)] {
        let (rows, _) = error(&format!("{blank_lines}{}", ",".repeat(1 << 20)));
        let expected = format!(": line {line} has 1048577 columns; at most 1048576 are supported");
        assert!(rows.ends_with(&expected), "{rows}");
    }
}

#[test]
fn labels_of_several_columns_are_rejected_before_the_values_are_read() {
    let folder = tempfile::tempdir().unwrap();
    // The second line is not valid; it must not be reached.
    let spec = write(folder.path(), "1,2,3\n\"");
    let error = ReadOptions::new().labels(&spec).unwrap_err().to_string();
    assert!(error.contains("has several columns; name one as"), "{error}");
    let error = ReadOptions::new().targets(&spec).unwrap_err().to_string();
    assert!(error.contains("has several columns; name one as"), "{error}");
}

/// Kept columns are columns of the input that are copied to the output. Coordinates are the columns of the embeddings.
#[test]
fn kept_columns_are_not_coordinates_and_are_read_in_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let table = write(folder.path(), "id,x,note,y\n007,1,\"a, b\",2\n008,3,,4\n009,5,c,6\n");
    let kept = ["note".to_owned(), "id".to_owned()];
    let mut file = ReadOptions::new().embeddings_keeping(&table, &[], &kept).unwrap();
    assert_eq!((file.len(), file.dim()), (3, 2));
    assert_eq!(file.values(1..3).unwrap(), [3.0, 4.0, 5.0, 6.0]);
    let strings = |cells: &[&str]| {
        let cell = |cell: &&str| (!cell.is_empty()).then(|| (*cell).to_owned());
        KeptColumn::Strings(cells.iter().map(cell).collect())
    };
    assert_eq!(file.kept(0..2).unwrap(), [strings(&["a, b", ""]), strings(&["007", "008"])]);
    assert_eq!(file.kept(2..3).unwrap(), [strings(&["c"]), strings(&["009"])]);
    let error = |kept: &str| {
        ReadOptions::new().embeddings_keeping(&table, &[], &[kept.to_owned()]).err().unwrap().to_string()
    };
    assert!(error("no").ends_with("has no column `no`; there are: id, x, note, y"), "{}", error("no"));
    let array = folder.path().join("x.npy");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rows-f32.npy"), &array).unwrap();
    let array = ArraySpec { path: array, name: None };
    let error = ReadOptions::new().embeddings_keeping(&array, &[], &kept).err().unwrap().to_string();
    assert!(error.contains("an array has no column `note`: only columns of csv, tsv and parquet"), "{error}");
}

#[test]
fn expected_numbers_of_rows_and_columns_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let table = write(folder.path(), "1,2\n3,4\n5,6\n");
    let open = |options: ReadOptions| options.embeddings(&table, &[]).map(|file| file.len());
    assert_eq!(open(ReadOptions::new().rows(3).columns(2)).unwrap(), 3);
    let error = open(ReadOptions::new().columns(4)).unwrap_err();
    assert!(matches!(error, Error::ColumnCount { got: 2, expected: 4, .. }), "{error}");
    // Reading stops at the first row beyond the expected number.
    let error = open(ReadOptions::new().rows(2)).unwrap_err();
    assert!(matches!(error, Error::RowCount { got: None, expected: 2, .. }), "{error}");
    assert!(error.to_string().ends_with("has more than 2 rows; needed: 2"), "{error}");
    let error = open(ReadOptions::new().rows(4)).unwrap_err();
    assert!(matches!(error, Error::RowCount { got: Some(3), expected: 4, .. }), "{error}");
    let labels = write(folder.path(), "class\n1\n2\n3\n");
    assert_eq!(ReadOptions::new().rows(3).labels(&labels).unwrap().len(), 3);
    for rows in [1, 2, 4] {
        assert!(
            matches!(ReadOptions::new().rows(rows).labels(&labels), Err(Error::RowCount { .. })),
            "{rows}"
        );
        assert!(
            matches!(ReadOptions::new().rows(rows).targets(&labels), Err(Error::RowCount { .. })),
            "{rows}"
        );
    }
}

#[test]
fn a_first_line_of_column_numbers_is_a_header_unless_it_may_be_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |text: &str, header: Header| {
        let spec = write(folder.path(), text);
        ReadOptions::new().header(header).embeddings(&spec, &[]).map(|file| file.len())
    };
    assert_eq!(rows("0,1,2,3\n0.5,1,2,3\n4,5,6,7.5\n", Header::Auto).unwrap(), 2);
    for text in ["0,1,2,3\n4,5,6,7\n", "0,1,2,3\n0.5,1,2,3\n4,5,6,7\n", "0,1\n5,6\n"] {
        let error = rows(text, Header::Auto).unwrap_err().to_string();
        assert!(
            error.ends_with("may be a header or a row: choose with --header yes or --header no"),
            "{error}"
        );
        let lines = text.lines().count();
        assert_eq!(rows(text, Header::No).unwrap(), lines);
        assert_eq!(rows(text, Header::Yes).unwrap(), lines - 1);
    }
    let column = ArraySpec { name: Some("1".to_owned()), ..write(folder.path(), "0,1\n5,6\n") };
    assert!(
        ReadOptions::new().labels(&column).unwrap_err().to_string().contains("--header yes or --header no")
    );
    // With ten columns or more, the first line is certainly a header.
    assert_eq!(rows("0,1,2,3,4,5,6,7,8,9\n1,1,1,1,1,1,1,1,1,1\n", Header::Auto).unwrap(), 1);
}

#[test]
fn a_first_line_of_empty_cells_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let spec = write(folder.path(), ",,,\n1,2,3,4\n");
    for header in [Header::Auto, Header::Yes] {
        let error = ReadOptions::new().header(header).embeddings(&spec, &[]).err().unwrap().to_string();
        assert!(error.contains("all cells of its first line are empty: remove the line"), "{error}");
    }
    assert_eq!(ReadOptions::new().header(Header::No).embeddings(&spec, &[]).unwrap().len(), 2);
}

#[test]
fn missing_coordinates_are_nan_in_every_spelling() {
    let folder = tempfile::tempdir().unwrap();
    for word in Label::MISSING {
        for text in
            [format!("x,y\n1,2\n3,{word}\n"), format!("1.5,2\n3,{word}\n"), format!("{word},2.5\n3,4\n")]
        {
            let table = write(folder.path(), &text);
            let mut options = ReadOptions::new();
            if text.starts_with(',') {
                // The first cell is also empty in a header that pandas writes for a table with an index.
                let error = options.embeddings(&table, &[]).err().unwrap().to_string();
                assert!(error.contains("its first line may be a header or a row"), "{error}");
                options = options.header(Header::No);
            }
            let mut file = options.embeddings(&table, &[]).unwrap();
            let values = file.values(0..2).unwrap();
            assert_eq!(values.iter().filter(|value| value.is_nan()).count(), 1, "{text:?}");
        }
    }
}

#[test]
fn numbers_separated_by_spaces_are_errors_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["1 2 3\n4 5 6\n", "a b c\n4 5 6\n", "1.5  -2e3\n0 0\n"] {
        let error =
            ReadOptions::new().embeddings(&write(folder.path(), text), &[]).err().unwrap().to_string();
        assert!(error.contains("line 2 has the cell `") && error.contains("separated by spaces"), "{error}");
    }
}

#[test]
fn names_may_contain_commas() {
    let folder = tempfile::tempdir().unwrap();
    let table = write(folder.path(), "\"a,b\",c,d\n1,2,x\n3,4,y\n");
    let error = ReadOptions::new().embeddings(&table, &[]).err().unwrap().to_string();
    assert!(error.ends_with(":-d"), "{error}");
    let without = table.excluding("d");
    let both = without.excluding("a,b");
    assert_eq!(both.name.as_deref(), Some("-d,\"a,b\""));
    // A message suggests the argument without the column. The suggestion is also valid if the table is read from standard input (`-`).
    let standard_input: ArraySpec = "-".parse().unwrap();
    assert_eq!(standard_input.excluding("d").argument(), "-:-d");
    assert_eq!(ReadOptions::new().embeddings(&without, &[]).unwrap().dim(), 2);
    assert_eq!(ReadOptions::new().embeddings(&both, &[]).unwrap().values(0..2).unwrap(), [2.0, 4.0]);
}

#[test]
fn lines_are_counted_with_blank_lines_and_any_line_break() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["x,y\n1,2\n\n\n3,four\n", "x,y\r\n1,2\r\n\r\n\r\n3,four", "x,\"y\nz\"\n1,2\n\n3,four\n"] {
        let error =
            ReadOptions::new().embeddings(&write(folder.path(), text), &[]).err().unwrap().to_string();
        assert!(error.contains("line 5, column"), "{text:?}: {error}");
    }
    for text in ["x,y\n1,2\n\n\n3,4,5\n", "x,y\n1,2\n\n\n3,4,\"5\n6\"\n"] {
        let error =
            ReadOptions::new().embeddings(&write(folder.path(), text), &[]).err().unwrap().to_string();
        assert!(error.ends_with(": line 5 has 3 columns, but the lines before have 2"), "{text:?}: {error}");
    }
}
