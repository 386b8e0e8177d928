//! Changes, recovery and failures of the state.

use std::path::Path;
use std::sync::Arc;

use nuq::calibrate::{Measure, Predictor, Target, calibrate};
use nuq::{Embeddings, FittedModel, Label, Model, NuqClassifier, NuqRegressor};
use tempfile::TempDir;

use super::*;

/// An observation in which all measures are `value` and the threshold `epistemic` accepts or rejects the row.
pub(super) fn observation(time_ms: u64, value: f64, accept: bool) -> Observation {
    Observation {
        time_ms,
        embedding: vec![1.0, 2.0],
        label: "a".to_owned(),
        probability: Some(0.5),
        aleatoric: value,
        log_epistemic: value,
        log_total: value,
        log_density: -value,
        predictor: Predictor::Nuq,
        p_value: None,
        accept: vec![("epistemic".to_owned(), accept)],
    }
}

fn rows(first: usize, count: usize) -> Embeddings<'static> {
    let values = (first..first + count).flat_map(|i| [(i % 17) as f32, (i % 5) as f32 + i as f32 / 100.0]);
    Embeddings::new(values.collect(), 2).unwrap()
}

fn labels(first: usize, count: usize) -> Labels {
    Labels::Classes((first..first + count).map(|i| Label::from(["a", "b", "c"][i % 3])).collect())
}

fn classifier() -> Model<'static> {
    let Labels::Classes(labels) = labels(0, 60) else { unreachable!("labels are classes") };
    let mut model = NuqClassifier::params().n_neighbors(5).fit(&rows(0, 60), &labels).unwrap();
    let scores: Vec<f64> = (0..50).map(f64::from).collect();
    let threshold = calibrate(Measure::Epistemic, &scores, None, Target::Coverage(0.9)).unwrap();
    model.rules_mut().set_threshold("epistemic", threshold, &scores).unwrap();
    Model::Classifier(model)
}

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new(model: &Model<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        nuq_io::save(model, &folder.path().join("m.nuq")).unwrap();
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("m.nuq")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn options(&self) -> StateOptions {
        StateOptions { folder: Some(self.state()), is_ephemeral: false, drift_alpha: 0.01 }
    }

    fn load(&self) -> Served {
        Served::load(&self.options(), &self.file()).unwrap()
    }
}

struct Served {
    model: Arc<LoadedModel>,
    state: ModelState,
}

impl Served {
    fn load(options: &StateOptions, file: &Path) -> Result<Self, StateError> {
        let (model, state) = State::open(options)?.load("m", file, Device::default())?;
        Ok(Self { model: Arc::new(LoadedModel::new(model, 1)), state })
    }

    fn change(
        &self,
        prepare: impl FnOnce(&Model<'_>) -> Result<Change, nuq::Error>,
    ) -> Result<Applied, ApiError> {
        self.state.change(|| self.model.clone(), |model| Ok(prepare(model)?))
    }

    fn insert(&self, first: usize, count: usize) -> Applied {
        self.change(|model| Change::insert(model, &rows(first, count), labels(first, count), None)).unwrap()
    }

    fn undo(&self, id: u64) -> Result<Applied, ApiError> {
        self.state.undo(|| self.model.clone(), id)
    }

    /// The model as the bytes of its file.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![];
        nuq_io::write_model(&self.model.read(), &mut bytes).unwrap();
        bytes
    }

    fn rules(&self) -> Rules {
        self.model.read().rules().clone()
    }
}

/// After the first of 16 threads has waited for the disk, the changes of all threads are on the disk.
#[test]
fn changes_that_wait_are_synchronized_together() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let (synced, before) = served.state.database.synced();
    let held = synced.lock().unwrap();
    std::thread::scope(|scope| {
        for i in 0..16 {
            let served = &served;
            scope.spawn(move || {
                let applied = served.insert(100 + i, 1);
                served.state.sync(&applied).unwrap();
                let (synced, commits) = served.state.database.synced();
                assert_eq!(*synced.lock().unwrap(), commits);
            });
        }
        while served.state.database.synced().1 < before + 16 {
            std::thread::yield_now();
        }
        assert!(*held < before + 16);
        drop(held);
    });
}

