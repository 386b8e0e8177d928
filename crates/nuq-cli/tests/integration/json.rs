//! `--json`: every command prints one JSON object, and each message and error as one line of JSON. The last test checks, without
//! `--json`, that invalid options are reported before rows are read.

use std::fs;

use serde_json::{Value, json};

use crate::common::{err, fitted, nuq, out, table};

#[test]
fn every_command_prints_one_json_object() {
    let (folder, output) = table(["a", "a", "b", "b", "b", "b"], &["--bandwidth", "1", "--json"]);
    let fitted: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(fitted["rows"], 6);
    let rows = ["--embeddings", "t.csv:-class"];
    let model = ["--model", "m.nuq"];
    for (arguments, key, value) in [
        (["score", "--out", "s.csv"].to_vec(), "rows", json!(6)),
        (["calibrate", "--target", "coverage=0.5", "--name", "half"].to_vec(), "name", json!("half")),
        (["suggest", "--count", "2"].to_vec(), "chosen", json!(2)),
        (["suggest", "--count", "2", "--out", "few.csv"].to_vec(), "out", json!("few.csv")),
    ] {
        let arguments = [&arguments[..], &rows, &model, &["--json", "--quiet"]].concat();
        let output = nuq(&arguments, folder.path());
        let printed: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!((&printed[key], err(&output)), (&value, String::new()), "{arguments:?}: {printed}");
    }
    for (arguments, key, value) in [
        (&["inspect", "m.nuq"][..], "rows", json!(6)),
        (&["label-issues", "m.nuq"], "issues", json!(2)),
        (&["label-issues", "m.nuq", "--out", "issues.csv"], "written", json!(2)),
        (&["calibrate", "--model", "m.nuq", "--remove", "half"], "removed", json!("half")),
        (&["man", "--out", "pages"], "out", json!("pages")),
        (&["demo", "--out", "demo"], "regions", json!(["inside", "between", "far"])),
    ] {
        let output = nuq(&[arguments, &["--json"]].concat(), folder.path());
        let printed: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(printed[key], value, "{arguments:?}: {printed}");
    }
    let issues = fs::read_to_string(folder.path().join("issues.csv")).unwrap();
    assert!(
        issues.starts_with("row,label,probability,predicted_label,predicted_probability\n2,b,"),
        "{issues}"
    );
    assert!(!out(&nuq(&["inspect", "m.nuq"], folder.path())).contains("half"), "the threshold is removed");
}

#[test]
fn the_report_of_results_on_standard_output_is_one_line_of_json_on_standard_error() {
    let (folder, _) = table(["a", "a", "b", "b", "b", "b"], &["--bandwidth", "1"]);
    for (arguments, key, value) in [
        ("fit -e t.csv -l t.csv:class --bandwidth 1", "rows", json!(6)),
        ("calibrate -m m.nuq -e t.csv:-class --target coverage=0.5 --name half", "name", json!("half")),
        ("score -m m.nuq -e t.csv:-class", "rows", json!(6)),
        ("suggest -m m.nuq -e t.csv:-class -n 2", "chosen", json!(2)),
        ("label-issues m.nuq", "written", json!(2)),
        (
            "calibrate -m m.nuq -e t.csv:-class --target sets=0.5 -l t.csv:class --name sets",
            "name",
            json!("sets"),
        ),
    ] {
        let arguments = format!("{arguments} --out - --json --quiet");
        let output = nuq(&arguments.split(' ').collect::<Vec<_>>(), folder.path());
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments}: {}", err(&output));
        assert_eq!(err(&output).lines().count(), 1, "{arguments}: {}", err(&output));
        let report: Value = serde_json::from_str(&err(&output)).unwrap();
        assert_eq!(report[key], value, "{arguments}: {report}");
        if !arguments.starts_with("fit") {
            assert_eq!(report["out"], "-", "{arguments}: {report}");
        }
    }
}

#[test]
fn messages_and_progress_are_lines_of_json() {
    let (folder, _) = table(["a", "a", "b", "b", "b", "b"], &["--bandwidth", "1"]);
    fs::write(folder.path().join("few.csv"), "a\nb\n").unwrap();
    let fit = "fit -e t.csv -l t.csv:class --bandwidth 1 --n-neighbors 50";
    let calibrate = "calibrate -m m.nuq -e t.csv:-class --target coverage=0.5 --name half";
    assert!(nuq(&calibrate.split(' ').collect::<Vec<_>>(), folder.path()).status.success());
    // The third entry is a key of the last line on standard error: with `--out -` this line is the report of the command, otherwise it is a
    // message or an error.
    for (arguments, message, last) in [
        (format!("{fit} --out -"), "read 6 rows of 2 columns from t.csv", "rows"),
        (format!("{fit} --out n.nuq"), "--n-neighbors 50: there are only 6 rows", "message"),
        ("fit -e t.csv:-class -l few.csv --out f.nuq".to_owned(), "read 6 rows of 2 columns", "error"),
        ("score -m m.nuq -e t.csv:-class --out -".to_owned(), "scoring: 6 of 6 rows", "seconds"),
        (calibrate.to_owned(), "replaced the threshold `half`", "message"),
    ] {
        let words = arguments.split(' ').chain(["--json", "--progress", "plain"]);
        let output = nuq(&words.collect::<Vec<_>>(), folder.path());
        assert_eq!(output.status.success(), last != "error", "{arguments}: {}", err(&output));
        let lines: Vec<Value> = err(&output)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{arguments}: {line}")))
            .collect();
        let is_expected = |line: &Value| line["message"].as_str().is_some_and(|text| text.contains(message));
        assert!(lines.iter().any(is_expected), "{arguments}: {lines:?}");
        assert!(lines.last().unwrap().get(last).is_some(), "{arguments}: {lines:?}");
    }
}

