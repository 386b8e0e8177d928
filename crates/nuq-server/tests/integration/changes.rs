//! Changes of served models, doubtful labels and suggestions.

use nuq::calibrate::Measure;
use nuq::nuq_neighbors::SeededRng;
use nuq::{Decision, FittedModel, Model};
use serde_json::{Value, json};

use super::common::{COLUMNS, Reply, Service, embeddings, json_rows, rows};

fn ephemeral() -> Service {
    Service::with(|config| config.ephemeral = true)
}

#[track_caller]
fn ok(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn list(values: &[f32]) -> Vec<&[f32]> {
    values.chunks(COLUMNS).collect()
}

fn describe(service: &Service) -> Value {
    ok(&service.get("/v1/models/animals"))
}

/// The served model, opened by the library.
fn downloaded(service: &Service) -> Model<'static> {
    let path = service.path("downloaded.nuq");
    std::fs::write(&path, &service.get("/v1/models/animals/file").body).unwrap();
    nuq_io::open(&path).unwrap().model
}

#[test]
fn insertions_take_effect_at_once_and_can_be_undone() {
    let service = ephemeral();
    let far = vec![100.0f32; COLUMNS];
    let body =
        json!({ "rows": [far, far], "labels": ["whale", "whale"], "new_classes": ["whale"] }).to_string();
    let inserted = ok(&service.post("/v1/models/animals/rows", &body));
    assert_eq!((&inserted["new_classes"], &inserted["version"]), (&json!(["whale"]), &json!(2)));
    assert_eq!((&inserted["ids"], &inserted["rows"]), (&json!([300, 301]), &json!(302)));
    assert_eq!(inserted["removed_rules"], json!(["main"]));
    let score = || ok(&service.post("/v1/models/animals/score", json_rows(&far)))["rows"][0]["label"].clone();
    assert_eq!(score(), "whale");
    assert_eq!(describe(&service)["thresholds"], json!([]));

    let relabel =
        json!({ "ids": [300, 301], "labels": ["shark", "shark"], "new_classes": ["shark"] }).to_string();
    let relabeled = ok(&service.post("/v1/models/animals/rows/relabel", relabel));
    assert_eq!(score(), "shark");
    let undo = |change: &Value| service.post(&format!("/v1/models/animals/changes/{change}/undo"), "");
    ok(&undo(&relabeled["change"]));
    assert_eq!(score(), "whale");
    let undone = ok(&undo(&inserted["change"]));
    assert_eq!(undone["rows"], 300);
    assert_ne!(score(), "whale");
    // The rows and the rules are again the same as in the file.
    assert_eq!(describe(&service)["thresholds"][0]["name"], "main");
    assert_eq!(undo(&inserted["change"]).status, 409);

    let changes = ok(&service.get("/v1/models/animals/changes?limit=3"));
    assert_eq!(changes.as_array().unwrap().len(), 3);
    assert_eq!(changes[0]["undoes"], inserted["change"]);
    assert_eq!(changes[0]["text"], format!("2 rows removed (undo of change {})", inserted["change"]));
    let all = ok(&service.get("/v1/models/animals/changes"));
    let texts: Vec<&str> =
        all.as_array().unwrap().iter().map(|change| change["text"].as_str().unwrap()).collect();
    assert_eq!(texts[3], "2 rows inserted with the label “whale”");
    // Changes 1 and 2 were undone. The rows of change 3, the undo of change 2, were removed by change 4.
    let can_undo: Vec<bool> =
        all.as_array().unwrap().iter().map(|change| change["can_undo"].as_bool().unwrap()).collect();
    assert_eq!(can_undo, [true, false, false, false]);
    assert_eq!(undo(&all[1]["id"]).status, 409);
}