#[test]
fn acknowledged_changes_are_in_the_model_after_a_restart() {
    let fixture = Fixture::new(&classifier());
    let expected = {
        let served = fixture.load();
        let applied = served.insert(100, 7);
        assert_eq!(applied.change.ids, (60..67).collect::<Vec<u32>>());
        served.change(|model| Change::remove(model, &[61, 3, 10])).unwrap();
        // Free ids are used first.
        assert_eq!(served.insert(200, 4).change.ids, [3, 10, 61, 67]);
        let relabeled = Labels::Classes(vec![Label::from("new")]);
        served.change(|model| Change::relabel(model, &[20], relabeled)).unwrap();
        let scores: Vec<f64> = vec![1.0, f64::NEG_INFINITY, 3.0];
        let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.5)).unwrap();
        let applied = served.change(|model| {
            let mut rules = model.rules().clone();
            rules.set_threshold("t", threshold, &scores)?;
            Ok(Change::rules(model, "t", rules))
        });
        assert_eq!(applied.unwrap().change.kind, Kind::Threshold);
        served.bytes()
        // `served` is dropped without any further write.
    };
    let served = fixture.load();
    assert_eq!(served.bytes(), expected);
    let kinds: Vec<&str> =
        served.state.changes(10).unwrap().iter().map(|change| change.kind.name()).collect();
    assert_eq!(kinds, ["threshold", "relabel", "insert", "remove", "insert"]);
}

#[test]
fn regressors_keep_their_targets() {
    let targets: Vec<f64> = (0..30).map(|i| f64::from(i) / 7.0).collect();
    let model = NuqRegressor::params().n_neighbors(5).fit(&rows(0, 30), &targets).unwrap();
    let fixture = Fixture::new(&Model::Regressor(model));
    let served = fixture.load();
    let change =
        served.change(|model| Change::insert(model, &rows(30, 2), Labels::Targets(vec![0.1, -5e77]), None));
    change.unwrap();
    let removed = served.change(|model| Change::remove(model, &[31, 2])).unwrap();
    let (undone, before) = (removed.id, served.bytes());
    served.undo(undone).unwrap();
    let expected = served.bytes();
    assert_ne!(expected, before);
    drop(served);
    assert_eq!(fixture.load().bytes(), expected);
    let served = fixture.load();
    let wrong = served.change(|model| Change::insert(model, &rows(30, 1), labels(0, 1), None)).unwrap_err();
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    // A change that could not be applied is not in the list, and it is not applied after a restart.
    assert_eq!(served.state.changes(10).unwrap().len(), 3);
    drop(served);
    assert_eq!(fixture.load().bytes(), expected);
}

#[test]
fn a_repeated_id_is_named_by_its_position() {
    let problem = "which is listed twice";
    let expected = nuq::Error::from(nuq_neighbors::Error::CannotRemove { position: 2, id: 7, problem });
    assert_eq!(Change::remove(&classifier(), &[7, 3, 7]).err(), Some(expected));
}

#[test]
fn undo_restores_rows_and_rules() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let before = served.rules();
    let inserted = served.insert(100, 3);
    assert!(served.rules().thresholds.is_empty());
    let undone = served.undo(inserted.id).unwrap();
    assert_eq!((undone.change.kind, &undone.change.ids), (Kind::Remove, &inserted.change.ids));
    assert_eq!(served.rules(), before);
    let again = served.undo(inserted.id).unwrap_err();
    assert_eq!(again.status, StatusCode::CONFLICT);
    // An undo is itself a change, which can be undone.
    served.undo(undone.id).unwrap();
    assert!(served.rules().thresholds.is_empty());
    assert_eq!(served.model.read().index().len(), 63);

    let removed = served.change(|model| Change::remove(model, &[5, 4])).unwrap();
    let restored = served.undo(removed.id).unwrap();
    assert_eq!(restored.change.ids, [4, 5]);
    let relabeled =
        served.change(|model| Change::relabel(model, &[4], Labels::Classes(vec![Label::from("z")])));
    let relabeled = relabeled.unwrap();
    assert_eq!(relabeled.change.former_labels, Labels::Classes(vec![Label::from("b")]));
    assert_eq!(served.undo(relabeled.id).unwrap().change.labels, Labels::Classes(vec![Label::from("b")]));
    let unknown = served.undo(999).unwrap_err();
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let expected = served.bytes();
    drop(served);
    assert_eq!(fixture.load().bytes(), expected);
}

