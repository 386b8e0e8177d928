//! The output of a command: a file, compressed if its name ends in `.gz` or `.zst`, or standard output (`-`).

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use nuq_eval::baselines::Scorer;
use nuq_io::{BaselineDetails, OutputCompression};

use crate::error::Error;
use crate::escape::Escaped;
use crate::output::stdout_error;

pub(crate) struct Destination<'p> {
    path: &'p Path,
    compression: OutputCompression,
}

/// Whether `--out` is standard output, as `-` or as a path such as `/dev/stdout`. Reports then go to standard error. The output is
/// written to the open stream, so a file to which standard output is redirected is not replaced by a new file.
pub(crate) fn is_stdout(out: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| out.as_os_str() == *name)
}

/// The name of the output in messages.
pub(crate) fn name(out: &Path) -> String {
    if is_stdout(out) { "standard output".to_owned() } else { out.display().to_string() }
}

/// The name of the output in the field `out` of JSON results: the path, `-` for standard output.
pub(crate) fn json_name(out: &Path) -> String {
    if is_stdout(out) { "-".to_owned() } else { out.display().to_string() }
}

impl<'p> Destination<'p> {
    pub(crate) fn new(path: &'p Path) -> Result<Self, Error> {
        Ok(Self { path, compression: OutputCompression::of(path)? })
    }

    pub(crate) fn is_stdout(&self) -> bool {
        is_stdout(self.path)
    }

    /// Whether the path does not show the format: standard output, or a device such as `/dev/null`.
    pub(crate) fn has_no_format(&self) -> bool {
        self.is_stdout() || self.extension().is_none() && nuq_io::is_device(self.path)
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.compression != OutputCompression::None
    }

    pub(crate) fn path(&self) -> &Path {
        self.path
    }

    /// The extension in lowercase. For a compressed file, it is the extension before `.gz` or `.zst`.
    pub(crate) fn extension(&self) -> Option<String> {
        let path = if self.is_compressed() { self.path.with_extension("") } else { self.path.to_owned() };
        path.extension().map(|extension| extension.to_string_lossy().to_lowercase())
    }

    /// Calls `write` with the output. A file is written atomically.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
        if self.is_stdout() {
            return write_stdout(write);
        }
        Ok(nuq_io::write_atomically(self.path, |file| self.compression.write(file, write))?)
    }
}

/// Calls `write` with standard output. Control characters are escaped on a terminal.
fn write_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    let written = match io::stdout().is_terminal() {
        true => write(&mut Escaped(&mut stdout)),
        false => write(&mut stdout),
    };
    written.and_then(|()| stdout.flush()).map_err(stdout_error)
}

/// Rejects binary output to a terminal. Called before any work is done.
pub(crate) fn check_binary(out: &Path) -> Result<(), Error> {
    if is_stdout(out) && io::stdout().is_terminal() {
        let text =
            "--out -: a model is binary and standard output is a terminal: redirect it, or name a file";
        return Err(Error::Usage(text.to_owned()));
    }
    Ok(())
}

/// Saves a model.
pub(crate) fn save(model: &nuq::Model<'_>, out: &Path) -> Result<(), Error> {
    if !is_stdout(out) {
        return Ok(nuq_io::save(model, out)?);
    }
    write_binary(|stdout| nuq_io::write_model(model, stdout))
}

/// Saves a baseline.
pub(crate) fn save_baseline(scorer: &dyn Scorer, details: &BaselineDetails, out: &Path) -> Result<(), Error> {
    if !is_stdout(out) {
        return Ok(nuq_io::save_baseline(scorer, details, out)?);
    }
    write_binary(|stdout| nuq_io::write_baseline(scorer, details, stdout))
}

fn write_binary(write: impl FnOnce(&mut dyn Write) -> Result<(), nuq_io::Error>) -> Result<(), Error> {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    match write(&mut stdout) {
        Err(nuq_io::Error::Write { source, .. }) => Err(stdout_error(source)),
        written => Ok(written.map(|()| stdout.flush().map_err(stdout_error))??),
    }
}
