//! `--logits`: the labels are predicted by the network, and the model computes their uncertainties. Also: messages of `calibrate` about
//! labels that are not classes of the model, and about classes with few held-out rows.

use std::fs;

use super::common::{err, example, fitted, fitted_to_few_rows, nuq, out, table};

/// Runs nuq with the words of `command`. `@FILE` stands for the path of an example file.
fn run(command: &str, at: &std::path::Path) -> std::process::Output {
    let arguments: Vec<String> = command
        .split_whitespace()
        .map(|word| word.strip_prefix('@').map_or_else(|| word.to_owned(), example))
        .collect();
    nuq(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), at)
}

/// Three queries: near class `a`, between the classes, and far away. The network predicts `a` for the first query and `b` for the
/// last one, both with a high probability. For the second query it predicts similar probabilities of both classes.
const QUERIES: &str = "x,y\n0,0\n3,3\n60,60\n";
const LOGITS: &str = "9,0\n0,0.5\n0,9\n";

fn cells(text: &str) -> Vec<Vec<String>> {
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn labels_and_uncertainties_refer_to_the_predictions_of_the_network() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &[]);
    let at = folder.path();
    fs::write(at.join("q.csv"), QUERIES).unwrap();
    fs::write(at.join("z.csv"), LOGITS).unwrap();
    let score = "score --model m.nuq --embeddings q.csv --out -";
    let (plain, network) = (out(&run(score, at)), out(&run(&format!("{score} --logits z.csv"), at)));
    assert_eq!(plain.lines().next(), network.lines().next());
    let (plain, network) = (cells(&plain), cells(&network));
    let number = |cell: &str| cell.parse::<f64>().unwrap();
    for (i, logits) in [[9.0f64, 0.0], [0.0, 0.5], [0.0, 9.0]].iter().enumerate() {
        let p = 1.0 / (1.0 + (-(logits[0] - logits[1]).abs()).exp());
        assert_eq!(network[i][1], if logits[0] > logits[1] { "a" } else { "b" });
        assert!(
            (number(&network[i][2]) - p).abs() < 1e-12 && (number(&network[i][3]) - (1.0 - p)).abs() < 1e-12
        );
        // The density does not depend on the logits.
        assert_eq!(network[i][8], plain[i][8]);
        // n(x), the number of training rows that support an estimate, is the same for NUQ and for the network. The ratio of their epistemic
        // uncertainties is therefore √(v(π)/v(η)), with v(p) = 2 p (1 − p) for two classes, and the probabilities π of the network and η of NUQ.
        let q = number(&plain[i][2]);
        let log_ratio = 0.5 * (p * (1.0 - p)).ln() - 0.5 * (q * (1.0 - q)).ln();
        let difference = number(&network[i][6]) - number(&plain[i][6]);
        assert!((difference - log_ratio).abs() < 1e-6 * (1.0 + log_ratio.abs()) || q == 1.0, "row {i}");
    }
    // Logits with the columns in another order.
    fs::write(at.join("reversed.csv"), "0,9\n0.5,0\n9,0\n").unwrap();
    let reversed = out(&run(&format!("{score} --logits reversed.csv --classes b,a"), at));
    assert_eq!(cells(&reversed), network);
    // The reject option uses the network's probabilities: the second row is rejected.
    let decided = cells(&out(&run(&format!("{score} --logits z.csv --reject-cost 0.1"), at)));
    let accept: Vec<&str> = decided.iter().map(|row| &*row[9]).collect();
    assert_eq!(accept, ["true", "false", "true"]);
    let confident = cells(&out(&run(&format!("{score} --logits z.csv --reject-cost 0.1 --level 0.05"), at)));
    assert_eq!(confident[2][9], "false", "no training row is near the third row");
}