#[test]
fn rows_that_changed_later_are_not_removed_by_an_undo() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let first = served.insert(100, 1);
    let removed = served.change(|model| Change::remove(model, &first.change.ids)).unwrap();
    // The same id names another row now.
    let second = served.insert(300, 1);
    assert_eq!(second.change.ids, first.change.ids);
    let error = served.undo(first.id).unwrap_err();
    assert_eq!(error.status, StatusCode::CONFLICT);
    assert!(error.message.contains(&format!("change {}", removed.id)), "{}", error.message);
    // After both later changes are undone, the first one can be undone.
    served.undo(second.id).unwrap();
    served.undo(removed.id).unwrap();
    served.undo(first.id).unwrap();
    assert_eq!(served.model.read().index().len(), 60);
}

#[test]
fn an_undo_restores_only_its_threshold_and_fails_after_a_change_of_rows() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let scores = [1.0, 2.0, 3.0];
    let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.5)).unwrap();
    let set = |name: &str| {
        let change = served.change(|model| {
            let mut rules = model.rules().clone();
            rules.set_threshold(name, threshold, &scores)?;
            Ok(Change::rules(model, name, rules))
        });
        change.unwrap().id
    };
    let (replaced, added) = (set("epistemic"), set("other"));
    served.undo(replaced).unwrap();
    assert_eq!(served.rules().held_out_scores("epistemic").unwrap().len(), 50);
    assert_eq!(served.rules().held_out_scores("other").unwrap().len(), 3);
    // A later change of the same threshold is undone first.
    let (first, second) = (set("twice"), set("twice"));
    let error = served.undo(first).unwrap_err();
    assert_eq!(error.status, StatusCode::CONFLICT);
    assert!(error.message.contains("of the same threshold"), "{}", error.message);
    served.undo(second).unwrap();
    served.undo(first).unwrap();
    assert!(served.rules().held_out_scores("twice").is_none());
    served.insert(100, 1);
    let error = served.undo(added).unwrap_err();
    assert_eq!(error.status, StatusCode::CONFLICT);
}

#[test]
fn a_snapshot_shortens_the_journal_and_keeps_the_history() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let last = (0..20).map(|i| served.insert(100 + i, 1).id).last().unwrap();
    {
        let mut log = served.state.log();
        served.state.snapshot(&mut log, &served.model.read());
        assert_eq!((log.changes, log.base.change), (0, last));
    }
    let snapshots = || {
        let names = std::fs::read_dir(fixture.state()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".nuq")).count()
    };
    assert_eq!(snapshots(), 1);
    served.insert(500, 2);
    let expected = served.bytes();
    drop(served);
    // A snapshot that a killed process left. The database does not refer to it.
    std::fs::write(fixture.state().join("m-77.nuq"), "incomplete").unwrap();
    let served = fixture.load();
    assert_eq!((served.bytes(), snapshots()), (expected, 1));
    assert_eq!(served.state.changes(100).unwrap().len(), 21);
    served.undo(last).unwrap();
}

#[test]
fn old_changes_that_a_snapshot_contains_are_removed() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let last = (0..10).map(|i| served.insert(100 + i, 1).id).last().unwrap();
    let prune = |snapshot: u64| {
        let limits = (snapshot, 3, u64::MAX);
        served.state.database.write(|transaction| journal::prune(transaction, "m", limits)).unwrap();
        served.state.changes(100).unwrap().len()
    };
    // Changes after the snapshot stay.
    assert_eq!(prune(last - 6), 6);
    assert_eq!(prune(last), 3);
}

#[test]
fn another_file_is_refused_if_the_state_contains_changes() {
    let fixture = Fixture::new(&classifier());
    drop(fixture.load());
    // Without changes, another file is accepted.
    let mut other = classifier();
    other.remove_threshold("epistemic");
    nuq_io::save(&other, &fixture.file()).unwrap();
    fixture.load().insert(100, 1);
    nuq_io::save(&classifier(), &fixture.file()).unwrap();
    let error = Served::load(&fixture.options(), &fixture.file()).err().unwrap();
    assert!(error.to_string().contains("is not the file to which they were made"), "{error}");
}

