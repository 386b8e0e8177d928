//! Writing so that a name holds all of a file or what it held before.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;

/// Writes a file under a temporary name beside it, makes sure that it is on the disk, and renames it. Whatever fails, the
/// final name holds all of the new file or what it held before, and nothing else is left behind.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), Error> {
    let failed = |source: io::Error| Error::Write { path: path.to_owned(), source };
    if path.is_dir() {
        return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")));
    }
    if path.exists() && !path.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is a device, not a file")));
    }
    let partial = Partial::beside(path).map_err(failed)?;
    let mut buffered = BufWriter::with_capacity(1 << 20, &partial.file);
    let written = write(&mut buffered).and_then(|()| buffered.flush());
    drop(buffered);
    written.and_then(|()| partial.finish(path)).map_err(failed)
}

/// Removes every file that is being written and calls `then`, before another can be begun or get its final name: for a
/// process that is about to end.
///
/// ```
/// nuq_io::stop_writing(|| println!("nothing is half-written"));
/// ```
pub fn stop_writing<T>(then: impl FnOnce() -> T) -> T {
    let partial_files = partial_files();
    for path in partial_files.iter() {
        // The process ends; there is nobody left to tell.
        let _ = fs::remove_file(path);
    }
    then()
}

/// The files that are being written, by any thread.
static PARTIAL_FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn partial_files() -> MutexGuard<'static, Vec<PathBuf>> {
    // The list is right after every statement: a thread that panicked did not leave it half-changed.
    PARTIAL_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file under its temporary name: removed when dropped, unless it is finished.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    /// A new file beside `path`, under a name that nobody has: not another thread, nor a run that was killed.
    fn beside(path: &Path) -> io::Result<Self> {
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

    /// Gives the file its final name once it is on the disk.
    fn finish(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        let mut partial_files = partial_files();
        fs::rename(&self.path, path)?;
        partial_files.retain(|other| *other != self.path);
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let mut partial_files = partial_files();
        if let Some(at) = partial_files.iter().position(|other| *other == self.path) {
            partial_files.swap_remove(at);
            // Writing has failed already; that the rest cannot be removed either changes nothing.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
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
    fn a_writer_that_panics_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        let write = || write_atomically(&path, |_| panic!("on purpose"));
        assert!(std::panic::catch_unwind(write).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_atomically(folder.path(), |_| Ok(())).unwrap_err();
        assert!(error.to_string().ends_with("it is a folder"), "{error}");
    }
}
