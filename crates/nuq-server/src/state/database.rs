//! The SQLite database of the state.
//!
//! It has a write-ahead log. A commit writes to the log, and [`Database::sync`] waits until the log is on the disk: one call of the
//! operating system is enough for all commits that wait at that time. Without a state folder, the same tables are in memory.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StateError;

/// Version of the tables, in `PRAGMA user_version`.
const VERSION: i64 = 2;

const FILE: &str = "state.sqlite";

/// The name of the lock file.
const LOCK: &str = "lock";

/// The tables of the models, of the journal of their changes, of the sums per minute, of the samples of scored rows, and of the drift
/// monitors.
const TABLES: &str = "
CREATE TABLE models (
    name TEXT PRIMARY KEY,
    -- Identifies the file that the changes belong to.
    fingerprint INTEGER NOT NULL,
    -- The file that contains the model with all changes up to the id snapshot_change; NULL if there is no such file.
    snapshot TEXT,
    snapshot_change INTEGER NOT NULL DEFAULT 0,
    -- Increases by one with each change and each replacement of the file.
    version INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    time_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    ids BLOB NOT NULL,
    rows BLOB NOT NULL,
    labels TEXT NOT NULL,
    former_labels TEXT NOT NULL,
    weights BLOB,
    rules_before BLOB NOT NULL,
    rules_after BLOB,
    undoes INTEGER,
    undone_by INTEGER,
    failed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX changes_of_model ON changes (model, id);
CREATE TABLE minutes (
    model TEXT NOT NULL, start_ms INTEGER NOT NULL, sums TEXT NOT NULL, PRIMARY KEY (model, start_ms)
) STRICT, WITHOUT ROWID;
CREATE TABLE samples (
    model TEXT NOT NULL, sample TEXT NOT NULL, id INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (model, sample, id)
) STRICT;
CREATE TABLE drift (model TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT;
";

/// Statements that convert tables of version 1. Those tables do not contain the versions of the models. Each model gets a version that is
/// at least as large as every version that clients have seen, so later versions of the model are larger than these. The drift tests of
/// version 1 were stored in another format, without the list of earlier tests. They cannot be read, so the tests start again.
const FROM_VERSION_1: &str = "
DELETE FROM drift;
ALTER TABLE models ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
UPDATE models SET version = 1 + coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0);
";

/// Whether changes of models are accepted.
#[derive(Debug)]
pub(super) enum Writes {
    /// Changes are accepted, and are on the disk before they are acknowledged.
    Durable,
    /// Changes are accepted, and are only in memory.
    Ephemeral,
    /// Changes are refused, because there is no state folder.
    NoState,
    /// Changes are refused, because the state folder cannot be written. The text is the reason, mostly the message of the operating
    /// system or of SQLite.
    ReadOnly(String),
}

/// The number of a committed transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Commit(u64);

/// The database and its folder.
pub(super) struct Database {
    connection: Mutex<Connection>,
    /// The write-ahead log. `None` if SQLite itself writes every commit to the disk, or if the tables are in memory.
    log: Option<File>,
    /// The number of commits.
    commits: AtomicU64,
    /// The number of the last commit that is on the disk. It is locked while the log is written to the disk.
    synced: Mutex<u64>,
    /// The error of the first failed write to the disk. Afterward the contents of the disk are unknown, so changes are refused.
    sync_failure: OnceLock<String>,
    /// The state folder; `None` in memory.
    folder: Option<PathBuf>,
    pub(super) writes: Writes,
    /// The lock file of the folder. It is locked while this process uses the folder.
    _lock: Option<File>,
    /// A temporary folder with a copy of the database, if the state folder is only read.
    copy: Option<PathBuf>,
}

impl Database {
    /// Tables in memory.
    pub(super) fn in_memory(is_ephemeral: bool) -> Result<Self, StateError> {
        let memory = Path::new("memory");
        let connection = Connection::open_in_memory().map_err(|error| StateError::unusable(memory, error))?;
        create_tables(&connection).map_err(|error| StateError::unusable(memory, error))?;
        let writes = if is_ephemeral { Writes::Ephemeral } else { Writes::NoState };
        Ok(Self::new(connection, None, writes))
    }

    fn new(connection: Connection, folder: Option<&Path>, writes: Writes) -> Self {
        Self {
            connection: Mutex::new(connection),
            log: None,
            commits: AtomicU64::new(0),
            synced: Mutex::new(0),
            sync_failure: OnceLock::new(),
            folder: folder.map(Path::to_owned),
            writes,
            _lock: None,
            copy: None,
        }
    }

    /// Opens or creates the database in a folder. If the folder cannot be written, the database is only read, and changes are refused.
    pub(super) fn open(folder: &Path) -> Result<Self, StateError> {
        match lock(folder) {
            Ok(lock) => match connect(&folder.join(FILE), folder) {
                Ok(connection) => {
                    let log = has_log(&connection).then(|| {
                        // SQLite uses this file until the connection is closed.
                        let path = folder.join(format!("{FILE}-wal"));
                        File::options().create(true).append(true).open(path)
                    });
                    let log = log.transpose().map_err(|error| StateError::unusable(folder, error))?;
                    let mut database = Self::new(connection, Some(folder), Writes::Durable);
                    (database.log, database._lock) = (log, Some(lock));
                    Ok(database)
                }
                // For example, if the disk is full, the database can still be read from a copy in another folder. If the copy cannot be
                // used either, the first error is returned, because it is the cause.
                Err(error) => match Self::read_only(folder, error.to_string()) {
                    Ok(mut copy) => {
                        copy._lock = Some(lock);
                        Ok(copy)
                    }
                    Err(_) => Err(error),
                },
            },
            Err(LockError::InUse) => Err(StateError::InUse { folder: folder.to_owned() }),
            Err(LockError::NotWritable(problem)) => Self::locked_copy(folder, problem),
        }
    }

    /// Opens a copy of the database in an existing folder. No file of the folder is changed or created.
    pub(super) fn open_copy(folder: &Path) -> Result<Self, StateError> {
        Self::locked_copy(folder, "it is only read".to_owned())
    }

    /// Opens a copy of the database, unless another server uses the folder.
    fn locked_copy(folder: &Path, problem: String) -> Result<Self, StateError> {
        // A server that starts meanwhile cannot lock the folder, so the files do not change. If the lock file is absent or cannot be read,
        // the folder is read without a lock. A shared lock does not require that the file can be written.
        let lock = File::open(folder.join(LOCK)).ok();
        if let Some(Err(TryLockError::WouldBlock)) = lock.as_ref().map(File::try_lock_shared) {
            return Err(StateError::InUse { folder: folder.to_owned() });
        }
        let mut database = Self::read_only(folder, problem)?;
        database._lock = lock;
        Ok(database)
    }

    /// Opens a copy of the database, because SQLite cannot read a write-ahead log in a read-only folder.
    fn read_only(folder: &Path, problem: String) -> Result<Self, StateError> {
        let unusable = |error: std::io::Error| StateError::unusable(folder, error);
        let random = RandomState::new().hash_one(folder);
        let copy = std::env::temp_dir().join(format!("nuq-state-{}-{random:x}", std::process::id()));
        fs::create_dir(&copy).map_err(unusable)?;
        let copied = [FILE.to_owned(), format!("{FILE}-wal")].iter().try_for_each(|name| {
            match fs::copy(folder.join(name), copy.join(name)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
                // A copy keeps the permissions of the file, which may be read-only.
                Ok(_) => make_writable(&copy.join(name)),
            }
        });
        let connection = copied.map_err(unusable).and_then(|()| connect(&copy.join(FILE), folder));
        match connection {
            Ok(connection) => {
                let mut database = Self::new(connection, Some(folder), Writes::ReadOnly(problem));
                database.copy = Some(copy);
                Ok(database)
            }
            Err(error) => {
                // The error of the database is more informative than the error of a failed removal.
                let _ = fs::remove_dir_all(&copy);
                Err(error)
            }
        }
    }

    /// The state folder. If the tables are in memory, it is a placeholder for messages.
    pub(super) fn folder(&self) -> &Path {
        self.folder.as_deref().unwrap_or(Path::new("memory"))
    }

    /// Whether snapshots can be written into the folder.
    pub(super) fn is_durable(&self) -> bool {
        matches!(self.writes, Writes::Durable)
    }

    /// Fails if changes of models are refused.
    pub(super) fn check_writes(&self) -> Result<(), StateError> {
        match (&self.writes, self.sync_failure.get()) {
            (Writes::NoState, _) => Err(StateError::NoState),
            (Writes::ReadOnly(problem), _) | (_, Some(problem)) => {
                Err(StateError::NotWritable { folder: self.folder().to_owned(), problem: problem.clone() })
            }
            (Writes::Durable | Writes::Ephemeral, None) => Ok(()),
        }
    }

    /// Fails if an earlier write to the disk has failed.
    pub(super) fn check_disk(&self) -> Result<(), StateError> {
        self.sync_failure.get().map_or(Ok(()), |problem| {
            Err(StateError::NotWritable { folder: self.folder().to_owned(), problem: problem.clone() })
        })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A transaction that panicked was rolled back when it was dropped.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads from the database.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StateError> {
        read(&self.connection()).map_err(|error| StateError::unusable(self.folder(), error))
    }

    /// Runs one transaction. When this returns, its changes are on the disk; on failure nothing is changed.
    pub(super) fn write<T>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StateError> {
        let (result, commit) = self.commit(write)?;
        self.sync(commit)?;
        Ok(result)
    }

    /// Runs one transaction. When this returns, its changes survive the end of the process. After [`sync`](Self::sync) they also
    /// survive a power failure. On failure nothing is changed.
    pub(super) fn commit<T>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<(T, Commit), StateError> {
        let mut connection = self.connection();
        let run = |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = write(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        let result = run(&mut connection).map_err(|error| StateError::of_write(self.folder(), &error))?;
        Ok((result, Commit(self.commits.fetch_add(1, Ordering::AcqRel) + 1)))
    }

    /// Waits until a commit is on the disk.
    ///
    /// # Errors
    /// The log cannot be written to the disk. All later changes are refused.
    pub(super) fn sync(&self, commit: Commit) -> Result<(), StateError> {
        let Some(log) = &self.log else { return Ok(()) };
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= commit.0 {
            return Ok(());
        }
        // The sync includes the commits of all threads that wait for the lock.
        let last = self.commits.load(Ordering::Acquire);
        let problem = match self.sync_failure.get() {
            Some(problem) => problem.clone(),
            None => match log.sync_data() {
                Ok(()) => {
                    *synced = last;
                    return Ok(());
                }
                Err(error) => {
                    let problem = format!("{error}; restart the server after the cause is removed");
                    self.sync_failure.get_or_init(|| problem).clone()
                }
            },
        };
        Err(StateError::NotWritable { folder: self.folder().to_owned(), problem })
    }

    /// Waits until all commits are on the disk.
    ///
    /// # Errors
    /// As for [`sync`](Self::sync).
    pub(super) fn sync_all(&self) -> Result<(), StateError> {
        self.sync(Commit(self.commits.load(Ordering::Acquire)))
    }

    /// The number of the last commit that is on the disk, and the number of commits.
    #[cfg(test)]
    pub(super) fn synced(&self) -> (&Mutex<u64>, u64) {
        (&self.synced, self.commits.load(Ordering::Acquire))
    }

    /// Limits the size of the database. SQLite returns the error of a full disk for a write that would exceed the limit.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages: u32) {
        self.connection().pragma_update(None, "max_page_count", pages).expect("the pragma is valid");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            let _ = fs::remove_dir_all(copy);
        }
    }
}

fn connect(path: &Path, folder: &Path) -> Result<Connection, StateError> {
    let unusable = |error: rusqlite::Error| StateError::unusable(folder, error);
    let connection = Connection::open(path).map_err(unusable)?;
    let prepare = |connection: &Connection| {
        connection.busy_timeout(Duration::from_secs(5))?;
        // The lock file of the folder excludes other processes, so SQLite locks the database once and not for each transaction. A lock that
        // the system fails to release would block all later transactions of this process.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        // Some file systems do not support a write-ahead log. SQLite then uses another journal mode.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // With a log, `Database::sync` writes it to the disk. Otherwise SQLite must write every commit to the disk.
        connection.pragma_update(None, "synchronous", if has_log(connection) { "NORMAL" } else { "FULL" })?;
        // On macOS a plain sync does not reach the disk.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
    };
    match prepare(&connection).map_err(unusable)? {
        0 => create_tables(&connection).map_err(unusable)?,
        1 => transact(&connection, FROM_VERSION_1).map_err(unusable)?,
        VERSION => {}
        other => {
            let problem = format!(
                "its tables have version {other}, and this program reads version {VERSION}; use the program that wrote them, or \
                 another folder"
            );
            return Err(StateError::unusable(folder, problem));
        }
    }
    Ok(connection)
}

fn has_log(connection: &Connection) -> bool {
    let mode = connection.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
    mode.is_ok_and(|mode| mode == "wal")
}

fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    transact(connection, TABLES)
}

