//! Atomic file replacement: a path holds the complete new file or its previous contents.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;

/// Writes a file under a temporary name in the same directory, flushes it to the disk and renames it. If any step fails,
/// `path` keeps its previous contents and the temporary file is removed.
///
/// # Errors
/// [`Error::Write`] if `path` is not a regular file, or if creating, writing, flushing or renaming fails.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), Error> {
    let write_error = |source: io::Error| Error::Write { path: path.to_owned(), source };
    if path.is_dir() {
        return Err(write_error(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")));
    }
    if path.exists() && !path.is_file() {
        return Err(write_error(io::Error::new(io::ErrorKind::InvalidInput, "it is a device, not a file")));
    }
    let partial = PartialFile::create(path).map_err(write_error)?;
    let mut buffered = BufWriter::with_capacity(1 << 20, &partial.file);
    let written = write(&mut buffered).and_then(|()| buffered.flush());
    drop(buffered);
    written.and_then(|()| partial.persist(path)).map_err(write_error)
}

/// Removes every partially written file of this process and calls `then`, which should end the process. No file can be
/// created or renamed to its final name until `then` returns.
///
/// ```
/// nuq_io::stop_writing(|| println!("no partial file is left"));
/// ```
pub fn stop_writing<T>(then: impl FnOnce() -> T) -> T {
    let partial_files = partial_files();
    for path in partial_files.iter() {
        // The process is about to end; a failure could not be handled.
        let _ = fs::remove_file(path);
    }
    then()
}

/// Paths of the partially written files of one process.
struct Registry {
    /// The process that uses this registry; 0 if it is unused.
    process: AtomicU32,
    paths: Mutex<Vec<PathBuf>>,
}

/// A child of `fork` inherits the locks of its parent, possibly locked by a thread that does not exist in the child. Each
/// process therefore takes a registry of its own: the first one that no ancestor has taken. All of them are constants, so
/// that no initialization can be interrupted by a fork.
static REGISTRIES: [Registry; 32] =
    [const { Registry { process: AtomicU32::new(0), paths: Mutex::new(Vec::new()) } }; 32];

/// The registry of this process. Beyond 31 ancestors that all wrote files, processes share the last registry with an ancestor.
fn registry() -> &'static Registry {
    let process = std::process::id();
    let is_ours = |registry: &&Registry| match registry.process.compare_exchange(
        0,
        process,
        Ordering::Relaxed,
        Ordering::Relaxed,
    ) {
        Ok(_) => true,
        Err(owner) => owner == process,
    };
    let [.., last] = &REGISTRIES;
    REGISTRIES.iter().find(is_ours).unwrap_or(last)
}

fn partial_files() -> MutexGuard<'static, Vec<PathBuf>> {
    // A poisoned list is still valid: every change to it is a single call.
    registry().paths.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file under its temporary name. It is removed when dropped, unless [`persist`](Self::persist) has renamed it.
struct PartialFile {
    path: PathBuf,
    file: File,
}

impl PartialFile {
    /// Creates a new file in the directory of `path`. Its name differs from those of other threads, other processes and
    /// earlier processes that were killed.
    fn create(path: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut partial_files = partial_files();
        loop {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            name.push(format!(".{}-{number}.partial", std::process::id()));
            let partial = path.with_file_name(name);
            match File::create_new(&partial) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    partial_files.push(partial.clone());
                    return Ok(Self { path: partial, file });
                }
            }
        }
    }

    /// Flushes the file to the disk and renames it to `path`.
    fn persist(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        let mut partial_files = partial_files();
        fs::rename(&self.path, path)?;
        partial_files.retain(|other| *other != self.path);
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let mut partial_files = partial_files();
        // Renamed files are no longer in the list; files of the parent process are not in the list of a forked child.
        if let Some(at) = partial_files.iter().position(|other| *other == self.path) {
            partial_files.swap_remove(at);
            // The error that led here is already being returned.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_no_partial_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        write_atomically(&path, |file| file.write_all(b"old")).unwrap();
        let full = |file: &mut BufWriter<&File>| {
            file.write_all(b"half of the n")?;
            Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device"))
        };
        let error = write_atomically(&path, full).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write {}: no space left on device", path.display()));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write_atomically(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_panicking_writer_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        let write = || write_atomically(&path, |_| panic!("on purpose"));
        assert!(std::panic::catch_unwind(write).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_atomically(folder.path(), |_| Ok(())).unwrap_err();
        assert!(error.to_string().ends_with("it is a folder"), "{error}");
    }
}
