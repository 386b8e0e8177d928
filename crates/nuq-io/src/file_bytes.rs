//! The bytes of a file: mapped, or copied into memory.
//!
//! A mapped file takes no time to open, and the system can reclaim its pages. It must not be changed while it is mapped. If another
//! process overwrites bytes, the map has the new bytes; [`FileBytes::verify_unchanged`] finds this after a search. An access to pages that another
//! process has cut off raises the signal SIGBUS, which ends the process unless [`guard_mapped_files`] or [`continue_after_lost_pages`] was
//! called. Replacing the file by renaming, as [`write_atomically`](crate::write_atomically) does, has no effect on a map. A copy in memory does not
//! depend on the file.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

#[cfg(unix)]
use memmap2::UncheckedAdvice;
use memmap2::{Mmap, MmapMut};

#[cfg(unix)]
use crate::lost_file;

/// Whether [`guard_mapped_files`] was called.
static IS_GUARDED: AtomicBool = AtomicBool::new(false);

/// The files that are mapped; empty if [`guard_mapped_files`] was not called.
static MAPPED: Mutex<Vec<Weak<MappedFile>>> = Mutex::new(Vec::new());

/// Protects a program against changes of the files that it maps: models, and arrays of at least 64 MiB.
///
/// - If a mapped file is shortened by another process, or cannot be read from the disk, the process ends with `exit_code` and a message
///   that names the file, and files that are being written are removed. Without this call, the signal SIGBUS would end the process.
/// - [`write_atomically`](crate::write_atomically) does not write a file if a mapped file was changed since it was mapped, because the
///   contents of the new file may have been computed from both versions of the mapped file.
///
/// This function sets the handler of SIGBUS for the whole process. A program calls it when it starts; a library must not call it. Systems
/// other than Unix do not have this signal.
pub fn guard_mapped_files(exit_code: i32) {
    IS_GUARDED.store(true, Ordering::Relaxed);
    #[cfg(unix)]
    lost_file::end_on_lost_file(exit_code);
    #[cfg(not(unix))]
    let _ = exit_code;
}

/// Lets the process continue when a mapped model file is shortened by another process, or cannot be read from the disk. The lost pages are
/// replaced by zeros, and every search in the rows of this file is then an error. Without this call, the process ends as described at
/// [`guard_mapped_files`], which must be called first. A server calls this function, because its other models are not affected. For the same
/// reason, [`write_atomically`](crate::write_atomically) then writes files although a mapped file was changed; a model is written only if its own
/// rows are unchanged.
///
/// Systems other than Unix do not have the signal SIGBUS; there this function has no effect.
pub fn continue_after_lost_pages() {
    IS_GUARDED.store(false, Ordering::Relaxed);
    #[cfg(unix)]
    lost_file::continue_after_lost_pages();
}

/// Fails if a file was changed since this process has mapped it. Files that are not mapped any more do not matter.
pub(crate) fn verify_mapped_files() -> io::Result<()> {
    // Without a guard the list is empty. A child of `fork` must not wait for its lock.
    if !IS_GUARDED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    mapped.iter().filter_map(Weak::upgrade).try_for_each(|file| file.verify_unchanged())
}

/// The bytes of a file.
#[derive(Debug)]
pub(crate) struct FileBytes {
    // Declared before `map`, so that it is dropped first: the range must not be registered after it is unmapped.
    #[cfg(unix)]
    registered: Option<lost_file::Registered>,
    map: Mmap,
    /// The file if it is mapped; `None` for a copy in memory.
    mapped: Option<Arc<MappedFile>>,
}

/// A file and its state when it was mapped.
#[derive(Debug)]
struct MappedFile {
    path: PathBuf,
    state: FileState,
    /// Whether a change was found. It is never reset: if the path names another file later, the mapped file has changed nevertheless.
    has_changed: AtomicBool,
}

impl MappedFile {
    /// A file that was mapped now. It is added to the list of mapped files if [`guard_mapped_files`] was called.
    fn new(path: &Path, state: FileState) -> Arc<Self> {
        // The current folder of the process may change later.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let file = Arc::new(Self { path, state, has_changed: AtomicBool::new(false) });
        if IS_GUARDED.load(Ordering::Relaxed) {
            let mut mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
            mapped.retain(|other| other.strong_count() > 0);
            mapped.push(Arc::downgrade(&file));
        }
        file
    }

    /// Verifies that the file was not written since it was mapped. Removing the file or replacing it by renaming is no error, because the
    /// mapped bytes do not change.
    fn verify_unchanged(&self) -> io::Result<()> {
        if !self.has_changed.load(Ordering::Relaxed) {
            // If the path cannot be examined, for example because the file was removed, there is no sign of a change.
            let now = fs::metadata(&self.path).map(|metadata| FileState::of(&metadata));
            if now.is_ok_and(|now| now != self.state && now.identity == self.state.identity) {
                self.has_changed.store(true, Ordering::Relaxed);
            } else {
                return Ok(());
            }
        }
        let text = format!(
            "{} was changed while it was in use: run the command or open the file again",
            self.path.display()
        );
        Err(io::Error::other(text))
    }
}

