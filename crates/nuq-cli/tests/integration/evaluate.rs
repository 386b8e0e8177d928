//! `calibrate`, decisions by thresholds, and `evaluate`, on the example embeddings.

use std::fs;

use crate::common::{err, example, fitted, fitted_to_few_rows, nuq, out};
use nuq::{Embeddings, Model};
use nuq_eval::baselines::Members;
use nuq_eval::evaluate::{Comparison, Rows};
use nuq_eval::metrics::Resampling;
use nuq_io::{EmbeddingsFile, read_labels};
use serde_json::Value;

/// Splits a command into words and replaces `@FILE` by the path of an example file.
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
fn thresholds_are_stored_in_the_model_and_used_by_score() {
    let (folder, _) = fitted(&["--quiet"]);
    let at = folder.path();
    let output = run(
        "calibrate --model model.nuq --embeddings @held_out.npz:embeddings --target false_alarm=0.05 --name guard --json",
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
        out(&output)
            .contains("With 95 % confidence, at most 4 % of the accepted predictions of NUQ are wrong."),
        "{}",
        out(&output)
    );
    let shown = out(&run("inspect model.nuq", at));
    assert!(
        shown.contains("guard: accept if log_epistemic ≤ ")
            && shown.contains("risk=0.04: accept if log_total ≤ "),
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
        assert_eq!(cells[9] == "true", cells[6].parse::<f64>().unwrap() <= value, "{line}");
    }
}

