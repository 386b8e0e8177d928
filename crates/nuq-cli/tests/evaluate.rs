//! `calibrate`, decisions by its thresholds, and `evaluate`, on the embeddings that the repository carries.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{err, example, fitted, nuq, out};
use serde_json::Value;

/// Words of a command with the example's arrays in place of `@FILE`.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace()
        .map(|word| match word.split_once('@') {
            Some((before, file)) => format!("{before}{}", example(file)),
            None => word.to_owned(),
        })
        .collect()
}

fn run(text: &str, folder: &std::path::Path) -> std::process::Output {
    let words = words(text);
    nuq(&words.iter().map(String::as_str).collect::<Vec<_>>(), folder)
}

const EVALUATE: &str = "evaluate --model model.nuq --test @test.npz:embeddings --labels @test.npz:labels \
                        --ood svhn=@svhn.npz:embeddings";

#[test]
fn thresholds_are_kept_with_the_model_and_decide() {
    let (folder, _) = fitted(&["--quiet"]);
    let at = folder.path();
    let output = run(
        "calibrate --model model.nuq --embeddings @held_out.npz:embeddings --target false-alarm=0.05 --name guard --json",
        at,
    );
    assert!(output.status.success(), "{}", err(&output));
    let guard: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(
        (&guard["name"], &guard["measure"], &guard["rows"]),
        (&"guard".into(), &"epistemic".into(), &1000.into())
    );
    // ⌈1001 · 0.95⌉ of 1000 rows.
    assert_eq!(guard["accepted"], 951);
    let risk =
        "calibrate --model model.nuq --embeddings @held_out.npz:embeddings --labels @held_out.npz:labels";
    let output = run(&format!("{risk} --target risk=0.04"), at);
    assert!(
        out(&output).contains("of what it accepts at most 4 % is wrong, with 95 % confidence"),
        "{}",
        out(&output)
    );
    let shown = out(&run("inspect model.nuq", at));
    assert!(
        shown.contains("guard: log epistemic uncertainty up to") && shown.contains("risk=0.04: log total"),
        "{shown}"
    );

    let mut rejected = vec![];
    for set in ["test", "svhn"] {
        let score = format!(
            "score --model model.nuq --embeddings @{set}.npz:embeddings --out {set}.csv --threshold guard --json"
        );
        let done: Value = serde_json::from_str(&out(&run(&score, at))).unwrap();
        rejected.push(done["rejected"].as_u64().unwrap() as f64 / done["rows"].as_u64().unwrap() as f64);
    }
    assert!(rejected[0] < 0.08 && rejected[1] > 0.5, "{rejected:?}");
    let lines = fs::read_to_string(at.join("svhn.csv")).unwrap();
    let value = guard["value"].as_f64().unwrap();
    for line in lines.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells[8] == "accept", cells[6].parse::<f64>().unwrap() <= value, "{line}");
    }
}