#[test]
fn replacing_the_file_discards_changes() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    served.insert(100, 1);
    let mut other = classifier();
    other.remove_threshold("epistemic");
    nuq_io::save(&other, &fixture.file()).unwrap();
    let fingerprint = nuq_io::open(&fixture.file()).unwrap().fingerprint();
    let mut is_replaced = false;
    assert!(served.state.replace(fingerprint, other.rules(), |_| is_replaced = true).unwrap().is_some());
    assert!(is_replaced && served.state.changes(10).unwrap().is_empty());
    drop(served);
    let served = fixture.load();
    assert_eq!(served.model.read().index().len(), 60);
    // The same file again discards nothing.
    served.insert(100, 1);
    assert!(
        served
            .state
            .replace(fingerprint, other.rules(), |_| panic!("the file is the same"))
            .unwrap()
            .is_none()
    );
    assert_eq!(served.state.changes(10).unwrap().len(), 1);
}

/// Checks the version after each change, failed change, snapshot, start and replacement of the file.
#[test]
fn versions_never_decrease() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    assert_eq!(served.state.first_version, 1);
    let inserted = served.insert(100, 1);
    assert_eq!(inserted.version, 2);
    assert_eq!(served.undo(inserted.id).unwrap().version, 3);
    assert!(served.change(|model| Change::remove(model, &[99])).is_err());
    assert_eq!(served.insert(100, 1).version, 4);
    served.state.snapshot(&mut served.state.log(), &served.model.read());
    drop(served);
    let served = fixture.load();
    assert_eq!((served.state.first_version, served.insert(101, 1).version), (4, 5));
    let mut other = classifier();
    other.remove_threshold("epistemic");
    nuq_io::save(&other, &fixture.file()).unwrap();
    let fingerprint = nuq_io::open(&fixture.file()).unwrap().fingerprint();
    let mut version = 0;
    served.state.replace(fingerprint, other.rules(), |new| version = new).unwrap();
    assert_eq!(version, 6);
    drop(served);
    assert_eq!(fixture.load().state.first_version, 6);
    // Another file is accepted because there are no changes, and it gets another version.
    nuq_io::save(&classifier(), &fixture.file()).unwrap();
    assert_eq!(fixture.load().state.first_version, 7);
    assert_eq!(fixture.load().state.first_version, 7);
}

#[test]
fn tables_of_version_1_are_extended() {
    let fixture = Fixture::new(&classifier());
    let last = {
        let served = fixture.load();
        served.insert(100, 1);
        served.insert(101, 1).id
    };
    let connection = rusqlite::Connection::open(fixture.state().join("state.sqlite")).unwrap();
    connection.execute_batch("ALTER TABLE models DROP COLUMN version; PRAGMA user_version = 1;").unwrap();
    drop(connection);
    let served = fixture.load();
    assert_eq!(served.state.first_version, 1 + last);
    assert_eq!(served.model.read().index().len(), 62);
}

#[test]
fn a_folder_is_used_by_one_process_at_a_time() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let error = State::open(&fixture.options()).err().unwrap();
    assert!(error.to_string().contains("in use by another process"), "{error}");
    drop(served);
    fixture.load();
}

#[test]
fn without_a_folder_changes_are_refused_unless_they_may_be_lost() {
    let fixture = Fixture::new(&classifier());
    let options = StateOptions { folder: None, ..fixture.options() };
    let served = Served::load(&options, &fixture.file()).unwrap();
    let error = served.change(|model| Change::remove(model, &[1])).unwrap_err();
    assert_eq!((error.status, error.code), (StatusCode::FORBIDDEN, "no_state"));
    let served = Served::load(&StateOptions { is_ephemeral: true, ..options }, &fixture.file()).unwrap();
    let id = served.insert(100, 1).id;
    served.undo(id).unwrap();
    assert_eq!(served.state.changes(10).unwrap().len(), 2);
    assert!(!fixture.state().exists());
}

