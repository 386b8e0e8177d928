//! `fit`, `score`, `inspect`, `suggest` and `label-issues` on the example embeddings, on small tables and on invalid input; manual pages
//! and completion scripts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{err, example, fitted, nuq, out, table};
use nuq::{Label, NuqClassifier, NuqRegressor};
use nuq_io::{ArraySpec, EmbeddingsFile, read_labels, read_targets};
use serde_json::Value;

fn spec(text: &str) -> ArraySpec {
    text.parse().unwrap()
}

#[test]
fn scores_equal_the_predictions_of_the_library_in_every_format() {
    let (folder, output) = fitted(&["--json", "--quiet"]);
    assert_eq!(err(&output), "");
    let summary: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&summary["rows"], &summary["classes"]), (&2000.into(), &10.into()));

    let train = EmbeddingsFile::open(&spec(&example("train.npz:embeddings"))).unwrap().read().unwrap();
    let labels = read_labels(&spec(&example("train.npz:labels"))).unwrap();
    let model = NuqClassifier::params().fit(&train, &labels).unwrap();
    let queries = EmbeddingsFile::open(&spec(&example("svhn.npz:embeddings"))).unwrap().read().unwrap();
    let predictions = model.predict(&queries).unwrap();
    let decisions = predictions.decide(&nuq::RejectRule::confident(0.1, 0.05).unwrap());
    let rejected = decisions.iter().filter(|d| **d == nuq::Decision::Reject).count();

    let svhn = example("svhn.npz:embeddings");
    for name in ["scores.csv", "scores.jsonl", "scores.npz"] {
        let arguments = ["score", "--model", "model.nuq", "--embeddings", &svhn, "--out", name];
        let decide = ["--reject-cost", "0.1", "--level", "0.05", "--output-neighbors", "3"];
        let output = nuq(&[&arguments[..], &decide].concat(), folder.path());
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(out(&output), format!("{name}: 500 rows, {rejected} rejected\n"));
    }
    let csv = fs::read_to_string(folder.path().join("scores.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with(
        "row,label,probability,aleatoric,epistemic,total,log_epistemic,log_total,log_density,accept,neighbor_1_id,neighbor_1_distance,neighbor_1_label"
    ));
    assert_eq!(lines.len(), 501);
    let json = fs::read_to_string(folder.path().join("scores.jsonl")).unwrap();
    for (i, (line, record)) in lines[1..].iter().zip(json.lines()).enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |j: usize| cells[j].parse::<f64>().unwrap();
        assert_eq!((cells[0], cells[1]), (&*i.to_string(), &*predictions.label(i).to_string()));
        assert_eq!(number(2), predictions[i].probability);
        let logs = (predictions[i].log_total, predictions[i].log_density);
        assert_eq!((number(5), (number(7), number(8))), (predictions[i].total(), logs));
        let nearest = predictions.neighbors().ids(i)[0];
        assert_eq!(cells[10], nearest.to_string());
        let record: Value = serde_json::from_str(record).unwrap();
        assert_eq!(record["total"].as_f64(), Some(predictions[i].total()));
        assert_eq!(record["neighbors"][0]["id"], nearest);
        assert_eq!(record["neighbors"][0]["label"], labels[nearest as usize].to_string());
    }
    let array = |name: &str| spec(&folder.path().join(format!("scores.npz:{name}")).to_string_lossy());
    let totals: Vec<f64> = predictions.iter().map(|p| p.total()).collect();
    assert_eq!(read_targets(&array("total")).unwrap(), totals);
    assert_eq!(EmbeddingsFile::open(&array("neighbor_ids")).unwrap().dim(), 3);
    assert_eq!(read_labels(&array("label")).unwrap()[7], *predictions.label(7));
}

