//! Column names of tables: stored by `fit`, compared by every command that reads rows for a model.

use std::fs;
use std::path::Path;

use crate::common::{err, nuq, out};

/// Writes a table of forty rows of two classes with these columns. A column that is not `a`, `b` or `c` has the class as its value.
fn write(path: &Path, columns: &str) {
    let value = |i: u32, column: &str| match column {
        "a" => format!("{}", 10 * (i % 2) + i % 7),
        "b" => format!("{}.5", i % 5),
        "c" => format!("{}", i % 3),
        _ => format!("{}", i % 2),
    };
    let row = |i: u32| columns.split(',').map(|column| value(i, column)).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = (0..40).map(row).collect();
    fs::write(path, format!("{columns}\n{}\n", rows.join("\n"))).unwrap();
}

/// A folder with a model fitted to the columns `a`, `b`, `c`, and tables with these and other columns.
fn example() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, columns) in
        [("train", "a,b,c,class"), ("same", "a,b,c"), ("reversed", "c,b,a"), ("other", "a,b,x")]
    {
        write(&folder.path().join(format!("{name}.csv")), columns);
    }
    let same = fs::read_to_string(folder.path().join("same.csv")).unwrap();
    fs::write(folder.path().join("unnamed.csv"), same.split_once('\n').unwrap().1).unwrap();
    fs::write(folder.path().join("numbered.csv"), same.replacen("a,b,c", "0,1,2", 1)).unwrap();
    let fit =
        ["fit", "--embeddings", "train.csv", "--labels", "train.csv:class", "--out", "m.nuq", "--k", "3"];
    let output = nuq(&fit, folder.path());
    assert!(output.status.success(), "{}", err(&output));
    folder
}

#[test]
fn other_names_or_another_order_are_errors_in_every_command() {
    let folder = example();
    let run = |words: &str| nuq(&words.split(' ').collect::<Vec<_>>(), folder.path());
    for command in [
        "score --model m.nuq --out s.csv --embeddings FILE",
        "calibrate --model m.nuq --target coverage=0.5 --out n.nuq --measure density --embeddings FILE",
        "suggest --model m.nuq --embeddings FILE",
        "evaluate --model m.nuq --labels train.csv:class --resamples 100 --test FILE",
        "evaluate --model m.nuq --labels train.csv:class --resamples 100 --test same.csv --ood far=FILE",
    ] {
        for (file, difference) in [
            ("reversed.csv", "column 0 is `c`, at fit it was `a` (at fit: a, b, c; now: c, b, a)"),
            ("other.csv", "column 2 is `x`, at fit it was `c` (at fit: a, b, c; now: a, b, x)"),
        ] {
            let output = run(&command.replace("FILE", file));
            let text = err(&output);
            assert_eq!(output.status.code(), Some(1), "{command}: {text}");
            assert!(text.contains(&format!("{file}: the column names are not those")), "{text}");
            assert!(text.contains(difference) && text.contains("--ignore-column-names"), "{text}");
            let output = run(&format!("{} --ignore-column-names", command.replace("FILE", file)));
            assert!(output.status.success(), "{command}: {}", err(&output));
        }
        // Rows without names are accepted, also with the names 0, 1, 2, … that pandas gives to unnamed columns.
        for file in ["same.csv", "unnamed.csv", "numbered.csv"] {
            let output = run(&command.replace("FILE", file));
            assert!(output.status.success(), "{command} {file}: {}", err(&output));
        }
    }
    // A calibrated model keeps the names.
    assert_eq!(run("score --model n.nuq --out s.csv --embeddings reversed.csv").status.code(), Some(1));
    // `:-class` excludes the column `class`; the other columns of the table are those of the model.
    assert!(run("score --model m.nuq --out s.csv --embeddings train.csv:-class").status.success());
}

#[test]
fn inspect_lists_the_names() {
    let folder = example();
    let text = out(&nuq(&["inspect", "m.nuq"], folder.path()));
    assert!(text.contains("column_names a, b, c\n"), "{text}");
    let names: Vec<String> = (0..30).map(|i| format!("x{i}")).collect();
    let row = |i: u32| (0..30).map(|j| ((i * j) % 11).to_string()).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = (0..40).map(row).collect();
    fs::write(folder.path().join("wide.csv"), format!("{}\n{}\n", names.join(","), rows.join("\n"))).unwrap();
    let fit = ["fit", "--embeddings", "wide.csv", "--labels", "train.csv:class", "--out", "w.nuq"];
    let text = out(&nuq(&fit, folder.path()));
    assert!(text.contains("column_names x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, and 20 more\n"), "{text}");
    let summary: serde_json::Value =
        serde_json::from_str(&out(&nuq(&["inspect", "w.nuq", "--json"], folder.path()))).unwrap();
    assert_eq!(summary["column_names"].as_array().unwrap().len(), 30);
}

#[test]
fn models_without_names_accept_every_name() {
    let folder = example();
    let fit = ["fit", "--embeddings", "unnamed.csv", "--labels", "train.csv:class", "--out", "m.nuq"];
    assert!(nuq(&fit, folder.path()).status.success());
    for file in ["same.csv", "reversed.csv", "numbered.csv"] {
        let score = ["score", "--model", "m.nuq", "--out", "s.csv", "--embeddings", file];
        assert!(nuq(&score, folder.path()).status.success(), "{file}");
    }
}

#[test]
fn numbered_columns_in_another_order_are_an_error() {
    let folder = example();
    let run = |words: &str| nuq(&words.split(' ').collect::<Vec<_>>(), folder.path());
    let reversed = fs::read_to_string(folder.path().join("reversed.csv")).unwrap();
    fs::write(folder.path().join("swapped.csv"), reversed.replacen("c,b,a", "2,1,0", 1)).unwrap();
    let fit = "fit --embeddings numbered.csv --labels train.csv:class --k 3 --out numbered.nuq";
    assert!(run(fit).status.success());
    let output = run("score --model numbered.nuq --out s.csv --embeddings swapped.csv");
    assert!(
        err(&output).contains("swapped.csv: its first line may be a header or a row"),
        "{}",
        err(&output)
    );
    let with_header = "score --model numbered.nuq --out s.csv --embeddings swapped.csv --header yes";
    let output = run(with_header);
    assert!(err(&output).contains("(at fit: 0, 1, 2; now: 2, 1, 0)"), "{}", err(&output));
    assert!(run(&format!("{with_header} --ignore-column-names")).status.success());
}
