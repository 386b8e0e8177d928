//! The command `nuq` of the Python package: the command line of the binary, entered from a console script.
//!
//! Results, messages and exit codes are those of the binary, because the same function runs. What the runtime of Rust sets up before
//! `main`, and what Python has changed in the process, is handled here.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

/// Exit code of a Rust program that panicked.
const PANICKED: u8 = 101;

/// Runs the command line with these arguments and ends the process. The first argument is that after the name of the program.
///
/// The process ends without the finalization of Python, as that of the binary does: nothing of Python is in use.
#[pyfunction]
fn run_command_line(py: Python<'_>, arguments: Vec<OsString>) {
    process::restore(py);
    let words = std::iter::once(OsString::from("nuq")).chain(arguments);
    // The panic hook has printed the message.
    let code = py.detach(|| catch_unwind(AssertUnwindSafe(|| nuq_cli::run(words))).unwrap_or(PANICKED));
    std::process::exit(code.into());
}

/// State of the process that a Rust program has when `main` begins.
#[cfg(unix)]
mod process {
    use pyo3::prelude::*;

    /// Restores signals and standard streams.
    ///
    /// SIGPIPE is ignored by Python as by Rust. SIGXFSZ is ignored by Python only. SIGINT has a handler that raises
    /// `KeyboardInterrupt` when the next Python instruction runs, which would be after the end of the command.
    pub(super) fn restore(py: Python<'_>) {
        open_missing_streams();
        // SAFETY: `SIG_DFL` is valid for both signals, and `sigaction` writes to a live variable.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGINT, std::ptr::null(), &mut action);
            // A signal that was ignored at the start, as in the background of a shell, stays ignored.
            if action.sa_sigaction != libc::SIG_IGN {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
            }
        }
        if py.check_signals().is_err() {
            // The signal arrived before its handler was replaced.
            // SAFETY: `raise` has no preconditions.
            unsafe { libc::raise(libc::SIGINT) };
        }
    }

    /// Opens `/dev/null` in place of standard streams that are closed. Otherwise the next opened file would have the number of a
    /// standard stream, and messages would be written into it.
    fn open_missing_streams() {
        for stream in 0..=2 {
            // SAFETY: `fcntl` with `F_GETFD` has no effect on memory, and the path ends with a zero byte. `open` returns the lowest
            // free number, which is `stream`, because the lower ones are open.
            unsafe {
                if libc::fcntl(stream, libc::F_GETFD) == -1 {
                    libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                }
            }
        }
    }
}

/// On Windows, the handler of Ctrl-C that the command line installs is called before that of Python.
#[cfg(not(unix))]
mod process {
    use pyo3::prelude::*;

    pub(super) fn restore(_py: Python<'_>) {}
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_command_line, module)?)
}