#[test]
fn model_options_of_fit_are_set_in_the_model() {
    let inspect = |options: &[&str]| -> Value {
        let (folder, _) = fitted(options);
        let output = nuq(&["inspect", "model.nuq", "--json", "--verify"], folder.path());
        assert!(output.status.success(), "{}", err(&output));
        serde_json::from_str(&out(&output)).unwrap()
    };
    let paper = inspect(&["--preset", "paper"]);
    assert_eq!((&paper["prior_weight"], &paper["dimension"]), (&0.0.into(), &512.0.into()));
    assert_eq!((&paper["density"], &paper["density_bandwidth"]), (&"kde".into(), &"same".into()));
    assert_eq!(paper["variance"], "max");
    let changed = inspect(&[
        "--n-neighbors",
        "7",
        "--kernel",
        "student",
        "--bandwidth",
        "2.5",
        "--density-bandwidth",
        "1.5",
        "--prior-weight",
        "0.5",
        "--scale",
        "ambient",
        "--normalize",
        "--index",
        "hnsw",
        "--recall",
        "0.9",
        "--seed",
        "3",
    ]);
    assert_eq!((&changed["n_neighbors"], &changed["kernel"]), (&7.into(), &"student".into()));
    assert_eq!(
        (&changed["bandwidth"]["values"][0], &changed["density_bandwidth"]),
        (&2.5.into(), &1.5.into())
    );
    assert_eq!((&changed["prior_weight"], &changed["normalize"]), (&0.5.into(), &true.into()));
    assert!(changed["recall"].as_f64().unwrap() >= 0.9);
    assert_eq!(changed["index_reason"], "as requested");
    let gmm =
        inspect(&["--density", "gmm", "--covariance", "tied", "--shrinkage", "0.1", "--bandwidth", "scott"]);
    assert_eq!(
        (&gmm["density"], &gmm["covariance"], &gmm["shrinkage"], &gmm["bandwidth"]["kind"]),
        (&"gmm".into(), &"tied".into(), &0.1.into(), &"per_dimension".into())
    );
    let half = inspect(&["--index", "hnsw", "--precision", "f16", "--bandwidth", "adaptive"]);
    assert_eq!((&half["bandwidth"]["kind"], &half["index"]), (&"per_point".into(), &"hnsw".into()));
    let sections = half["file"]["sections"].as_array().unwrap();
    assert!(sections.iter().any(|section| section["name"] == "index.rows.f16"));
    // The searches for the 2000 training rows during the fit count as queries.
    let auto = inspect(&["--expected-queries", "1000000000", "--threads", "1", "--variance", "max"]);
    assert!(
        auto["index_reason"].as_str().unwrap().starts_with("for 1000002000 queries exact search takes"),
        "{auto}"
    );
    assert_eq!(auto["index"], "exact", "exact search is faster on 2000 rows");
}

#[test]
fn fit_with_targets_creates_a_regressor() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.csv"), "a\n0\n1\n2\n3\n").unwrap();
    fs::write(folder.path().join("y.csv"), "0\n2\n4\n6\n").unwrap();
    let fit = [
        "fit",
        "--embeddings",
        "x.csv",
        "--targets",
        "y.csv",
        "--out",
        "m.nuq",
        "--bandwidth",
        "0.5",
        "--k",
        "3",
    ];
    assert!(nuq(&fit, folder.path()).status.success());
    let output = nuq(
        &["score", "--model", "m.nuq", "--embeddings", "x.csv", "--out", "-", "--output-neighbors", "1"],
        folder.path(),
    );
    let x =
        EmbeddingsFile::open(&spec(&folder.path().join("x.csv").to_string_lossy())).unwrap().read().unwrap();
    let model = NuqRegressor::params().bandwidth(0.5).n_neighbors(3).fit(&x, &[0.0, 2.0, 4.0, 6.0]).unwrap();
    let estimates = model.predict(&x).unwrap();
    let text = out(&output);
    let second: Vec<&str> = text.lines().nth(2).unwrap().split(',').collect();
    assert_eq!(second[1].parse::<f64>().unwrap(), estimates[1].mean);
    assert_eq!(&second[9..], ["1", "0", "2"], "the nearest row, its distance and its target");
}

