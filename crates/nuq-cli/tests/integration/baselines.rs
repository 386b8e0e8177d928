//! Baselines: `fit --method`, `inspect` and `score`, on the example embeddings.

use std::fs;

use nuq_eval::baselines::{Batch, FitInputs, Uses, fit};
use nuq_eval::evaluate::MethodId;
use nuq_io::{EmbeddingsFile, read_labels};
use serde_json::Value;

use crate::common::{err, example, fitted, nuq, out};

fn read(file: &str) -> nuq::Embeddings<'static> {
    let mut file = EmbeddingsFile::open(&example(file).parse().unwrap()).unwrap();
    let values = file.values(0..file.len()).unwrap();
    nuq::Embeddings::new(values, file.dim()).unwrap()
}

/// The column `score` of a csv file.
fn scores(text: &str) -> Vec<f64> {
    assert_eq!(text.lines().next(), Some("row,score"));
    text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn scores_of_a_saved_baseline_equal_those_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (x, queries) = (read("test.npz:embeddings"), read("svhn.npz:embeddings"));
    let (logits, query_logits) = (read("test.npz:logits"), read("svhn.npz:logits"));
    let labels = read_labels(&example("test.npz:labels").parse().unwrap()).unwrap();
    let paths = [
        "test.npz:embeddings",
        "test.npz:labels",
        "test.npz:logits",
        "svhn.npz:embeddings",
        "svhn.npz:logits",
    ];
    let [x_path, y_path, z_path, q_path, qz_path] = paths.map(example);
    for method in [MethodId::MahalanobisL2, MethodId::KnnDistance, MethodId::Vim, MethodId::Energy] {
        let (uses, name) = (Uses::of(method).unwrap(), method.name());
        let mut arguments = vec!["fit", "--method", name, "--out", "b.nuq"];
        let arrays = [
            (uses.embeddings, "--embeddings", &x_path),
            (uses.labels, "--labels", &y_path),
            (uses.logits, "--logits", &z_path),
        ];
        for (_, option, path) in arrays.into_iter().filter(|(is_used, ..)| *is_used) {
            arguments.extend([option, path]);
        }
        let output = nuq(&arguments, at);
        assert!(output.status.success(), "{name}: {}", err(&output));
        assert!(
            out(&output).contains(&format!("method       {name} ({})", method.title())),
            "{}",
            out(&output)
        );

        let inputs = FitInputs {
            embeddings: Some(&x),
            labels: Some(&labels),
            logits: Some(&logits),
            ..FitInputs::default()
        };
        let scorer = fit(method, &inputs).unwrap();
        let batch = Batch { embeddings: Some(&queries), logits: Some(&query_logits), ..Batch::default() };
        let expected = scorer.score(&batch).unwrap();
        let mut arguments = vec!["score", "--model", "b.nuq", "--out", "-", "--quiet"];
        for input in scorer.inputs() {
            match input.name() {
                "embeddings" => arguments.extend(["--embeddings", &q_path]),
                _ => arguments.extend(["--logits", &qz_path]),
            }
        }
        let output = nuq(&arguments, at);
        assert!(output.status.success(), "{name}: {}", err(&output));
        assert_eq!(scores(&out(&output)), expected, "{name}");
    }
}

#[test]
fn inspect_shows_a_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert!(nuq(&["fit", "--method", "energy", "--out", "e.nuq"], at).status.success());
    let shown = out(&nuq(&["inspect", "e.nuq", "--verify"], at));
    let expected = "task         baseline\nmethod       energy (Energy)\ninputs       logits\ntemperature  1.0\nfile         written by nuq";
    assert!(shown.starts_with(expected) && shown.contains("all checksums are correct"), "{shown}");
    let json: Value = serde_json::from_str(&out(&nuq(&["inspect", "e.nuq", "--json"], at))).unwrap();
    assert_eq!((&json["method"], &json["params"]["temperature"]), (&"energy".into(), &1.0.into()));
}

