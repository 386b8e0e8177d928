//! The data of the page, without a browser.

use nuq::{FittedModel, Model};
use nuq_server::{Config, Key, PictureSource};
use serde_json::{Value, json};

use crate::common::{COLUMNS, Service, embeddings, rows};

/// Scores rows and waits until they are recorded.
pub(crate) fn score(service: &Service, model: &str, values: &[f32]) {
    let body = json!({ "rows": values.chunks(COLUMNS).collect::<Vec<_>>() }).to_string();
    assert_eq!(service.post(&format!("/v1/models/{model}/score"), body).status, 200);
    while recent(service, model).len() < values.len() / COLUMNS {
        std::thread::yield_now();
    }
}

fn recent(service: &Service, model: &str) -> Vec<Value> {
    let reply = service.get(&format!("/v1/models/{model}/recent?limit=500"));
    reply.json().as_array().unwrap().clone()
}

#[test]
fn scored_rows_are_in_all_views() {
    let service = Service::start();
    let values = rows(40, 9);
    score(&service, "animals", &values);
    for minutes in [10, 60] {
        let activity = service.get(&format!("/v1/models/animals/activity?minutes={minutes}")).json();
        let sum = |path: &str| -> u64 {
            let intervals = activity["intervals"].as_array().unwrap();
            intervals.iter().map(|interval| interval.pointer(path).and_then(Value::as_u64).unwrap_or(0)).sum()
        };
        assert_eq!((sum("/rows"), sum("/thresholds/main/rows")), (40, 40), "{minutes} minutes");
        assert!((activity["expected"]["main"]["rejected"].as_f64().unwrap() - 0.1).abs() < 1e-9);
    }
    let distribution = service.get("/v1/models/animals/distribution").json();
    assert_eq!(distribution["live_rows"], 40);
    for measure in ["epistemic", "aleatoric", "total", "density"] {
        let live = distribution["measures"][measure]["live"].as_array().unwrap();
        assert_eq!(live.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 40, "{measure}");
    }
    let map = service.get("/v1/models/animals/map").json();
    assert_eq!((map["training"].as_array().unwrap().len(), map["live"].as_array().unwrap().len()), (300, 40));
    assert_eq!(map["axes"], "discriminants");
    let known = service.get(&format!("/v1/models/animals/map?drawn_ms={}", map["drawn_ms"])).json();
    assert!(known["training"].is_null() && known["live"].as_array().unwrap().len() == 40);
    service.stop();
}

#[test]
fn activity_counts_only_answered_requests() {
    let service = Service::start();
    assert_eq!(service.post("/v1/models/animals/score", "[[1, 2]]").status, 422);
    assert_eq!(service.get("/v1/models/animals/score").status, 405);
    score(&service, "animals", &rows(1, 9));
    let requests = || -> u64 {
        let activity = service.get("/v1/models/animals/activity").json();
        let intervals = activity["intervals"].as_array().unwrap().iter();
        intervals.map(|interval| interval["requests"].as_u64().unwrap()).sum()
    };
    // A request is recorded after its rows.
    while requests() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(requests(), 1);
    let metrics = service.get("/metrics");
    for status in [200, 405, 422] {
        let labels =
            format!("route=\"/v1/models/{{model}}/score\",status=\"{status}\",outcome=\"complete\"}} 1\n");
        assert!(metrics.text().contains(&labels), "{labels}{}", metrics.text());
    }
    service.stop();
}