#[test]
fn bad_rows_are_listed_or_skipped() {
    let (folder, _) = fitted(&["--quiet"]);
    let mut rows = vec![vec!["0.5".to_owned(); 512]; 4];
    rows[1][3] = "nan".to_owned();
    rows[3][0] = "inf".to_owned();
    let text: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    fs::write(folder.path().join("q.csv"), text.join("\n")).unwrap();
    let score = ["score", "--model", "model.nuq", "--embeddings", "q.csv", "--out", "s.csv"];
    let failed = nuq(&score, folder.path());
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(
        err(&failed),
        "nuq: q.csv: these rows contain a NaN or an infinity: 1, 3; use --on-bad-rows skip to score the others\n"
    );
    assert!(!folder.path().join("s.csv").exists(), "no output file is left");
    let skipped = nuq(&[&score[..], &["--on-bad-rows", "skip"]].concat(), folder.path());
    assert_eq!(out(&skipped), "s.csv: 4 rows, 2 skipped\n");
    let lines: Vec<String> =
        fs::read_to_string(folder.path().join("s.csv")).unwrap().lines().map(str::to_owned).collect();
    assert_eq!((lines[2].as_str(), lines[4].as_str()), ("1,,,,,,,,", "3,,,,,,,,"));
    assert!(lines[3].starts_with("2,") && !lines[3].ends_with(','));
}

#[test]
fn invalid_input_has_an_error_message_and_an_exit_code() {
    let (folder, _) = fitted(&["--quiet"]);
    let (x, y) = (example("train.npz:embeddings"), example("train.npz:labels"));
    let test = example("test.npz:labels");
    let file = example("train.npz");
    fs::write(folder.path().join("narrow.csv"), "1,2\n").unwrap();
    fs::write(folder.path().join("junk.nuq"), "junk").unwrap();
    fs::write(folder.path().join("one.npy"), b"\x93NUMPY\x01\x00").unwrap();
    let fit = |more: &[&str]| -> Vec<String> {
        let words = ["fit", "--embeddings", &x, "--labels", &y, "--out", "new.nuq"];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let words = |list: &[&str]| -> Vec<String> { list.iter().map(|word| (*word).to_owned()).collect() };
    let cases: Vec<(Vec<String>, i32, &str)> = vec![
        (
            words(&["fit", "--embeddings", "no.npy", "--labels", &y, "--out", "n.nuq"]),
            3,
            "cannot read no.npy: ",
        ),
        (words(&["fit", "--embeddings", ".", "--labels", &y, "--out", "n.nuq"]), 3, "it is a folder"),
        (
            words(&["fit", "--embeddings", &file, "--labels", &y, "--out", "n.nuq"]),
            1,
            "holds several arrays; name one",
        ),
        (words(&["fit", "--embeddings", &x, "--labels", &test, "--out", "n.nuq"]), 1, "has 1000 labels, but"),
        (
            words(&["fit", "--embeddings", &x, "--labels", &y, "--out", "no/n.nuq"]),
            3,
            "cannot write no/n.nuq",
        ),
        (fit(&["--covariance", "tied"]), 2, "--covariance requires --density gmm"),
        (
            fit(&["--bandwidth", "wide"]),
            2,
            "[possible values: log_likelihood, accuracy, silverman, scott, isj, adaptive, squared_error, NUMBER]",
        ),
        (fit(&["--bandwidth", "-1"]), 1, "bandwidth is -1.0: it must be positive and finite"),
        (fit(&["--recall", "2", "--index", "hnsw"]), 1, "the requested recall is 2"),
        (fit(&["--recall", "0.9", "--index", "exact"]), 2, "requires --index hnsw or auto"),
        (fit(&["--threads", "0"]), 2, "--threads 0: at least 1 is required"),
        (
            words(&["fit", "--embeddings", &x, "--out", "n.nuq"]),
            2,
            "<--labels <FILE>|--targets <FILE>|--method <METHOD>>",
        ),
        (
            words(&["fit", "--embeddings", "one.npy:x", "--labels", &y, "--out", "n.nuq"]),
            1,
            "holds a single array without a name: remove `:x`",
        ),
        (
            words(&["score", "--model", "junk.nuq", "--embeddings", &x, "--out", "s.csv"]),
            1,
            "junk.nuq is not a nuq model",
        ),
        (
            words(&["score", "--model", "model.nuq", "--embeddings", "narrow.csv", "--out", "s.csv"]),
            1,
            "narrow.csv has 2 columns, but the model model.nuq was fitted to 512",
        ),
        (
            words(&["score", "--model", "model.nuq", "--embeddings", &x, "--out", "s.xlsx"]),
            2,
            "the output must be a .csv, .tsv, .jsonl or .ndjson file, also compressed",
        ),
        (
            words(&[
                "score",
                "--model",
                "model.nuq",
                "--embeddings",
                &x,
                "--out",
                "s.csv",
                "--reject-cost",
                "3",
            ]),
            1,
            "reject cost is 3.0",
        ),
        (
            words(&["score", "--model", "model.nuq", "--embeddings", "narrow.csv", "--out", "narrow.csv"]),
            2,
            "would replace an input file",
        ),
        (
            words(&[
                "score",
                "--model",
                "model.nuq",
                "--embeddings",
                &x,
                "--out",
                "./model.nuq/../narrow.csv",
            ]),
            3,
            "its folder does not exist",
        ),
        (words(&["inspect", "."]), 3, "it is a folder"),
    ];
    for (arguments, code, expected) in cases {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = nuq(&arguments, folder.path());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(expected), "{arguments:?}: {}", err(&output));
        assert_eq!(out(&output), "");
    }
    let mut left: Vec<PathBuf> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    left.sort();
    let names: Vec<&str> = left.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["junk.nuq", "model.nuq", "narrow.csv", "one.npy"], "a failed command leaves no file");
}