impl FileBytes {
    /// Maps a file.
    pub(crate) fn map(file: &File, path: &Path) -> io::Result<Self> {
        let state = FileState::of(&file.metadata()?);
        // SAFETY: the map is read-only, and all bytes are valid values. Another process can change or shorten the file, as it can with
        // every mapped file: see the documentation of the module.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self {
            #[cfg(unix)]
            registered: lost_file::register(&map, path),
            map,
            mapped: Some(MappedFile::new(path, state)),
        })
    }

    /// Copies a file into memory.
    pub(crate) fn copy(file: &File) -> io::Result<Self> {
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // Anonymous memory is aligned as a mapped file is, and a size that exceeds the memory is an error.
        let mut map = MmapMut::map_anon(len)?;
        (&mut &*file).read_exact(&mut map).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("it became shorter while it was read"),
            _ => error,
        })?;
        Ok(Self {
            #[cfg(unix)]
            registered: None,
            map: map.make_read_only()?,
            mapped: None,
        })
    }

    /// Verifies that a mapped file was not changed since it was mapped, and that none of its pages was lost
    /// ([`continue_after_lost_pages`]). A copy in memory never changes.
    pub(crate) fn verify_unchanged(&self) -> io::Result<()> {
        let Some(mapped) = &self.mapped else { return Ok(()) };
        #[cfg(unix)]
        if self.registered.as_ref().is_some_and(lost_file::Registered::has_lost_pages) {
            return Err(io::Error::other(format!(
                "{} was shortened by another process while it was in use, or the disk failed",
                mapped.path.display()
            )));
        }
        mapped.verify_unchanged()
    }

    /// Releases the pages of a mapped file. The next access reads them again, usually from the page cache of the system. A copy in
    /// memory is unchanged.
    pub(crate) fn release_pages(&self) {
        #[cfg(unix)]
        if self.mapped.is_some() {
            // SAFETY: the map is read-only, so its pages have the contents of the file, and the system reads them again at the next
            // access. An error leaves the pages in memory.
            let _ = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

/// Identity, length and time of the last change of a file. The time is `None` if the system does not report it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    /// Device and inode number of the file; zeros on systems other than Unix.
    identity: (u64, u64),
    len: u64,
    modified: Option<SystemTime>,
}

impl FileState {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let identity = (0, 0);
        Self { identity, len: metadata.len(), modified: metadata.modified().ok() }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::write_atomically;

    #[test]
    fn a_copy_does_not_depend_on_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"0123456789").unwrap();
        let copy = FileBytes::copy(&File::open(&path).unwrap()).unwrap();
        fs::write(&path, b"abc").unwrap();
        assert_eq!(&*copy, b"0123456789");
        copy.release_pages();
        assert_eq!(&*copy, b"0123456789");
    }

    #[test]
    fn released_pages_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"0123456789").unwrap();
        let mapped = FileBytes::map(&File::open(&path).unwrap(), &path).unwrap();
        assert_eq!(&*mapped, b"0123456789");
        mapped.release_pages();
        assert_eq!(&*mapped, b"0123456789");
    }

    #[cfg(unix)]
    #[test]
    fn changes_of_a_mapped_file_are_recognized_and_its_replacement_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"old").unwrap();
        let state = || FileState::of(&fs::metadata(&path).unwrap());
        let mapped = |state| MappedFile { path: path.clone(), state, has_changed: AtomicBool::new(false) };
        let first = mapped(state());
        first.verify_unchanged().unwrap();
        write_atomically(&path, |file| file.write_all(b"another file of the same name")).unwrap();
        first.verify_unchanged().unwrap();
        let second = mapped(state());
        fs::write(&path, b"shorter").unwrap();
        let error = second.verify_unchanged().unwrap_err().to_string();
        let expected = "was changed while it was in use: run the command or open the file again";
        assert_eq!(error, format!("{} {expected}", path.display()));
        // The mapped file has changed, although the path names another file now.
        write_atomically(&path, |file| file.write_all(b"another file")).unwrap();
        assert!(second.verify_unchanged().is_err());
        let third = mapped(state());
        fs::remove_file(&path).unwrap();
        third.verify_unchanged().unwrap();
    }

    /// The test changes the handler of the signal for all tests of this process; none of the others shortens a mapped file.
    #[cfg(unix)]
    #[test]
    fn lost_pages_are_zeros_and_an_error_of_their_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let map = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, vec![7; 1 << 18]).unwrap();
            (FileBytes::map(&File::open(&path).unwrap(), &path).unwrap(), path)
        };
        let ((lost, path), (whole, _)) = (map("lost"), map("whole"));
        lost_file::end_on_lost_file(3);
        continue_after_lost_pages();
        File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
        assert_eq!((lost[0], lost[(1 << 18) - 1]), (7, 0));
        let error = lost.verify_unchanged().unwrap_err().to_string();
        assert!(error.contains("lost was shortened by another process"), "{error}");
        // The pages stay lost, even if the file has all bytes again.
        fs::write(&path, vec![7; 1 << 18]).unwrap();
        assert!(lost.verify_unchanged().is_err());
        whole.verify_unchanged().unwrap();
        assert!(whole.iter().all(|&byte| byte == 7));
    }
}
