//! Writing files and lines so that nothing is ever half there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::error::Error;

/// Makes a folder and those above it.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    if path.exists() && !path.is_dir() {
        let source = io::Error::new(io::ErrorKind::NotADirectory, "it is a file, not a folder");
        return Err(Error::Write { path: path.to_owned(), source });
    }
    fs::create_dir_all(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Writes a file under a temporary name beside it and renames it, so that the final name holds all or nothing.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let failed = |source: io::Error| Error::Write { path: path.to_owned(), source };
    let mut file = File::create_new(&partial).map_err(failed)?;
    let write =
        file.write_all(contents).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&partial, path));
    write.map_err(|source| {
        // The write has failed already; that the rest cannot be removed either changes nothing.
        let _ = fs::remove_file(&partial);
        failed(source)
    })
}

/// Prints to stdout. A reader that has closed its end (`nuq … | head`) has seen enough and is no error.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| Error::Write { path: "standard output".into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_take_its_name_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        let error = write_file(&taken, b"data").unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot write {}", taken.display())));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_replaces_its_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        write_file(&path, b"old").unwrap();
        write_file(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
