//! Writing so that a name holds all of a file or what it held before.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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
    let (partial, file) = create_beside(path).map_err(failed)?;
    let mut buffered = BufWriter::with_capacity(1 << 20, &file);
    let written = write(&mut buffered)
        .and_then(|()| buffered.flush())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&partial, path));
    written.map_err(|source| {
        // The write has failed already; that the rest cannot be removed either changes nothing.
        let _ = fs::remove_file(&partial);
        failed(source)
    })
}

/// A new file beside `path`, under a name that nobody has: not another thread, nor a run that was killed.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}-{number}.partial", std::process::id()));
        let partial = path.with_file_name(name);
        match File::create_new(&partial) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (partial, file)),
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
    fn a_folder_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_atomically(folder.path(), |_| Ok(())).unwrap_err();
        assert!(error.to_string().ends_with("it is a folder"), "{error}");
    }
}
