//! Prediction sets, prediction intervals and the temperature of logits.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::common::{err, example, fitted, nuq, out, table};

/// Runs nuq with the words of `command`. `@FILE` stands for the path of an example file.
fn run(command: &str, at: &Path) -> Output {
    let arguments: Vec<String> = command
        .split_whitespace()
        .map(|word| word.strip_prefix('@').map_or_else(|| word.to_owned(), example))
        .collect();
    nuq(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), at)
}

const CALIBRATE: &str =
    "calibrate --model model.nuq --embeddings @held_out.npz:embeddings --labels @held_out.npz:labels";

#[test]
fn sets_are_stored_in_the_model_and_written_by_score() {
    let (folder, _) = fitted(&["--quiet", "--density", "kde"]);
    let at = folder.path();
    let text = out(&run(&format!("{CALIBRATE} --target sets=0.99 --name sure"), at));
    assert!(
        text.starts_with("sure: The set of a new row of the same distribution as the 1000 held-out rows"),
        "{text}"
    );
    assert!(text.contains("least 99 %") && text.contains("mean size of the sets"), "{text}");
    let more = "--set-score aps --by-class --logits @held_out.npz:logits --target sets=0.9 --name network";
    assert!(run(&format!("{CALIBRATE} {more}"), at).status.success());
    let inspected = out(&run("inspect model.nuq", at));
    assert!(inspected.contains("sets         network, score aps, with logits"), "{inspected}");
    assert!(inspected.contains("sets         sure, score lac\n"), "{inspected}");

    let score = "score --model model.nuq --embeddings @test.npz:embeddings --out s.jsonl --sets sure";
    assert!(run(score, at).status.success());
    let labels = fs::read_to_string(at.join("s.jsonl")).unwrap();
    let sizes: Vec<usize> = labels
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let set = row["set"].as_array().unwrap();
            assert!(set.is_empty() || set.contains(&row["label"]), "{line}");
            set.len()
        })
        .collect();
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    assert!((1.0..3.0).contains(&mean), "{mean}");
    // csv separates the classes by |.
    assert!(run(&score.replace("s.jsonl", "s.csv"), at).status.success());
    let table = fs::read_to_string(at.join("s.csv")).unwrap();
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    assert_eq!(header.last(), Some(&"set"));
    let sets = table.lines().skip(1).map(|line| line.rsplit(',').next().unwrap());
    assert_eq!(
        sets.filter(|set| set.split('|').count() == 2).count(),
        sizes.iter().filter(|size| **size == 2).count()
    );

    // A row that the threshold rejects has an empty set.
    let guard = "calibrate --model model.nuq --embeddings @held_out.npz:embeddings --target false_alarm=0.05 --name guard";
    assert!(run(guard, at).status.success());
    let svhn =
        "score --model model.nuq --embeddings @svhn.npz:embeddings --out v.csv --sets sure --threshold guard";
    assert!(run(svhn, at).status.success());
    for line in fs::read_to_string(at.join("v.csv")).unwrap().lines().skip(1) {
        assert!(line.contains(",true,") || line.ends_with(",false,"), "{line}");
    }
    let removed = out(&run("calibrate --model model.nuq --remove sure", at));
    assert!(removed.contains("removed the sets `sure` from"), "{removed}");
    assert!(err(&run(score, at)).contains("model.nuq has no sets `sure`; its sets: network"));
}

#[test]
fn invalid_requests_for_sets_are_errors() {
    let (folder, _) = fitted(&["--quiet", "--density", "kde"]);
    let at = folder.path();
    let before = fs::read(at.join("model.nuq")).unwrap();
    fs::write(at.join("few.csv"), (["0.5"; 512].join(",") + "\n").repeat(8)).unwrap();
    fs::write(at.join("few_labels.csv"), "cat\n".repeat(8)).unwrap();
    let plain = "calibrate --model model.nuq --embeddings @held_out.npz:embeddings";
    let cases = [
        (format!("{plain} --target sets=0.9"), 2, "--target sets requires --labels"),
        (format!("{plain} --target intervals=0.9"), 2, "--target intervals requires a regressor; use sets"),
        (format!("{plain} --target intervals=0.9 --targets @held_out.npz:labels"), 2, "requires a regressor"),
        (format!("{CALIBRATE} --target sets=1"), 1, "--target sets=1: it must lie strictly between 0 and 1"),
        (format!("{CALIBRATE} --target sets=0.9 --measure total"), 2, "--measure requires a threshold"),
        (format!("{CALIBRATE} --target coverage=0.9 --by-class"), 2, "--by-class requires --target sets"),
        (format!("{CALIBRATE} --target sets=0.9 --set-score raps"), 2, "lac, aps"),
        (
            "calibrate --model model.nuq --embeddings few.csv --labels few_labels.csv --target sets=0.9"
                .to_owned(),
            1,
            "8 held-out rows cannot guarantee a coverage of 0.9: at least 9 held-out rows are needed",
        ),
        (
            "score --model model.nuq --embeddings @test.npz:embeddings --out s.csv --intervals x".to_owned(),
            2,
            "--intervals requires a regressor; a classifier has --sets",
        ),
    ];
    for (command, code, expected) in cases {
        let output = run(&command, at);
        assert_eq!(output.status.code(), Some(code), "{command}: {}", err(&output));
        assert!(err(&output).contains(expected), "{command}: {}", err(&output));
    }
    assert_eq!(fs::read(at.join("model.nuq")).unwrap(), before);
}

