//! Standard input and output, compressed files and formats.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::common::{err, nuq, nuq_command, out};

/// A folder with six rows of two classes, a model `m.nuq` fitted to them, and queries `q.csv`.
fn example() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.csv"), "x,y\n0,0.5\n0,1\n1,0\n8,8.5\n8,9\n9,8\n").unwrap();
    fs::write(folder.path().join("y.csv"), "a\na\na\nb\nb\nb\n").unwrap();
    fs::write(folder.path().join("q.csv"), "x,y\n0,0.25\n8,8.25\n").unwrap();
    let fit = ["fit", "--embeddings", "x.csv", "--labels", "y.csv", "--bandwidth", "1", "--out", "m.nuq"];
    let output = nuq(&fit, folder.path());
    assert!(output.status.success(), "{}", err(&output));
    folder
}

/// Runs nuq with `input` as standard input.
fn pipe(arguments: &[&str], folder: &Path, input: &[u8]) -> Output {
    let mut command = nuq_command();
    command.args(arguments).current_dir(folder);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that fails closes the pipe before all input is written. The error of the write is therefore ignored.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

fn npy(values: &[f32], dim: usize) -> Vec<u8> {
    let shape = format!("({}, {dim})", values.len() / dim);
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let values: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &values].concat()
}

#[test]
fn score_reads_standard_input_in_every_format() {
    let folder = example();
    let score = ["score", "--model", "m.nuq", "--out", "-", "--embeddings"];
    let expected = nuq(&[&score[..], &["q.csv"]].concat(), folder.path());
    assert!(out(&expected).starts_with("row,label,probability,") && out(&expected).lines().count() == 3);
    let array = npy(&[0.0, 0.25, 8.0, 8.25], 2);
    for (input, more) in [
        (&b"x,y\n0,0.25\n8,8.25\n"[..], &[][..]),
        (b"x\ty\n0\t0.25\n8\t8.25\n", &[]),
        (b"x\ty\n0\t0.25\n8\t8.25\n", &["--format", "tsv"]),
        (&array, &[]),
        (&gzip(&array), &["--format", "npy"]),
        (&gzip(b"0,0.25\n8,8.25\n"), &["--header", "no"]),
    ] {
        let output = pipe(&[&score[..], &["-"], more].concat(), folder.path(), input);
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(out(&output), out(&expected));
    }
    let input = b"id,x,y\nu,0,0.25\nv,8,8.25\n";
    let excluded = pipe(&[&score[..5], &["--embeddings=-:-id"]].concat(), folder.path(), input);
    assert_eq!(out(&excluded), out(&expected), "{}", err(&excluded));
}

#[test]
fn errors_in_the_data_name_standard_input() {
    let folder = example();
    let score = ["score", "--model", "m.nuq", "--out", "-", "--embeddings", "-"];
    for (input, more, expected) in [
        (&b"x,y\n1,two\n"[..], &[][..], "nuq: standard input: line 2, column `y` is `two`, not a number"),
        (b"", &[], "nuq: standard input: the table has no rows"),
        (b"1\n2\n", &[], "nuq: standard input has 1 column, but the model m.nuq was fitted to 2"),
        (b"PK\x03\x04", &[], "nuq: standard input: it is truncated or not an npz archive"),
        (b"a,b\tc\n", &[], "nuq: standard input: its first line has tabs, and also commas or semicolons:"),
        (b"\x80\x04pickle", &[], "nuq: standard input: neither its contents nor its name"),
        (b"1,2\n", &["--format", "npy"], "nuq: standard input: it contains text, but --format npy is given"),
    ] {
        let output = pipe(&[&score[..], more].concat(), folder.path(), input);
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).starts_with(expected), "{}", err(&output));
        assert_eq!(out(&output), "");
    }
}