#[test]
fn logits_that_do_not_match_the_rows_or_the_model_are_errors() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &[]);
    let at = folder.path();
    fs::write(at.join("q.csv"), QUERIES).unwrap();
    fs::write(at.join("z.csv"), LOGITS).unwrap();
    fs::write(at.join("wide.csv"), "1,2,3\n1,2,3\n1,2,3\n").unwrap();
    fs::write(at.join("short.csv"), "1,2\n1,2\n").unwrap();
    fs::write(at.join("nan.csv"), "1,2\nnan,2\n1,2\n").unwrap();
    let cases = [
        ("--logits wide.csv", 1, "wide.csv has 3 columns, but the model has 2 classes"),
        ("--logits short.csv", 1, "short.csv has 2 rows of logits, but q.csv has 3 rows"),
        (
            "--logits nan.csv",
            1,
            "nan.csv: these rows contain a NaN or an infinity: 1; use --on-bad-rows skip",
        ),
        (
            "--logits z.csv --classes a,c",
            2,
            "--classes a,c must list each of the 2 classes of the model once: a,b",
        ),
        ("--classes a,b", 2, "--logits <FILE>"),
        ("--members z.csv", 2, "--members requires a baseline: m.nuq holds a NUQ model"),
    ];
    for (options, code, message) in cases {
        let output = run(&format!("score --model m.nuq --embeddings q.csv --out s.csv {options}"), at);
        assert_eq!(output.status.code(), Some(code), "{options}: {}", err(&output));
        assert!(err(&output).contains(message), "{options}: {}", err(&output));
        assert!(!at.join("s.csv").exists());
    }
    let skipped =
        run("score --model m.nuq --embeddings q.csv --logits nan.csv --out - --on-bad-rows skip", at);
    let rows = cells(&out(&skipped));
    assert_eq!((&*rows[0][1], &*rows[1][1], &*rows[2][1]), ("b", "", "b"), "{}", out(&skipped));
    let fit = "fit --embeddings t.csv:-class --targets t.csv:y --bandwidth 1 --out r.nuq";
    assert!(run(fit, at).status.success(), "{}", err(&run(fit, at)));
    let regressor = run("score --model r.nuq --embeddings q.csv:-y --logits z.csv --out s.csv", at);
    assert!(
        err(&regressor).contains("--logits requires a classifier: r.nuq holds a regressor"),
        "{}",
        err(&regressor)
    );
}

#[test]
fn a_threshold_chosen_with_logits_is_applied_with_logits() {
    let (folder, _) = fitted(&["--quiet"]);
    let at = folder.path();
    let calibrate = "calibrate --model model.nuq --embeddings @held_out.npz:embeddings";
    let network =
        "--logits @held_out.npz:logits --labels @held_out.npz:labels --target risk=0.03 --name network";
    let text = out(&run(&format!("{calibrate} {network}"), at));
    assert!(
        text.starts_with("network: accept if log_total ≤ ") && text.contains(", with logits\n"),
        "{text}"
    );
    assert!(text.contains("at most 3 % of the accepted predictions of the network are wrong"), "{text}");
    // Labels are needed for a risk only.
    assert!(
        run(&format!("{calibrate} --logits @held_out.npz:logits --target coverage=0.9 --name share"), at)
            .status
            .success()
    );
    assert!(run(&format!("{calibrate} --target coverage=0.9 --name plain"), at).status.success());
    let density = "--logits @held_out.npz:logits --target false_alarm=0.1 --measure density --name density";
    assert!(run(&format!("{calibrate} {density}"), at).status.success());

    let score = "score --model model.nuq --embeddings @test.npz:embeddings --out s.csv";
    let logits = "--logits @test.npz:logits";
    for (options, message) in [
        ("--threshold network", "the threshold `network` was chosen with logits: --logits is required"),
        ("--threshold plain --logits", "the threshold `plain` was chosen without logits: omit --logits"),
    ] {
        let options = options.replace("--logits", logits);
        let output = run(&format!("{score} {options}"), at);
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).contains(message), "{}", err(&output));
    }
    // The density does not depend on the logits, so its threshold is applied with and without them.
    for options in ["--threshold density", "--threshold density --logits", "--threshold network --logits"] {
        let output = run(&format!("{score} {}", options.replace("--logits", logits)), at);
        assert!(output.status.success(), "{options}: {}", err(&output));
    }
    // The last command of the loop has written the decisions of the threshold `network`.
    let rows = cells(&fs::read_to_string(at.join("s.csv")).unwrap());
    let accepted = rows.iter().filter(|row| row[9] == "true").count();
    assert!((500..1000).contains(&accepted), "{accepted}");

    let evaluate = "evaluate --model model.nuq --test @test.npz:embeddings --labels @test.npz:labels --resamples 100 --threshold network";
    let output = run(evaluate, at);
    assert!(err(&output).contains("the threshold `network` was chosen with logits"), "{}", err(&output));
    let text = out(&run(&format!("{evaluate} {logits}"), at));
    let rejected = 100.0 * (1000 - accepted) as f64 / 1000.0;
    assert!(
        text.contains(&format!("The threshold “network” rejects {rejected:.1} % of the test rows")),
        "{text}"
    );
}

