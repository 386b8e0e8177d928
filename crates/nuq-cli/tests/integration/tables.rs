//! Tables whose columns, names and cells are easily misread, and messages of commands that are easily misunderstood.

use std::fs;

use serde_json::Value;

use crate::common::{err, nuq, out};

/// A folder with a table of two coordinates and a class, and the same table under another name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..40).map(|i| format!("{}.5,{},{}\n", i % 7, i % 2 * 9 + i % 3, i % 2)).collect();
    for name in ["t.csv", "copy.csv"] {
        fs::write(folder.path().join(name), format!("x,y,class\n{rows}")).unwrap();
    }
    folder
}

fn run(command: &str, folder: &tempfile::TempDir) -> std::process::Output {
    nuq(&command.split_whitespace().collect::<Vec<_>>(), folder.path())
}

#[test]
fn a_label_among_the_coordinates_is_reported() {
    let folder = folder();
    let output = run("fit -e t.csv -l copy.csv:class --bandwidth 1 -o m.nuq", &folder);
    let text = "warning: the coordinate `class` of t.csv has the name of the labels copy.csv:class: if it is not a coordinate, \
                exclude it as t.csv:-class";
    assert!(output.status.success() && err(&output).contains(text), "{}", err(&output));
    let labels: String = (0..40).map(|i| format!("{}\n", i % 2)).collect();
    fs::write(folder.path().join("y.csv"), labels).unwrap();
    for fit in ["fit -e t.csv", "fit --method mahalanobis -e t.csv", "fit -e t.csv --targets y.csv"] {
        let labels = if fit.contains("--targets") { "" } else { "-l y.csv" };
        let output = run(&format!("{fit} {labels} -o m.nuq"), &folder);
        let text = "warning: the coordinate `class` of t.csv equals the ";
        assert!(err(&output).contains(text), "{fit}: {}", err(&output));
    }
    for fit in ["fit -e t.csv -l t.csv:class", "fit -e t.csv:-class -l copy.csv:class"] {
        let output = run(&format!("{fit} --bandwidth 1 -o m.nuq"), &folder);
        assert!(output.status.success() && !err(&output).contains("warning"), "{fit}: {}", err(&output));
    }
}

#[test]
fn names_with_commas_are_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..20).map(|i| format!("r{i},{}.5,{}\n", i % 5, ["\"a,b\"", "c"][i % 2])).collect();
    fs::write(folder.path().join("t.csv"), format!("\"id, row\",x,class\n{rows}")).unwrap();
    let logits: String = (0..20).map(|i| ["9,0\n", "0,9\n"][i % 2]).collect();
    fs::write(folder.path().join("z.csv"), logits).unwrap();
    let at = folder.path();
    let fit = ["fit", "-e", "t.csv:-\"id, row\"", "-l", "t.csv:class", "--bandwidth", "1", "-o", "m.nuq"];
    let output = nuq(&fit, at);
    assert!(output.status.success(), "{}", err(&output));
    let score = ["score", "-m", "m.nuq", "-e", "t.csv", "--logits", "z.csv", "-o", "-"];
    let more = ["--keep-columns", "class,\"id, row\"", "--classes", "\"a,b\",c"];
    let output = nuq(&[&score[..], &more].concat(), at);
    assert!(out(&output).contains("\n1,c,r1,c,"), "{}{}", out(&output), err(&output));
    let output =
        nuq(&[&score[..], &["--keep-columns", "class,\"id, row\"", "--classes", "a,b,c"]].concat(), at);
    let text = "--classes a,b,c must list each of the 2 classes of the model once: \"a,b\",c";
    assert!(err(&output).contains(text), "{}", err(&output));
}

#[test]
fn rows_with_a_missing_coordinate_in_any_notation_are_skipped() {
    let folder = folder();
    assert!(run("fit -e t.csv -l t.csv:class --bandwidth 1 -o m.nuq", &folder).status.success());
    fs::write(folder.path().join("q.csv"), "x,y\n1,2\nNA,2\n,2\nnan,2\nNULL,2\n3,4\n").unwrap();
    let output = run("score -m m.nuq -e q.csv -o s.csv", &folder);
    assert!(err(&output).contains("these rows contain a NaN or an infinity: 1, 2, 3, 4"), "{}", err(&output));
    let output = run("score -m m.nuq -e q.csv -o s.csv --on-bad-rows skip", &folder);
    assert_eq!(out(&output), "s.csv: 6 rows, 4 skipped\n", "{}", err(&output));
}

