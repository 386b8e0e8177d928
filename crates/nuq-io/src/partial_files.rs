//! The files that this process is writing. They are removed when the process ends before they are complete.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::TryLockError;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(unix)]
use std::time::{Duration, Instant};

use crate::folder::Folder;
use crate::manifest_before::ManifestBefore;

/// How long a signal handler waits for a thread that is creating or renaming a file. The thread that runs the handler can hold the lock
/// itself, if its memory is exhausted while it creates a file.
#[cfg(unix)]
const LOCK_LIMIT: Duration = Duration::from_secs(1);

/// Removes every partially written file of this process and calls `then`, which should end the process. No file can be
/// created or renamed to its final name until `then` returns.
///
/// ```
/// nuq_io::stop_writing(|| println!("no partial file is left"));
/// ```
pub fn stop_writing<T>(then: impl FnOnce() -> T) -> T {
    let partial_files = partial_files();
    remove_paths(&partial_files);
    then()
}

/// Removes every partially written file of this process. A signal handler that ends the process can call this function, because it neither
/// waits for a lock without a limit nor, for paths of usual length, allocates memory.
#[cfg(unix)]
pub(crate) fn abandon_writes() {
    // SAFETY: the pointer is null or comes from `Box::leak`, and no registry is changed or freed.
    let Some(registry) = (unsafe { CURRENT.load(Ordering::Acquire).as_ref() }) else { return };
    registry.remove_all(LOCK_LIMIT);
}

/// A file or folder that is removed when the process ends.
#[derive(Debug, Clone)]
pub(crate) struct PartialPath {
    pub(crate) path: PathBuf,
    /// The path is a shard, and remains if this manifest was replaced: the new manifest may list the shard.
    manifest: Option<Arc<ManifestBefore>>,
}

impl PartialPath {
    /// A path that no other process uses. It is always removed.
    pub(crate) fn always(path: PathBuf) -> Self {
        Self { path, manifest: None }
    }

    pub(crate) fn shard(path: PathBuf, manifest: &Arc<ManifestBefore>) -> Self {
        Self { path, manifest: Some(Arc::clone(manifest)) }
    }
}

/// Removes files and folders, the last first: a new folder of shards is removed after its shards, unless it contains other files.
/// Errors are ignored, because the process is about to end.
pub(crate) fn remove_paths(paths: &[PartialPath]) {
    for PartialPath { path, manifest } in paths.iter().rev() {
        let remove = || {
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        };
        match manifest {
            None => remove(),
            Some(manifest) => manifest.unless_replaced(Folder::try_lock, remove),
        }
    }
}

/// The registry of this process, or of the one that it was forked from.
static CURRENT: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

/// Paths of the partially written files of one process.
struct Registry {
    process: u32,
    paths: Mutex<Vec<PartialPath>>,
}

impl Registry {
    /// Removes the files, unless they belong to the parent of this process or the list stays locked for longer than `limit`. The list is
    /// locked from then on: no thread can create another file before the process ends.
    #[cfg(unix)]
    fn remove_all(&self, limit: Duration) {
        if self.process != std::process::id() {
            return;
        }
        let start = Instant::now();
        let paths = loop {
            match self.paths.try_lock() {
                Ok(paths) => break paths,
                // A poisoned list is still valid, see `partial_files`.
                Err(TryLockError::Poisoned(paths)) => break paths.into_inner(),
                Err(TryLockError::WouldBlock) if start.elapsed() < limit => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => return,
            }
        };
        remove_paths(&paths);
        std::mem::forget(paths);
    }
}

/// The registry of this process. A child of `fork` creates a new one, because a thread that does not exist in the child may
/// hold the lock of the parent's registry. Registries are never freed; a process creates one.
fn registry() -> &'static Registry {
    let process = std::process::id();
    let mut current = CURRENT.load(Ordering::Acquire);
    loop {
        // SAFETY: the pointer is null or comes from `Box::leak`, and no registry is changed or freed.
        if let Some(registry) = unsafe { current.as_ref() }
            && registry.process == process
        {
            return registry;
        }
        let new = Box::leak(Box::new(Registry { process, paths: Mutex::new(Vec::new()) }));
        match CURRENT.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return new,
            Err(other) => current = other,
        }
    }
}

/// The paths that [`stop_writing`] removes: partially written files, new shards that no manifest lists yet, and new
/// folders. They are removed from the last to the first, so a folder is removed after its shards.
pub(crate) fn partial_files() -> MutexGuard<'static, Vec<PartialPath>> {
    // A poisoned list is still valid: every change to it is a single call.
    registry().paths.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_own_partial_files_are_removed_and_the_wait_for_the_list_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let (file, of_parent) = (folder.path().join("file"), folder.path().join("of the parent"));
        fs::write(&file, "").unwrap();
        fs::write(&of_parent, "").unwrap();
        // The test does not use the registry of this process, which contains the partial files of the tests that run at the same time. The
        // tests of the command line cover processes that end during a write.
        let registry = |process, path: &Path| Registry {
            process,
            paths: Mutex::new(vec![PartialPath::always(path.to_owned())]),
        };
        registry(std::process::id() + 1, &of_parent).remove_all(Duration::ZERO);
        assert!(of_parent.exists());
        let own = registry(std::process::id(), &file);
        let locked = own.paths.lock().unwrap();
        own.remove_all(Duration::from_millis(5));
        assert!(file.exists());
        std::thread::scope(|scope| {
            scope.spawn(|| own.remove_all(Duration::from_secs(60)));
            std::thread::sleep(Duration::from_millis(20));
            drop(locked);
        });
        assert!(!file.exists());
    }
}
