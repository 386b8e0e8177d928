//! A server is killed while clients change its model. After the next start, the model has all acknowledged changes.
//!
//! `NUQ_KILLS` sets the number of kills.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuq::nuq_neighbors::SeededRng;
use nuq::{FittedModel, Label, Model, NuqClassifier};
use serde_json::{Value, json};

use super::common::{COLUMNS, embeddings, rows};
#[cfg(unix)]
use super::process::FILE_LIMIT;
use super::process::{Process, request};

fn get(address: SocketAddr, path: &str) -> Value {
    let reply = request(address, "GET", path, "").expect("the server is running");
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// What the clients of a server sent, and what it acknowledged.
#[derive(Default)]
struct Record {
    /// All rows that were sent, by their labels, which are unique.
    sent: BTreeMap<String, Vec<f32>>,
    /// The kind and the ids of acknowledged changes, by the number of the change.
    acknowledged: BTreeMap<u64, (&'static str, Vec<u32>)>,
    /// The largest version of the model in a response.
    version: u64,
    next: usize,
}

/// Inserts and removes rows until the server ends.
fn write_changes(address: SocketAddr, record: &Mutex<Record>, mut rng: SeededRng, acknowledged: &AtomicBool) {
    let mut own: Vec<u32> = vec![];
    loop {
        let remove = !own.is_empty() && rng.below(3) == 0;
        let (path, kind, body) = if remove {
            let id = own.swap_remove(rng.below(own.len()));
            ("/v1/models/m/rows/remove", "remove", json!({ "ids": [id] }))
        } else {
            let mut record = record.lock().unwrap();
            let count = 1 + rng.below(3);
            let sent: Vec<(String, Vec<f32>)> = (0..count)
                .map(|i| (format!("label {}", record.next + i), rows(1, 100 + record.next + i)))
                .collect();
            record.next += count;
            record.sent.extend(sent.iter().cloned());
            let (labels, rows): (Vec<String>, Vec<Vec<f32>>) = sent.into_iter().unzip();
            ("/v1/models/m/rows", "insert", json!({ "rows": rows, "labels": labels, "new_classes": labels }))
        };
        let Some(reply) = request(address, "POST", path, &body.to_string()) else { return };
        if reply.body.is_empty() {
            return;
        }
        let Ok(response) = serde_json::from_slice::<Value>(&reply.body) else { return };
        assert_eq!(reply.status, 200, "{response}");
        let ids: Vec<u32> = serde_json::from_value(response["ids"].clone()).unwrap();
        if !remove {
            own.extend(&ids);
        }
        let change = response["change"].as_u64().unwrap();
        let mut record = record.lock().unwrap();
        record.acknowledged.insert(change, (kind, ids));
        record.version = record.version.max(response["version"].as_u64().unwrap());
        drop(record);
        acknowledged.store(true, Ordering::Release);
    }
}

/// Scores rows until the server ends.
fn read(address: SocketAddr) {
    let body = json!({ "rows": rows(20, 5).chunks(COLUMNS).collect::<Vec<_>>() }).to_string();
    while let Some(reply) = request(address, "POST", "/v1/models/m/score", &body) {
        assert!(reply.status == 200 || reply.body.is_empty(), "{}", reply.text());
    }
}

/// Compares the served model with the list of changes, and this list with the acknowledged changes.
fn compare(address: SocketAddr, folder: &Path, record: &Record) {
    let version = get(address, "/v1/models/m")["version"].as_u64().unwrap();
    assert!(version >= record.version, "version {version} after version {}", record.version);
    let list = get(address, "/v1/models/m/changes?limit=1000000");
    let list = list.as_array().unwrap();
    let numbers: BTreeSet<u64> = list.iter().map(|change| change["id"].as_u64().unwrap()).collect();
    let mut expected: BTreeMap<u32, (String, Vec<f32>)> = BTreeMap::new();
    for change in list.iter().rev() {
        let number = change["id"].as_u64().unwrap();
        let kind = change["kind"].as_str().unwrap();
        let ids: Vec<u32> = serde_json::from_value(change["ids"].clone()).unwrap();
        if let Some(acknowledged) = record.acknowledged.get(&number) {
            assert_eq!((acknowledged.0, &acknowledged.1), (kind, &ids), "change {number}");
        }
        let labels: Vec<String> = serde_json::from_value(change["labels"].clone()).unwrap();
        for (id, label) in ids.iter().zip(labels) {
            match kind {
                "insert" => {
                    let row = record.sent[&label].clone();
                    assert_eq!(
                        expected.insert(*id, (label, row)),
                        None,
                        "id {id} of change {number} is in use"
                    );
                }
                _ => assert!(expected.remove(id).is_some(), "id {id} of change {number} is not in use"),
            }
        }
    }
    // The server lists only the last 1000 changes. The test removes the state before there are more.
    let missing: Vec<_> = record.acknowledged.keys().filter(|number| !numbers.contains(number)).collect();
    assert!(missing.is_empty(), "acknowledged changes are lost: {missing:?}");

    let file = request(address, "GET", "/v1/models/m/file", "").expect("the server is running");
    let path = folder.join("downloaded.nuq");
    std::fs::write(&path, &file.body).unwrap();
    let Model::Classifier(model) = nuq_io::open(&path).unwrap().model else {
        panic!("the model is a classifier")
    };
    let own = base_rows() as u32;
    let index = model.index().rows();
    let live: Vec<u32> = index.live_ids().into_iter().filter(|id| *id >= own).collect();
    assert_eq!(live, expected.keys().copied().collect::<Vec<u32>>());
    for (id, (label, row)) in &expected {
        assert_eq!(index.row(*id).as_ref(), &row[..], "row {id}");
        let class = model.training_classes()[*id as usize] as usize;
        assert_eq!(model.classes().label(class), &Label::from(label.as_str()), "row {id}");
    }
}

fn base_rows() -> usize {
    100
}

fn save_model(folder: &Path) {
    let labels: Vec<&str> = (0..base_rows()).map(|i| ["a", "b"][i % 2]).collect();
    let model =
        NuqClassifier::params().n_neighbors(5).fit(&embeddings(&rows(base_rows(), 1)), &labels).unwrap();
    nuq_io::save(&Model::Classifier(model), &folder.join("m.nuq")).unwrap();
}

#[test]
fn acknowledged_changes_survive_kills() {
    let kills: usize = std::env::var("NUQ_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(4);
    let mut rng = SeededRng::new(19);
    let folder = tempfile::tempdir().unwrap();
    save_model(folder.path());
    let record = Arc::new(Mutex::new(Record::default()));
    let mut total = 0;
    for _ in 0..kills {
        let process = Process::start(folder.path(), &[]);
        let address = process.address;
        compare(address, folder.path(), &record.lock().unwrap());
        let acknowledged = Arc::new(AtomicBool::new(false));
        let mut threads: Vec<_> = (0..3)
            .map(|_| {
                let (record, rng) = (record.clone(), SeededRng::new(rng.next_u64()));
                let acknowledged = acknowledged.clone();
                std::thread::spawn(move || write_changes(address, &record, rng, &acknowledged))
            })
            .collect();
        threads.push(std::thread::spawn(move || read(address)));
        // A loaded machine may need long for the first change.
        while !acknowledged.load(Ordering::Acquire) {
            assert!(!threads.iter().all(|thread| thread.is_finished()), "the server ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(rng.below(100_000) as u64));
        process.kill();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut record = record.lock().unwrap();
        total += record.acknowledged.len();
        // The server lists only the last 1000 changes, so the test begins with a new state before there are more.
        if record.acknowledged.len() > 500 {
            let process = Process::start(folder.path(), &[]);
            compare(process.address, folder.path(), &record);
            process.kill();
            std::fs::remove_dir_all(folder.path().join("state")).unwrap();
            *record = Record::default();
        }
    }
    let process = Process::start(folder.path(), &[]);
    compare(process.address, folder.path(), &record.lock().unwrap());
    process.kill();
    assert!(total >= kills, "{total} changes were acknowledged in {kills} runs");
}

/// The test limits the size of files, because it cannot fill a disk without special rights.
#[cfg(unix)]
#[test]
fn a_server_that_cannot_write_refuses_changes_and_answers_other_requests() {
    let folder = tempfile::tempdir().unwrap();
    save_model(folder.path());
    let process = Process::start(folder.path(), &[(FILE_LIMIT, "400000")]);
    let address = process.address;
    let mut record = Record::default();
    let refused = loop {
        let (label, row) = (format!("label {}", record.next), rows(1, 100 + record.next));
        let labels = vec![label.clone(); 200];
        let body = json!({ "rows": vec![row.clone(); 200], "labels": labels, "new_classes": [label] });
        record.next += 1;
        assert!(record.next < 1000, "no change was refused");
        let reply = request(address, "POST", "/v1/models/m/rows", &body.to_string()).unwrap();
        if reply.status != 200 {
            break reply;
        }
        record.sent.insert(label, row);
        let response = reply.json();
        let ids = serde_json::from_value(response["ids"].clone()).unwrap();
        record.acknowledged.insert(response["change"].as_u64().unwrap(), ("insert", ids));
    };
    assert!(matches!(refused.status, 503 | 507), "{}", refused.text());
    assert!(refused.error().1.contains("state"), "{}", refused.text());
    let body = json!({ "rows": [vec![0.0; COLUMNS]] }).to_string();
    assert_eq!(request(address, "POST", "/v1/models/m/score", &body).unwrap().status, 200);
    process.kill();
    // After a restart without the limit, the model has all acknowledged changes, and changes are accepted again.
    let process = Process::start(folder.path(), &[]);
    compare(process.address, folder.path(), &record);
    let body = json!({ "ids": [0] }).to_string();
    assert_eq!(request(process.address, "POST", "/v1/models/m/rows/remove", &body).unwrap().status, 200);
    process.kill();
}