#[test]
fn evaluate_writes_a_table_a_report_and_figures() {
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
    // ReAct needs the linear head, which is estimated from the logits.
    assert!(page.contains("<span>ReAct</span><small>logits and embeddings</small>"));
    for figure in ["risk-coverage", "roc-svhn", "count-svhn", "map", "bandwidth"] {
        let svg = fs::read_to_string(at.join(format!("figures/{figure}.svg"))).unwrap();
        assert!(svg.starts_with("<svg"), "{figure}");
        assert!(
            fs::read(at.join(format!("figures/{figure}.png"))).unwrap().starts_with(b"\x89PNG"),
            "{figure}"
        );
    }

    // The numbers do not depend on the number of threads.
    let few = fitted_to_few_rows();
    let json = |more: &str| -> Value {
        let at = few.path();
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
    assert!(one.get("map").is_none(), "the JSON contains no data of figures");
}

#[test]
fn invalid_input_is_reported_before_files_are_written() {
    let (folder, _) = fitted(&["--quiet"]);
    let at = folder.path();
    let before = fs::read(at.join("model.nuq")).unwrap();
    fs::write(at.join("numbers.csv"), "7\n".repeat(1000)).unwrap();
    let calibrate = "calibrate --model model.nuq --embeddings @held_out.npz:embeddings";
    let labels = "--labels @held_out.npz:labels";
    let cases = [
        (format!("{calibrate} --target risk=0.05"), 2, "--target risk requires --labels"),
        (format!("{calibrate} --target coverage=0.9 --delta 0.1"), 2, "--delta requires --target risk"),
        (
            format!("{calibrate} --target coverage=1.5"),
            1,
            "coverage is 1.5: it must lie strictly between 0 and 1",
        ),
        (
            format!("{calibrate} --target recall=0.5"),
            2,
            "coverage=SHARE, risk=SHARE, false_alarm=SHARE, sets=SHARE or intervals=SHARE",
        ),
        (
            format!("{calibrate} {labels} --target risk=0.0001"),
            1,
            "no threshold keeps the risk at 0.0001 with confidence 0.95: 76 of 1000 held-out predictions are wrong; the smallest \
             risk that can be certified with these rows is 0.00968;",
        ),
        (format!("{calibrate} --labels @svhn.npz:logits --target risk=0.1"), 1, "one entry per row"),
        (
            "score --model model.nuq --embeddings @test.npz:embeddings --out s.csv --threshold none"
                .to_owned(),
            1,
            "it has no thresholds; `nuq calibrate` adds one",
        ),
        (format!("{EVALUATE} --ood svhn=@textures.npz:embeddings"), 2, "given twice"),
        (format!("{EVALUATE} --ood-logits lsun=@svhn.npz:logits"), 2, "no --ood has this name"),
        (
            format!("{EVALUATE} --logits @test.npz:embeddings"),
            1,
            "has 512 columns, but the model has 10 classes",
        ),
        (format!("{EVALUATE} --logits @svhn.npz:logits"), 1, "500 rows of logits"),
        (format!("{EVALUATE} --report page.pdf"), 2, "the file name must end in .html"),
        (format!("{EVALUATE} --threshold none"), 1, "no threshold `none`"),
        (format!("{EVALUATE} --ood svhn"), 2, "expected NAME=FILE"),
        (format!("{EVALUATE} --ood test=@textures.npz:embeddings"), 2, "this name is used for the test rows"),
        (format!("{EVALUATE} --resamples 50"), 1, "at least 100"),
        (
            format!("{EVALUATE} --logits @test.npz:logits --classes cat,dog"),
            2,
            "--classes cat,dog must list each of the 10 classes of the model once: airplane",
        ),
        (
            format!("{calibrate} --labels numbers.csv --target coverage=0.9"),
            1,
            "1000 of 1000 labels are not classes of the model",
        ),
        // The target is checked before files are opened.
        (
            "calibrate --model none.nuq --embeddings none.npy --target coverage=1.5".to_owned(),
            1,
            "coverage is 1.5",
        ),
        (
            "evaluate --model model.nuq --test @test.npz:logits --labels @test.npz:labels".to_owned(),
            1,
            "was fitted to 512",
        ),
    ];
    for (command, code, expected) in cases {
        let output = run(&command, at);
        assert_eq!(output.status.code(), Some(code), "{command}: {}", err(&output));
        assert!(err(&output).contains(expected), "{command}: {}", err(&output));
    }
    assert_eq!(fs::read(at.join("model.nuq")).unwrap(), before);
    assert_eq!(fs::read_dir(at).unwrap().count(), 2);
}

#[test]
fn suspicious_input_is_reported() {
    let folder = fitted_to_few_rows();
    let at = folder.path();
    let own = run("calibrate --model model.nuq --embeddings x.csv --target false_alarm=0.05", at);
    assert!(err(&own).contains("200 of 200 rows equal training rows"), "{}", err(&own));
    let stored = out(&run("inspect model.nuq --json", at));
    assert!(
        stored.contains("Chosen on training rows (200 of 200), so that the following is not"),
        "{stored}"
    );
    let few = "calibrate --model model.nuq --embeddings few.csv --target false_alarm=0.05";
    fs::write(at.join("few.csv"), (["0.5"; 512].join(",") + "\n").repeat(3)).unwrap();
    assert!(
        out(&run(few, at))
            .contains("with 3 held-out rows no finite threshold guarantees a probability of at least 95 % (at most 5 % false alarms); at least 19 held-out rows are needed")
    );

    // With the wrong order of classes the accuracy of the network is low.
    let classes = "truck,ship,horse,frog,dog,deer,cat,bird,automobile,airplane";
    let text = out(&run(&format!("{EVALUATE} --logits @test.npz:logits --resamples 100"), at));
    let reversed =
        out(&run(&format!("{EVALUATE} --logits @test.npz:logits --classes {classes} --resamples 100"), at));
    assert!(
        text.starts_with("The network has an accuracy of 94.3 %") && !text.contains("--classes"),
        "{text}"
    );
    assert!(
        reversed.contains("check that the columns of the logits are in the order of the sorted labels"),
        "{reversed}"
    );

    // The output says whose errors were counted: those of NUQ, or with --logits those of the network.
    let calibrate = "calibrate --model model.nuq --embeddings @held_out.npz:embeddings --labels @held_out.npz:labels --target risk=0.06";
    let (nuq, network) =
        (out(&run(calibrate, at)), out(&run(&format!("{calibrate} --logits @held_out.npz:logits"), at)));
    assert!(
        nuq.contains("accuracy of NUQ's labels on the held-out rows: ")
            && network.contains("accuracy of the network on the held-out rows: "),
        "{nuq}{network}"
    );
    assert!(network.contains("92.70 % of all rows"), "{network}");
    assert!(
        nuq.contains("at most 6 % of the accepted predictions of NUQ are wrong")
            && network.contains("at most 6 % of the accepted predictions of the network are wrong"),
        "{nuq}{network}"
    );
    // The model file stores that the errors of the network were counted.
    let inspected = out(&run("inspect model.nuq", at));
    assert!(inspected.contains("accepted predictions of the network"), "{inspected}");
}

#[test]
fn the_error_of_an_unattainable_risk_names_an_attainable_risk() {
    let (folder, _) = fitted(&["--quiet"]);
    let calibrate = "calibrate --model model.nuq --embeddings @held_out.npz:embeddings --labels @held_out.npz:labels --out new.nuq";
    let message = err(&run(&format!("{calibrate} --target risk=0.0001"), folder.path()));
    let smallest =
        message.split("certified with these rows is ").nth(1).and_then(|rest| rest.split(';').next());
    let output = run(&format!("{calibrate} --target risk={}", smallest.unwrap()), folder.path());
    assert!(output.status.success(), "{}", err(&output));
}

fn rows(array: &str) -> Embeddings<'static> {
    EmbeddingsFile::open(&example(array).parse().unwrap()).unwrap().read().unwrap()
}

