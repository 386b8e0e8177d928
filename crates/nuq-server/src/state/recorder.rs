//! Records scored rows and requests on a separate thread, so that requests never wait for the recording.
//!
//! Sums per minute, samples of rows and the drift monitor are in memory, for the web page of the server, and are written to the database
//! from time to time. If the process is killed, the rows since the last write are lost. Changes of models are not lost, because they are
//! recorded in the journal and not here.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, params};

use super::activity::{Activity, Interval, MINUTES};
use super::database::Database;
use super::drift::{Drift, DriftSource};
use super::ended_test::Ending;
use super::samples::{Sample, SampleKind, Samples};
use super::{Observation, StateError};

/// Largest number of messages that wait for the thread. Further rows are not recorded, and they are counted;
/// further requests are not recorded.
const QUEUE: usize = 1024;

/// Largest number of bytes of the rows that wait.
const QUEUE_BYTES: usize = 64 << 20;

/// Time between writes of sums and drift.
const WRITE: Duration = Duration::from_secs(2);

/// Time between writes of samples, which are larger.
const WRITE_SAMPLES: Duration = Duration::from_secs(60);

enum Message {
    Rows {
        rows: Vec<Observation>,
        /// The number of bytes that the rows take.
        bytes: usize,
        /// The version of the model that has scored them.
        version: u64,
    },
    Request {
        time_ms: u64,
        seconds: f64,
    },
    /// The source of the drift monitor from a version of the model on.
    Rules(Option<DriftSource>, u64),
    /// Answered when the acknowledgement of the alarm is written.
    Acknowledge(SyncSender<Result<u64, NotAcknowledged>>),
    /// Answered when all earlier messages are recorded and written.
    Flush(SyncSender<()>),
    Stop,
}

/// Why an alarm cannot be acknowledged.
#[derive(Debug)]
pub(crate) enum NotAcknowledged {
    /// There is no alarm.
    NoAlarm,
    /// The model has no held-out scores with which the test could start again.
    Paused,
    /// The state cannot be written.
    State(StateError),
}

/// What the page shows of one model.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    pub(crate) activity: Activity,
    pub(crate) samples: Samples,
    /// The monitor. It is kept if its threshold is removed.
    pub(crate) drift: Option<Drift>,
    /// The threshold whose held-out scores are compared with new rows; `None` if the model has no held-out scores.
    pub(crate) source: Option<DriftSource>,
    /// The first version of the model that has this source. Rows that an earlier version has scored are not compared with it.
    source_version: u64,
    /// Whether `source` was set after the monitor was last written.
    has_new_source: bool,
}

impl Telemetry {
    /// Adds a row that a version of the model has scored.
    fn add(&mut self, mut row: Observation, version: u64) {
        let source = self.source.as_ref().filter(|_| version >= self.source_version);
        row.p_value = source.and_then(|source| source.p_value(&row));
        self.activity.add_row(row.time_ms, &row.accept);
        if let (Some(source), Some(drift)) = (source, &mut self.drift) {
            drift.add(source, &row);
        }
        self.samples.add(row);
    }

    /// Continues the monitor if it compares rows with the scores of `source` and has the same `alpha`, otherwise starts a new one. Without
    /// a source, the monitor is paused. `version` is the version of the model from which on it has the source.
    fn set_source(&mut self, source: Option<DriftSource>, version: u64, (alpha, seed): (f64, u64)) {
        if self.source != source {
            self.source_version = version;
        }
        if let Some(source) = &source {
            self.drift = match self.drift.take() {
                Some(drift) if drift.is_of(source) && drift.monitor.alpha() == alpha => Some(drift),
                Some(drift) => drift.restart(source, alpha, seed, Ending::Replaced),
                None => Drift::start(source, alpha, seed, super::now_ms()),
            };
        }
        self.source = source;
        self.has_new_source = true;
    }

    /// Marks the values of a failed write as changed, so that the next write contains them.
    fn keep_for_next_write(&mut self, pending: &PendingWrite) {
        if let Some(first) = pending.minutes.first() {
            self.activity.mark_changed(first.start_ms);
        }
        if pending.samples.is_some() {
            self.samples.mark_changed();
        }
        self.has_new_source |= pending.drift.is_some();
    }