#[test]
fn options_and_arrays_that_do_not_apply_are_named() {
    let (folder, _) = fitted(&["--quiet"]);
    let at = folder.path();
    assert!(nuq(&["fit", "--method", "energy", "--out", "e.nuq"], at).status.success());
    fs::write(at.join("z.csv"), "1,2\n3,4\n").unwrap();
    let cases: [(&[&str], &str); 12] = [
        (&["fit", "--method", "energy", "--kernel", "student", "--out", "f.nuq"], "--kernel"),
        (
            &["fit", "--method", "energy", "--labels", "z.csv", "--out", "f.nuq"],
            "--labels is not used by --method energy",
        ),
        (
            &["fit", "--method", "energy", "--seed", "3", "--out", "f.nuq"],
            "--seed is not used by --method energy",
        ),
        (
            &["fit", "--method", "lof", "--embeddings", "z.csv", "--shrinkage", "0.1", "--out", "f.nuq"],
            "--shrinkage is not used by --method lof",
        ),
        (
            &["fit", "--method", "ddu", "--embeddings", "z.csv", "--out", "f.nuq"],
            "--method ddu requires --labels",
        ),
        (
            &["fit", "--method", "huq", "--out", "f.nuq"],
            "--method huq: it is computed from the predictions of a NUQ model",
        ),
        (
            &["fit", "--embeddings", "z.csv", "--labels", "z.csv", "--logits", "z.csv", "--out", "f.nuq"],
            "--method <METHOD>",
        ),
        (
            &["score", "--model", "e.nuq", "--embeddings", "z.csv", "--out", "s.csv"],
            "--embeddings is not used: e.nuq holds the baseline energy",
        ),
        (
            &["score", "--model", "e.nuq", "--out", "s.csv"],
            "--logits is required: e.nuq holds the baseline energy",
        ),
        (
            &["score", "--model", "e.nuq", "--logits", "z.csv", "--threshold", "t", "--out", "s.csv"],
            "--threshold requires a NUQ model",
        ),
        (&["score", "--model", "model.nuq", "--out", "s.csv"], "--embeddings is required"),
        (
            &["score", "--model", "e.nuq", "--logits", "z.csv", "--reject-cost", "0.1", "--out", "s.csv"],
            "--reject-cost requires a NUQ model",
        ),
    ];
    for (arguments, message) in cases {
        let output = nuq(arguments, at);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(message), "{arguments:?}: {}", err(&output));
    }
    assert!(!at.join("f.nuq").exists() && !at.join("s.csv").exists());
    let output = nuq(&["suggest", "--model", "e.nuq", "--embeddings", "z.csv"], at);
    assert!(
        err(&output).contains("e.nuq holds the baseline energy, not a classifier or regressor"),
        "{}",
        err(&output)
    );
}

#[test]
fn rows_with_nan_are_skipped_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert!(nuq(&["fit", "--method", "max_logit", "--out", "m.nuq"], at).status.success());
    fs::write(at.join("z.csv"), "1,2\nnan,4\n3,5\n").unwrap();
    let score = ["score", "--model", "m.nuq", "--logits", "z.csv", "--out", "-"];
    let output = nuq(&score, at);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("z.csv: these rows contain a NaN or an infinity: 1"), "{}", err(&output));
    let output = nuq(&[&score[..], &["--on-bad-rows", "skip"]].concat(), at);
    assert_eq!(out(&output), "row,score\n0,-2\n1,\n2,-5\n", "{}", err(&output));
}

#[test]
fn column_names_are_stored_shown_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("x.csv"), "width,height\n0,0.5\n0,1\n1,0\n8,8.5\n8,9\n9,8\n").unwrap();
    fs::write(at.join("swapped.csv"), "height,width\n0,0.5\n8,9\n").unwrap();
    fs::write(at.join("one.csv"), "width\n0\n").unwrap();
    fs::write(at.join("twice.csv"), "width,width\n0,0.5\n0,1\n1,0\n").unwrap();
    let run = |line: &str| nuq(&line.split_whitespace().collect::<Vec<_>>(), at);
    let output = run("fit --method knn_distance -k 9 -e x.csv -o b.nuq");
    assert!(output.status.success(), "{}", err(&output));
    assert!(err(&output).contains("--n-neighbors 9: there are only 6 rows"), "{}", err(&output));
    let text = out(&run("inspect b.nuq"));
    assert!(text.contains("rows         6 × 2\ncolumn_names width, height\n"), "{text}");
    let json: Value = serde_json::from_str(&out(&run("inspect b.nuq --json"))).unwrap();
    assert_eq!((&json["rows"], &json["column_names"][1]), (&6.into(), &"height".into()));
    assert_eq!(json["params"]["n_neighbors"], 9);
    assert!(run("score -m b.nuq -e x.csv -o -").status.success());
    let output = run("score -m b.nuq -e swapped.csv -o -");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("column 0 is `height`, at fit it was `width`"), "{}", err(&output));
    assert!(run("score -m b.nuq -e swapped.csv --ignore-column-names -o -").status.success());
    let output = run("score -m b.nuq -e one.csv -o -");
    assert!(err(&output).contains("one.csv has 1 columns, but the baseline b.nuq was fitted to 2"));
    for line in
        ["fit --method knn_distance -e twice.csv -o c.nuq", "fit -e twice.csv -l x.csv:width -o c.nuq"]
    {
        let output = run(line);
        assert!(
            err(&output).contains("twice.csv: columns 0 and 1 are both named `width`"),
            "{}",
            err(&output)
        );
    }
}