#[test]
fn a_new_class_is_created_only_on_request() {
    let service = ephemeral();
    let row = vec![1.0f32; COLUMNS];
    let insert = |labels: Value, new_classes: Value| {
        let body = json!({ "rows": [row, row], "labels": labels, "new_classes": new_classes });
        service.post("/v1/models/animals/rows", body.to_string())
    };
    for new_classes in [json!(null), json!([]), json!(["dgo"])] {
        let refused = insert(json!(["cat", "cta"]), new_classes);
        assert_eq!((refused.status, refused.error().0.as_str()), (422, "new_class"));
        let message = refused.error().1;
        assert!(message.starts_with("labels[1] is “cta”, which is not a class of the model"), "{message}");
        assert!(
            message.contains("\"new_classes\": [\"cta\"]") && message.contains("“bird”, “cat”"),
            "{message}"
        );
    }
    let relabel = json!({ "ids": [3], "labels": ["brid"] }).to_string();
    let refused = service.post("/v1/models/animals/rows/relabel", relabel);
    assert_eq!((refused.status, refused.error().0.as_str()), (422, "new_class"));
    assert_eq!(describe(&service)["version"], 1);
    // If all labels are known, `new_classes` is not needed, and an entry that is already a class has no effect.
    let inserted = ok(&insert(json!(["cat", "bird"]), json!(["cat"])));
    assert_eq!((&inserted["new_classes"], &inserted["removed_rules"]), (&json!([]), &json!(["main"])));
    assert_eq!(insert(json!(["cat", "cat"]), json!(7)).status, 422);
    // The previous change has already removed the rules.
    let inserted = ok(&insert(json!(["owl", "emu"]), json!(["emu", "owl"])));
    assert_eq!((&inserted["new_classes"], &inserted["removed_rules"]), (&json!(["emu", "owl"]), &json!([])));
    let body = json!({ "rows": [row], "labels": [1.5], "new_classes": [] }).to_string();
    let refused = service.post("/v1/models/sums/rows", body);
    assert!(refused.error().1.contains("new_classes requires a classifier"), "{}", refused.text());
}

#[test]
fn targets_of_a_regressor_are_numbers_and_it_has_no_labels() {
    let service = ephemeral();
    let row = vec![50.0f32; COLUMNS];
    let body = |label: Value| json!({ "rows": [row], "labels": [label] }).to_string();
    ok(&service.post("/v1/models/sums/rows", body(json!(7))));
    let error = service.post("/v1/models/sums/rows", body(json!("seven")));
    assert_eq!((error.status, error.error().1.as_str()), (422, "labels[0] is not a number"));
    assert_eq!(service.get("/v1/models/sums/label-issues").status, 422);
    let relabel = json!({ "ids": [0], "labels": [1] }).to_string();
    assert_eq!(service.post("/v1/models/sums/rows/relabel", relabel).status, 422);
}

#[test]
fn a_threshold_is_equal_to_the_threshold_of_the_library() {
    let service = ephemeral();
    let held_out = rows(199, 7);
    let body = json!({ "name": "new", "false_alarm": 0.1, "measure": "density", "rows": list(&held_out) })
        .to_string();
    let threshold = ok(&service.post("/v1/models/animals/thresholds", body));
    let library = service.classifier();
    let scores: Vec<f64> =
        library.predict(&embeddings(&held_out)).unwrap().iter().map(|p| Measure::Density.of(p)).collect();
    let target = nuq::calibrate::Target::FalseAlarm(0.1);
    let expected = nuq::calibrate::calibrate(Measure::Density, &scores, None, target).unwrap();
    assert_eq!(threshold["value"].as_f64(), Some(expected.score.value));
    assert_eq!(threshold["statement"], expected.to_string());
    assert_eq!(threshold["accepted"], 180);
    let model = downloaded(&service);
    assert_eq!(model.thresholds()["new"], expected);
    assert_eq!(model.rules().held_out_scores("new").unwrap().len(), 199);
    // Other thresholds stay.
    assert!(model.thresholds().contains_key("main"));

    // A target risk needs labels, because predictions that differ from them are counted as errors.
    let labels: Vec<&str> = (0..199).map(|i| ["cat", "dog, \"big\"", "bird"][i % 3]).collect();
    let body = json!({ "risk": 0.2, "rows": list(&held_out), "labels": labels }).to_string();
    let threshold = ok(&service.post("/v1/models/animals/thresholds", body));
    assert_eq!(threshold["name"], "risk=0.2");
    // Invalid requests are refused.
    for (body, message) in [
        (json!({ "rows": list(&held_out) }), "exactly one of coverage"),
        (json!({ "coverage": 0.9, "risk": 0.1, "rows": list(&held_out) }), "exactly one of coverage"),
        (json!({ "risk": 0.1, "rows": list(&held_out) }), "risk requires labels"),
        (json!({ "coverage": 1.5, "rows": list(&held_out) }), "strictly between 0 and 1"),
        (json!({ "coverage": 0.9, "measure": "fear", "rows": list(&held_out) }), "measure"),
        (json!({ "coverage": 0.9, "rows": [] }), "rows is empty"),
        (json!({ "coverage": 0.9, "rows": list(&held_out), "logits": [] }), "logits is empty"),
        (json!({ "coverage": 0.9, "name": "", "rows": list(&held_out) }), "name"),
    ] {
        let reply = service.post("/v1/models/animals/thresholds", body.to_string());
        assert_eq!(reply.status, 422, "{}", reply.text());
        assert!(reply.error().1.contains(message), "{}", reply.text());
    }
}