#[test]
fn evaluate_lists_uncertainties_with_logits() {
    let folder = fitted_to_few_rows();
    let evaluate =
        "evaluate --model model.nuq --test @test.npz:embeddings --labels @test.npz:labels --resamples 100";
    let text = out(&run(&format!("{evaluate} --logits @test.npz:logits"), folder.path()));
    for method in ["NUQ epistemic, with logits", "NUQ total, with logits"] {
        assert!(text.lines().any(|line| line.starts_with(method)), "{text}");
    }
    assert!(text.contains("with the lowest total uncertainty with logits"), "{text}");
}

#[test]
fn a_temperature_at_its_limit_is_reported() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    fs::write(folder.path().join("sure.csv"), "3,0\n2,0\n1,0\n0,1\n0,2\n0,3\n").unwrap();
    let output =
        run("calibrate --model m.nuq --temperature --logits sure.csv --labels t.csv:class", folder.path());
    let text = "warning: the temperature 0.0100 is at the limit of its range; smaller ones have a higher likelihood. Either the network";
    assert!(output.status.success() && err(&output).contains(text), "{}", err(&output));
}

#[test]
fn the_effect_of_labels_that_are_not_classes_is_reported() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let at = folder.path();
    fs::write(at.join("z.csv"), "3,0\n0,1\n1,0\n0,1\n2,0\n0,3\n").unwrap();
    fs::write(at.join("y.csv"), "i,class\n0,a\n1,a\n2,a\n3,b\n4,b\n5,c\n").unwrap();
    let rows: String = (0..12).map(|i| format!("0.{i:02},0.5,a\n")).collect();
    fs::write(at.join("h.csv"), format!("x,y,class\n{rows}5,5.5,c\n")).unwrap();
    let reported = |command: &str, expected: &str| {
        let output = run(command, at);
        assert!(output.status.success() && err(&output).contains(expected), "{command}: {}", err(&output));
        out(&output)
    };
    let text =
        "labels are not classes of the model, for example \"c\"; classes of the model are \"a\", \"b\"";
    let temperature = "calibrate --model m.nuq --temperature --logits z.csv --labels y.csv:class";
    let fitted =
        reported(temperature, &format!("1 of 6 {text}; rows with labels that are not classes are left out"));
    assert!(fitted.contains("on 5 held-out rows"), "{fitted}");
    let sets = "calibrate --model m.nuq --embeddings h.csv --labels h.csv:class --target sets=0.8";
    reported(sets, &format!("1 of 13 {text}; labels that are not classes count as errors"));
    reported(
        &format!("{sets} --by-class"),
        &format!("1 of 13 {text}; rows with labels that are not classes are left out"),
    );
}

#[test]
fn classes_with_too_few_rows_are_reported_once() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let rows: String = (0..12).map(|i| format!("0.{i:02},0.5,a\n")).collect();
    fs::write(folder.path().join("h.csv"), format!("x,y,class\n{rows}5,5.5,b\n")).unwrap();
    let line = "calibrate --model m.nuq --embeddings h.csv --labels h.csv:class --target sets=0.9 --by-class";
    let output = run(line, folder.path());
    let all = format!("{}{}", out(&output), err(&output)).replace('\n', " ");
    assert_eq!(all.matches("1 of 2 classes are in every set").count(), 1, "{all}");
    assert!(err(&output).contains("warning: some classes have too few held-out rows"), "{all}");
}