#[test]
fn details_agree_with_the_library() {
    let service = Service::start();
    let values = rows(5, 9);
    score(&service, "animals", &values);
    let model = service.classifier();
    let predictions = model.predict(&embeddings(&values)).unwrap();
    let (name, threshold) = model.thresholds().iter().next().unwrap();
    // The newest row is the first one.
    for (row, i) in recent(&service, "animals").iter().zip((0..5).rev()) {
        let detail = service.get(&format!("/v1/models/animals/recent/{}", row["id"])).json();
        assert_eq!(detail["label"], predictions.label(i).to_string());
        assert_eq!(detail["probability"].as_f64().unwrap().to_bits(), predictions[i].probability.to_bits());
        assert_eq!(detail["uncertainty"]["total"]["value"], predictions[i].log_total);
        let decision = &detail["decisions"][0];
        assert_eq!(
            (decision["threshold"].as_str(), decision["score"].as_f64()),
            (Some(name.as_str()), Some(threshold.measure.of(&predictions[i])))
        );
        let ids: Vec<u64> =
            detail["neighbors"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect();
        let expected: Vec<u64> = predictions.neighbors().ids(i).iter().map(|&id| u64::from(id)).collect();
        assert_eq!(ids, expected);
        let embedding: Vec<f64> =
            values[i * COLUMNS..][..COLUMNS].iter().map(|&value| f64::from(value)).collect();
        assert_eq!(detail["embedding"], json!(embedding));
    }
    service.stop();
}

#[test]
fn rows_of_a_file_are_explained_and_not_recorded() {
    let service = Service::start();
    let values = rows(3, 9);
    let csv: String = values
        .chunks(COLUMNS)
        .map(|row| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",") + "\n")
        .collect();
    let reply = service.post("/v1/models/animals/inspect", &csv).json();
    assert_eq!(reply["total"], 3);
    let classifier = service.classifier();
    let predictions = classifier.predict(&embeddings(&values)).unwrap();
    for i in 0..3 {
        assert_eq!(reply["rows"][i]["probability"], predictions[i].probability);
        assert_eq!(reply["rows"][i]["neighbors"][0]["id"], predictions.neighbors().ids(i)[0]);
    }
    assert!(recent(&service, "animals").is_empty());
    assert_eq!(service.post("/v1/models/sums/inspect", &csv).json()["rows"][1]["probability"], Value::Null);
    service.stop();
}

#[test]
fn an_alarm_is_acknowledged_with_the_write_key() {
    let (read, write) = ("read-key-0123456789", "write-key-0123456789");
    let service = Service::with(|config| {
        config.read_key = Some(Key::new(read, "test").unwrap());
        config.write_key = Some(Key::new(write, "test").unwrap());
    });
    let request = |method: &str, path: &str, key: &str, body: &str| {
        let headers = [("authorization", format!("Bearer {key}"))];
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        service.request(method, &format!("/v1/models/animals/{path}"), &headers, body.as_bytes())
    };
    let drift = || request("GET", "drift", read, "").json();
    assert_eq!(request("POST", "drift/acknowledge", write, "").status, 409);
    assert_eq!(
        drift()["statement"],
        "If nothing changed, the probability that there is ever an alarm is at most 1 %."
    );
    let far: Vec<f32> = rows(60, 9).iter().map(|value| value + 50.0).collect();
    let body = json!({ "rows": far.chunks(COLUMNS).collect::<Vec<_>>() }).to_string();
    assert_eq!(request("POST", "score", read, &body).status, 200);
    while drift()["rows"] != 60 {
        std::thread::yield_now();
    }
    let alarm = drift()["alarm"].clone();
    assert!(alarm["time"].is_u64());
    let metric = |line: &str| {
        let headers = [("authorization", "Bearer read-key-0123456789")];
        let text = service.request("GET", "/metrics", &headers, b"").text().to_owned();
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    };
    metric("nuq_drift_alarm{model=\"animals\"} 1");
    metric("nuq_drift_acknowledged_total{model=\"animals\"} 0");
    assert_eq!(request("POST", "drift/acknowledge", read, "").status, 403);
    let reply = request("POST", "drift/acknowledge", write, "");
    assert_eq!((reply.status, &reply.json()["alarm"]), (200, &alarm));
    let after = drift();
    assert_eq!((&after["rows"], &after["alarm"], &after["points"]), (&json!(0), &Value::Null, &json!([])));
    assert_eq!(after["started"], reply.json()["started"]);
    let ended = &after["ended"][0];
    assert_eq!(
        (&ended["alarm"], &ended["rows"], &ended["ended_by"]),
        (&alarm, &json!(60), &json!("acknowledged"))
    );
    let wealth = ended["points"].as_array().unwrap().last().unwrap()["log10_wealth"].as_f64().unwrap();
    assert!(wealth >= 2.0, "{wealth}");
    assert!(after["statement"].as_str().unwrap().contains("For each start of the test"), "{after}");
    metric("nuq_drift_alarm{model=\"animals\"} 0");
    metric("nuq_drift_log10_wealth{model=\"animals\"} 0");
    metric("nuq_drift_acknowledged_total{model=\"animals\"} 1");
    assert_eq!(request("POST", "drift/acknowledge", write, "").status, 409);
    service.stop();
}