#[test]
fn rows_and_labels_are_read_from_one_table_on_standard_input() {
    let folder = example();
    let table = b"id,x,y,class\nr,0,0.5,a\ns,0,1,a\nt,1,0,a\nu,8,8.5,b\nv,8,9,b\nw,9,8,b\n";
    let without_ids = b"x,y,class\n0,0.5,a\n0,1,a\n1,0,a\n8,8.5,b\n8,9,b\n9,8,b\n";
    let expected = fs::read(folder.path().join("m.nuq")).unwrap();
    let unnamed = "0,0.5,a\n0,1,a\n1,0,a\n8,8.5,b\n8,9,b\n9,8,b\n";
    for (arguments, input) in [
        ("-e -:-id -l -:class", &table[..]),
        ("--embeddings=-:-id --labels=-:class", table),
        ("-e - -l -:class --id-column id", &gzip(table)),
        ("-e - -l -:class", without_ids),
    ] {
        let arguments = format!("fit {arguments} --bandwidth 1 --out n.nuq");
        let output = pipe(&arguments.split(' ').collect::<Vec<_>>(), folder.path(), input);
        assert!(output.status.success(), "{arguments}: {}", err(&output));
        assert_eq!(fs::read(folder.path().join("n.nuq")).unwrap(), expected, "{arguments}");
    }
    let fit = "fit -e - -l -:2 --header no --bandwidth 1 --out n.nuq";
    let output = pipe(&fit.split(' ').collect::<Vec<_>>(), folder.path(), unnamed.as_bytes());
    assert!(output.status.success() && err(&output).contains("6 rows of 2 columns"), "{}", err(&output));
    for arguments in [
        "calibrate --model m.nuq -e -:-id -l -:class --target coverage=0.5 --out n.nuq",
        "evaluate --model m.nuq --test -:-id -l -:class --resamples 100",
    ] {
        let output = pipe(&arguments.split(' ').collect::<Vec<_>>(), folder.path(), table);
        assert!(output.status.success(), "{arguments}: {}", err(&output));
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_data_are_read_from_standard_input() {
    let folder = example();
    let score = ["score", "-m", "m.nuq", "-e", "x.csv", "--out", "t.parquet"];
    assert!(nuq(&score, folder.path()).status.success());
    let table = fs::read(folder.path().join("t.parquet")).unwrap();
    let fit = ["fit", "-e", "-:-row", "-l", "-:label", "--out", "n.nuq"];
    let output = pipe(&fit, folder.path(), &table);
    assert!(output.status.success() && err(&output).contains("read 6 rows of"), "{}", err(&output));
}

#[test]
fn the_name_of_a_column_in_place_of_a_file_is_explained() {
    let (folder, _) = crate::common::table(["1", "1", "1", "2", "2", "2"], &[]);
    let table = fs::read(folder.path().join("t.csv")).unwrap();
    for (arguments, expected) in [
        (
            "fit -e t.csv -l class -o n.nuq",
            "t.csv has a column or an array of this name: give --labels t.csv:class",
        ),
        (
            "fit -e - -l class -o n.nuq",
            "standard input has a column or an array of this name: give --labels -:class",
        ),
        ("evaluate -m m.nuq --test t.csv -l class", "give --labels t.csv:class"),
        ("calibrate -m m.nuq -e t.csv -l class --target risk=0.1", "give --labels t.csv:class"),
        ("fit -e t.csv -l other -o n.nuq", "nuq: cannot read other"),
    ] {
        let output = pipe(&arguments.split(' ').collect::<Vec<_>>(), folder.path(), &table);
        assert!(!output.status.success() && err(&output).contains(expected), "{arguments}: {}", err(&output));
    }
}

#[cfg(unix)]
#[test]
fn results_are_written_to_devices() {
    let folder = example();
    for arguments in [
        "fit -e x.csv -l y.csv --bandwidth 1 -o /dev/null",
        "score -m m.nuq -e x.csv -o /dev/null",
        "label-issues -m m.nuq -o /dev/null",
        "suggest -m m.nuq -e x.csv -n 1 -o /dev/null",
    ] {
        let output = nuq(&arguments.split(' ').collect::<Vec<_>>(), folder.path());
        assert!(output.status.success(), "{arguments}: {}", err(&output));
    }
    let output = nuq(&["suggest", "-m", "m.nuq", "-e", "x.csv", "-n", "1", "-o", "/dev/null"], folder.path());
    assert_eq!(out(&output), "/dev/null: 1 row\n");
}

#[test]
fn the_model_is_an_argument_or_an_option() {
    let folder = example();
    for command in ["inspect", "label-issues"] {
        let (argument, option) =
            (nuq(&[command, "m.nuq"], folder.path()), nuq(&[command, "-m", "m.nuq"], folder.path()));
        assert!(argument.status.success() && out(&argument) == out(&option), "{}", err(&option));
        assert_eq!(nuq(&[command], folder.path()).status.code(), Some(2));
        assert_eq!(nuq(&[command, "m.nuq", "-m", "m.nuq"], folder.path()).status.code(), Some(2));
    }
}

#[test]
fn commands_for_classifiers_explain_that_a_model_is_a_regressor() {
    let folder = example();
    fs::write(folder.path().join("t.csv"), "1\n2\n3\n4\n5\n6\n").unwrap();
    let fit = ["fit", "-e", "x.csv", "--targets", "t.csv", "-o", "r.nuq"];
    assert!(nuq(&fit, folder.path()).status.success());
    for arguments in ["evaluate -m r.nuq --test x.csv -l y.csv", "label-issues r.nuq"] {
        let output = nuq(&arguments.split(' ').collect::<Vec<_>>(), folder.path());
        assert!(
            err(&output).contains("r.nuq was fitted with --targets, it is a regressor"),
            "{}",
            err(&output)
        );
    }
}

#[test]
fn many_integer_labels_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..30).map(|i| format!("{i}.5,1,{i}\n")).collect();
    fs::write(folder.path().join("t.csv"), format!("x,y,age\n{rows}")).unwrap();
    let output = nuq(&["fit", "-e", "t.csv", "-l", "t.csv:age", "-o", "m.nuq"], folder.path());
    let text = "30 classes in 30 rows, and all labels are integers: if they are quantities, fit a regressor";
    assert!(output.status.success() && err(&output).contains(text), "{}", err(&output));
}