/// Three members of an ensemble: the logits of the network, the logits multiplied by 0.5, and the logits with columns that are shifted by one in
/// rows whose first logit is positive.
fn members(set: &str) -> Vec<Embeddings<'static>> {
    let logits = rows(&format!("{set}.npz:logits"));
    let member = |change: fn(&[f32], usize) -> f32| {
        let values = logits.rows().flat_map(|row| (0..row.len()).map(move |j| change(row, j))).collect();
        Embeddings::new(values, logits.dim()).unwrap()
    };
    vec![
        member(|row, j| row[j]),
        member(|row, j| 0.5 * row[j]),
        member(|row, j| if row[0] > 0.0 { row[(j + 1) % row.len()] } else { row[j] }),
    ]
}

/// The first `columns` columns of the members, as an npy file.
fn npy(members: &[Embeddings<'_>], columns: usize) -> Vec<u8> {
    let (rows, classes) = (members[0].len(), members[0].dim().min(columns));
    let shape = format!("({}, {rows}, {classes})", members.len());
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let values = members.iter().flat_map(|member| member.rows()).flat_map(|row| &row[..classes]);
    let values: Vec<u8> = values.flat_map(|value| value.to_le_bytes()).collect();
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &values].concat()
}

#[test]
fn metrics_of_ensembles_equal_the_metrics_of_the_library() {
    let folder = fitted_to_few_rows();
    let at = folder.path();
    for set in ["test", "svhn"] {
        fs::write(at.join(format!("{set}.npy")), npy(&members(set), 10)).unwrap();
    }
    let json = |more: &str| -> Value {
        let output = run(&format!("{EVALUATE} --json --resamples 100 {more}"), at);
        assert!(output.status.success(), "{}", err(&output));
        serde_json::from_str(&out(&output)).unwrap()
    };
    let given = "--members test.npy --ood-members svhn=svhn.npy";
    let report = json(&format!("{given} --report page.html"));
    let opened = nuq_io::open(&at.join("model.nuq")).unwrap();
    let Model::Classifier(model) = &opened.model else { panic!("a classifier was fitted") };
    let (test, svhn) = (rows("test.npz:embeddings"), rows("svhn.npz:embeddings"));
    let test_members = Members::new(members("test")).unwrap();
    let svhn_members = Members::new(members("svhn")).unwrap();
    let labels = read_labels(&example("test.npz:labels").parse().unwrap()).unwrap();
    let expected = Comparison::new(Rows::new(&test).members(&test_members), &labels)
        .ood("svhn", Rows::new(&svhn).members(&svhn_members))
        .resampling(Resampling { resamples: 100, seed: 0 })
        .run(model)
        .unwrap();
    let method = |page: &Value, name: &str| -> Value {
        page["methods"].as_array().unwrap().iter().find(|method| method["name"] == name).unwrap().clone()
    };
    for name in ["entropy", "mutual information", "mean entropy", "deviation", "MaxProb"] {
        let name = format!("ensemble {name}");
        let (shown, expected) =
            (method(&report, &name), expected.methods.iter().find(|m| m.name == name).unwrap());
        assert_eq!(shown["family"], "members", "{name}");
        assert_eq!(shown["rcc_auc"]["interval"]["value"], expected.rcc_auc.interval.value, "{name}");
        assert_eq!(shown["ood"][0]["roc_auc"]["interval"]["value"], expected.ood[0].roc_auc.interval.value);
    }
    assert!(fs::read_to_string(at.join("page.html")).unwrap().contains("<small>ensemble members</small>"));
    // --classes is accepted without --logits, and members of only some sets are not an error.
    let classes = "--classes truck,ship,horse,frog,dog,deer,cat,bird,automobile,airplane";
    let some = run(&format!("{EVALUATE} --members test.npy {classes} --resamples 100"), at);
    let expected = "methods that need several members are skipped: give --ood-members svhn=FILE";
    assert!(some.status.success() && err(&some).contains(expected), "{}", err(&some));
    assert!(!out(&some).contains("ensemble"), "{}", out(&some));
}