#[test]
fn the_page_has_data_of_a_regressor_too() {
    let service = Service::start();
    score(&service, "sums", &rows(10, 4));
    let map = service.get("/v1/models/sums/map").json();
    assert_eq!((map["task"].as_str(), map["axes"].as_str()), (Some("regression"), Some("principal")));
    let row = &recent(&service, "sums")[0];
    assert!(row["probability"].is_null() && row["label"].as_str().unwrap().parse::<f64>().is_ok());
    assert_eq!(service.get(&format!("/v1/models/sums/recent/{}", row["id"])).status, 200);
    service.stop();
}

#[test]
fn invalid_requests_have_a_json_error() {
    let service = Service::start();
    for (path, status) in [
        ("activity?minutes=0", 422),
        ("activity?minutes=99999999", 422),
        ("activity?minutes=x", 422),
        ("recent?which=other", 422),
        ("recent/7", 404),
        ("recent/x", 404),
        ("pictures/1", 404),
        ("pictures/..%2f..%2fanimals.nuq", 404),
        ("map?drawn_ms=-1", 422),
    ] {
        let reply = service.get(&format!("/v1/models/animals/{path}"));
        assert_eq!(reply.status, status, "{path}");
        assert!(reply.json()["error"]["message"].is_string(), "{path}");
    }
    assert_eq!(service.get("/v1/models/none/drift").status, 404);
    assert_eq!(service.get("/page/../Cargo.toml").status, 404);
    service.stop();
}

#[test]
fn pictures_have_a_fixed_type_and_strict_headers() {
    let service = Service::with(|config| {
        let folder = config.models[0].path.parent().unwrap().join("pictures");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("3.png"), "<script>alert(1)</script>").unwrap();
        let location = folder.to_str().unwrap().to_owned();
        config.pictures = vec![PictureSource { model: Some("animals".to_owned()), location }];
    });
    let reply = service.get("/v1/models/animals/pictures/3");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("image/png")));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    for path in
        ["animals/pictures/4", "animals/pictures/3.png", "animals/pictures/03%2f..%2f3", "sums/pictures/3"]
    {
        assert_eq!(service.get(&format!("/v1/models/{path}")).status, 404, "{path}");
    }
    let page = service.get("/");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    service.stop();
}

/// Adds pictures of the rows 3, 4 and 300 to a configuration. The models have no row 300.
fn add_pictures(config: &mut Config) {
    let folder = config.models[0].path.parent().unwrap().join("pictures");
    std::fs::create_dir(&folder).unwrap();
    for row in ["3", "4", "300"] {
        std::fs::write(folder.join(format!("{row}.png")), row).unwrap();
    }
    let location = folder.to_str().unwrap().to_owned();
    config.pictures = vec![PictureSource { model: None, location }];
}