#[test]
fn two_options_with_the_same_array_of_standard_input_are_a_usage_error() {
    let folder = example();
    for (arguments, expected) in [
        (
            "fit --embeddings - --targets - --out n.nuq",
            "--embeddings and --targets both read all of standard input",
        ),
        (
            "calibrate --model m.nuq --embeddings x.csv --labels - --logits - --target coverage=0.9",
            "--labels and --logits both read all of standard input",
        ),
        (
            "evaluate --model m.nuq --test - --labels y.csv --ood far=-",
            "--test and --ood far=… both read all of standard input",
        ),
        (
            "fit --embeddings -:x --labels -:x --out n.nuq",
            "--embeddings and --labels both select standard input:x: select a different array",
        ),
    ] {
        let words: Vec<&str> = arguments.split(' ').collect();
        let output = pipe(&words, folder.path(), b"");
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(expected), "{}", err(&output));
    }
}

#[test]
fn labels_and_test_rows_are_read_from_standard_input() {
    let folder = example();
    let labels = b"a\na\na\nb\nb\nb\n";
    let rows = fs::read(folder.path().join("x.csv")).unwrap();
    for (arguments, input) in [
        ("fit --embeddings x.csv --labels - --bandwidth 1 --out n.nuq", &labels[..]),
        ("fit --embeddings - --labels y.csv --bandwidth 1 --out n.nuq", &rows),
        ("calibrate --model m.nuq --embeddings - --target coverage=0.5 --out n.nuq", &rows),
        ("evaluate --model m.nuq --test - --labels y.csv --resamples 100", &rows),
        ("suggest --model m.nuq --embeddings - --count 1", &rows),
    ] {
        let words: Vec<&str> = arguments.split(' ').collect();
        let output = pipe(&words, folder.path(), input);
        assert!(output.status.success(), "{arguments}: {}", err(&output));
    }
}