#[test]
fn sums_of_weights_are_rounded() {
    let folder = folder();
    fs::write(folder.path().join("w.csv"), "0.025\n".repeat(40)).unwrap();
    let output = run("fit -e t.csv -l t.csv:class --weights w.csv --bandwidth 1 -o m.nuq", &folder);
    let text = "have the sum 1: a row with weight w counts as w identical rows, so the model has the equivalent of only 1 row; \
                multiply the weights by 40";
    assert!(err(&output).contains(text), "{}", err(&output));
}

#[test]
fn all_thresholds_and_sets_are_listed_if_the_name_to_remove_does_not_exist() {
    let folder = folder();
    assert!(run("fit -e t.csv -l t.csv:class --bandwidth 1 -o m.nuq", &folder).status.success());
    for target in ["coverage=0.9", "sets=0.8"] {
        let calibrate = format!("calibrate -m m.nuq -e t.csv -l t.csv:class --target {target} --json");
        for is_replaced in [false, true] {
            let output = run(&calibrate, &folder);
            assert!(output.status.success(), "{}", err(&output));
            let json: Value = serde_json::from_str(&out(&output)).unwrap();
            assert_eq!(json["replaced"], is_replaced, "{target}");
        }
    }
    let output = run("calibrate -m m.nuq --remove other", &folder);
    let text = "m.nuq has no threshold, sets or intervals `other`: its thresholds are coverage=0.9; its sets are sets=0.8";
    assert!(err(&output).contains(text), "{}", err(&output));
    // The rows of the calibration are training rows, so the text does not call them held-out rows.
    let output = run("calibrate -m m.nuq -e t.csv -l t.csv:class --target sets=0.8", &folder);
    assert!(out(&output).contains("mean size of the sets of the training rows: "), "{}", out(&output));
}

#[test]
fn rounded_training_rows_are_reported_also_if_they_are_few() {
    let folder = tempfile::tempdir().unwrap();
    let value = |i: u32| f64::from(i * i % 9973) / 7.0;
    let rows = |range: std::ops::Range<u32>, digits: usize| -> String {
        range.map(|i| format!("{:.*e},{:.*e},{}\n", digits, value(i), digits, value(i + 71), i % 2)).collect()
    };
    fs::write(folder.path().join("t.csv"), format!("x,y,class\n{}", rows(1..200, 16))).unwrap();
    // The ten training rows in this file are rounded to six significant digits.
    fs::write(folder.path().join("h.csv"), format!("x,y,class\n{}{}", rows(190..200, 5), rows(300..490, 16)))
        .unwrap();
    assert!(run("fit -e t.csv -l t.csv:class -o m.nuq", &folder).status.success());
    let output = run("calibrate -m m.nuq -e h.csv -l h.csv:class --target coverage=0.9", &folder);
    let text = "h.csv: 10 of 200 rows equal training rows; metrics and guarantees are valid only for rows that are not training rows";
    assert!(err(&output).contains(text), "{}", err(&output));
}

#[test]
fn the_kind_of_the_model_is_checked_before_the_required_options() {
    let folder = folder();
    assert!(run("fit -e t.csv --targets t.csv:class --bandwidth 1 -o r.nuq", &folder).status.success());
    let output = run("calibrate -m r.nuq -e t.csv:-class --target sets=0.9", &folder);
    assert!(err(&output).contains("--target sets requires a classifier; use intervals"), "{}", err(&output));
}

#[test]
fn a_model_cannot_be_read_from_standard_input() {
    let output = run("inspect -", &folder());
    assert!(err(&output).contains("cannot be read from standard input"), "{}", err(&output));
}

#[test]
fn the_error_of_an_unknown_column_explains_how_columns_are_excluded() {
    let output = run("fit -e t.csv:x-y -l t.csv:class -o m.nuq", &folder());
    assert!(err(&output).contains("or exclude the other columns as t.csv:-NAME,NAME"), "{}", err(&output));
}

#[test]
fn the_help_of_label_issues_does_not_mention_inspect() {
    // Both commands share the argument of the model and its help text.
    let help = out(&run("label-issues --help", &folder()));
    assert!(!help.contains("inspect"), "{help}");
}