#[test]
fn invalid_values_are_reported_before_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let fit = ["fit", "--embeddings", "no.npy", "--labels", "no.csv", "--out", "n.nuq"];
    for (options, expected) in [
        (&["--n-neighbors", "0"][..], "at least one neighbor"),
        (&["--bandwidth", "-1"], "bandwidth is -1.0"),
        (&["--density-bandwidth", "0"], "density bandwidth is 0.0"),
        (&["--recall", "2"], "the requested recall is 2"),
        (&["--density", "gmm", "--shrinkage", "1.5"], "shrinkage is 1.5"),
        (&["--prior-weight", "-1"], "prior_weight is -1.0"),
    ] {
        let output = nuq(&[&fit[..], options].concat(), folder.path());
        assert_eq!(output.status.code(), Some(1), "{options:?}: {}", err(&output));
        assert!(err(&output).contains(expected), "{options:?}: {}", err(&output));
    }
    let score = ["score", "--model", "no.nuq", "--embeddings", "no.npy", "--out", "s.csv"];
    let output = nuq(&[&score[..], &["--reject-cost", "3"]].concat(), folder.path());
    assert!(err(&output).contains("reject cost is 3.0"), "{}", err(&output));
}

#[test]
fn a_label_column_in_the_same_table_is_not_a_coordinate() {
    let (folder, output) = table(["cat", "cat", "cat", "dog", "dog", "dog"], &["--bandwidth", "1"]);
    assert!(out(&output).contains("6 × 2, 2 classes"), "{}", out(&output));
    let score = ["score", "--model", "m.nuq", "--out", "s.csv", "--embeddings"];
    let failed = nuq(&[&score[..], &["t.csv"]].concat(), folder.path());
    assert!(err(&failed).contains("exclude it as t.csv:-class"), "{}", err(&failed));
    let failed = nuq(&[&score[..], &["t.csv:-x"]].concat(), folder.path());
    assert!(err(&failed).contains("exclude it as t.csv:-x,class"), "{}", err(&failed));
    assert!(nuq(&[&score[..], &["t.csv:-class"]].concat(), folder.path()).status.success());
    assert!(fs::read_to_string(folder.path().join("s.csv")).unwrap().contains("\n4,dog,"));
    let inspected = out(&nuq(&["inspect", "m.nuq"], folder.path()));
    assert!(inspected.contains("classes      cat (3), dog (3)\n"), "{inspected}");
}