#[test]
fn a_model_on_standard_output_is_the_model_file_and_nothing_else() {
    let folder = example();
    let fit = ["fit", "--embeddings", "x.csv", "--labels", "y.csv", "--bandwidth", "1", "--out", "-"];
    let output = nuq(&fit, folder.path());
    assert!(output.status.success() && err(&output).contains("bandwidth"), "{}", err(&output));
    assert_eq!(output.stdout, fs::read(folder.path().join("m.nuq")).unwrap());
    let calibrate = ["calibrate", "--model", "m.nuq", "--embeddings", "x.csv", "--target", "coverage=0.5"];
    let output = nuq(&[&calibrate[..], &["--out", "-"]].concat(), folder.path());
    assert!(output.status.success() && err(&output).contains("coverage=0.5"), "{}", err(&output));
    assert!(nuq(&[&calibrate[..], &["--out", "n.nuq"]].concat(), folder.path()).status.success());
    assert_eq!(output.stdout, fs::read(folder.path().join("n.nuq")).unwrap());
}

#[test]
fn scores_are_written_as_tsv_and_compressed() {
    let folder = example();
    let write = |name: &str| {
        let score = ["score", "--model", "m.nuq", "--embeddings", "q.csv", "--out", name];
        let output = nuq(&score, folder.path());
        assert!(output.status.success(), "{}", err(&output));
        fs::read(folder.path().join(name)).unwrap()
    };
    let csv = String::from_utf8(write("s.csv")).unwrap();
    let tsv = String::from_utf8(write("s.tsv")).unwrap();
    assert_eq!(csv.replace(',', "\t"), tsv);
    assert_eq!(gunzip(&write("s.csv.gz")), csv);
    assert_eq!(gunzip(&write("s.tsv.gz")), tsv);
    assert_eq!(gunzip(&write("s.jsonl.gz")).into_bytes(), write("s.jsonl"));
    assert_eq!(write("s.csv.gz"), write("t.csv.gz"), "equal results give equal bytes");
    if cfg!(feature = "zstd") {
        assert_eq!(write("s.csv.zst")[..4], [0x28, 0xb5, 0x2f, 0xfd]);
    }
    assert_eq!(gunzip(&write("s.ndjson.gz")).into_bytes(), write("s.jsonl"));
    let formats = "the output must be a .csv, .tsv, .jsonl or .ndjson file, also compressed (.gz or .zst), an .npz or \
                   .parquet file, or -";
    for (name, expected) in [
        ("s.npz.gz", "only .csv, .tsv, .jsonl and .ndjson files are compressed with gzip or zstd"),
        ("s.txt", formats),
        ("s.gz", formats),
    ] {
        let score = ["score", "--model", "m.nuq", "--embeddings", "q.csv", "--out", name];
        let output = nuq(&score, folder.path());
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).contains(&format!("--out {name}: {expected}")), "{}", err(&output));
    }
    // A compressed table of scores is an input as well.
    let labels =
        ["fit", "--embeddings", "q.csv", "--labels", "s.tsv.gz:label", "--bandwidth", "1", "--out", "n.nuq"];
    assert!(nuq(&labels, folder.path()).status.success());
}

#[cfg(not(any(feature = "zstd", feature = "parquet")))]
#[test]
fn zstd_output_needs_a_feature() {
    let folder = example();
    let score = ["score", "--model", "m.nuq", "--embeddings", "q.csv", "--out", "s.csv.zst"];
    let output = nuq(&score, folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains("build it with `--features zstd`, or compress with gzip"),
        "{}",
        err(&output)
    );
}