#[test]
fn errors_are_one_line_of_json() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code, start) in [
        (&["inspect", "none.nuq"][..], 3, "cannot read none.nuq: "),
        (&["inspect"], 2, "the following required arguments were not provided:"),
        (
            &["calibrate", "--target", "coverage=1.5", "--model", "m", "--embeddings", "x.npy"],
            1,
            "coverage is 1.5",
        ),
    ] {
        let output = nuq(&[arguments, &["--json"]].concat(), folder.path());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let printed: Value = serde_json::from_str(&err(&output)).unwrap();
        assert_eq!(printed["exit_code"], code);
        assert!(printed["error"].as_str().unwrap().starts_with(start), "{printed}");
        assert_eq!(err(&output).lines().count(), 1);
    }
}

#[test]
fn invalid_options_are_reported_before_rows_are_read() {
    let (folder, _) = fitted(&["--quiet"]);
    fs::create_dir(folder.path().join("folder.csv")).unwrap();
    let model = ["--model", "model.nuq"];
    // The rows do not exist: an error about them would mean that they are read first.
    let rows = ["--embeddings", "none.npy"];
    let labels = ["--labels", "none.csv"];
    let test = ["--test", "none.npy", "--labels", "none.csv"];
    let figures = ["--figures", "model.nuq/figures"];
    for (arguments, code, expected) in [
        (
            [&["fit", "--out", "none/m.nuq"][..], &rows, &labels].concat(),
            3,
            "cannot write none/m.nuq: its folder does not exist",
        ),
        (
            [&["fit", "--out", "folder.csv"][..], &rows, &labels].concat(),
            3,
            "cannot write folder.csv: it is a folder",
        ),
        ([&["score", "--out", "none/s.csv"][..], &rows, &model].concat(), 3, "its folder does not exist"),
        ([&["score", "--out", "folder.csv"][..], &rows, &model].concat(), 3, "it is a folder"),
        (
            [&["score", "--out", "s.csv", "--threshold", "x"][..], &rows, &model].concat(),
            1,
            "no threshold `x`",
        ),
        ([&["suggest", "--out", "folder.csv"][..], &rows, &model].concat(), 3, "it is a folder"),
        ([&["label-issues", "none.nuq", "--out", "folder.csv"][..]].concat(), 3, "it is a folder"),
        (
            [&["calibrate", "--target", "coverage=1.5"][..], &rows, &model].concat(),
            1,
            "coverage is 1.5: it must lie",
        ),
        ([&["calibrate", "--target", "false_alarm=0"][..], &rows, &model].concat(), 1, "false_alarm is 0.0"),
        ([&["calibrate", "--target", "risk=2"][..], &rows, &model, &labels].concat(), 1, "risk is 2.0"),
        (
            [&["calibrate", "--target", "coverage=0.5", "--out", "none/m.nuq"][..], &rows, &model].concat(),
            3,
            "its folder does not exist",
        ),
        (
            [
                &["calibrate", "--target", "coverage=0.5", "--logits", "l.npy", "--classes", "a,b"][..],
                &rows,
                &model,
                &labels,
            ]
            .concat(),
            2,
            "--classes a,b must list each of the 10 classes",
        ),
        ([&["calibrate", "--remove", "x"][..], &model].concat(), 1, "no threshold, sets or intervals `x`"),
        ([&["calibrate", "--remove", "x"][..], &model, &rows].concat(), 2, "cannot be used with"),
        (
            [&["evaluate", "--report", "none/r.html"][..], &test, &model].concat(),
            3,
            "its folder does not exist",
        ),
        (
            [&["evaluate"][..], &figures, &test, &model].concat(),
            3,
            "cannot write model.nuq/figures: it is a file, not a folder",
        ),
        ([&["evaluate", "--threshold", "x"][..], &test, &model].concat(), 1, "no threshold `x`"),
    ] {
        let output = nuq(&arguments, folder.path());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(expected), "{arguments:?}: {}", err(&output));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no file is left");
}
