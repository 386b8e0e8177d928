//! Atomic file replacement: a path holds the complete new file or its previous contents.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf, is_separator};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nuq::nuq_neighbors::cancel::checkpoint;

use crate::Error;
use crate::file_bytes::verify_mapped_files;
use crate::folder::{Folder, folder_of};
use crate::partial_files::{PartialPath, partial_files};

/// A partial file, which is a new file under its temporary name, is removed if its process does not exist, it is not locked, and its last
/// change is at least this long ago. The time is needed because some file systems do not share locks between machines: a process on another
/// machine may still be writing the file.
const STALE: Duration = Duration::from_secs(60);

/// Writes a file under a temporary name in the same folder, flushes it to the disk, renames it and flushes the folder. If a step up to the renaming
/// fails, `path` keeps its previous contents and the temporary file is removed. If flushing the folder fails, `path` has the new contents, but a
/// power failure may bring back the previous contents.
///
/// An existing file keeps its permissions and, if the process may set them, its owner and its group. If the group cannot be set, the group and
/// other users get only the permissions that both of them had. A symbolic link is kept; the file that it points to is replaced. Stale temporary files that killed processes left for the same file are
/// removed.
///
/// A device or a pipe, such as `/dev/null`, is not replaced: the bytes are written to it.
///
/// In a program that called [`guard_mapped_files`](crate::guard_mapped_files), a file is not written if a mapped file was changed.
///
/// # Errors
/// [`Error::Write`] if `path` is a folder or a read-only file, if it ends in a slash, if its folder does not exist, if creating, writing, flushing or renaming
/// fails, or if a mapped file was changed as described above.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), Error> {
    write_atomically_if(path, write, || Ok(()))
}

/// Writes a file as [`write_atomically`] does, if `check` succeeds directly before the file is renamed.
pub(crate) fn write_atomically_if(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    check: impl FnOnce() -> io::Result<()>,
) -> Result<(), Error> {
    replace(path, write, check).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Checks that [`write_atomically`] can create or replace a file: call it before a long computation. A temporary file is
/// created and removed in the folder of `path`; `path` itself is not changed.
///
/// # Errors
/// [`Error::Write`] if the folder does not exist or is not writable, if `path` is a folder or a read-only file, or if it ends in a slash.
pub fn check_writable(path: &Path) -> Result<(), Error> {
    if is_device(path) {
        return Ok(());
    }
    match PartialFile::start(path) {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::Write { path: path.to_owned(), source }),
    }
}

/// Whether a path is a device or a pipe, which a file must not replace.
#[must_use]
pub fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Exchanges the names of two files or folders in one step, if the system and the file system can do so.
///
/// Returns whether they were exchanged. If not, nothing has changed.
#[must_use]
pub fn exchange_paths(first: &Path, second: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt;

        let name = |path: &Path| std::ffi::CString::new(path.as_os_str().as_bytes());
        let (Ok(first), Ok(second)) = (name(first), name(second)) else { return false };
        // A system call, because older versions of libc have no function for it.
        // SAFETY: both names are strings that end with zero and live until the call returns.
        let result = unsafe {
            libc::syscall(
                libc::SYS_renameat2,
                libc::AT_FDCWD,
                first.as_ptr(),
                libc::AT_FDCWD,
                second.as_ptr(),
                libc::RENAME_EXCHANGE,
            )
        };
        result == 0
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (first, second);
        false
    }
}

fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    check: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    if is_device(path) {
        let file = OpenOptions::new().write(true).open(path)?;
        let mut buffered = BufWriter::with_capacity(1 << 20, &file);
        return write(&mut buffered).and_then(|()| buffered.flush());
    }
    let (path, partial) = PartialFile::start(path)?;
    let mut buffered = BufWriter::with_capacity(1 << 20, &partial.file);
    let written = write(&mut buffered).and_then(|()| buffered.flush());
    drop(buffered);
    written.and_then(|()| partial.persist(&path, check))
}