#[test]
fn a_threshold_on_rounded_training_rows_has_no_guarantee() {
    let service = ephemeral();
    let training = rows(300, 1);
    // Rounded as in a text file with six decimals.
    let rounded: Vec<f32> = training.iter().map(|value| format!("{value:.6}").parse().unwrap()).collect();
    assert_ne!(rounded, training);
    let body = json!({ "coverage": 0.9, "rows": list(&rounded) }).to_string();
    let threshold = ok(&service.post("/v1/models/animals/thresholds", body));
    assert_eq!(threshold["training_rows"], 300);
    assert!(threshold["statement"].as_str().unwrap().starts_with("Chosen on training rows"), "{threshold}");
}

#[test]
fn invalid_changes_change_nothing() {
    let service = ephemeral();
    let row = vec![1.0f32; COLUMNS];
    for (path, body) in [
        ("rows", json!({ "rows": [row], "labels": [] })),
        ("rows", json!({ "rows": [], "labels": [] })),
        ("rows", json!({ "rows": [[1.0]], "labels": ["cat"] })),
        ("rows", json!({ "rows": [row], "labels": [7] })),
        ("rows", json!({ "rows": [row], "labels": [""] })),
        ("rows", json!({ "rows": [row], "labels": [null] })),
        ("rows", json!({ "rows": [row], "labels": ["cat"], "weights": [1.0] })),
        ("rows/remove", json!({ "ids": [300] })),
        ("rows/remove", json!({ "ids": [1, 1] })),
        ("rows/remove", json!({ "ids": [] })),
        ("rows/remove", json!({ "ids": (0..300).collect::<Vec<u32>>() })),
        ("rows/remove", json!({ "ids": [-1] })),
        ("rows/relabel", json!({ "ids": [5], "labels": [] })),
        ("rows/relabel", json!({ "ids": [400], "labels": ["cat"] })),
        ("rows/relabel", json!({ "ids": [5, 5], "labels": ["cat", "bird"] })),
    ] {
        let reply = service.post(&format!("/v1/models/animals/{path}"), body.to_string());
        assert_eq!(reply.status, 422, "{path} {body}: {}", reply.text());
        assert!(!reply.error().1.is_empty());
    }
    assert_eq!(service.post("/v1/models/animals/changes/9/undo", "").status, 404);
    assert_eq!(service.post("/v1/models/animals/changes/x/undo", "").status, 422);
    assert_eq!(ok(&service.get("/v1/models/animals/changes")), json!([]));
    assert_eq!(describe(&service)["version"], 1);
    let Model::Classifier(model) = downloaded(&service) else { panic!("the model is a classifier") };
    assert_eq!(model.parts(), service.classifier().parts());
    // None of the invalid changes has used the number of a change or a version.
    let removed = ok(&service.post("/v1/models/animals/rows/remove", json!({ "ids": [1] }).to_string()));
    assert_eq!((&removed["change"], &removed["version"]), (&json!(1), &json!(2)));
}