/// Sends a request to a route of the model `animals`.
#[track_caller]
fn post(service: &Service, path: &str, body: &Value) -> Value {
    let reply = service.post(&format!("/v1/models/animals/{path}"), body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// The ids of the training rows with pictures on the map. The route of each picture must agree.
#[track_caller]
fn rows_with_pictures(service: &Service) -> Vec<u64> {
    let map = service.get("/v1/models/animals/map").json();
    let rows = map["training"].as_array().unwrap().iter().filter(|row| row["picture"].is_string());
    let ids: Vec<u64> = rows.map(|row| row["id"].as_u64().unwrap()).collect();
    for id in [3, 4, 300] {
        let status = service.get(&format!("/v1/models/animals/pictures/{id}")).status;
        assert_eq!(status, if ids.contains(&id) { 200 } else { 404 }, "{id}");
    }
    ids
}

/// An inserted row gets the id of a removed row, but not its picture.
#[test]
fn only_rows_of_the_model_file_have_pictures() {
    let service = Service::with(|config| {
        add_pictures(config);
        config.ephemeral = true;
    });
    let post = |path: &str, body: Value| post(&service, path, &body);
    let pictures = || rows_with_pictures(&service);
    assert_eq!(pictures(), [3, 4]);
    let removed = post("rows/remove", json!({ "ids": [3] }));
    assert_eq!(pictures(), [4]);
    let undo = format!("/v1/models/animals/changes/{}/undo", removed["change"]);
    assert_eq!(service.post(&undo, "").status, 200);
    assert_eq!(pictures(), [3, 4]);
    post("rows/remove", json!({ "ids": [3] }));
    post("rows/relabel", json!({ "ids": [4], "labels": ["cat"] }));
    let row = [9.0; COLUMNS];
    let inserted = post("rows", json!({ "rows": [row, row], "labels": ["cat", "cat"] }));
    assert_eq!(inserted["ids"], json!([3, 300]));
    assert_eq!(pictures(), [4]);
    let inspected = post("inspect", json!({ "rows": [row] }));
    let neighbors = inspected["rows"][0]["neighbors"].as_array().unwrap();
    // The nearest training rows are the inserted rows.
    for neighbor in &neighbors[..2] {
        assert!([3, 300].contains(&neighbor["id"].as_u64().unwrap()), "{neighbor}");
        assert_eq!(neighbor["picture"], Value::Null);
    }
    service.stop();
}

/// After a restart the model contains the changes of the state folder, so not all of its rows are rows of the file.
#[test]
fn only_rows_of_the_model_file_have_pictures_after_a_restart() {
    let mut service = Service::with(|config| {
        add_pictures(config);
        config.state = Some(config.models[0].path.parent().unwrap().join("state"));
    });
    post(&service, "rows/remove", &json!({ "ids": [3] }));
    let row = [9.0; COLUMNS];
    let inserted = post(&service, "rows", &json!({ "rows": [row, row], "labels": ["cat", "cat"] }));
    assert_eq!(inserted["ids"], json!([3, 300]));
    assert_eq!(rows_with_pictures(&service), [4]);
    service.restart();
    assert_eq!(rows_with_pictures(&service), [4]);
    // A file that has not changed keeps the changes and the pictures.
    assert_eq!(service.post("/v1/models/animals/reload", "").status, 200);
    assert_eq!(rows_with_pictures(&service), [4]);
    // With another file the changes are discarded: its rows 3 and 4 have pictures.
    let mut model = service.classifier();
    model.remove_threshold("main");
    nuq_io::save(&Model::Classifier(model), &service.path("animals.nuq")).unwrap();
    assert_eq!(service.post("/v1/models/animals/reload", "").status, 200);
    assert_eq!(rows_with_pictures(&service), [3, 4]);
    service.stop();
}

#[test]
fn the_demonstration_has_pictures_of_its_training_rows() {
    let service = Service::with(|config| config.demo = true);
    let newest = loop {
        let recent = service.get("/v1/models/cifar10/recent?limit=1").json();
        if let Some(row) = recent.as_array().unwrap().first() {
            break row["id"].clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let detail = service.get(&format!("/v1/models/cifar10/recent/{newest}")).json();
    let neighbors = detail["neighbors"].as_array().unwrap();
    assert!(!neighbors.is_empty());
    for neighbor in neighbors {
        let address = format!("/{}", neighbor["picture"].as_str().unwrap());
        let picture = service.get(&address);
        assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/webp")));
        assert!(picture.body.starts_with(b"RIFF"));
    }
    // The model has 2000 training rows.
    assert_eq!(service.get("/v1/models/cifar10/pictures/1999").status, 200);
    assert_eq!(service.get("/v1/models/cifar10/pictures/2000").status, 404);
}
