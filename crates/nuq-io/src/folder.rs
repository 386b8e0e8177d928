//! New folders, and folders that are opened as files, to write their entries to the disk and to lock them.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use crate::lock::lock_file;

/// Creates a folder, and the folders that contain it, unless they exist. Their entries are on the disk when this function returns. Some systems
/// and file systems cannot write entries to the disk, or need not; there they are written later.
///
/// ```
/// let folder = std::env::temp_dir().join(format!("nuq-folder-{}", std::process::id()));
/// nuq_io::create_folder(&folder.join("models"))?;
/// assert!(folder.join("models").is_dir());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// A folder cannot be created, or its entry cannot be written.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let parent = folder_of(path);
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is not a folder")),
        // A path such as `.` is its own parent.
        Err(error) if error.kind() == io::ErrorKind::NotFound && parent != path => {
            if !parent.is_dir() {
                create_folder(parent)?;
            }
            match fs::create_dir(path) {
                // Another process has created the folder.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                created => created?,
            }
        }
        Err(error) => return Err(error),
    }
    // The entry of a folder that exists is written too: the process that created the folder may have been killed before it wrote the entry.
    Folder::open(parent)?.sync()
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
    fn a_folder_is_created_with_the_folders_that_contain_it() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a/b");
        create_folder(&new).unwrap();
        assert!(new.is_dir());
        create_folder(&new).unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(create_folder(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(create_folder(&file.join("below")).is_err());
        // The current folder is its own parent.
        create_folder(Path::new(".")).unwrap();
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
