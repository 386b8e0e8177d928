//! Output files, standard output and standard error.

use std::io::{self, Write};
use std::path::Path;

use nuq::Label;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::Common;
use crate::destination::is_stdout;
use crate::error::Error;
use crate::escape;
use crate::progress::message;

/// Creates a folder and its parents.
pub(crate) fn make_folder(path: &Path) -> Result<(), Error> {
    check_folder(path)?;
    nuq_io::create_folder(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Checks that files can be created in a folder. The folder need not exist yet. Called before any work is done.
pub(crate) fn check_folder(path: &Path) -> Result<(), Error> {
    let is_present = |folder: &&Path| folder.as_os_str().is_empty() || folder.exists();
    let existing = path.ancestors().find(is_present).unwrap_or(path);
    let denied = |source| Error::Write { path: path.to_owned(), source };
    if existing.is_file() {
        return Err(denied(io::Error::new(io::ErrorKind::NotADirectory, "it is a file, not a folder")));
    }
    match nuq_io::check_writable(&existing.join(".nuq-check")) {
        Err(nuq_io::Error::Write { source, .. }) => Err(denied(source)),
        result => Ok(result?),
    }
}

/// Rejects an `--out` file that is also an input or cannot be written. Called before any work is done.
pub(crate) fn check_out(out: &Path, inputs: &[&Path]) -> Result<(), Error> {
    check_output("--out", out, inputs)
}

/// Rejects an output file that is also an input or cannot be written. `option` is the option that names the file.
pub(crate) fn check_output(option: &str, out: &Path, inputs: &[&Path]) -> Result<(), Error> {
    if is_stdout(out) {
        return Ok(());
    }
    if let Some(input) = inputs.iter().find(|input| is_same_file(out, input)) {
        return Err(Error::Usage(format!(
            "{option} {} would replace an input file: choose another name",
            input.display()
        )));
    }
    Ok(nuq_io::check_writable(out)?)
}

/// Whether both paths name the same existing file or folder, also by links.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// Writes a file atomically.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> Result<(), Error> {
    Ok(nuq_io::write_atomically(path, |file| file.write_all(contents))?)
}

/// A number with its noun: "1 row", "2 rows".
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A label as JSON: a boolean, an integer if it fits into 64 bits, otherwise a string.
pub(crate) fn label_json(label: &Label) -> Value {
    match label {
        Label::Bool(value) => json!(value),
        Label::Int(value) => i64::try_from(*value).map_or_else(|_| json!(value.to_string()), |v| json!(v)),
        Label::Text(text) => json!(text),
    }
}

/// Prints the result of a command: one JSON object with `--json`, otherwise text.
pub(crate) fn print_result(common: &Common, result: &impl Serialize, text: &str) -> Result<(), Error> {
    match common.json {
        true => print(&(serde_json::to_string_pretty(result).expect("results have only string keys") + "\n")),
        false => print(&escape::text(text)),
    }
}

/// Prints the result of a command that writes a file. `--quiet` without `--json` suppresses it.
pub(crate) fn print_summary(common: &Common, result: &impl Serialize, text: &str) -> Result<(), Error> {
    if common.quiet && !common.json { Ok(()) } else { print_result(common, result, text) }
}

/// Prints the report of a command that writes its results to `out`. If `out` is standard output, the report goes to standard error:
/// as one line of JSON with `--json`, otherwise as text.
pub(crate) fn print_report(
    common: &Common,
    out: &Path,
    result: &impl Serialize,
    text: &str,
) -> Result<(), Error> {
    if !is_stdout(out) {
        return print_summary(common, result, text);
    }
    match common.json {
        true => print_json_line(result),
        false => message(common, text.trim_end()),
    }
    Ok(())
}

/// Prints to standard output without escaping.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()).map_err(stdout_error)
}

/// The error of a failed write to standard output.
pub(crate) fn stdout_error(source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::BrokenPipe => Error::ClosedPipe,
        _ => Error::Write { path: "standard output".into(), source },
    }
}

/// Prints a value to standard error as one line of JSON, which escapes control characters itself. A line that cannot be printed is lost,
/// as in [`print_message`].
pub(crate) fn print_json_line(value: &impl Serialize) {
    let line = serde_json::to_string(value).expect("results have only string keys");
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a line to standard error. A message that cannot be printed is lost: a failed write to standard error must not stop the command.
pub(crate) fn print_message(text: &str) {
    let _ = writeln!(io::stderr(), "{}", escape::text(text));
}