#[test]
fn changes_without_a_state_are_refused() {
    let service = Service::start();
    let reply = service.post("/v1/models/animals/rows/remove", json!({ "ids": [1] }).to_string());
    assert_eq!((reply.status, reply.error().0.as_str()), (403, "no_state"));
    assert!(reply.error().1.contains("--state"), "{}", reply.text());
}

#[test]
fn a_model_says_whether_it_can_be_changed() {
    assert_eq!(describe(&ephemeral())["changes"], true);
    assert_eq!(describe(&Service::start())["changes"], false);
    let service = Service::with(|config| {
        let state = config.models[0].path.parent().unwrap().join("state");
        // The lock file cannot be opened, as in a folder that is read-only.
        std::fs::create_dir_all(state.join("lock")).unwrap();
        config.state = Some(state);
    });
    assert_eq!(describe(&service)["changes"], false);
    assert_eq!(ok(&service.get("/v1/models"))[0]["changes"], false);
    let reply = service.post("/v1/models/animals/rows/remove", json!({ "ids": [1] }).to_string());
    assert_eq!((reply.status, reply.error().0.as_str()), (503, "state_not_writable"));
    // The same request would fail again.
    assert_eq!(reply.header("retry-after"), None);
}

#[test]
fn label_issues_and_suggestions_are_equal_to_the_results_of_the_library() {
    let service = ephemeral();
    let relabel = json!({ "ids": [3, 4], "labels": ["bird", "bird"] }).to_string();
    ok(&service.post("/v1/models/animals/rows/relabel", relabel));
    let issues = ok(&service.get("/v1/models/animals/label-issues"));
    let Model::Classifier(model) = downloaded(&service) else { panic!("the model is a classifier") };
    let expected = model.label_issues().unwrap();
    let issues = issues.as_array().unwrap();
    assert_eq!(issues.len(), expected.len());
    for (issue, expected) in issues.iter().zip(&expected) {
        assert_eq!(issue["id"], expected.row);
        assert_eq!(issue["probability"].as_f64(), Some(expected.probability_given));
        assert_eq!(issue["suggestion"], model.classes().label(expected.predicted_label as usize).to_string());
    }
    assert!(issues.iter().any(|issue| issue["id"] == 3));

    let candidates = rows(50, 9);
    let suggested = |body: Value| ok(&service.post("/v1/models/animals/suggest", body.to_string()));
    let suggestions = suggested(json!({ "rows": list(&candidates), "count": 5 }));
    let uncertainty: Vec<f64> =
        model.predict(&embeddings(&candidates)).unwrap().iter().map(|row| row.log_epistemic).collect();
    let expected = nuq::suggest(&embeddings(&candidates), &uncertainty, 5).unwrap();
    let numbers: Vec<usize> =
        suggestions.as_array().unwrap().iter().map(|row| row["row"].as_u64().unwrap() as usize).collect();
    assert_eq!(numbers, expected);
}