/// Whether an error means that a path does not exist.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The path that a symbolic link points to, which need not exist; other paths are returned unchanged.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                path = path.parent().unwrap_or(Path::new("")).join(fs::read_link(&path)?);
            }
            Ok(_) => return Ok(path),
            Err(error) if is_missing(&error) => return Ok(path),
            // A link that cannot be examined must not be replaced by a file.
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "its symbolic links form a cycle"))
}

fn check_replaceable(path: &Path, existing: &Metadata) -> io::Result<()> {
    if existing.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder: give the name of a file"));
    }
    let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    // Renaming needs only permissions of the folder. The permissions of the file are respected nevertheless.
    if existing.permissions().readonly() || OpenOptions::new().write(true).open(path).is_err_and(is_denied) {
        let text = "it is read-only: make it writable or choose another name";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// Checks that a path that does not exist is not written as the path of a folder. Renaming a file to such a path would fail.
fn check_file_name(path: &Path) -> io::Result<()> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let ends_in_separator = |bytes: &[u8]| bytes.last().is_some_and(|&byte| is_separator(char::from(byte)));
    let ending = match bytes {
        [start @ .., b'.'] if ends_in_separator(start) => "/.",
        _ if ends_in_separator(bytes) => "/",
        _ => return Ok(()),
    };
    let text = format!("it ends in `{ending}`, and there is no such folder: give the name of a file");
    Err(io::Error::new(io::ErrorKind::IsADirectory, text))
}

