//! `nuq fit --weights`.

use std::fs;

use crate::common::{err, nuq, out};

const TABLE: &str = "x,weight,label\n0,2,a\n1,1,b\n3,3,b\n7,0,c\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.csv"), TABLE).unwrap();
    fs::write(folder.path().join("repeated.csv"), "x,label\n0,a\n0,a\n1,b\n3,b\n3,b\n3,b\n").unwrap();
    fs::write(folder.path().join("q.csv"), "x\n0.25\n2\n-4\n").unwrap();
    fs::write(folder.path().join("negative.csv"), "1\n-2\n1\n1\n").unwrap();
    fs::write(folder.path().join("short.csv"), "1\n2\n").unwrap();
    folder
}

#[test]
fn weights_of_a_column_equal_repeated_rows() {
    let folder = folder();
    let fixed = "--bandwidth 1 --density-bandwidth 0.5 --scale ambient --out";
    let run = |line: &str| {
        let output = nuq(&line.split_whitespace().collect::<Vec<_>>(), folder.path());
        assert!(output.status.success(), "{}", err(&output));
        out(&output)
    };
    let text = run(&format!("fit -e t.csv -l t.csv:label --weights t.csv:weight {fixed} w.nuq"));
    assert!(text.contains("3 × 1, 2 classes, sample weights 1.0000 to 3.0000, sum 6.0000"), "{text}");
    run(&format!("fit -e repeated.csv -l repeated.csv:label {fixed} r.nuq"));
    let scores = |model: &str| run(&format!("score -m {model} -e q.csv -o -"));
    let (weighted, repeated) = (scores("w.nuq"), scores("r.nuq"));
    assert_eq!(weighted.lines().count(), 4);
    for (a, b) in weighted.lines().zip(repeated.lines()).skip(1) {
        for (a, b) in a.split(',').zip(b.split(',')) {
            match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => assert!((a - b).abs() <= 1e-12 * (1.0 + a.abs()), "{weighted}\n{repeated}"),
                _ => assert_eq!(a, b),
            }
        }
    }
    let sections = run("inspect w.nuq --verify");
    assert!(sections.contains("sample_weights"), "{sections}");
}

#[test]
fn weights_that_are_shares_are_reported() {
    let folder = folder();
    fs::write(folder.path().join("shares.csv"), "0.1\n0.1\n0.05\n0.05\n").unwrap();
    let line = "fit -e t.csv:-weight,label -l t.csv:label --weights shares.csv --bandwidth 1 -o m.nuq";
    let output = nuq(&line.split_whitespace().collect::<Vec<_>>(), folder.path());
    let text = "the weights of 4 rows have the sum 0.3: a row with weight w counts as w identical rows";
    assert!(output.status.success() && err(&output).contains(text), "{}", err(&output));
}

#[test]
fn invalid_weights_are_errors() {
    let folder = folder();
    for (weights, expected) in [
        ("negative.csv", "sample weight of row 1 is -2.0"),
        ("short.csv", "short.csv has 2 weights, but t.csv:-weight,label has 4 rows"),
        ("t.csv:label", "label"),
    ] {
        let line = format!("fit -e t.csv:-weight,label -l t.csv:label --weights {weights} -o m.nuq");
        let output = nuq(&line.split_whitespace().collect::<Vec<_>>(), folder.path());
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).contains(expected), "{}", err(&output));
        assert!(!folder.path().join("m.nuq").exists());
    }
}
