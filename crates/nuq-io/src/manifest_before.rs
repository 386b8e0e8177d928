//! The state of a manifest before shards are written into its folder, by which a failed fit decides whether its new shards may be removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::file_bytes::FileState;
use crate::folder::{Folder, FolderLock};

/// The manifest of a folder before shards are written into it.
///
/// Two processes can fit models to the same rows in the same folder. The shards of one process are then shards of the other one too. If the
/// first one fails, it must not remove shards that the manifest of the other one lists. A shard counts as new only if it did not exist before, and a
/// manifest is written after its shards. An unchanged manifest therefore lists no new shard.
#[derive(Debug)]
pub(crate) struct ManifestBefore {
    path: PathBuf,
    /// `None` if there is no manifest.
    state: Option<FileState>,
    /// Opened early, because later a process may have no free file descriptors.
    folder: Folder,
}

impl ManifestBefore {
    /// The manifest with the name `name`.
    pub(crate) fn read(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(name);
        Ok(Self { state: Self::state(&path)?, path, folder: Folder::open(folder)? })
    }

    /// Identifies the manifest.
    fn state(path: &Path) -> io::Result<Option<FileState>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(FileState::of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Calls `remove`, which removes new shards, unless the manifest was replaced or this cannot be determined. With the lock, no process
    /// replaces the manifest in the meantime. A signal handler can call this function if `lock` does not wait.
    pub(crate) fn unless_replaced<'a>(
        &'a self,
        lock: impl FnOnce(&'a Folder) -> Option<FolderLock<'a>>,
        remove: impl FnOnce(),
    ) {
        let Some(_lock) = lock(&self.folder) else { return };
        if Self::state(&self.path).is_ok_and(|now| now == self.state) {
            remove();
        }
    }
}
