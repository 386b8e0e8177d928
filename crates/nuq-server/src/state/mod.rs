//! State that survives the process: an SQLite database and snapshots of models in one folder.
//!
//! - `journal`: changes of models (`change`). A change is committed before it is applied, and on the disk before it is acknowledged. Later
//!   changes can prevent its undo (`obstacle`).
//! - `snapshot`: model files from which recovery starts, so that the journal stays short.
//! - `recorder`: scored rows and requests, as sums per minute (`activity`), bounded samples (`samples`) and a drift monitor (`drift`).
//!
//! **Recovery.** The model is opened from its last snapshot, or from its own file, and the later changes of the journal are applied
//! again. The file must be the one that the changes were made to: its fingerprint is stored.
//!
//! **Without a folder** the same tables are in memory. Changes are then refused, unless the option `--ephemeral` or `--demo` is set. With
//! these options they are lost when the process ends.

mod activity;
mod change;
mod codec;
mod database;
mod drift;
mod ended_test;
mod error;
mod journal;
mod labels;
mod model_state;
mod observation;
pub(crate) mod observe;
mod obstacle;
mod recorder;
mod samples;
mod snapshot;
#[cfg(test)]
mod tests;

pub(crate) use activity::Interval;
pub(crate) use change::{Change, Kind};
pub(crate) use drift::WealthPoint;
pub(crate) use ended_test::EndedTest;
pub use error::StateError;
pub(crate) use journal::Summary;
pub(crate) use labels::Labels;
pub(crate) use model_state::{AppliedChange, ModelState};
pub(crate) use observation::Observation;
pub(crate) use recorder::Telemetry;
pub(crate) use samples::{Sample, SampleKind};

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nuq::{Device, FittedModel, Model};
use nuq_io::ModelFile;

use crate::Config;
use crate::file_rows::FileRows;
use database::Database;
use drift::DriftSource;
use model_state::Log;
use recorder::Recorder;
use snapshot::Base;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// Options of the state.
#[derive(Debug, Clone)]
pub(crate) struct StateOptions {
    /// The state folder; `None` if the tables are in memory.
    pub(crate) folder: Option<PathBuf>,
    /// Whether changes are accepted without a folder.
    pub(crate) is_ephemeral: bool,
    /// The probability of a false alarm of the drift monitor, in (0, 1).
    pub(crate) drift_alpha: f64,
}

impl StateOptions {
    pub(crate) fn of(config: &Config) -> Self {
        let Config { state, ephemeral, drift_alpha, .. } = config;
        Self { folder: state.clone(), is_ephemeral: *ephemeral, drift_alpha: *drift_alpha }
    }
}

/// Checks that the state can be used with the models of a configuration. The state folder is only read: no file in it is changed, and a
/// folder that does not exist is not created.
pub(crate) fn check(config: &Config) -> Result<(), StateError> {
    let Some(folder) = config.state.as_ref().filter(|folder| folder.exists()) else { return Ok(()) };
    if !folder.is_dir() {
        return Err(StateError::unusable(folder, "it is not a folder"));
    }
    let database = match Database::open_copy(folder) {
        // A running server uses the folder, so the state cannot be checked. This is not an error, so that the configuration of a running
        // server can be checked.
        Err(StateError::InUse { .. }) => return Ok(()),
        opened => opened?,
    };
    let state = State { database: Arc::new(database), drift_alpha: config.drift_alpha };
    config
        .models
        .iter()
        .try_for_each(|source| state.load(&source.name, &source.path, config.device, false).map(drop))
}

/// The state of all models.
pub(crate) struct State {
    database: Arc<Database>,
    drift_alpha: f64,
}

impl State {
    pub(crate) fn open(options: &StateOptions) -> Result<Self, StateError> {
        let database = match &options.folder {
            Some(folder) => Database::open(folder)?,
            None => Database::in_memory(options.is_ephemeral)?,
        };
        if let database::Writes::ReadOnly(problem) = &database.writes {
            let folder = database.folder().display().to_string();
            tracing::warn!(folder, problem, "the state folder is read-only: changes of models are refused");
        }
        Ok(Self { database: Arc::new(database), drift_alpha: options.drift_alpha })
    }