#[test]
fn too_few_rows_and_equal_labels_are_reported() {
    let (_, output) = table(["a"; 6], &["--bandwidth", "1", "--k", "5000"]);
    let stderr = err(&output);
    assert!(stderr.contains("--n-neighbors 5000: there are only 6 rows; all of them are used"), "{stderr}");
    assert!(stderr.contains("all labels are equal: only log_density and the epistemic"), "{stderr}");
}

#[test]
fn the_first_classes_are_listed_and_the_others_counted() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..50).map(|i| format!("{i},{}\n", i % 25)).collect();
    fs::write(folder.path().join("t.csv"), format!("x,class\n{}", lines.concat())).unwrap();
    let fit = ["fit", "--embeddings", "t.csv", "--labels", "t.csv:class", "--out", "m.nuq"];
    assert!(nuq(&fit, folder.path()).status.success());
    let text = out(&nuq(&["inspect", "m.nuq"], folder.path()));
    assert!(text.contains("classes      0 (2), 1 (2), ") && text.contains("19 (2), and 5 more\n"), "{text}");
    let json: Value =
        serde_json::from_str(&out(&nuq(&["inspect", "m.nuq", "--json"], folder.path()))).unwrap();
    assert_eq!(json["class_rows"][24], serde_json::json!({ "label": 24, "rows": 2 }));
}

#[test]
fn integer_labels_are_written_as_integers() {
    let (folder, _) = table(["7", "7", "-9", "-9", "-9", "-9"], &["--bandwidth", "1", "--k", "3"]);
    fs::write(folder.path().join("q.csv"), "0,0\nnan,0\n5,5\n").unwrap();
    let score =
        ["score", "--model", "m.nuq", "--embeddings", "q.csv", "--out", "s.npz", "--on-bad-rows", "skip"];
    assert!(nuq(&[&score[..], &["--output-neighbors", "2"]].concat(), folder.path()).status.success());
    let array = |name: &str| spec(&folder.path().join(format!("s.npz:{name}")).to_string_lossy());
    let ints = |values: &[i128]| values.iter().map(|&v| Label::Int(v)).collect::<Vec<_>>();
    // The skipped row has the label 0; the array `scored` shows that this is not a prediction.
    assert_eq!(read_labels(&array("label")).unwrap(), ints(&[7, 0, -9]));
    assert_eq!(read_labels(&array("scored")).unwrap(), [true, false, true].map(Label::Bool));
    let neighbors = EmbeddingsFile::open(&array("neighbor_labels")).unwrap().read().unwrap();
    assert_eq!(neighbors.as_slice(), [7.0, 7.0, 0.0, 0.0, -9.0, -9.0]);
    let issues = out(&nuq(&["label-issues", "m.nuq", "--json"], folder.path()));
    let issues: Value = serde_json::from_str(&issues).unwrap();
    assert_eq!(
        (&issues["worst"][0]["label"], &issues["worst"][0]["predicted_label"]),
        (&(-9).into(), &7.into())
    );
}