/// Runs statements that bring the tables to the current version.
fn transact(connection: &Connection, statements: &str) -> rusqlite::Result<()> {
    connection
        .execute_batch(&format!("BEGIN IMMEDIATE; {statements} PRAGMA user_version = {VERSION}; COMMIT;"))
}

enum LockError {
    InUse,
    NotWritable(String),
}

/// Creates the folder, and locks it for this process.
fn lock(folder: &Path) -> Result<File, LockError> {
    let not_writable = |error: std::io::Error| LockError::NotWritable(error.to_string());
    // The database writes its own folder to the disk, but not the folder that holds this one.
    nuq_io::create_folder(folder).map_err(not_writable)?;
    let file = File::options().create(true).append(true).open(folder.join(LOCK)).map_err(not_writable)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(LockError::InUse),
        // Some file systems do not support locks. The folder is then used without a lock.
        Err(TryLockError::Error(_)) | Ok(()) => probe(folder).map(|()| file).map_err(not_writable),
    }
}

/// Checks that files can be created. It is not enough that the lock file can be written: the folder may be read-only nevertheless.
fn probe(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!("probe-{}", std::process::id()));
    File::create(&path)?;
    fs::remove_file(&path)
}

fn make_writable(path: &Path) -> std::io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    #[cfg(unix)]
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    #[cfg(not(unix))]
    permissions.set_readonly(false);
    fs::set_permissions(path, permissions)
}
