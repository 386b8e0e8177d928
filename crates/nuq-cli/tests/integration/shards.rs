//! `nuq fit --shards`, and other commands on the folder of a sharded model.

use std::fs;
use std::path::Path;

use crate::common::{err, example, fitted, nuq, out};

/// Runs a command that succeeds, and returns its standard output.
fn run(folder: &Path, line: &str) -> String {
    let output = nuq(&line.split_whitespace().collect::<Vec<_>>(), folder);
    assert!(output.status.success(), "nuq {line}: {}", err(&output));
    out(&output)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_command_gives_the_same_results_as_with_a_model_in_one_file() {
    let (folder, _) = fitted(&["--index", "exact"]);
    let folder = folder.path();
    let [train, train_labels, test, test_labels] =
        ["train.npz:embeddings", "train.npz:labels", "test.npz:embeddings", "test.npz:labels"].map(example);
    for shards in ["1", "3", "7"] {
        fs::copy(folder.join("model.nuq"), folder.join("one.nuq")).unwrap();
        let fit = format!("fit -e {train} -l {train_labels} --index exact --shards {shards} -o sharded");
        let fitted = run(folder, &fit);
        assert_eq!(names(&folder.join("sharded")).len(), 1 + shards.parse::<usize>().unwrap());
        let inspected = run(folder, "inspect sharded --verify");
        assert!(inspected.contains(&format!("shards       {shards}\n")), "{inspected}");
        let one = run(folder, "inspect one.nuq");
        let fitted_values = |text: &str| text.split("\nfile ").next().unwrap().to_owned();
        assert_eq!(fitted_values(&inspected), fitted_values(&one));
        assert!(fitted.lines().all(|line| one.contains(line)), "{fitted}\n{one}");
        // The output of a command may contain the name of the model, which is replaced before the comparison.
        let both = |line: &str| {
            let [sharded, one] =
                ["sharded", "one.nuq"].map(|model| run(folder, &line.replace("MODEL", model)));
            assert!(sharded.replace("sharded", "one.nuq") == one, "{line}");
        };
        both(&format!("score -m MODEL -e {test} --output-neighbors 3 -o -"));
        both("label-issues MODEL -o -");
        both(&format!("suggest -m MODEL -e {test} --count 5 -o -"));
        both(&format!("calibrate -m MODEL -e {test} -l {test_labels} --target coverage=0.9 --name main"));
        both(&format!("score -m MODEL -e {test} --threshold main -o -"));
    }
}

#[test]
fn a_sharded_model_may_have_normalized_rows_weights_and_column_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows = (0..40).map(|i| format!("{},{},{},{}\n", i % 7 + 1, i % 5 + 1, i % 3, 1 + i % 2));
    fs::write(folder.join("t.csv"), format!("a,b,y,w\n{}", rows.collect::<String>())).unwrap();
    for options in ["--targets t.csv:y", "--labels t.csv:y --normalize", "--labels t.csv:y --density gmm"] {
        let line = format!("fit -e t.csv {options} --weights t.csv:w --index exact -k 5");
        run(folder, &format!("{line} -o one.nuq"));
        run(folder, &format!("{line} --shards 6 -o sharded"));
        let score = |model: &str| run(folder, &format!("score -m {model} -e t.csv:-y,w -o -"));
        assert_eq!(score("one.nuq"), score("sharded"));
        assert!(run(folder, "inspect sharded").contains("a, b"));
    }
}

#[test]
fn a_failed_fit_leaves_no_shards() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("x.csv"), "1\n2\n3\n4\n").unwrap();
    fs::write(folder.join("nan.csv"), "1\n2\n3\nnan\n").unwrap();
    fs::write(folder.join("y.csv"), "0\n1\n0\n1\n").unwrap();
    fs::write(folder.join("short.csv"), "0\n1\n").unwrap();
    let before = names(folder);
    for (line, code, message) in [
        ("fit -e nan.csv -l y.csv --shards 2 -o s", 1, "these rows contain a NaN or an infinity: 3"),
        ("fit -e x.csv -l short.csv --shards 2 -o s", 1, "short.csv"),
        // Some weights are 0. The rows with these weights would have to be removed.
        ("fit -e x.csv -l y.csv --weights y.csv --shards 2 -o s", 1, "the rows of a sharded model are fixed"),
        ("fit -e x.csv -l y.csv --shards 0 -o s", 2, "0 is not in 1..=99999"),
        ("fit -e x.csv -l y.csv --shards 2 -o -", 2, "--shards writes a folder"),
        ("fit -e x.csv -l y.csv --shards 2 --index hnsw -o s", 2, "shards are searched exactly"),
        ("fit -e x.csv -l y.csv --shards 2 --recall 0.9 -o s", 2, "--recall cannot be used with --shards"),
        (
            "fit -e x.csv -l y.csv --shards 2 --expected-queries 9 -o s",
            2,
            "--expected-queries cannot be used with --shards",
        ),
        ("fit -e x.csv -l y.csv --shards 2 -o y.csv", 3, "it is a file, and a sharded model is a folder"),
        ("fit -e x.csv -l y.csv --shards 2 -o none/s", 3, "cannot write none/s"),
    ] {
        let output = nuq(&line.split_whitespace().collect::<Vec<_>>(), folder);
        assert_eq!(
            (output.status.code(), err(&output).contains(message)),
            (Some(code), true),
            "{}",
            err(&output)
        );
        assert_eq!(names(folder), before, "{line}");
    }
    // An existing model remains.
    run(folder, "fit -e x.csv -l y.csv --shards 2 -k 2 -o s");
    let model = names(&folder.join("s"));
    let output = nuq(&"fit -e nan.csv -l y.csv --shards 1 -o s".split(' ').collect::<Vec<_>>(), folder);
    assert!(!output.status.success());
    assert_eq!(names(&folder.join("s")), model);
    // With more shards than rows, each of the four rows has its own shard; the fifth file is the manifest.
    run(folder, "fit -e x.csv -l y.csv --shards 9 -k 2 -o s");
    assert_eq!(names(&folder.join("s")).len(), 5);
}