    /// Opens a model from its file, or from a snapshot, with all changes of the journal. If the model has pictures, the rows of its file
    /// are returned too.
    pub(crate) fn load(
        &self,
        name: &str,
        path: &Path,
        device: Device,
        has_pictures: bool,
    ) -> Result<(Model<'static>, Option<FileRows>, ModelState), StateError> {
        let folder = self.database.folder();
        let file = device.scope(|| nuq_io::open(path))?;
        file.require_rows()?;
        let fingerprint = file.fingerprint();
        drop(file);
        let mut new = Base { fingerprint, snapshot: None, change: 0, version: 1 };
        let base = match self.database.read(|connection| snapshot::read(connection, name))? {
            Some(base) if base.fingerprint == fingerprint => base,
            Some(base) if base.snapshot.is_some() || self.has_changes(name)? => {
                let problem = format!(
                    "it contains changes of the model {name}, but {} is not the file to which they were made (it may have been \
                     written since): restore that file, or use another state folder to serve the file without the changes",
                    path.display()
                );
                return Err(StateError::unusable(folder, problem));
            }
            former => {
                // A file that replaces another one gets a new version.
                new.version += former.map_or(0, |former| former.version);
                self.database.write(|transaction| snapshot::write(transaction, name, &new))?;
                new
            }
        };
        let version = base.version;
        let mut model = match &base.snapshot {
            Some(snapshot) => open_verified(&folder.join(snapshot), device)?.model,
            None => {
                let file = open_verified(path, device)?;
                if file.fingerprint() != fingerprint {
                    let problem = format!("{} was replaced while it was opened: start again", path.display());
                    return Err(StateError::unusable(folder, problem));
                }
                file.model
            }
        };
        // The rows of the file are hashed before the replay, because the replay changes rows. A snapshot already contains changes, so the
        // file is opened to hash its rows.
        let file_rows = match &base.snapshot {
            _ if !has_pictures => None,
            None => Some(FileRows::of(model.index().rows())),
            Some(_) => rows_of_file(name, path, device, fingerprint),
        };
        let Some(log) = self.replay(name, &base, &mut model)? else {
            // The failed change is marked now, so the next attempt leaves it out.
            return self.load(name, path, device, has_pictures);
        };
        if self.database.is_durable() {
            snapshot::remove_others(folder, name, base.snapshot.as_deref());
        }
        let seed = RandomState::new().hash_one(name);
        let source = DriftSource::of(model.rules());
        let recorder = Recorder::start(self.database.clone(), name, source, (self.drift_alpha, seed))?;
        let state = ModelState::new(name, self.database.clone(), log, recorder, version);
        Ok((model, file_rows, state))
    }

    fn has_changes(&self, name: &str) -> Result<bool, StateError> {
        Ok(!journal::newest(&self.database, name, (0, 1))?.is_empty())
    }

    /// Applies the changes after the snapshot again. `None` if the last change has panicked: it is marked as failed, and the model must be
    /// opened again, because it may have a part of the change.
    fn replay(&self, name: &str, base: &Base, model: &mut Model<'static>) -> Result<Option<Log>, StateError> {
        let mut log = Log::new(base.clone(), base.change);
        let mut failed: Option<(u64, String)> = None;
        let mut has_panicked = false;
        let mut has_later_changes = false;
        self.database.read(|connection| {
            journal::for_each_after(connection, name, base.change, |entry| {
                if failed.is_some() {
                    has_later_changes = true;
                    return Ok(());
                }
                match catch_unwind(AssertUnwindSafe(|| entry.change.apply(model))) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => failed = Some((entry.id, error.to_string())),
                    Err(_) => {
                        failed = Some((entry.id, "its application has panicked".to_owned()));
                        has_panicked = true;
                    }
                }
                log.add(entry.id, &entry.change);
                Ok(())
            })
        })?;
        if let Some((id, error)) = failed {
            // A change that fails when it is made is marked before the next one is made. Only the last change may have failed then and not be
            // marked, because the process was killed before that. A change before it was acknowledged.
            if has_later_changes {
                let problem = format!(
                    "the change {id} of the model {name} was made, but it cannot be applied again ({error}): start the version of nuq that \
                     has written it"
                );
                return Err(StateError::unusable(self.database.folder(), problem));
            }
            tracing::warn!(model = name, change = id, error, "a change cannot be applied");
            self.database.write(|transaction| journal::mark_failed(transaction, id))?;
        }
        if has_panicked {
            return Ok(None);
        }
        if log.changes > 0 {
            tracing::info!(model = name, changes = log.changes, "changes were applied again");
        }
        let snapshot = base.snapshot.as_ref().map(|name| self.database.folder().join(name));
        let size = snapshot.and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len());
        log.set_size_of_snapshot(size);
        Ok(Some(log))
    }
}

/// Opens a model file and reads all of it, so that damage is found before the model is served. A copy in memory is served, because the
/// file may be overwritten or shortened meanwhile. The shards of a sharded model are mapped, because they may exceed the memory.
pub(crate) fn open_verified(path: &Path, device: Device) -> Result<ModelFile, nuq_io::Error> {
    let file = device.scope(|| nuq_io::open_in_memory(path))?;
    file.require_rows()?;
    file.verify()?;
    Ok(file)
}

/// The rows of the file of a model that was opened from a snapshot. Only pictures need them, so an error does not prevent the start: it is
/// logged, and no row has a picture.
fn rows_of_file(name: &str, path: &Path, device: Device, fingerprint: u64) -> Option<FileRows> {
    let problem = match open_verified(path, device) {
        Ok(file) if file.fingerprint() == fingerprint => {
            return Some(FileRows::of(file.model.index().rows()));
        }
        Ok(_) => format!("{} was replaced while it was opened", path.display()),
        Err(error) => error.to_string(),
    };
    tracing::warn!(
        model = name,
        problem,
        "the model is served without pictures, because the rows of its file cannot be read: restore the file and start again"
    );
    None
}
