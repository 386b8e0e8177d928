//! A server is killed while clients change its model. After the next start, the model has all acknowledged changes.
//!
//! `NUQ_KILLS` sets the number of kills. The first two tests print the numbers of kills and of acknowledged changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nuq::nuq_neighbors::SeededRng;
use nuq::{Embeddings, FittedModel, Label, Model, NuqClassifier};
use serde_json::{Value, json};

use super::common::{COLUMNS, rows};
#[cfg(unix)]
use super::process::FILE_LIMIT;
use super::process::{Process, request};

fn get(address: SocketAddr, path: &str) -> Value {
    let reply = request(address, "GET", path, "").expect("the server is running");
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// The size of changes.
#[derive(Clone, Copy)]
struct Load {
    columns: usize,
    /// The largest number of rows that are inserted at once.
    rows: usize,
    /// The state is deleted if there are more acknowledged changes than this, because the server lists only the last 1000 changes and the
    /// test compares all of them.
    changes: usize,
}

const SMALL: Load = Load { columns: COLUMNS, rows: 3, changes: 500 };

/// A snapshot is written after 16 MiB of changes, that is after about 30 insertions of this size.
const LARGE: Load = Load { columns: 4000, rows: 64, changes: 80 };

impl Load {
    /// The values of one row of `columns` columns. They are those of several rows with `COLUMNS` columns.
    fn row(self, number: usize) -> Vec<f32> {
        rows(self.columns / COLUMNS, 100 + number)
    }
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
    /// The number in the label of the next row that is sent.
    next: usize,
}

/// Inserts and removes rows until the server ends.
fn write_changes(
    address: SocketAddr,
    load: Load,
    record: &Mutex<Record>,
    mut rng: SeededRng,
    acknowledged: &AtomicBool,
) {
    // The ids of the rows that this client has inserted and not removed.
    let mut own: Vec<u32> = vec![];
    loop {
        let remove = !own.is_empty() && rng.below(3) == 0;
        let (path, kind, body) = if remove {
            let id = own.swap_remove(rng.below(own.len()));
            ("/v1/models/m/rows/remove", "remove", json!({ "ids": [id] }))
        } else {
            let mut record = record.lock().unwrap();
            let count = 1 + rng.below(load.rows);
            let sent: Vec<(String, Vec<f32>)> = (0..count)
                .map(|i| (format!("label {}", record.next + i), load.row(record.next + i)))
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
fn read(address: SocketAddr, load: Load) {
    let body = json!({ "rows": (0..20).map(|number| load.row(number)).collect::<Vec<_>>() }).to_string();
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
    let base = base_rows() as u32;
    let index = model.index().rows();
    let live: Vec<u32> = index.live_ids().into_iter().filter(|id| *id >= base).collect();
    assert_eq!(live, expected.keys().copied().collect::<Vec<u32>>());
    for (id, (label, row)) in &expected {
        assert_eq!(index.row(*id).as_ref(), &row[..], "row {id}");
        let class = model.training_classes()[*id as usize] as usize;
        assert_eq!(model.classes().label(class), &Label::from(label.as_str()), "row {id}");
    }
}

/// The number of rows in the model file, before any change.
fn base_rows() -> usize {
    100
}

fn save_model(folder: &Path, load: Load) {
    let labels: Vec<&str> = (0..base_rows()).map(|i| ["a", "b"][i % 2]).collect();
    let values = rows(base_rows() * load.columns / COLUMNS, 1);
    let x = Embeddings::new(values, load.columns).unwrap();
    let model = NuqClassifier::params().n_neighbors(5).fit(&x, &labels).unwrap();
    nuq_io::save(&Model::Classifier(model), &folder.join("m.nuq")).unwrap();
}

fn kills() -> usize {
    std::env::var("NUQ_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(4)
}

/// A folder with a model and its state. Servers use it one after the other, and each of them is killed.
struct Killed {
    folder: tempfile::TempDir,
    load: Load,
    record: Arc<Mutex<Record>>,
    /// The number of acknowledged changes of states that were deleted.
    former: usize,
    /// The time from the start of the last process to its first answer.
    start: Duration,
}

impl Killed {
    fn new(load: Load) -> Self {
        let folder = tempfile::tempdir().unwrap();
        save_model(folder.path(), load);
        Self { folder, load, record: Arc::default(), former: 0, start: Duration::ZERO }
    }

    /// Starts a server and compares its state with the acknowledged changes.
    fn start(&mut self) -> Process {
        let begin = Instant::now();
        let process = Process::start(self.folder.path(), &[]);
        self.start = begin.elapsed();
        compare(process.address, self.folder.path(), &self.record.lock().unwrap());
        process
    }

    /// Starts a server, changes its model, and kills it after the first acknowledged change and the return of `wait`.
    fn kill(&mut self, rng: &mut SeededRng, wait: impl FnOnce(&Path, &mut SeededRng)) {
        let process = self.start();
        let (address, load) = (process.address, self.load);
        let acknowledged = Arc::new(AtomicBool::new(false));
        let mut threads: Vec<_> = (0..3)
            .map(|_| {
                let (record, rng) = (self.record.clone(), SeededRng::new(rng.next_u64()));
                let acknowledged = acknowledged.clone();
                std::thread::spawn(move || write_changes(address, load, &record, rng, &acknowledged))
            })
            .collect();
        threads.push(std::thread::spawn(move || read(address, load)));
        // On a busy machine the first change may take a long time.
        while !acknowledged.load(Ordering::Acquire) {
            assert!(!threads.iter().all(|thread| thread.is_finished()), "the server ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        wait(&self.folder.path().join("state"), rng);
        process.kill();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        if self.record.lock().unwrap().acknowledged.len() > self.load.changes {
            self.delete_state();
        }
    }

    /// Compares the state with the acknowledged changes and deletes it.
    fn delete_state(&mut self) {
        self.start().kill();
        std::fs::remove_dir_all(self.folder.path().join("state")).unwrap();
        let mut record = self.record.lock().unwrap();
        self.former += record.acknowledged.len();
        *record = Record::default();
    }

    /// Compares the state with the acknowledged changes for the last time. Returns the number of all acknowledged changes.
    fn finish(mut self) -> usize {
        self.delete_state();
        self.former
    }
}

#[test]
fn acknowledged_changes_survive_kills() {
    let (kills, mut rng, mut killed) = (kills(), SeededRng::new(19), Killed::new(SMALL));
    for i in 0..kills {
        killed.kill(&mut rng, |_, rng| {
            std::thread::sleep(Duration::from_micros(rng.below(100_000) as u64));
        });
        // The recovery is interrupted too. The next recovery begins with the same files.
        if i % 4 == 3 {
            let most = 1 + killed.start.as_micros() as usize;
            Process::start_and_kill(killed.folder.path(), Duration::from_micros(rng.below(most) as u64));
        }
    }
    let total = killed.finish();
    assert!(total >= kills, "{total} changes were acknowledged in {kills} runs");
    println!("\nkills: {kills} of a service under writes: {total} acknowledged changes");
}

/// The files of unfinished snapshots in a state folder.
fn partial_snapshots(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "partial"))
        .collect()
}

#[test]
fn acknowledged_changes_survive_kills_while_snapshots_are_written() {
    let kills = kills().div_ceil(10);
    let (mut rng, mut killed) = (SeededRng::new(20), Killed::new(LARGE));
    let (mut interrupted, mut runs) = (0, 0);
    while interrupted < kills {
        killed.kill(&mut rng, |state, rng| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(5) && partial_snapshots(state).is_empty() {
                std::thread::sleep(Duration::from_micros(200));
            }
            std::thread::sleep(Duration::from_micros(rng.below(10_000) as u64));
        });
        let state = killed.folder.path().join("state");
        interrupted += partial_snapshots(&state).len();
        killed.start().kill();
        assert_eq!(partial_snapshots(&state), [] as [PathBuf; 0], "files of killed processes are removed");
        runs += 1;
        assert!(runs < 10 * (kills + 1), "{interrupted} of {runs} kills interrupted a snapshot");
    }
    let total = killed.finish();
    println!("\nkills: {runs} of a service that writes snapshots: {total} acknowledged changes");
}

/// The test limits the size of files, because it cannot fill a disk without special rights.
#[cfg(unix)]
#[test]
fn a_server_that_cannot_write_refuses_changes_and_answers_other_requests() {
    let folder = tempfile::tempdir().unwrap();
    save_model(folder.path(), SMALL);
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
