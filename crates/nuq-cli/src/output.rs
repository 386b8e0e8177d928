//! Output files and standard output.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use nuq::Label;
use serde_json::{Value, json};

use crate::args::Common;
use crate::error::Error;

/// Creates a folder and its parents.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    if path.exists() && !path.is_dir() {
        let source = io::Error::new(io::ErrorKind::NotADirectory, "it is a file, not a folder");
        return Err(Error::Write { path: path.to_owned(), source });
    }
    fs::create_dir_all(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Rejects an output file that is also an input, or whose folder does not exist. Called before any work is done.
pub(crate) fn check_out(out: &Path, inputs: &[&Path]) -> Result<(), Error> {
    let is_same = |input: &&&Path| match (out.canonicalize(), input.canonicalize()) {
        (Ok(out), Ok(input)) => out == input,
        _ => false,
    };
    if let Some(input) = inputs.iter().find(is_same) {
        return Err(Error::Usage(format!(
            "--out {} would replace an input file: choose another name",
            input.display()
        )));
    }
    match out.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            let source = io::Error::new(io::ErrorKind::NotFound, "its folder does not exist");
            Err(Error::Write { path: out.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Writes a file atomically.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> Result<(), Error> {
    Ok(nuq_io::write_atomically(path, |file| file.write_all(contents))?)
}

/// A label as JSON: an integer if it fits into 64 bits, otherwise a string.
pub(crate) fn label_json(label: &Label) -> Value {
    match label {
        Label::Int(value) => i64::try_from(*value).map_or_else(|_| json!(value.to_string()), |v| json!(v)),
        Label::Text(text) => json!(text),
    }
}

/// Prints the summary of a command that writes a file: suppressed by `--quiet`, unless `--json` is given.
pub(crate) fn print_unless_quiet(common: &Common, text: &str) -> Result<(), Error> {
    if common.quiet && !common.json { Ok(()) } else { print(text) }
}

/// Prints to stdout. A closed pipe (`nuq … | head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| Error::Write { path: "standard output".into(), source }),
    }
}
