//! Folders that are opened as files, to write their entries to the disk and to lock them.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use crate::Error;
use crate::lock::lock_file;

/// Writes the entries of a folder to the disk. Call it with the folder in which another folder was created; for files,
/// [`write_atomically`](crate::write_atomically) does the same. Some systems and file systems cannot do this, or need not; there the call has no
/// effect.
///
/// ```
/// let folder = std::env::temp_dir().join(format!("nuq-sync-{}", std::process::id()));
/// std::fs::create_dir(&folder)?;
/// nuq_io::sync_folder(&std::env::temp_dir())?;
/// # std::fs::remove_dir(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Write`] with the path of the folder if it cannot be opened, or if writing fails.
pub fn sync_folder(path: &Path) -> Result<(), Error> {
    let synced = Folder::open(path).and_then(|folder| folder.sync());
    synced.map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// The folder that holds a file or another folder.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// An opened folder.
#[derive(Debug)]
pub(crate) struct Folder(Option<File>);

impl Folder {
    /// Opens a folder. A folder that may be written but not read is not opened: it is not locked, and its entries are written by the system at
    /// some later time. Other systems than Unix cannot open folders as files.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if cfg!(not(unix)) {
            return Ok(Self(None));
        }
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Self(None)),
            opened => opened.map(|folder| Self(Some(folder))),
        }
    }

    /// Some file systems, such as network file systems, cannot write the entries of a folder and need not.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match self.0.as_ref().map_or(Ok(()), File::sync_all) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                Ok(())
            }
            synced => synced,
        }
    }

    /// Waits until no other process has locked the folder, and locks it. On file systems without locks, no lock is acquired.
    pub(crate) fn lock(&self) -> io::Result<FolderLock<'_>> {
        self.0.as_ref().map_or(Ok(()), |folder| lock_file(folder, || {}))?;
        Ok(FolderLock(self))
    }

    /// Locks the folder as [`lock`](Self::lock) does, but does not wait: `None` if another process has locked it.
    pub(crate) fn try_lock(&self) -> Option<FolderLock<'_>> {
        match self.0.as_ref().map_or(Ok(()), File::try_lock) {
            Ok(()) => Some(FolderLock(self)),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Some(FolderLock(self))
            }
            Err(_) => None,
        }
    }
}

/// A locked folder. The lock is released when the value is dropped.
#[must_use]
pub(crate) struct FolderLock<'f>(&'f Folder);

impl Drop for FolderLock<'_> {
    fn drop(&mut self) {
        // A child of `fork` has the same open file, so closing the file in this process might not release the lock.
        let _ = self.0.0.as_ref().map_or(Ok(()), File::unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        sync_folder(folder.path()).unwrap();
        let missing = folder.path().join("missing");
        let error = sync_folder(&missing);
        assert!(cfg!(not(unix)) || matches!(error, Err(Error::Write { path, .. }) if path == missing));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_has_one_lock() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| Folder::open(folder.path()).unwrap());
        let lock = first.lock().unwrap();
        assert!(second.try_lock().is_none());
        drop(lock);
        assert!(second.try_lock().is_some());
        assert!(first.try_lock().is_some());
    }
}