    /// The test that follows the current one after its alarm is acknowledged, and the time of this alarm.
    fn acknowledged(&self, seed: u64) -> Result<(Drift, u64), NotAcknowledged> {
        let drift = self.drift.as_ref().ok_or(NotAcknowledged::NoAlarm)?;
        let alarm_ms = drift.alarm_ms.ok_or(NotAcknowledged::NoAlarm)?;
        let source = self.source.as_ref().ok_or(NotAcknowledged::Paused)?;
        let next = drift.restart(source, drift.monitor.alpha(), seed, Ending::Acknowledged);
        next.map(|next| (next, alarm_ms)).ok_or(NotAcknowledged::Paused)
    }

    fn read(from: &Connection, model: &str) -> rusqlite::Result<Self> {
        let minutes: Vec<String> = from
            .prepare("SELECT sums FROM minutes WHERE model = ?1 ORDER BY start_ms")?
            .query_map([model], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        // Entries that cannot be read, because another version of the program wrote them, are ignored: they are only displayed.
        let minutes = minutes.iter().filter_map(|sums| serde_json::from_str(sums).ok()).collect();
        let samples = |which: SampleKind| -> rusqlite::Result<Vec<Sample>> {
            let mut statement =
                from.prepare("SELECT id, data FROM samples WHERE model = ?1 AND sample = ?2 ORDER BY id")?;
            let rows = statement.query_map(params![model, which.name()], |row| {
                let id = row.get::<_, i64>(0)? as u64;
                Ok(Observation::decode(&row.get::<_, Vec<u8>>(1)?)
                    .map(|observation| Sample { id, observation }))
            })?;
            Ok(rows.collect::<rusqlite::Result<Vec<Option<Sample>>>>()?.into_iter().flatten().collect())
        };
        let drift: Option<Vec<u8>> = from
            .prepare("SELECT data FROM drift WHERE model = ?1")?
            .query_map([model], |row| row.get(0))?
            .next()
            .transpose()?;
        Ok(Self {
            activity: Activity::restored(minutes),
            samples: Samples::restored(samples(SampleKind::Recent)?, samples(SampleKind::Rejected)?),
            drift: drift.and_then(|bytes| Drift::decode(&bytes)),
            source: None,
            source_version: 0,
            has_new_source: false,
        })
    }
}

/// Values that are written together.
struct PendingWrite {
    minutes: Vec<Interval>,
    drift: Option<Vec<u8>>,
    samples: Option<[Vec<Arc<Sample>>; 2]>,
}

impl PendingWrite {
    fn write(&self, to: &Transaction<'_>, model: &str) -> rusqlite::Result<()> {
        for minute in &self.minutes {
            let sums = serde_json::to_string(minute).expect("the sums have string keys only");
            to.prepare_cached("INSERT OR REPLACE INTO minutes (model, start_ms, sums) VALUES (?1, ?2, ?3)")?
                .execute(params![model, minute.start_ms as i64, sums])?;
        }
        if let Some(last) = self.minutes.last() {
            // Later minutes were recorded while the clock was ahead. Of the others, the same number is kept as in memory.
            to.execute(
                "DELETE FROM minutes WHERE model = ?1 AND start_ms > ?2",
                params![model, last.start_ms as i64],
            )?;
            to.execute(
                "DELETE FROM minutes WHERE model = ?1 AND start_ms < \
                 (SELECT start_ms FROM minutes WHERE model = ?1 ORDER BY start_ms DESC LIMIT 1 OFFSET ?2)",
                params![model, MINUTES as i64 - 1],
            )?;
        }
        if let Some(drift) = &self.drift {
            write_drift(to, model, drift)?;
        }
        for (which, rows) in SampleKind::ALL.into_iter().zip(self.samples.iter().flatten()) {
            let oldest = rows.last().map_or(i64::MAX, |sample| sample.id as i64);
            to.execute(
                "DELETE FROM samples WHERE model = ?1 AND sample = ?2 AND id < ?3",
                params![model, which.name(), oldest],
            )?;
            let mut insert = to.prepare_cached(
                "INSERT OR IGNORE INTO samples (model, sample, id, data) VALUES (?1, ?2, ?3, ?4)",
            )?;
            for sample in rows {
                insert.execute(params![
                    model,
                    which.name(),
                    sample.id as i64,
                    sample.observation.encode()
                ])?;
            }
        }
        Ok(())
    }
}

fn write_drift(to: &Transaction<'_>, model: &str, drift: &[u8]) -> rusqlite::Result<()> {
    to.execute("INSERT OR REPLACE INTO drift (model, data) VALUES (?1, ?2)", params![model, drift])?;
    Ok(())
}

fn spawn(
    thread: std::thread::Builder,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StateError> {
    thread.spawn(work).map_err(StateError::Thread)
}

/// Sends messages to the thread, and gives access to the recorded values in memory.
pub(super) struct Recorder {
    sender: SyncSender<Message>,
    telemetry: Arc<Mutex<Telemetry>>,
    /// The number of bytes of the rows that wait.
    queued: Arc<AtomicUsize>,
    dropped: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Reads the values that were recorded before, and starts the thread.
    pub(super) fn start(
        database: Arc<Database>,
        model: &str,
        source: Option<DriftSource>,
        options: (f64, u64),
    ) -> Result<Self, StateError> {
        let mut telemetry = database.read(|connection| Telemetry::read(connection, model))?;
        telemetry.set_source(source, 0, options);
        let telemetry = Arc::new(Mutex::new(telemetry));
        let (sender, receiver) = sync_channel(QUEUE);
        let queued = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            queued: queued.clone(),
            database,
            model: model.to_owned(),
            telemetry: telemetry.clone(),
            options,
            is_failing: false,
        };
        let thread = std::thread::Builder::new().name(format!("record {model}"));
        let thread = spawn(thread, move || worker.run(&receiver))?;
        Ok(Self { sender, telemetry, queued, dropped: AtomicU64::new(0), thread: Mutex::new(Some(thread)) })
    }

    pub(super) fn telemetry(&self) -> MutexGuard<'_, Telemetry> {
        // After a panic of another thread the values can still be used: at most one row is recorded in part.
        self.telemetry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rows(&self, rows: Vec<Observation>, version: u64) {
        let count = rows.len() as u64;
        let bytes = rows.iter().map(Observation::bytes).sum();
        let has_space = self.queued.fetch_add(bytes, Ordering::Relaxed) + bytes <= QUEUE_BYTES;
        if !has_space || self.sender.try_send(Message::Rows { rows, bytes, version }).is_err() {
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(super) fn request(&self, time_ms: u64, seconds: f64) {
        // A dropped request is only missing in the sums that the page shows.
        let _ = self.sender.try_send(Message::Request { time_ms, seconds });
    }

    /// The number of rows that were not recorded, because they arrived faster than they could be recorded.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Sets the source of the drift monitor after a change of the rules, which the model has from this version on. It waits for space in the queue, because this message must not be
    /// dropped.
    pub(super) fn rules(&self, source: Option<DriftSource>, version: u64) {
        let _ = self.sender.send(Message::Rules(source, version));
    }

    /// Acknowledges the alarm of the drift monitor and returns the time of the alarm. The monitor starts again. If there is a state
    /// folder, this blocks until the new monitor is on the disk.
    pub(super) fn acknowledge(&self) -> Result<u64, NotAcknowledged> {
        let (done, result) = sync_channel(1);
        // Sending and receiving fail only if the thread has ended. Then no alarm can be acknowledged.
        self.sender.send(Message::Acknowledge(done)).map_err(|_| NotAcknowledged::NoAlarm)?;
        result.recv().map_err(|_| NotAcknowledged::NoAlarm)?
    }

    /// Waits until everything is recorded and written.
    pub(super) fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        if self.sender.send(Message::Flush(done)).is_ok() {
            let _ = is_done.recv();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Stop);
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// The thread of a recorder.
struct Worker {
    queued: Arc<AtomicUsize>,
    database: Arc<Database>,
    model: String,
    telemetry: Arc<Mutex<Telemetry>>,
    /// The probability of a false alarm of the drift monitor, and the seed of the first monitor.
    options: (f64, u64),
    /// Whether the last write failed. Only the first of consecutive failures is logged.
    is_failing: bool,
}

impl Worker {
    fn run(mut self, receiver: &Receiver<Message>) {
        let (mut next, mut next_samples) = (Instant::now() + WRITE, Instant::now() + WRITE_SAMPLES);
        loop {
            let message = receiver.recv_timeout(next.saturating_duration_since(Instant::now()));
            let mut is_last = false;
            let mut flushed = None;
            match message {
                Ok(Message::Rows { rows, bytes, version }) => {
                    self.queued.fetch_sub(bytes, Ordering::Relaxed);
                    let mut telemetry = self.telemetry();
                    rows.into_iter().for_each(|row| telemetry.add(row, version));
                }
                Ok(Message::Request { time_ms, seconds }) => {
                    self.telemetry().activity.add_request(time_ms, seconds);
                }
                Ok(Message::Rules(source, version)) => {
                    let options = (self.options.0, self.next_seed());
                    self.telemetry().set_source(source, version, options);
                }
                Ok(Message::Acknowledge(done)) => {
                    let _ = done.send(self.acknowledge());
                }
                Ok(Message::Flush(done)) => flushed = Some(done),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => is_last = true,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            let is_forced = is_last || flushed.is_some();
            if is_forced || now >= next {
                let with_samples = is_forced || now >= next_samples;
                self.write(with_samples);
                next = Instant::now() + WRITE;
                if with_samples {
                    next_samples = Instant::now() + WRITE_SAMPLES;
                }
            }
            if let Some(done) = flushed {
                let _ = done.send(());
            }
            if is_last {
                return;
            }
        }
    }

    fn telemetry(&self) -> MutexGuard<'_, Telemetry> {
        self.telemetry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seed of the next monitor. It differs from earlier seeds, so that monitors of a model make different random choices.
    fn next_seed(&self) -> u64 {
        self.options.1 ^ super::now_ms()
    }

    /// Acknowledges the alarm. The new monitor replaces the current one after it is written.
    fn acknowledge(&self) -> Result<u64, NotAcknowledged> {
        let (next, alarm_ms) = self.telemetry().acknowledged(self.next_seed())?;
        if self.database.is_durable() {
            let drift = next.encode();
            self.database
                .write(|transaction| write_drift(transaction, &self.model, &drift))
                .map_err(NotAcknowledged::State)?;
        }
        self.telemetry().drift = Some(next);
        Ok(alarm_ms)
    }

    fn write(&mut self, with_samples: bool) {
        if !self.database.is_durable() {
            return;
        }
        let pending = {
            let mut telemetry = self.telemetry();
            let minutes = telemetry.activity.take_changed();
            let samples = (with_samples && telemetry.samples.take_changed())
                .then(|| SampleKind::ALL.map(|which| telemetry.samples.newest(which, usize::MAX)));
            // The monitor changes with new rows, and with new held-out scores.
            let is_new = std::mem::take(&mut telemetry.has_new_source) || !minutes.is_empty();
            let drift = telemetry.drift.as_ref().filter(|_| is_new).map(Drift::encode);
            PendingWrite { minutes, drift, samples }
        };
        if pending.minutes.is_empty() && pending.samples.is_none() && pending.drift.is_none() {
            return;
        }
        let result = self.database.write(|transaction| pending.write(transaction, &self.model));
        if let Err(error) = &result
            && !self.is_failing
        {
            tracing::warn!(model = self.model, %error, "activity is not stored");
        }
        self.is_failing = result.is_err();
        if self.is_failing {
            self.telemetry().keep_for_next_write(&pending);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_thread_that_cannot_be_started_does_not_name_a_folder() {
        // No system has enough memory for this stack.
        let thread = std::thread::Builder::new().stack_size(usize::MAX / 4);
        let error = spawn(thread, || {}).unwrap_err().to_string();
        assert!(error.starts_with("cannot start the thread that records rows ("), "{error}");
    }
}