/// Rows that are certain, and rows that are training rows already, are not suggested.
#[test]
fn recent_rows_are_suggested_if_they_are_uncertain() {
    let service = ephemeral();
    assert_eq!(ok(&service.get("/v1/models/animals/suggest")), json!([]));
    let training = rows(300, 1);
    let far: Vec<f32> = rows(5, 9).iter().map(|value| value + 50.0).collect();
    let sent = [rows(60, 9), training[..20 * COLUMNS].to_vec(), far.clone()].concat();
    ok(&service.post("/v1/models/animals/score", json_rows(&sent)));
    let recent = || ok(&service.get("/v1/models/animals/recent?limit=500")).as_array().unwrap().clone();
    // Rows are recorded on another thread.
    while recent().len() < 85 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let suggestions = ok(&service.get("/v1/models/animals/suggest?limit=85"));
    let suggestions = suggestions.as_array().unwrap();
    let ids: Vec<u64> = suggestions.iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert!((80..85).all(|id| ids.contains(&id)), "rows far from the training rows are suggested: {ids:?}");
    assert!(!ids.iter().any(|id| (60..80).contains(id)), "training rows are not suggested: {ids:?}");
    // Among the first 60 rows, exactly those that the threshold rejects are suggested.
    let model = service.classifier();
    let predictions = model.predict(&embeddings(&sent)).unwrap();
    for (id, prediction) in predictions.iter().enumerate().take(60) {
        let is_rejected = model.thresholds()["main"].decide(prediction) == Decision::Reject;
        assert_eq!(ids.contains(&(id as u64)), is_rejected, "row {id}");
    }
    let row = suggestions.iter().find(|row| row["id"] == 84).unwrap();
    assert_eq!((&row["rank"], &row["compared_with"]), (&json!(1.0), &json!("training")));
    // A row is shown with its nearest training rows.
    let detail = ok(&service.get("/v1/models/animals/recent/84"));
    assert_eq!(row["neighbors"], detail["neighbors"]);
    assert_eq!(row["neighbors"].as_array().unwrap().len(), 7);
    // A row that has got a label is no longer suggested.
    let body = json!({ "rows": [&far[4 * COLUMNS..]], "labels": ["cat"] }).to_string();
    ok(&service.post("/v1/models/animals/rows", body));
    let after = ok(&service.get("/v1/models/animals/suggest?limit=85"));
    assert!(!after.as_array().unwrap().iter().any(|row| row["id"] == 84));
}

/// Without a threshold, the rows with the highest epistemic uncertainty are suggested.
#[test]
fn recent_rows_without_a_threshold_are_compared_with_training_rows() {
    let service = ephemeral();
    let sent = rows(80, 9);
    ok(&service.post("/v1/models/sums/score", json_rows(&sent)));
    while ok(&service.get("/v1/models/sums/recent?limit=500")).as_array().unwrap().len() < 80 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let suggestions = ok(&service.get("/v1/models/sums/suggest?limit=80"));
    let ids: Vec<u64> =
        suggestions.as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect();
    let Model::Regressor(model) = nuq_io::open(&service.path("sums.nuq")).unwrap().model else {
        panic!("the model is a regressor")
    };
    let training: Vec<f64> = model.leave_one_out().unwrap().iter().map(|row| row.log_epistemic).collect();
    let estimates = model.predict(&embeddings(&sent)).unwrap();
    for (id, estimate) in estimates.iter().enumerate() {
        let below = training.iter().filter(|value| **value < estimate.log_epistemic).count();
        // A row is suggested if its epistemic uncertainty is higher than that of 180 of the 200 training rows (90 %).
        assert_eq!(ids.contains(&(id as u64)), below >= 180, "row {id}: {below} of {}", training.len());
    }
    assert!(!ids.is_empty() && ids.len() < 80);
}

/// Predictions use the model before or after a change, never a mixture.
#[test]
fn each_request_during_changes_is_answered_by_one_version_of_the_model() {
    let service = ephemeral();
    let query = rows(30, 4);
    let labels = |reply: &Value| -> Vec<String> {
        reply["rows"].as_array().unwrap().iter().map(|row| row["label"].to_string()).collect()
    };
    let score = || labels(&ok(&service.post("/v1/models/animals/score", json_rows(&query))));
    let before = score();
    // All rows of one class get another label.
    let ids: Vec<u32> = (0..300).filter(|id| id % 3 == 0).collect();
    let body = json!({ "ids": ids, "labels": vec!["lynx"; ids.len()], "new_classes": ["lynx"] }).to_string();
    let after: Vec<String> = before.iter().map(|label| label.replace("\"cat\"", "\"lynx\"")).collect();
    assert_ne!(before, after);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| (0..60).map(|_| score()).collect::<Vec<_>>());
        let mut rng = SeededRng::new(1);
        for _ in 0..6 {
            let change = ok(&service.post("/v1/models/animals/rows/relabel", &body))["change"].clone();
            std::thread::sleep(std::time::Duration::from_millis(rng.below(20) as u64));
            ok(&service.post(&format!("/v1/models/animals/changes/{change}/undo"), ""));
        }
        for labels in reader.join().unwrap() {
            assert!(labels == before || labels == after, "{labels:?}");
        }
    });
}