#[test]
fn a_full_disk_refuses_changes_and_nothing_else() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    served.insert(100, 1);
    let before = served.bytes();
    served.state.database.limit_pages(1);
    let error =
        served.change(|model| Change::insert(model, &rows(0, 5000), labels(0, 5000), None)).unwrap_err();
    assert_eq!((error.status, error.code), (StatusCode::INSUFFICIENT_STORAGE, "disk_full"));
    assert!(error.message.contains(fixture.state().to_str().unwrap()), "{}", error.message);
    assert_eq!(served.bytes(), before);
    // Reading and recording continue.
    served.state.record(vec![observation(0, 1.0, true)]);
    served.state.flush();
    assert_eq!(served.state.telemetry().samples.newest(Which::Recent, 10).len(), 1);
    assert_eq!(served.state.changes(10).unwrap().len(), 1);
    served.state.database.limit_pages(1 << 30);
    served.insert(101, 1);
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_read_and_changes_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(&classifier());
    let expected = {
        let served = fixture.load();
        served.insert(100, 1);
        served.bytes()
    };
    let set_mode = |mode: u32| {
        std::fs::set_permissions(fixture.state(), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o500);
    // Root may write to every folder.
    if std::fs::write(fixture.state().join("probe"), "").is_err() {
        let served = fixture.load();
        assert_eq!(served.bytes(), expected);
        let error = served.change(|model| Change::remove(model, &[1])).unwrap_err();
        assert_eq!((error.status, error.code), (StatusCode::SERVICE_UNAVAILABLE, "state_not_writable"));
    }
    set_mode(0o700);
}

#[test]
fn recorded_rows_are_restored() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let observations: Vec<Observation> =
        (0..700).map(|i| observation(now_ms() - 700 + i, (i % 50) as f64, i % 7 > 0)).collect();
    served.state.record(observations);
    served.state.record_request(0.01);
    served.state.flush();
    let read = |served: &Served| {
        let telemetry = served.state.telemetry();
        let drift = telemetry.drift.as_ref().unwrap();
        let rows = telemetry.activity.minutes(0).map(|minute| minute.rows).sum::<u64>();
        let samples = Which::ALL.map(|which| telemetry.samples.newest(which, usize::MAX));
        (rows, samples, drift.encode())
    };
    let expected = read(&served);
    assert_eq!((expected.0, expected.1[0].len(), expected.1[1].len()), (700, 500, 100));
    let newest = expected.1[0][0].clone();
    assert_eq!(served.state.telemetry().samples.get(newest.id), Some(newest));
    drop(served);
    let served = fixture.load();
    assert!(read(&served) == expected);
    // New rows have new ids.
    served.state.record(vec![observation(now_ms(), 1.0, true)]);
    served.state.flush();
    assert_eq!(served.state.telemetry().samples.newest(Which::Recent, 1)[0].id, 700);
}

#[test]
fn activity_that_could_not_be_written_is_in_the_next_write() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let execute = |statements: &str| {
        served.state.database.write(|transaction| transaction.execute_batch(statements)).unwrap();
    };
    let stored = |table: &str| -> i64 {
        let query = format!("SELECT count(*) FROM {table}");
        served.state.database.read(|connection| connection.query_row(&query, [], |row| row.get(0))).unwrap()
    };
    // The transaction fails at its first table, so nothing of it is stored.
    execute("CREATE TRIGGER refuse BEFORE INSERT ON minutes BEGIN SELECT RAISE(FAIL, 'refused'); END");
    served.state.record(vec![observation(60_000, 1.0, true), observation(120_000, 2.0, false)]);
    served.state.flush();
    assert_eq!((stored("minutes"), stored("samples")), (0, 0));
    execute("DROP TRIGGER refuse");
    served.state.flush();
    // Both rows are recent, and one of them is rejected.
    assert_eq!((stored("minutes"), stored("samples"), stored("drift")), (2, 3, 1));
    let telemetry = served.state.telemetry();
    let drift = telemetry.drift.as_ref().unwrap().encode();
    let written: Vec<u8> = served
        .state
        .database
        .read(|connection| connection.query_row("SELECT data FROM drift", [], |row| row.get(0)))
        .unwrap();
    assert!(written == drift, "the monitor contains the rows of the failed write");
}

#[test]
fn rows_that_take_too_much_memory_are_dropped_and_counted() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let large = Observation { embedding: vec![0.0; 20 << 20], ..observation(0, 1.0, true) };
    served.state.record(vec![large]);
    served.state.record(vec![observation(0, 1.0, true)]);
    served.state.flush();
    assert_eq!(served.state.dropped_rows(), 1);
    assert_eq!(served.state.telemetry().samples.newest(Which::Recent, 10).len(), 1);
}