#[test]
fn a_model_without_training_rows_is_reported_before_held_out_rows_are_read() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--quiet", "--bandwidth", "1"]);
    let at = folder.path();
    fs::write(at.join("y.csv"), "1\n2\n3\n4\n5\n6\n").unwrap();
    assert!(run("fit -e t.csv:-class --targets y.csv --bandwidth 1 -o r.nuq", at).status.success());
    for (name, target) in [("m.nuq", "sets=0.5 -l none.csv"), ("r.nuq", "intervals=0.5 --targets none.csv")] {
        let model = nuq_io::open(&at.join(name)).unwrap().model;
        nuq_io::save_without_rows(&model, &at.join("without.nuq")).unwrap();
        // The held-out rows do not exist: an error about them would mean that they are read first.
        let output = run(&format!("calibrate -m without.nuq -e none.npy --target {target}"), at);
        assert_eq!(output.status.code(), Some(1), "{target}: {}", err(&output));
        let text = "without.nuq: the model was saved without its training rows";
        assert!(err(&output).contains(text), "{target}: {}", err(&output));
    }
}

#[test]
fn intervals_are_stored_in_the_model_and_written_by_score() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // y = x with errors of −0.5 and 0.5 in turn.
    let line = |i: u32| format!("{},{}\n", f64::from(i) / 10.0, f64::from(i) / 10.0 + f64::from(i % 2) - 0.5);
    let table = |range: std::ops::Range<u32>| format!("x,y\n{}", range.map(line).collect::<String>());
    fs::write(at.join("t.csv"), table(0..60)).unwrap();
    fs::write(at.join("h.csv"), table(20..50)).unwrap();
    assert!(run("fit --embeddings t.csv --targets t.csv:y --bandwidth 1 --out r.nuq", at).status.success());
    let calibrate = "calibrate --model r.nuq --embeddings h.csv --targets h.csv:y --target intervals=0.9";
    let output = run(calibrate, at);
    assert!(err(&output).contains("30 of 30 rows equal training rows"), "{}", err(&output));
    let text = out(&output);
    assert!(text.starts_with("intervals=0.9: Chosen on training rows (30 of 30), so that"), "{text}");
    assert!(text.contains("half-width of the intervals: "), "{text}");
    assert!(out(&run("inspect r.nuq", at)).contains("intervals    intervals=0.9\n"));
    assert!(err(&run(calibrate, at)).contains("replaced the intervals `intervals=0.9`"));
    let threshold =
        "calibrate --model r.nuq --embeddings h.csv:-y --target coverage=0.9 --name intervals=0.9";
    assert!(run(threshold, at).status.success());
    let both = out(&run("calibrate --model r.nuq --remove intervals=0.9 --out n.nuq", at));
    assert!(both.starts_with("removed the threshold and the intervals `intervals=0.9` from"), "{both}");
    assert!(run("calibrate --model r.nuq --remove intervals=0.9", at).status.success());
    assert!(run(calibrate, at).status.success());
    fs::write(at.join("q.csv"), "x\n3.05\n900\n").unwrap();
    let scores = out(&run("score --model r.nuq --embeddings q.csv --out - --intervals intervals=0.9", at));
    let rows: Vec<Vec<f64>> = scores
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert!(
        scores.starts_with(
            "row,mean,aleatoric,epistemic,total,log_aleatoric,log_epistemic,log_total,log_density,low,high\n"
        ),
        "{scores}"
    );
    let (low, high) = (rows[0][9], rows[0][10]);
    assert!(
        ((low + high) / 2.0 - rows[0][1]).abs() < 1e-9 && high - low > 0.5 && high - low < 4.0,
        "{scores}"
    );
    assert!(rows[1][10] - rows[1][9] > 100.0 * (high - low), "{scores}");
    let sets = run("calibrate --model r.nuq --embeddings h.csv --labels h.csv:y --target sets=0.9", at);
    assert_eq!(sets.status.code(), Some(2));
}

#[test]
fn a_temperature_is_fitted_and_used() {
    let (folder, _) = fitted(&["--quiet", "--density", "kde"]);
    let at = folder.path();
    let score = "score --model model.nuq --embeddings @test.npz:embeddings --logits @test.npz:logits --out";
    assert!(run(&format!("{score} before.csv"), at).status.success());
    let network = "--logits @held_out.npz:logits --target coverage=0.9 --name network";
    assert!(run(&format!("{CALIBRATE} {network}"), at).status.success());
    let fit = "calibrate --model model.nuq --temperature --logits @held_out.npz:logits --labels @held_out.npz:labels";
    let text = out(&run(fit, at));
    assert!(
        text.starts_with("temperature 1.") && text.contains("removed 1 threshold or set that was"),
        "{text}"
    );
    assert!(run(&format!("{score} after.csv"), at).status.success());
    // Mean of the column `probability`. The temperature is larger than 1, so it lowers the probabilities of the predicted labels.
    let mean = |name: &str| {
        let text = fs::read_to_string(at.join(name)).unwrap();
        let values: Vec<f64> =
            text.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    assert!(mean("after.csv") < mean("before.csv"), "{} and {}", mean("after.csv"), mean("before.csv"));
    assert!(out(&run("inspect model.nuq", at)).contains("temperature  1."));
    let output = run("calibrate --model model.nuq --temperature --logits @held_out.npz:logits", at);
    assert_eq!(output.status.code(), Some(2));
}
