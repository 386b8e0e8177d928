//! Writing files and lines so that nothing is ever half there.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use nuq::Label;
use serde_json::{Value, json};

use crate::args::Common;
use crate::error::Error;

/// Makes a folder and those above it.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    if path.exists() && !path.is_dir() {
        let source = io::Error::new(io::ErrorKind::NotADirectory, "it is a file, not a folder");
        return Err(Error::Write { path: path.to_owned(), source });
    }
    fs::create_dir_all(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Refuses an output that would replace an input, or has no folder to go to: before any work is done.
pub(crate) fn check_out(out: &Path, inputs: &[&Path]) -> Result<(), Error> {
    let is_same = |input: &&&Path| match (out.canonicalize(), input.canonicalize()) {
        (Ok(out), Ok(input)) => out == input,
        _ => false,
    };
    if let Some(input) = inputs.iter().find(is_same) {
        return Err(Error::Usage(format!(
            "--out {} would replace what is read: give another name",
            input.display()
        )));
    }
    match out.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            let source = io::Error::new(io::ErrorKind::NotFound, "there is no such folder");
            Err(Error::Write { path: out.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Writes a file: all of it, or nothing.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> Result<(), Error> {
    Ok(nuq_io::write_atomically(path, |file| file.write_all(contents))?)
}

/// A label as JSON has it: a number where it is one.
pub(crate) fn label_json(label: &Label) -> Value {
    match label {
        Label::Int(value) => i64::try_from(*value).map_or_else(|_| json!(value.to_string()), |v| json!(v)),
        Label::Text(text) => json!(text),
    }
}

/// Tells of a result that a file holds: nothing where only errors are wanted, unless JSON is asked for.
pub(crate) fn tell(common: &Common, text: &str) -> Result<(), Error> {
    if common.quiet && !common.json { Ok(()) } else { print(text) }
}

/// Prints to stdout. A reader that has closed its end (`nuq … | head`) has seen enough and is no error.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| Error::Write { path: "standard output".into(), source }),
    }
}