#[test]
fn the_drift_monitor_continues_after_an_undo() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let record = |time: u64| {
        served.state.record(vec![observation(time, 10.0, true)]);
        served.state.flush();
        let telemetry = served.state.telemetry();
        (telemetry.source.is_some(), telemetry.drift.as_ref().map_or(0, |drift| drift.monitor.rows()))
    };
    assert_eq!(record(0), (true, 1));
    let inserted = served.insert(100, 1).id;
    // The change has removed the threshold, so there are no held-out scores to compare with.
    assert_eq!(record(1), (false, 1));
    served.undo(inserted).unwrap();
    assert_eq!(record(2), (true, 2));
}

#[test]
fn an_acknowledged_alarm_is_stored_and_the_test_starts_again() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    assert_eq!(served.state.acknowledge_drift().unwrap_err().status, StatusCode::CONFLICT);
    let record = |served: &Served, first: u64| {
        served.state.record((first..first + 40).map(|i| observation(i, 1e9, false)).collect());
        served.state.flush();
    };
    record(&served, 100);
    let alarm = served.state.telemetry().drift.as_ref().unwrap().alarm_ms.unwrap();
    assert_eq!(served.state.acknowledge_drift().unwrap(), alarm);
    drop(served);
    let served = fixture.load();
    let read = |served: &Served| {
        let telemetry = served.state.telemetry();
        let drift = telemetry.drift.as_ref().unwrap();
        (drift.monitor.rows(), drift.alarm_ms.is_some(), drift.ended.iter().cloned().collect::<Vec<_>>())
    };
    let (rows, has_alarm, ended) = read(&served);
    assert_eq!((rows, has_alarm, ended.len(), ended[0].alarm_ms), (0, false, 1, Some(alarm)));
    // The rows still differ: the next test raises its own alarm.
    record(&served, 200);
    assert_eq!((read(&served).0, read(&served).1), (40, true));
    // If the acknowledgement cannot be written, it is refused, and nothing is changed.
    let execute = |statements: &str| {
        served.state.database.write(|transaction| transaction.execute_batch(statements)).unwrap();
    };
    execute("CREATE TRIGGER refuse BEFORE INSERT ON drift BEGIN SELECT RAISE(FAIL, 'refused'); END");
    let error = served.state.acknowledge_drift().unwrap_err();
    assert_eq!((error.status, read(&served).1), (StatusCode::SERVICE_UNAVAILABLE, true));
    execute("DROP TRIGGER refuse");
    // Without held-out scores the test cannot start again; with other scores it does.
    served.insert(100, 1);
    served.state.flush();
    let error = served.state.acknowledge_drift().unwrap_err();
    assert!(error.message.contains("paused"), "{}", error.message);
    served
        .change(|model| {
            let scores: Vec<f64> = (0..80).map(f64::from).collect();
            let threshold = calibrate(Measure::Epistemic, &scores, None, Target::Coverage(0.9)).unwrap();
            let mut rules = model.rules().clone();
            rules.set_threshold("epistemic", threshold, &scores).unwrap();
            Ok(Change::rules(model, "epistemic", rules))
        })
        .unwrap();
    served.state.flush();
    let (rows, has_alarm, ended) = read(&served);
    assert_eq!((rows, has_alarm), (0, false));
    assert_eq!(ended.iter().map(|test| test.ending.name()).collect::<Vec<_>>(), ["acknowledged", "replaced"]);
}

#[test]
fn rows_of_a_sharded_model_cannot_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = nuq_io::ShardWriter::new(folder.path(), false).unwrap();
    writer.write(&rows(0, 20)).unwrap();
    writer.write(&rows(20, 40)).unwrap();
    let Labels::Classes(classes) = labels(0, 60) else { unreachable!("labels are classes") };
    let params = NuqClassifier::params().n_neighbors(5);
    let model = Model::Classifier(params.fit_shards(&writer.open().unwrap(), &classes, None).unwrap());
    let fixed = nuq::Error::from(nuq_neighbors::Error::FixedShards);
    assert_eq!(Change::insert(&model, &rows(0, 1), labels(0, 1), None).err(), Some(fixed.clone()));
    assert_eq!(Change::remove(&model, &[3]).err(), Some(fixed));
    assert!(Change::relabel(&model, &[3], labels(1, 1)).is_ok());
}