#[cfg(not(feature = "parquet"))]
#[test]
fn errors_of_a_build_without_parquet_name_the_feature() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let score = ["score", "--model", "m.nuq", "--embeddings"];
    fs::write(folder.path().join("q.parquet"), "PAR1").unwrap();
    let read = nuq(&[&score[..], &["q.parquet", "--out", "s.csv"]].concat(), folder.path());
    assert!(err(&read).contains("q.parquet: this nuq was built without parquet; build it"), "{}", err(&read));
    let written = nuq(&[&score[..], &["t.csv:-class", "--out", "s.parquet"]].concat(), folder.path());
    assert_eq!(written.status.code(), Some(2));
    assert!(err(&written).contains("build it with `--features parquet`"), "{}", err(&written));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_scores_equal_npz_scores() {
    let (folder, _) = table(["7", "7", "-9", "-9", "-9", "-9"], &["--bandwidth", "1", "--k", "3"]);
    fs::write(folder.path().join("q.csv"), "0,0\nnan,0\n5,5\n").unwrap();
    let score = [
        "score",
        "--model",
        "m.nuq",
        "--embeddings",
        "q.csv",
        "--on-bad-rows",
        "skip",
        "--output-neighbors",
        "2",
    ];
    for out in ["s.parquet", "s.npz"] {
        let output = nuq(&[&score[..], &["--out", out]].concat(), folder.path());
        assert!(output.status.success(), "{}", err(&output));
    }
    let array =
        |file: &str, name: &str| spec(&folder.path().join(format!("{file}:{name}")).to_string_lossy());
    for name in ["neighbor_ids", "neighbor_distances", "neighbor_labels"] {
        let rows = |file: &str| EmbeddingsFile::open(&array(file, name)).unwrap().values(0..3).unwrap();
        let (parquet, npz) = (rows("s.parquet"), rows("s.npz"));
        assert_eq!((&parquet[..2], &parquet[4..]), (&npz[..2], &npz[4..]), "{name}");
        assert!(parquet[2].is_nan(), "a skipped row has an empty cell");
    }
    let missing = read_labels(&array("s.parquet", "label")).unwrap_err().to_string();
    assert!(missing.ends_with("the label of row 1 is missing: remove the row"), "{missing}");
    fs::write(folder.path().join("q.csv"), "0,0\n5,5\n").unwrap();
    let output = nuq(&[&score[..], &["--out", "s.parquet"]].concat(), folder.path());
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(read_labels(&array("s.parquet", "label")).unwrap(), [Label::Int(7), Label::Int(-9)]);
    // A column of lists can be read as embeddings.
    let fit = ["fit", "--embeddings", "s.parquet:neighbor_ids", "--labels", "s.parquet:label"];
    let output = nuq(&[&fit[..], &["--out", "n.nuq", "--bandwidth", "1"]].concat(), folder.path());
    assert!(out(&output).contains("2 × 2, 2 classes"), "{}{}", out(&output), err(&output));
}

#[test]
fn suggest_skips_bad_rows_and_writes_a_file() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    fs::write(folder.path().join("q.csv"), "nan,0\n0,0\n90,0\n").unwrap();
    let suggest = ["suggest", "--model", "m.nuq", "--embeddings", "q.csv", "--count", "1"];
    let failed = nuq(&suggest, folder.path());
    assert_eq!(failed.status.code(), Some(1));
    let expected = "nuq: q.csv: these rows contain a NaN or an infinity: 0; use --on-bad-rows skip to choose from the others\n";
    assert_eq!(err(&failed), expected);
    let skipped = nuq(&[&suggest[..], &["--on-bad-rows", "skip", "--out", "s.csv"]].concat(), folder.path());
    assert_eq!((out(&skipped), err(&skipped)), ("s.csv: 1 row\n".to_owned(), "skipped 1 row\n".to_owned()));
    let csv = fs::read_to_string(folder.path().join("s.csv")).unwrap();
    assert!(csv.starts_with("row,log_epistemic\n2,") && csv.lines().count() == 2, "{csv}");
    let wrong = nuq(&[&suggest[..], &["--out", "s.npz"]].concat(), folder.path());
    assert_eq!(wrong.status.code(), Some(2), "{}", err(&wrong));
    fs::write(folder.path().join("y.csv"), "1\n2\n3\n").unwrap();
    let fit = ["fit", "--embeddings", "q.csv", "--labels", "y.csv", "--out", "n.nuq"];
    let expected = "nuq: q.csv: these rows contain a NaN or an infinity: 0; remove them from all arrays\n";
    assert_eq!(err(&nuq(&fit, folder.path())), expected);
}