#[test]
fn suggestions_and_label_issues_are_written_as_tables() {
    let folder = example();
    let wrong = "a\na\nb\nb\nb\nb\n";
    fs::write(folder.path().join("wrong.csv"), wrong).unwrap();
    let fit = ["fit", "--embeddings", "x.csv", "--labels", "wrong.csv", "--bandwidth", "1", "--out", "w.nuq"];
    assert!(nuq(&fit, folder.path()).status.success());
    let issues = |more: &[&str]| nuq(&[&["label-issues", "w.nuq", "--out"], more].concat(), folder.path());
    let csv = out(&issues(&["-"]));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "row,label,probability,predicted_label,predicted_probability");
    assert!(lines[1].starts_with("2,b,") && lines.len() == 2, "{csv}");
    let json = out(&issues(&["-", "--json"]));
    assert!(
        json.starts_with("{\"label\":\"b\",\"predicted_label\":\"a\"") && json.lines().count() == 1,
        "{json}"
    );
    let report = out(&issues(&["i.tsv"]));
    assert!(report.starts_with("i.tsv: 1 row\n1 of 6 rows has a label"), "{report}");
    assert_eq!(fs::read_to_string(folder.path().join("i.tsv")).unwrap(), csv.replace(',', "\t"));
    assert_eq!(issues(&["i.npz"]).status.code(), Some(2));

    let suggest = |more: &[&str]| {
        let suggest = ["suggest", "--model", "m.nuq", "--embeddings", "q.csv", "--count", "1", "--out"];
        nuq(&[&suggest[..], more].concat(), folder.path())
    };
    let csv = out(&suggest(&["-"]));
    assert!(csv.starts_with("row,log_epistemic\n") && csv.lines().count() == 2, "{csv}");
    assert_eq!(out(&suggest(&["s.csv.gz"])), "s.csv.gz: 1 row\n");
    assert_eq!(gunzip(&fs::read(folder.path().join("s.csv.gz")).unwrap()), csv);
}

#[test]
fn sizes_are_checked_before_values_are_read() {
    let folder = example();
    // Arrays of zeros that take no disk space. If their values were read as labels, this would take 64 GB of memory.
    let large = |name: &str, rows: usize, dim: usize| {
        crate::sparse_file::write(&folder.path().join(name), rows, dim, &[]);
    };
    large("labels.npy", 2 << 30, 1);
    large("rows.npy", 1 << 28, 16);
    large("logits.npy", 1 << 28, 2);
    for (arguments, expected) in [
        (
            "fit --embeddings x.csv --labels labels.npy --out n.nuq",
            "labels.npy has 2147483648 labels, but x.csv has 6 rows",
        ),
        (
            "fit --embeddings x.csv --targets labels.npy --out n.nuq",
            "labels.npy has 2147483648 targets, but x.csv has 6 rows",
        ),
        (
            "calibrate --model m.nuq --embeddings rows.npy --target coverage=0.5",
            "rows.npy has 16 columns, but the model m.nuq was fitted to 2",
        ),
        ("suggest --model m.nuq --embeddings rows.npy", "rows.npy has 16 columns, but the model m.nuq"),
        (
            "evaluate --model m.nuq --test x.csv --labels y.csv --logits rows.npy",
            "rows.npy has 16 columns, but the model has 2 classes: one column per class is required",
        ),
        (
            "evaluate --model m.nuq --test x.csv --labels y.csv --logits logits.npy",
            "logits.npy has 268435456 rows of logits, but x.csv has 6 rows: one per row is required",
        ),
    ] {
        let words: Vec<&str> = arguments.split(' ').collect();
        let output = nuq(&words, folder.path());
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).contains(expected), "{}", err(&output));
    }
    fs::write(folder.path().join("many.csv"), "a\nb\n".repeat(10)).unwrap();
    let fit = ["fit", "--embeddings", "x.csv", "--labels", "many.csv", "--out", "n.nuq"];
    let output = nuq(&fit, folder.path());
    let expected = "many.csv has more than 6 labels, but x.csv has 6 rows: one per row is required";
    assert!(err(&output).contains(expected), "{}", err(&output));
}

#[cfg(unix)]
#[test]
fn paths_of_standard_output_are_equivalent_to_a_hyphen() {
    let folder = example();
    let score =
        |to: &str| ["score", "--model", "m.nuq", "--embeddings", "q.csv", "--out", to].map(str::to_owned);
    let expected = nuq(&score("-").each_ref().map(String::as_str), folder.path()).stdout;
    for name in ["/dev/stdout", "/dev/fd/1"] {
        let output = nuq(&score(name).each_ref().map(String::as_str), folder.path());
        assert_eq!(output.stdout, expected, "{}", err(&output));
        let path = folder.path().join("appended.csv");
        fs::write(&path, "first\n").unwrap();
        let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let mut command = nuq_command();
        let status =
            command.args(score(name)).current_dir(folder.path()).stdout(file).stderr(Stdio::null()).status();
        assert!(status.unwrap().success());
        assert_eq!(fs::read(&path).unwrap(), [b"first\n", &expected[..]].concat());
    }
}
