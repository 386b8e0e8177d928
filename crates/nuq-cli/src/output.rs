//! Writing files and lines so that nothing is ever half there.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::error::Error;

/// Makes a folder and those above it.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Writes a file under a temporary name beside it and renames it, so that the final name holds all or nothing.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".nuq-").tempfile_in(folder)?;
        file.write_all(contents)?;
        file.as_file().sync_all()?;
        #[cfg(unix)]
        {
            // A temporary file is for its owner alone; a result is for whoever may read the folder's files.
            use std::os::unix::fs::PermissionsExt;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        }
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|source| Error::Write { path: path.to_owned(), source })
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
}