#[test]
fn manual_pages_contain_the_help_texts() {
    let folder = tempfile::tempdir().unwrap();
    let output = nuq(&["man", "--out", "pages"], folder.path());
    assert!(output.status.success(), "{}", err(&output));
    let read = |name: &str| fs::read_to_string(folder.path().join("pages").join(name)).unwrap();
    let (nuq_page, fit) = (read("nuq.1"), read("nuq-fit.1"));
    assert!(
        nuq_page.contains("130  interrupted by Ctrl\\-C") && nuq_page.contains("nuq\\-label\\-issues(1)"),
        "{nuq_page}"
    );
    assert!(fit.starts_with(".ie") && fit.contains(".TH nuq-fit 1"), "{fit}");
    assert!(fit.contains("\\-\\-density\\-bandwidth") && fit.contains("half the median distance"), "{fit}");
    let pages = fs::read_dir(folder.path().join("pages")).unwrap().count();
    assert_eq!(out(&output), format!("pages: {pages} pages\n"));
}

#[test]
fn completion_scripts_contain_the_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&nuq(&["completions", shell], Path::new(".")));
        assert!(script.contains("nuq") && script.contains("expected-queries"), "{shell}");
    }
}

#[test]
fn quiet_commands_that_write_a_file_print_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let table = |first: u32| -> String {
        let row = |i: u32| format!("{}.{i:03},{}\n", i % 7, ["a", "b"][(i % 2) as usize]);
        format!("x,label\n{}", (first..first + 60).map(row).collect::<String>())
    };
    fs::write(folder.path().join("t.csv"), table(0)).unwrap();
    fs::write(folder.path().join("new.csv"), table(60)).unwrap();
    let fit = ["fit", "--embeddings", "t.csv:-label", "--labels", "t.csv:label", "--out", "model.nuq"];
    let output = nuq(&[&fit[..], &["--quiet", "--k", "100000"]].concat(), folder.path());
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!((out(&output), err(&output)), (String::new(), String::new()));
    let model = ["--model", "model.nuq", "--embeddings", "new.csv:-label"];
    for command in [
        &["calibrate", "--target", "false_alarm=0.1"][..],
        &["score", "--out", "s.csv"],
        &["suggest", "--out", "few.csv"],
    ] {
        let output = nuq(&[command, &model, &["--quiet"]].concat(), folder.path());
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!((out(&output), err(&output)), (String::new(), String::new()), "{command:?}");
    }
    // `inspect` prints its result also with --quiet. It shows that the number of neighbors was limited to the number of rows.
    let shown = out(&nuq(&["inspect", "model.nuq", "--quiet"], folder.path()));
    assert!(
        shown.contains("\nn_neighbors  60 (all rows; 100000 requested)\nkernel       gaussian\n"),
        "{shown}"
    );
    let json = out(&nuq(&["inspect", "model.nuq", "--json"], folder.path()));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["n_neighbors"], &json["n_neighbors_requested"]), (&60.into(), &100_000.into()));
}

#[test]
fn an_ambiguous_first_line_requires_the_option_header() {
    let folder = tempfile::tempdir().unwrap();
    let row = |i: usize| format!("{}.5,{}.5,{i}.5\n", i % 2 * 10, i % 3);
    let rows: String = (0..20).map(row).collect();
    fs::write(folder.path().join("x.csv"), format!("1,2,3\n{rows}")).unwrap();
    fs::write(folder.path().join("y.csv"), format!("class\n{}", "cat\ndog\n".repeat(10))).unwrap();
    let fit = ["fit", "--embeddings", "x.csv", "--labels", "y.csv", "--out", "m.nuq"];
    let end = "its first line may be a header or a row: choose with --header yes or --header no\n";
    assert_eq!(err(&nuq(&fit, folder.path())), format!("nuq: x.csv: {end}"));
    assert!(!folder.path().join("m.nuq").exists());
    let fitted = nuq(&[&fit[..], &["--header", "yes", "--json"]].concat(), folder.path());
    assert!(fitted.status.success(), "{}", err(&fitted));
    for command in ["score", "suggest"] {
        let words = [command, "--model", "m.nuq", "--embeddings", "x.csv", "--out", "s.csv", "--header"];
        let all = nuq(&[&words[..], &["yes"]].concat(), folder.path());
        assert!(out(&all).starts_with("s.csv: 20 rows"), "{}{}", out(&all), err(&all));
        let failed = nuq(&[&words[..], &["auto"]].concat(), folder.path());
        assert_eq!((failed.status.code(), err(&failed)), (Some(1), format!("nuq: x.csv: {end}")));
    }
}

