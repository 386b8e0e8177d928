//! Exclusive access to the file of a model or baseline that is opened, changed and replaced.

use std::cell::Cell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use nuq::Model;
use nuq_eval::baselines::Scorer;

use crate::baseline::save_baseline_if;
use crate::model::{Check, save_if};
use crate::{BaselineDetails, Error, shards};

/// An advisory lock on the file of a model or of a baseline. Processes that use the lock change the file one after
/// the other, so that no change is lost: they acquire the lock, [`open`](crate::open) the model, change it and
/// [`save`](Self::save) it. Readers need no lock.
///
/// ```
/// use nuq::{Embeddings, FittedModel, Model, NuqClassifier};
///
/// let x = Embeddings::from_rows(&[[0.0], [0.1], [1.0], [1.1]])?;
/// let model = Model::Classifier(NuqClassifier::params().n_neighbors(2).fit(&x, &["a", "a", "b", "b"])?);
/// let path = std::env::temp_dir().join(format!("nuq-lock-{}.nuq", std::process::id()));
/// nuq_io::save(&model, &path)?;
///
/// let lock = nuq_io::ModelLock::acquire(&path, || println!("another process changes the model"))?;
/// let mut opened = nuq_io::open(&path)?;
/// opened.model.remove_threshold("old");
/// lock.save(&opened.model)?;
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct ModelLock {
    path: PathBuf,
    /// The locked file: the file at `path`, or the manifest of a sharded model.
    locked_path: PathBuf,
    file: File,
}

impl ModelLock {
    /// Waits until no other process has the lock of the file, or of the folder of a sharded model, and acquires it.
    /// `on_wait` is called once before waiting. On file systems without locks, no lock is acquired.
    ///
    /// # Errors
    /// [`Error::Write`] if the file can be read but not written, [`Error::Read`] if it cannot be opened or locked for another reason.
    pub fn acquire(path: &Path, on_wait: impl FnOnce()) -> Result<Self, Error> {
        let mut on_wait = Some(on_wait);
        loop {
            let failed = |source| Error::Read { path: path.to_owned(), source };
            let lock = Self::lock(path, &mut on_wait)?;
            // The process that had the lock has usually replaced the file. Then the new file is locked.
            if lock.is_current().map_err(failed)? {
                return Ok(lock);
            }
        }
    }

    fn lock(path: &Path, on_wait: &mut Option<impl FnOnce()>) -> Result<Self, Error> {
        // Network file systems require write access for an exclusive lock; the file itself is never written.
        let locked_path = shards::manifest_of(path);
        let opened = OpenOptions::new().read(true).write(true).open(&locked_path);
        let file = opened.map_err(|source| open_error(path, &locked_path, source))?;
        lock_file(&file, || {
            if let Some(on_wait) = on_wait.take() {
                on_wait();
            }
        })
        .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), locked_path, file })
    }

    /// Whether the path still refers to the locked file.
    #[cfg(unix)]
    fn is_current(&self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let locked = identity(self.file.metadata()?);
        match self.locked_path.metadata() {
            Ok(current) => Ok(identity(current) == locked),
            // It was removed: if it is not written again, the next attempt to open it is an error.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the path still refers to a file. On systems other than Unix, the identity of a file cannot be compared portably.
    #[cfg(not(unix))]
    fn is_current(&self) -> io::Result<bool> {
        self.locked_path.try_exists()
    }

    /// Replaces the file by a model, as [`save`](crate::save) does, and releases the lock.
    ///
    /// # Errors
    /// [`Error::Replaced`] if a process without the lock has replaced or removed the file in the meantime, [`Error::Read`] if this cannot be
    /// determined, and the errors of [`save`](crate::save).
    pub fn save(self, model: &Model<'_>) -> Result<(), Error> {
        self.replace(|path, check| save_if(model, path, check))
    }

    /// Replaces the file by a baseline, as [`save_baseline`](crate::save_baseline) does, and releases the lock.
    ///
    /// # Errors
    /// [`Error::Replaced`] if a process without the lock has replaced or removed the file in the meantime, [`Error::Read`] if this cannot be
    /// determined, and the errors of [`save_baseline`](crate::save_baseline).
    pub fn save_baseline(self, scorer: &dyn Scorer, details: &BaselineDetails) -> Result<(), Error> {
        self.replace(|path, check| save_baseline_if(scorer, details, path, check))
    }

    fn replace(self, write: impl FnOnce(&Path, &Check<'_>) -> Result<(), Error>) -> Result<(), Error> {
        // The first check avoids unnecessary work. Writing may take long, so the second one is made directly before the file is replaced.
        self.check_current()?;
        let refused = Cell::new(None);
        let check = || {
            self.check_current().map_err(|error| {
                let source = io::Error::other(error.to_string());
                refused.set(Some(error));
                source
            })
        };
        let written = write(&self.path, &check);
        refused.into_inner().map_or(written, Err)
    }

    /// Fails if the path does not refer to the locked file any more.
    fn check_current(&self) -> Result<(), Error> {
        match self.is_current() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Replaced { path: self.path.clone() }),
            Err(source) => Err(Error::Read { path: self.path.clone(), source }),
        }
    }
}

