//! The state of one model: its changes, from the request to the journal and the model in memory, and its recorded rows.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use nuq::calibrate::Rules;
use nuq::{FittedModel, Label, Model};

use super::database::{Commit, Database};
use super::drift::DriftSource;
use super::recorder::{NotAcknowledged, Recorder};
use super::snapshot::{self, Base};
use super::{Change, Observation, StateError, Summary, Telemetry, journal, now_ms};
use crate::error::ApiError;
use crate::loaded_model::LoadedModel;

/// Largest number of changes that stay in the database after a snapshot contains them, for the list of changes and for undo.
const HISTORY: usize = 1000;

/// Largest number of bytes of the rows and rules of the changes that stay in the database after a snapshot contains them.
const HISTORY_BYTES: u64 = 64 << 20;

/// Number of changes after which a snapshot is written.
const CHANGES_PER_SNAPSHOT: usize = 10_000;

/// Number of bytes of changes after which a snapshot is written, or a quarter of the size of the last snapshot if this is more.
const BYTES_PER_SNAPSHOT: u64 = 16 << 20;

/// The size of the journal since the last snapshot.
pub(super) struct Log {
    pub(super) base: Base,
    /// The id of the last change.
    last: u64,
    /// The number of changes since the snapshot.
    pub(super) changes: usize,
    /// The number of bytes of these changes.
    bytes: u64,
    /// The number of bytes at which the next snapshot is written.
    next_bytes: u64,
    /// The number of changes at which the next snapshot is written.
    pub(super) next_changes: usize,
}

impl Log {
    /// A journal without changes after `last`.
    pub(super) fn new(base: Base, last: u64) -> Self {
        let (next_bytes, next_changes) = (BYTES_PER_SNAPSHOT, CHANGES_PER_SNAPSHOT);
        Self { base, last, changes: 0, bytes: 0, next_bytes, next_changes }
    }

    /// Sets the size of the last snapshot, which determines when the next one is written.
    pub(super) fn set_size_of_snapshot(&mut self, bytes: u64) {
        self.next_bytes = BYTES_PER_SNAPSHOT.max(bytes / 4);
    }

    pub(super) fn add(&mut self, id: u64, change: &Change) {
        self.last = id;
        self.changes += 1;
        self.bytes += change.bytes();
    }

    fn is_long(&self) -> bool {
        self.bytes >= self.next_bytes || self.changes >= self.next_changes
    }
}

/// The state of one model.
pub(crate) struct ModelState {
    name: String,
    pub(super) database: Arc<Database>,
    /// Locked during a change, so that changes of a model happen one after the other.
    log: Mutex<Log>,
    /// The id of a failed change that is not marked as failed in the journal. Recovery leaves out such a change only if it is the last one, so
    /// later changes are refused.
    unmarked: Mutex<Option<u64>>,
    recorder: Recorder,
    /// The version of the model when it was opened.
    pub(crate) first_version: u64,
}

/// A change that is in the journal and in the model.
#[derive(Debug)]
pub(crate) struct AppliedChange {
    pub(crate) id: u64,
    pub(crate) change: Change,
    /// The version of the model after the change.
    pub(crate) version: u64,
    /// The number of training rows after the change.
    pub(crate) rows: usize,
    /// Classes that the change added.
    pub(crate) new_classes: Vec<Label>,
    /// Names of the thresholds, sets and intervals that the change removed.
    pub(crate) removed_rules: Vec<String>,
    /// Whether a snapshot should be written.
    pub(crate) is_log_long: bool,
    commit: Commit,
}

/// The names of all rules.
fn rule_names(rules: &Rules) -> impl Iterator<Item = &String> {
    rules.thresholds.keys().chain(rules.sets.keys()).chain(rules.intervals.keys())
}

/// The classes of a classifier.
fn classes_of(model: &Model<'_>) -> Vec<Label> {
    match model {
        Model::Classifier(model) => model.classes().labels().to_vec(),
        Model::Regressor(_) => vec![],
    }
}