#[test]
fn members_of_the_wrong_shape_are_rejected() {
    let (folder, _) = fitted(&["--quiet"]);
    let at = folder.path();
    for set in ["test", "svhn"] {
        fs::write(at.join(format!("{set}.npy")), npy(&members(set), 10)).unwrap();
    }
    fs::write(at.join("two.npy"), npy(&members("svhn")[..2], 10)).unwrap();
    fs::write(at.join("nine.npy"), npy(&members("test"), 9)).unwrap();
    fs::write(at.join("table.csv"), "1,2\n").unwrap();
    let cases = [
        (
            "--members @test.npz:logits",
            1,
            "has the shape 1000 × 10; needed: an array of members × rows × classes",
        ),
        ("--members @test.npz:logits", 1, "; logits of a single network go to --logits or --ood-logits"),
        ("--logits test.npy", 1, "; logits of several members go to --members or --ood-members"),
        ("--ood-logits svhn=svhn.npy", 1, "svhn.npy has the shape 3 × 500 × 10; needed: rows × columns"),
        ("--members svhn.npy", 1, "svhn.npy has 500 rows per member, but"),
        ("--members nine.npy", 1, "nine.npy has 9 columns, but the model has 10 classes"),
        (
            "--members test.npy --ood-members svhn=two.npy",
            1,
            "the set `svhn` has 2 ensemble members, and the test rows have 3",
        ),
        ("--members table.csv", 1, "table.csv: a table has no third dimension"),
        ("--ood-members lsun=svhn.npy", 2, "--ood-members lsun=…: no --ood has this name"),
        ("--ood-members svhn=svhn.npy --ood-members svhn=two.npy", 2, "is given twice"),
        (
            "--members test.npy --classes cat,dog",
            2,
            "--classes cat,dog must list each of the 10 classes of the model once: airplane",
        ),
        ("--classes cat,dog", 2, "--logits <FILE>|--members <FILE>"),
        ("--members test.npy --report nowhere/page.html", 3, "its folder does not exist"),
    ];
    for (more, code, expected) in cases {
        let output = run(&format!("{EVALUATE} {more}"), at);
        assert_eq!(output.status.code(), Some(code), "{more}: {}", err(&output));
        assert!(err(&output).contains(expected), "{more}: {}", err(&output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_name_of_the_page_need_not_be_unicode() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = fitted_to_few_rows();
    let page = OsStr::from_bytes(b"page\xff.html");
    let mut command = crate::common::nuq_command();
    command.args(words(EVALUATE)).args(["--resamples", "100", "--report"]).arg(page);
    let output = command.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let page = fs::read_to_string(folder.path().join(page)).unwrap();
    assert!(page.contains("page\u{fffd}.html"), "the page shows the command");
}