#[cfg(unix)]
#[test]
fn calibrating_in_place_keeps_permissions_and_links_and_does_not_replace_read_only_files() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..20).map(|i| format!("{}.5,{}.5\n", i % 2 * 10, i % 3)).collect();
    fs::write(folder.path().join("x.csv"), rows).unwrap();
    fs::write(folder.path().join("y.csv"), "cat\ndog\n".repeat(10)).unwrap();
    let fit = ["fit", "--embeddings", "x.csv", "--labels", "y.csv", "--out", "m.nuq"];
    assert!(nuq(&fit, folder.path()).status.success());
    let set_mode = |mode| {
        fs::set_permissions(folder.path().join("m.nuq"), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o600);
    symlink("m.nuq", folder.path().join("link.nuq")).unwrap();
    let calibrate = ["calibrate", "--model", "link.nuq", "--embeddings", "x.csv", "--target", "coverage=0.9"];
    let calibrated = nuq(&calibrate, folder.path());
    assert!(calibrated.status.success(), "{}", err(&calibrated));
    assert!(fs::symlink_metadata(folder.path().join("link.nuq")).unwrap().is_symlink());
    let mode = fs::metadata(folder.path().join("m.nuq")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(out(&nuq(&["inspect", "m.nuq"], folder.path())).contains("coverage=0.9"));
    let inspected = out(&nuq(&["inspect", "m.nuq", "--json"], folder.path()));
    assert!(inspected.contains("held_out_scores"), "the scores of the held-out rows are stored: {inspected}");
    set_mode(0o400);
    let before = fs::read(folder.path().join("m.nuq")).unwrap();
    let failed = nuq(&[&calibrate[..], &["--name", "other"]].concat(), folder.path());
    assert_eq!(failed.status.code(), Some(3));
    assert!(
        err(&failed)
            .ends_with("cannot write link.nuq: it is read-only: make it writable or choose another name\n"),
        "{}",
        err(&failed)
    );
    assert_eq!(fs::read(folder.path().join("m.nuq")).unwrap(), before);
}

#[test]
fn typical_mistakes_of_new_users_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("t.csv"), "id,x,y\n100,0,0.5\n200,0.2,1\n300,1,0.1\n400,8,8.5\n500,8.3,9\n").unwrap();
    fs::write(at.join("q.csv"), "x\n0.1\n0.3\n5\n").unwrap();
    let run = |line: &str| nuq(&line.split_whitespace().collect::<Vec<_>>(), at);
    let output = run("fit -e t.csv --targets t.csv:y --id-column id -o m.nuq");
    assert!(output.status.success() && out(&output).contains("rows         5 × 1"), "{}", err(&output));
    for (line, expected) in [
        ("calibrate -m m.nuq -e q.csv --target coverage=0.9 --name=", "--name is empty"),
        ("suggest -m m.nuq -e q.csv -n 0", "choose at least 1 row"),
    ] {
        let output = run(line);
        assert!(output.status.code() == Some(2) && err(&output).contains(expected), "{}", err(&output));
    }
    let output = run("calibrate -m m.nuq -e q.csv --target risk=0.1");
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("--target risk requires a classifier"), "{}", err(&output));
    let output = run("calibrate -m m.nuq -e q.csv --target false_alarm=0.01");
    assert!(output.status.success(), "{}", err(&output));
    // The warning does not repeat the statement on standard output.
    let statement = out(&output).lines().nth(1).unwrap().to_owned();
    assert!(
        err(&output).contains("accepts every row") && !err(&output).contains(&statement),
        "{}",
        err(&output)
    );
}