impl ModelState {
    pub(super) fn new(
        name: &str,
        database: Arc<Database>,
        log: Log,
        recorder: Recorder,
        first_version: u64,
    ) -> Self {
        let (log, unmarked) = (Mutex::new(log), Mutex::default());
        Self { name: name.to_owned(), database, log, unmarked, recorder, first_version }
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the state accepts changes. If not, [`change`](Self::change) returns an error with the reason.
    pub(crate) fn accepts_changes(&self) -> bool {
        self.check_changes().is_ok()
    }

    fn unmarked(&self) -> MutexGuard<'_, Option<u64>> {
        self.unmarked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if changes of this model are refused.
    fn check_changes(&self) -> Result<(), StateError> {
        self.database.check_writes()?;
        match *self.unmarked() {
            Some(change) => {
                let (folder, model) = (self.database.folder().to_owned(), self.name.clone());
                Err(StateError::NotMarked { folder, model, change })
            }
            None => Ok(()),
        }
    }

    /// Marks a change in the journal that was not applied. If this fails, all later changes are refused.
    fn mark_failed(&self, change: u64) {
        if let Err(error) = self.database.write(|transaction| journal::mark_failed(transaction, change)) {
            tracing::warn!(model = self.name, change, %error, "a failed change is not marked");
            *self.unmarked() = Some(change);
        }
    }

    /// Changes the served model, which `current` returns. `prepare` reads this model and returns the change. After success the change is
    /// in the journal and in the model; after a failure it is in neither. The change may be acknowledged to the client only after
    /// [`sync`](Self::sync). `change` and `sync` block: call them on a thread for blocking work.
    pub(crate) fn change(
        &self,
        current: impl Fn() -> Arc<LoadedModel>,
        prepare: impl FnOnce(&Model<'_>) -> Result<Change, ApiError>,
    ) -> Result<AppliedChange, ApiError> {
        self.change_with(current, |model, _| prepare(model))
    }

    fn change_with(
        &self,
        current: impl Fn() -> Arc<LoadedModel>,
        prepare: impl FnOnce(&Model<'_>, &Database) -> Result<Change, ApiError>,
    ) -> Result<AppliedChange, ApiError> {
        let mut log = self.log();
        self.check_changes()?;
        let loaded = current();
        let (change, classes_before) = {
            let model = loaded.read()?;
            (prepare(&model, &self.database)?, classes_of(&model))
        };
        let version = log.base.version + 1;
        let append = |transaction: &rusqlite::Transaction<'_>| {
            let id = journal::append(transaction, &self.name, now_ms(), &change)?;
            // Without a state folder there are no snapshots, after which old changes are removed. They are removed here instead.
            if !self.database.is_durable() {
                journal::prune(transaction, &self.name, (id, HISTORY, HISTORY_BYTES))?;
            }
            snapshot::write_version(transaction, &self.name, version)?;
            Ok(id)
        };
        let (id, commit) = self.database.commit(append)?;
        // The version increases even if the change cannot be applied, so that no version is used twice.
        log.base.version = version;
        let (result, rules, classes, rows) = {
            let mut contents = loaded.write();
            let result = match catch_unwind(AssertUnwindSafe(|| change.apply(&mut contents.model))) {
                Ok(result) => result,
                Err(panic) => {
                    loaded.set_failed_change(id);
                    drop(contents);
                    self.mark_failed(id);
                    resume_unwind(panic)
                }
            };
            if result.is_ok() {
                contents.version = version;
            }
            let model = &contents.model;
            (result, model.rules().clone(), classes_of(model), model.index().len())
        };
        if let Err(error) = result {
            self.mark_failed(id);
            return Err(ApiError::invalid(error.to_string()));
        }
        // Rows that were scored before the change have a lower version.
        self.recorder.rules(DriftSource::of(&rules), version);
        log.add(id, &change);
        let new_classes = classes.into_iter().filter(|label| !classes_before.contains(label)).collect();
        let removed_rules = rule_names(&change.rules_before)
            .filter(|name| rule_names(&rules).all(|other| other != *name))
            .cloned()
            .collect();
        let is_log_long = log.is_long();
        Ok(AppliedChange { id, change, version, rows, new_classes, removed_rules, is_log_long, commit })
    }

    /// Writes a snapshot if the journal is long, which [`AppliedChange::is_log_long`] states. Call it after clients can see the last change,
    /// because predictions of a version that they cannot see yet wait.
    pub(crate) fn shorten_journal(&self, current: impl Fn() -> Arc<LoadedModel>) {
        // Another change may have written the snapshot meanwhile.
        let mut log = self.log();
        if !self.database.is_durable() || !log.is_long() || self.unmarked().is_some() {
            return;
        }
        let loaded = current();
        let Ok(model) = loaded.read() else { return };
        // A snapshot has all rows in one file. The rows of a sharded model can exceed the memory and never change, so its changes are small.
        if model.index().rows().sharded().is_none() {
            self.snapshot(&mut log, &model);
        }
    }

    /// Waits until a change is on the disk. Changes that wait at the same time are written together.
    pub(crate) fn sync(&self, applied: &AppliedChange) -> Result<(), StateError> {
        self.database.sync(applied.commit)
    }

    /// Waits until all changes are on the disk.
    pub(crate) fn sync_all(&self) -> Result<(), StateError> {
        self.database.sync_all()
    }

    /// Reverses a change.
    pub(crate) fn undo(
        &self,
        current: impl Fn() -> Arc<LoadedModel>,
        id: u64,
    ) -> Result<AppliedChange, ApiError> {
        let conflict = |text: String| ApiError::new(StatusCode::CONFLICT, "conflict", text);
        self.change_with(current, |model, database| {
            let missing = || {
                let text = format!("there is no change {id} of this model, or it is too old to be undone");
                ApiError::not_found(text)
            };
            let since = journal::newest(database, &self.name, (id, usize::MAX))?;
            let summary = since.last().filter(|summary| summary.id == id).ok_or_else(missing)?;
            if let Some(obstacle) = summary.obstacle {
                return Err(conflict(obstacle.message(id)));
            }
            let change = database.read(|connection| journal::get(connection, &self.name, id))?;
            let inverse = change.ok_or_else(missing)?.inverse(id, model, summary.is_last);
            inverse.map_err(|error| conflict(format!("change {id} cannot be undone: {error}")))
        })
    }

    /// Replaces the file of the model and discards all changes. After the state is written, `replace` is called with the new version; it
    /// replaces the served model by the new one. Returns the number of discarded changes. If the file has not changed, nothing is done
    /// and `None` is returned. If the last write to the disk fails, the model is replaced and the error is returned.
    pub(crate) fn replace(
        &self,
        fingerprint: u64,
        rules: &Rules,
        replace: impl FnOnce(u64),
    ) -> Result<Option<usize>, StateError> {
        let mut log = self.log();
        if log.base.fingerprint == fingerprint {
            return Ok(None);
        }
        let base = Base { fingerprint, snapshot: None, change: 0, version: log.base.version + 1 };
        // After a failed write, the contents of the disk are not known, and acknowledged changes must not be discarded.
        self.database.check_disk()?;
        // If the folder is read-only, the database is a copy. The changes are then discarded only in the copy, until the
        // process ends.
        let (discarded, commit) = self.database.commit(|transaction| {
            snapshot::write(transaction, &self.name, &base)?;
            transaction.execute("DELETE FROM changes WHERE model = ?1", [&self.name])
        })?;
        // Rows that the former model scores have a lower version, so they are not compared with the scores of the new one.
        self.recorder.rules(DriftSource::of(rules), base.version);
        // The database has the new model from here on, so the new model is served, even if the next write to the disk fails.
        replace(base.version);
        *self.unmarked() = None;
        *log = Log::new(base, log.last);
        self.database.sync(commit)?;
        // After a power failure before this point, the database may still refer to the snapshot.
        if self.database.is_durable() {
            snapshot::remove_others(self.database.folder(), &self.name, None);
        }
        Ok(Some(discarded))
    }

    /// Calls `work` while no change of the model is made.
    pub(crate) fn between_changes<T>(&self, work: impl FnOnce() -> T) -> T {
        let _log = self.log();
        work()
    }

    /// Writes a snapshot. A failure is logged: the journal still contains all changes.
    pub(super) fn snapshot(&self, log: &mut Log, model: &Model<'_>) {
        let folder = self.database.folder();
        let result = snapshot::save(model, folder, &self.name, log.last).and_then(|file| {
            let mut base = log.base.clone();
            (base.snapshot, base.change) = (Some(file), log.last);
            self.database.write(|transaction| {
                snapshot::write(transaction, &self.name, &base)?;
                journal::prune(transaction, &self.name, (base.change, HISTORY, HISTORY_BYTES))
            })?;
            Ok(base)
        });
        match result {
            Ok(base) => {
                snapshot::remove_others(folder, &self.name, base.snapshot.as_deref());
                let file = base.snapshot.as_ref().map(|file| folder.join(file));
                let size = file.and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
                let last = base.change;
                *log = Log::new(base, last);
                log.set_size_of_snapshot(size);
            }
            Err(error) => {
                tracing::warn!(model = self.name, %error, "no snapshot was written");
                log.next_bytes = log.bytes + BYTES_PER_SNAPSHOT;
                log.next_changes = log.changes + CHANGES_PER_SNAPSHOT;
            }
        }
    }

    /// Up to `limit` changes, newest first.
    pub(crate) fn changes(&self, limit: usize) -> Result<Vec<Summary>, StateError> {
        journal::newest(&self.database, &self.name, (0, limit))
    }

    /// Records rows that were scored with a version of the model. It does not block: rows that arrive faster than they can be recorded are
    /// dropped and counted.
    pub(crate) fn record(&self, rows: Vec<Observation>, version: u64) {
        self.recorder.rows(rows, version);
    }

    /// Records an answered request and the time that it took.
    pub(crate) fn record_request(&self, seconds: f64) {
        self.recorder.request(now_ms(), seconds);
    }

    /// The number of rows that were not recorded.
    pub(crate) fn dropped_rows(&self) -> u64 {
        self.recorder.dropped()
    }

    /// The recorded sums per minute, samples and drift. Keep the guard only for a short time, because the recorder waits for it.
    pub(crate) fn telemetry(&self) -> MutexGuard<'_, Telemetry> {
        self.recorder.telemetry()
    }

    /// Acknowledges the alarm of the drift monitor: the test starts again. Returns the time of the alarm in milliseconds since 1970.
    /// Blocks until the acknowledgement is stored.
    pub(crate) fn acknowledge_drift(&self) -> Result<u64, ApiError> {
        // Without a state folder, the monitor and the acknowledgement are in memory, so nothing needs to be written.
        match self.database.check_writes() {
            Err(StateError::NoState) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let conflict = |text: &str| ApiError::new(StatusCode::CONFLICT, "conflict", text);
        self.recorder.acknowledge().map_err(|problem| match problem {
            NotAcknowledged::NoAlarm => conflict("the drift test has raised no alarm that could be acknowledged"),
            NotAcknowledged::Paused => conflict(
                "the drift test is paused, because the model has no threshold with scores of held-out rows: calibrate one, and the test \
                 starts again",
            ),
            NotAcknowledged::State(error) => error.into(),
        })
    }

    /// Waits until everything is recorded and written. It is called before the process ends.
    pub(crate) fn flush(&self) {
        self.recorder.flush();
    }
}