/// The error of a model at `path` whose file `locked_path` cannot be opened for writing.
fn open_error(path: &Path, locked_path: &Path, source: io::Error) -> Error {
    let is_denied =
        matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
    if is_denied && File::open(locked_path).is_ok() {
        let text = "it is read-only: make it writable or choose another name";
        return Error::Write { path: locked_path.to_owned(), source: io::Error::new(source.kind(), text) };
    }
    Error::Read { path: path.to_owned(), source }
}

/// Waits until no other process has the lock of a file, and acquires it. `on_wait` is called before waiting. On file systems without
/// locks, no lock is acquired.
pub(crate) fn lock_file(file: &File, mut on_wait: impl FnMut()) -> io::Result<()> {
    until_locked(|| match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            on_wait();
            file.lock()
        }
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Ok(()),
    })
}

/// Calls `lock` again if a signal has interrupted it: such a call has not locked the file. A file system without locks is not an error.
fn until_locked(mut lock: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
            locked => return locked,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use nuq::{Embeddings, NuqClassifier};

    use super::*;
    use crate::save;

    fn model() -> Model<'static> {
        let x = Embeddings::from_rows(&[[0.0], [0.1], [1.0], [1.1]]).unwrap();
        Model::Classifier(NuqClassifier::params().n_neighbors(2).fit(&x, &["a", "a", "b", "b"]).unwrap())
    }

    #[test]
    fn an_interrupted_lock_is_acquired_later_and_other_errors_are_returned() {
        let locked = |results: &[Option<io::ErrorKind>]| {
            let mut results = results.iter();
            let next = || results.next().unwrap().map_or(Ok(()), |kind| Err(kind.into()));
            let locked = until_locked(next).map_err(|error| error.kind());
            assert_eq!(results.len(), 0);
            locked
        };
        let interrupted = Some(io::ErrorKind::Interrupted);
        assert_eq!(locked(&[interrupted, interrupted, None]), Ok(()));
        assert_eq!(locked(&[Some(io::ErrorKind::Unsupported)]), Ok(()));
        assert_eq!(locked(&[Some(io::ErrorKind::OutOfMemory)]), Err(io::ErrorKind::OutOfMemory));
    }

    /// The function is called with the error, because a privileged process can open a read-only file for writing.
    #[test]
    fn a_manifest_that_can_be_read_but_not_written_is_an_error_of_writing() {
        let folder = tempfile::tempdir().unwrap();
        let (model, manifest) = (folder.path(), folder.path().join("manifest.nuq"));
        let error_of = |kind: io::ErrorKind| open_error(model, &manifest, kind.into());
        assert!(
            matches!(error_of(io::ErrorKind::PermissionDenied), Error::Read { path, .. } if path == model)
        );
        std::fs::write(&manifest, "").unwrap();
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
            let error = error_of(kind);
            assert!(matches!(error, Error::Write { .. }), "{error:?}");
            let text = "it is read-only: make it writable or choose another name";
            assert_eq!(error.to_string(), format!("cannot write {}: {text}", manifest.display()));
        }
        assert!(matches!(error_of(io::ErrorKind::NotFound), Error::Read { path, .. } if path == model));
    }

    #[test]
    fn a_second_lock_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.nuq");
        save(&model(), &path).unwrap();
        let first = ModelLock::acquire(&path, || panic!("no other process holds the lock")).unwrap();
        let (waits, is_waiting) = mpsc::channel();
        let second = std::thread::spawn({
            let path = path.clone();
            move || ModelLock::acquire(&path, || waits.send(()).unwrap()).unwrap().save(&model())
        });
        is_waiting.recv().unwrap();
        first.save(&model()).unwrap();
        second.join().unwrap().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_while_the_new_one_is_written_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.nuq");
        save(&model(), &path).unwrap();
        let lock = ModelLock::acquire(&path, || {}).unwrap();
        let other = folder.path().join("other.nuq");
        let replaced = lock.replace(|path, check| {
            std::fs::write(&other, "of a process without the lock").unwrap();
            std::fs::rename(&other, path).unwrap();
            save_if(&model(), path, check)
        });
        assert!(matches!(replaced, Err(Error::Replaced { .. })), "{replaced:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"of a process without the lock");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_cannot_be_examined_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/m.nuq");
        std::fs::create_dir(folder.path().join("below")).unwrap();
        save(&model(), &path).unwrap();
        let lock = ModelLock::acquire(&path, || {}).unwrap();
        assert!(lock.is_current().unwrap());
        std::fs::rename(folder.path().join("below"), folder.path().join("moved")).unwrap();
        assert!(!lock.is_current().unwrap());
        std::fs::write(folder.path().join("below"), "not a folder").unwrap();
        // The path has a file in place of a folder. This is an error, not a replaced model.
        assert!(lock.is_current().is_err());
        assert!(matches!(lock.save(&model()), Err(Error::Read { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_missing_or_was_replaced_without_the_lock_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.nuq");
        save(&model(), &path).unwrap();
        let lock = ModelLock::acquire(&path, || {}).unwrap();
        save(&model(), &path).unwrap();
        let error = lock.save(&model()).unwrap_err();
        assert!(matches!(error, Error::Replaced { .. }), "{error}");
        assert!(ModelLock::acquire(&folder.path().join("none.nuq"), || {}).is_err());
    }
}