#[test]
fn an_evaluation_is_a_table_a_page_and_figures() {
    let (folder, _) = fitted(&["--quiet"]);
    let at = folder.path();
    let all =
        "--logits @test.npz:logits --ood-logits svhn=@svhn.npz:logits --report page.html --figures figures";
    let output = run(&format!("{EVALUATE} {all} --resamples 200"), at);
    assert!(output.status.success(), "{}", err(&output));
    let table = out(&output);
    for method in ["NUQ epistemic", "MaxProb", "Mahalanobis, L2", "ViM", "kNN distance", "HUQ"] {
        assert!(table.lines().any(|line| line.starts_with(method)), "{method}\n{table}");
    }
    let page = fs::read_to_string(at.join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
    assert!(page.contains("model.nuq") && page.trim_end().ends_with("</html>"));
    for figure in ["risk-coverage", "roc-svhn", "count-svhn", "map", "bandwidth"] {
        let svg = fs::read_to_string(at.join(format!("figures/{figure}.svg"))).unwrap();
        assert!(svg.starts_with("<svg"), "{figure}");
        assert!(
            fs::read(at.join(format!("figures/{figure}.png"))).unwrap().starts_with(b"\x89PNG"),
            "{figure}"
        );
    }

    // The numbers are those of the library, and do not depend on the number of threads.
    let json = |more: &str| -> Value {
        serde_json::from_str(&out(&run(&format!("{EVALUATE} --json --resamples 200 {more}"), at))).unwrap()
    };
    let (one, two) = (json("--threads 1"), json("--threads 2"));
    let value =
        |page: &Value, method: usize, path: &str| page["methods"][method].pointer(path).unwrap().clone();
    for method in 0..5 {
        for path in ["/rcc_auc", "/ood/0/roc_auc", "/ood/0/aupr", "/ood/0/fpr95"] {
            assert_eq!(value(&one, method, path), value(&two, method, path));
        }
    }
    assert_eq!(one["methods"][0]["name"], "NUQ epistemic");
    let auc = value(&one, 0, "/ood/0/roc_auc/interval/value").as_f64().unwrap();
    assert!((0.9..1.0).contains(&auc), "{auc}");
    assert!(one.get("map").is_none());
}

#[test]
fn mistakes_are_told_before_anything_is_written() {
    let (folder, _) = fitted(&["--quiet"]);
    let at = folder.path();
    let before = fs::read(at.join("model.nuq")).unwrap();
    fs::write(at.join("numbers.csv"), "7\n".repeat(1000)).unwrap();
    let calibrate = "calibrate --model model.nuq --embeddings @held_out.npz:embeddings";
    let labels = "--labels @held_out.npz:labels";
    let cases = [
        (format!("{calibrate} --target risk=0.05"), 2, "--target risk needs --labels"),
        (format!("{calibrate} --target coverage=0.9 --delta 0.1"), 2, "--delta belongs to --target risk"),
        (
            format!("{calibrate} --target coverage=1.5"),
            1,
            "coverage is 1.5: it must lie strictly between 0 and 1",
        ),
        (format!("{calibrate} --target recall=0.5"), 2, "coverage=SHARE, risk=SHARE or false-alarm=SHARE"),
        (format!("{calibrate} {labels} --target risk=0.0001"), 1, "no threshold keeps the risk at 0.0001"),
        (format!("{calibrate} --labels @svhn.npz:logits --target risk=0.1"), 1, "one entry per row"),
        (
            "score --model model.nuq --embeddings @test.npz:embeddings --out s.csv --threshold none"
                .to_owned(),
            1,
            "it has none: `nuq calibrate` chooses one",
        ),
        (format!("{EVALUATE} --ood svhn=@textures.npz:embeddings"), 2, "given twice"),
        (format!("{EVALUATE} --ood-logits lsun=@svhn.npz:logits"), 2, "no --ood has this name"),
        (format!("{EVALUATE} --logits @test.npz:embeddings"), 1, "has 512 columns, the model has 10 classes"),
        (format!("{EVALUATE} --logits @svhn.npz:logits"), 1, "500 rows of logits"),
        (format!("{EVALUATE} --report page.pdf"), 2, "it is a .html file"),
        (format!("{EVALUATE} --threshold none"), 1, "no threshold `none`"),
        (format!("{EVALUATE} --ood svhn"), 2, "it is NAME=FILE"),
        (format!("{EVALUATE} --ood test=@textures.npz:embeddings"), 2, "the test rows have this name"),
        (format!("{EVALUATE} --resamples 50"), 1, "at least 100"),
        (
            format!("{EVALUATE} --logits @test.npz:logits --classes cat,dog"),
            2,
            "the model has 10 classes: airplane",
        ),
        (
            format!("{calibrate} --labels numbers.csv --target coverage=0.9"),
            1,
            "1000 of 1000 labels are none that the model knows",
        ),
        (format!("{calibrate} --logits @held_out.npz:logits --target coverage=0.9"), 2, "--labels"),
        (
            "evaluate --model model.nuq --test @test.npz:logits --labels @test.npz:labels".to_owned(),
            1,
            "was fitted to 512",
        ),
    ];
    for (command, code, said) in cases {
        let output = run(&command, at);
        assert_eq!(output.status.code(), Some(code), "{command}: {}", err(&output));
        assert!(err(&output).contains(said), "{command}: {}", err(&output));
    }
    assert_eq!(fs::read(at.join("model.nuq")).unwrap(), before);
    assert_eq!(fs::read_dir(at).unwrap().count(), 2);
}

#[test]
fn what_looks_wrong_is_said() {
    let (folder, _) = fitted(&["--quiet"]);
    let at = folder.path();
    let own =
        run("calibrate --model model.nuq --embeddings @train.npz:embeddings --target false-alarm=0.05", at);
    assert!(err(&own).contains("2000 of 2000 rows are training rows"), "{}", err(&own));
    let few = "calibrate --model model.nuq --embeddings few.csv --target false-alarm=0.05";
    fs::write(at.join("few.csv"), (["0.5"; 512].join(",") + "\n").repeat(3)).unwrap();
    assert!(err(&run(few, at)).contains("3 rows cannot keep this promise but by accepting everything"));

    // The same logits, told in another order: turned around, and back again by their names.
    let classes = "truck,ship,horse,frog,dog,deer,cat,bird,automobile,airplane";
    let text = out(&run(&format!("{EVALUATE} --logits @test.npz:logits --resamples 100"), at));
    let turned =
        out(&run(&format!("{EVALUATE} --logits @test.npz:logits --classes {classes} --resamples 100"), at));
    assert!(text.starts_with("The network is right on 94.3 %") && !text.contains("--classes"), "{text}");
    assert!(turned.contains("are the columns of the logits in the order of the sorted labels"), "{turned}");

    let calibrate = "calibrate --model model.nuq --embeddings @held_out.npz:embeddings --labels @held_out.npz:labels --target risk=0.06";
    let (nuq, network) =
        (out(&run(calibrate, at)), out(&run(&format!("{calibrate} --logits @held_out.npz:logits"), at)));
    assert!(
        nuq.contains("nuq's labels are right on") && network.contains("the network is right on"),
        "{nuq}{network}"
    );
    assert!(network.contains("92.70 % of all"), "{network}");
}