/// Checks that a folder exists. Other errors of the operating system are not reported as a missing folder.
fn check_folder(folder: &Path) -> io::Result<()> {
    let exists = match fs::metadata(folder) {
        Ok(metadata) => metadata.is_dir(),
        Err(error) if is_missing(&error) => false,
        Err(error) => return Err(error),
    };
    if !exists {
        let text = "its folder does not exist: create the folder or choose another name";
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(())
}

/// Removes partial files of `path` that killed processes left. Errors are ignored: these files do not affect the result.
fn remove_stale_files(path: &Path) {
    let (Some(name), Ok(entries)) = (path.file_name(), fs::read_dir(folder_of(path))) else { return };
    let name = name.to_string_lossy();
    for entry in entries.flatten() {
        if let Some(process) = process_of(&entry.file_name().to_string_lossy(), &name)
            && is_stale(&entry.path(), process).unwrap_or(false)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a partial file is not being written: its process has ended, its lock is free, and it was not changed recently.
fn is_stale(partial: &Path, process: u32) -> io::Result<bool> {
    // In a folder of several users, another user may have created a link or a pipe with this name. Opening a pipe would block.
    if !fs::symlink_metadata(partial)?.is_file() {
        return Ok(false);
    }
    let file = OpenOptions::new().write(true).open(partial)?;
    let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
    Ok(has_ended(process) && age >= STALE && file.try_lock().is_ok())
}

/// The process that created the partial file `partial` of the file `name`; `None` if it is another file.
fn process_of(partial: &str, name: &str) -> Option<u32> {
    let numbers = partial.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".partial")?;
    let (process, number) = numbers.split_once('-')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

/// Whether a process does not exist. On a system without `/proc`, every process counts as ended; then only the lock
/// and the time of the last change show whether a file is being written.
fn has_ended(process: u32) -> bool {
    !Path::new("/proc").join(process.to_string()).exists()
}

/// A file under its temporary name. It is removed when dropped, unless [`persist`](Self::persist) has renamed it.
struct PartialFile {
    path: PathBuf,
    file: File,
}

impl PartialFile {
    /// Checks that `path` can be replaced, removes stale partial files and creates a new one. Also returns the path to replace,
    /// which differs from `path` if that is a symbolic link.
    fn start(path: &Path) -> io::Result<(PathBuf, Self)> {
        let path = follow_links(path)?;
        let existing = match fs::metadata(&path) {
            Ok(metadata) => Some(metadata),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        match &existing {
            Some(existing) => check_replaceable(&path, existing)?,
            None => check_file_name(&path).and_then(|()| check_folder(folder_of(&path)))?,
        }
        remove_stale_files(&path);
        let partial = Self::create(&path, existing.as_ref())?;
        Ok((path, partial))
    }

    /// Creates a new file in the folder of `path`. Its name differs from the names that other threads, other
    /// processes and killed processes use. It has the permissions of the file that it will replace.
    fn create(path: &Path, existing: Option<&Metadata>) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut partial_files = partial_files();
        loop {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            name.push(format!(".{}-{number}.partial", std::process::id()));
            let partial = path.with_file_name(name);
            match create_new(&partial, existing) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    // The lock shows other processes that the file is in use. Some file systems have no locks.
                    let _ = file.try_lock();
                    partial_files.push(PartialPath::always(partial.clone()));
                    // The list must not be locked when an error drops the file, because dropping it locks the list.
                    drop(partial_files);
                    let created = Self { path: partial, file };
                    if let Some(existing) = existing {
                        copy_permissions(existing, &created.file)?;
                    }
                    return Ok(created);
                }
            }
        }
    }

    /// Flushes the file to the disk and renames it to `path` if `check` succeeds. When this returns, the new name is on the disk too.
    fn persist(self, path: &Path, check: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.file.sync_all()?;
        verify_mapped_files()?;
        // The folder is opened before the file is renamed, so that an error leaves the previous file.
        let folder = Folder::open(folder_of(path))?;
        // Flushing may take long. A call that was interrupted in the meantime may already have ended, and must not replace a file after that.
        checkpoint();
        check()?;
        let mut partial_files = partial_files();
        fs::rename(&self.path, path)?;
        partial_files.retain(|other| other.path != self.path);
        drop(partial_files);
        folder.sync()
    }
}

/// Creates a file. If it will replace a file, only the owner can read it until it has the permissions of that file.
fn create_new(path: &Path, existing: Option<&Metadata>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if existing.is_some() {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = existing;
    options.open(path)
}

/// Copies the owner, the group and the permissions of a file.
#[cfg(unix)]
fn copy_permissions(existing: &Metadata, file: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let (created, mut permissions) = (file.metadata()?, existing.permissions());
    let is_same_owner = (created.uid(), created.gid()) == (existing.uid(), existing.gid());
    if !is_same_owner && !set_owner(existing, |owner, group| fchown(file, owner, group)) {
        permissions.set_mode(mode_for_other_group(permissions.mode()));
    }
    file.set_permissions(permissions)
}

#[cfg(not(unix))]
fn copy_permissions(existing: &Metadata, file: &File) -> io::Result<()> {
    file.set_permissions(existing.permissions())
}

/// Sets the owner and the group of `existing` by calls of `change_owner`. Only a privileged process can set another owner; other processes
/// can set a group that they belong to. Returns whether the group was set.
#[cfg(unix)]
fn set_owner(
    existing: &Metadata,
    mut change_owner: impl FnMut(Option<u32>, Option<u32>) -> io::Result<()>,
) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (owner, group) = (Some(existing.uid()), Some(existing.gid()));
    change_owner(owner, group).or_else(|_| change_owner(None, group)).is_ok()
}

/// The mode of a file that replaces a file of another group. The permissions of the former group are not those of the new one. Members of
/// either group may do what both the former group and all other users were permitted to do. The set-group-id bit is cleared.
#[cfg(unix)]
fn mode_for_other_group(mode: u32) -> u32 {
    let common = (mode >> 3) & mode & 0o7;
    mode & !0o2077 | common << 3 | common
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let mut partial_files = partial_files();
        // Renamed files are no longer in the list; files of the parent process are not in the list of a forked child.
        if let Some(at) = partial_files.iter().position(|other| other.path == self.path) {
            partial_files.remove(at);
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
    fn a_file_is_not_replaced_after_a_failed_check_or_an_interrupt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        write_atomically(&path, |file| file.write_all(b"old")).unwrap();
        let check = || Err(io::Error::other("replaced"));
        let error = write_atomically_if(&path, |file| file.write_all(b"new"), check).unwrap_err();
        assert!(error.to_string().ends_with(": replaced"), "{error}");
        // The interrupt comes after the last block was written.
        let token = nuq::CancelToken::new();
        let write = |file: &mut BufWriter<&File>| {
            token.cancel();
            file.write_all(b"new")
        };
        assert!(token.run(|| write_atomically(&path, write)).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn folders_are_exchanged_or_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        for path in [&first, &second] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("name"), path.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        let name = |path: &Path| fs::read_to_string(path.join("name")).unwrap();
        let is_exchanged = exchange_paths(&first, &second);
        let expected = if is_exchanged { ["second", "first"] } else { ["first", "second"] };
        assert_eq!([name(&first), name(&second)], expected);
        assert!(!exchange_paths(&first, &folder.path().join("missing")) && first.exists());
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_written_and_stay_devices() {
        let null = Path::new("/dev/null");
        check_writable(null).unwrap();
        write_atomically(null, |file| file.write_all(b"nothing")).unwrap();
        assert!(is_device(null) && !is_device(Path::new("/dev")) && !is_device(Path::new("/dev/missing")));
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
    fn a_folder_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_atomically(folder.path(), |_| Ok(())).unwrap_err();
        assert!(error.to_string().ends_with("it is a folder: give the name of a file"), "{error}");
    }

    /// The path of a folder that does not exist would fail only when the file is renamed, after the computation of its contents.
    #[test]
    fn a_name_that_ends_in_a_slash_is_an_error_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "old").unwrap();
        let names = [("models/", "/"), ("models//", "/"), ("models/.", "/."), ("file/", "/")];
        // Windows refuses the name of a file with a separator at its end before the check.
        for (name, ending) in names.into_iter().filter(|(name, _)| cfg!(unix) || *name != "file/") {
            let path = folder.path().join(name);
            let error = check_writable(&path).unwrap_err().to_string();
            let end =
                format!(": it ends in `{ending}`, and there is no such folder: give the name of a file");
            assert!(error.ends_with(&end), "{name}: {error}");
            assert!(write_atomically(&path, |_| panic!("the name is checked first")).is_err());
        }
        for name in ["models.", ".models"] {
            check_writable(&folder.path().join(name)).unwrap();
        }
        let error = check_writable(&folder.path().join(".")).unwrap_err().to_string();
        assert!(error.ends_with("it is a folder: give the name of a file"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_cannot_be_examined_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        // Links that form a cycle, and a name that is too long, cannot be examined with the permissions of any user.
        let cycle = folder.path().join("cycle");
        std::os::unix::fs::symlink(&cycle, &cycle).unwrap();
        for path in [cycle.join("result"), folder.path().join("x".repeat(300))] {
            assert!(follow_links(&path).unwrap_err().raw_os_error().is_some(), "{}", path.display());
        }
        fs::write(folder.path().join("file"), "").unwrap();
        for path in ["file", "missing", "file/below", "missing/below"].map(|name| folder.path().join(name)) {
            assert_eq!(follow_links(&path).unwrap(), path);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_cannot_be_examined_is_not_taken_for_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&link, &link).unwrap();
        assert!(check_folder(&link).unwrap_err().raw_os_error().is_some());
        let missing = check_folder(&folder.path().join("missing")).unwrap_err().to_string();
        assert!(missing.starts_with("its folder does not exist"), "{missing}");
    }

    #[test]
    fn a_missing_folder_is_an_error_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/result");
        let error = check_writable(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("its folder does not exist: create the folder or choose another name"),
            "{error}"
        );
    }

    #[test]
    fn check_writable_changes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        check_writable(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(&path, "old").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn an_existing_file_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        for mode in [0o600, 0o640, 0o666] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write_atomically(&path, |file| file.write_all(b"new")).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_group_is_set_if_the_owner_cannot_be_set() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let existing = file.as_file().metadata().unwrap();
        let (owner, group) = (Some(existing.uid()), Some(existing.gid()));
        let denied = || Err(io::ErrorKind::PermissionDenied.into());
        let mut calls = vec![];
        assert!(set_owner(&existing, |owner, group| {
            calls.push((owner, group));
            if owner.is_some() { denied() } else { Ok(()) }
        }));
        assert_eq!(calls, [(owner, group), (None, group)]);
        assert!(set_owner(&existing, |_, _| Ok(())) && !set_owner(&existing, |_, _| denied()));
    }

    #[cfg(unix)]
    #[test]
    fn another_group_gets_no_permissions_of_the_former_group() {
        for (mode, expected) in [
            (0o640, 0o600),
            (0o660, 0o600),
            (0o644, 0o644),
            (0o664, 0o644),
            (0o666, 0o666),
            (0o604, 0o600),
            (0o600, 0o600),
            (0o2660, 0o600),
            (0o100_640, 0o100_600),
        ] {
            assert_eq!(mode_for_other_group(mode), expected, "{mode:o}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn an_existing_file_keeps_its_group() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        fs::write(&path, "old").unwrap();
        let group = fs::metadata(&path).unwrap().gid() + 1;
        // Only a privileged process can set a group that it does not belong to.
        if chown(&path, None, Some(group)).is_err() {
            return;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write_atomically(&path, |file| file.write_all(b"new")).unwrap();
        let replaced = fs::metadata(&path).unwrap();
        assert_eq!((replaced.gid(), replaced.mode() & 0o7777), (group, 0o640));
    }

    #[test]
    fn a_read_only_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        fs::write(&path, "old").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        let error = write_atomically(&path, |file| file.write_all(b"new")).unwrap_err().to_string();
        assert!(error.ends_with("it is read-only: make it writable or choose another name"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_is_kept_and_its_target_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("models")).unwrap();
        let (target, link) = (folder.path().join("models/a"), folder.path().join("link"));
        symlink("models/a", &link).unwrap();
        // The target does not exist at first.
        for contents in ["first", "second"] {
            write_atomically(&link, |file| file.write_all(contents.as_bytes())).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert!(fs::symlink_metadata(&target).unwrap().is_file());
            assert_eq!(fs::read_to_string(&target).unwrap(), contents);
        }
        symlink("cycle", folder.path().join("cycle")).unwrap();
        let error = write_atomically(&folder.path().join("cycle"), |_| Ok(())).unwrap_err().to_string();
        assert!(error.ends_with("its symbolic links form a cycle"), "{error}");
    }

    /// Another user of a folder such as `/tmp` can guess the names of partial files.
    #[cfg(unix)]
    #[test]
    fn links_and_pipes_with_the_names_of_partial_files_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("result"), folder.path().join("other"));
        fs::write(&other, "of another user").unwrap();
        // The names of partial files contain a counter of this process, which other tests advance too.
        for number in 0..2_000 {
            let name = format!("result.{}-{number}.partial", std::process::id());
            std::os::unix::fs::symlink(&other, folder.path().join(name)).unwrap();
        }
        let pipe = folder.path().join("result.4194305-0.partial");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        write_atomically(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_to_string(&other).unwrap(), "of another user");
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stale_partial_files_of_ended_processes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        child.wait().unwrap();
        let old = std::time::SystemTime::now() - 2 * STALE;
        let create = |name: String, modified| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(modified).unwrap();
        };
        create(format!("result.{ended}-0.partial"), old);
        create(format!("result.{ended}-1.partial"), std::time::SystemTime::now());
        create(format!("result.{}-7.partial", std::process::id()), old);
        let locked = format!("result.{ended}-2.partial");
        create(locked.clone(), old);
        let writer = File::open(folder.path().join(&locked)).unwrap();
        writer.lock().unwrap();
        create(format!("other.{ended}-0.partial"), old);
        create(format!("result.x{ended}-0.partial"), old);
        write_atomically(&path, |file| file.write_all(b"new")).unwrap();
        let mut names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut expected = [
            "result".to_owned(),
            format!("result.{ended}-1.partial"),
            locked,
            format!("result.{}-7.partial", std::process::id()),
            format!("other.{ended}-0.partial"),
            format!("result.x{ended}-0.partial"),
        ];
        expected.sort();
        assert_eq!(names, expected);
    }
}
