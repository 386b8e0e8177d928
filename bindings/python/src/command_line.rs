//! The command `nuq` of the Python package. A console script starts it.
//!
//! Results, messages and exit codes are the same as those of the Rust program `nuq`, because the same function runs. This module restores
//! the state of the process that a Rust program has at the beginning of `main`, as far as Python has changed it.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

/// Exit code of a Rust program that panicked.
const PANICKED: u8 = 101;

/// Runs the command line and ends the process. `arguments` do not include the name of the program.
///
/// The process ends without the finalization of Python, because nothing of Python is in use any more.
#[pyfunction]
fn run_command_line(py: Python<'_>, arguments: Vec<OsString>) {
    process::restore(py);
    let words = std::iter::once(OsString::from("nuq")).chain(arguments);
    // After a panic, only the exit code is set, because the panic hook has already printed the message.
    let code = py.detach(|| catch_unwind(AssertUnwindSafe(|| nuq_cli::run(words))).unwrap_or(PANICKED));
    std::process::exit(code.into());
}

/// The state of the process that a Rust program has when `main` begins.
#[cfg(unix)]
mod process {
    use pyo3::prelude::*;

    /// Restores signals and standard streams.
    ///
    /// Python and Rust both ignore SIGPIPE, so it needs no change. Only Python ignores SIGXFSZ. For SIGINT, Python has a handler that
    /// raises `KeyboardInterrupt` when the next Python instruction runs; this would be after the end of the command.
    pub(super) fn restore(py: Python<'_>) {
        open_missing_streams();
        // SAFETY: `SIG_DFL` is valid for both signals, and `sigaction` writes to a live variable.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGINT, std::ptr::null(), &mut action);
            // If the signal was ignored when the process started, for example in the background of a shell, it stays ignored.
            if action.sa_sigaction != libc::SIG_IGN {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
            }
        }
        if py.check_signals().is_err() {
            // The signal arrived before the handler was replaced. It is sent again, so that it ends the process.
            // SAFETY: `raise` has no preconditions.
            unsafe { libc::raise(libc::SIGINT) };
        }
    }

    /// Opens `/dev/null` in place of each standard stream that is closed. Otherwise the next opened file would have the number of the
    /// standard stream, and messages would be written into this file.
    fn open_missing_streams() {
        for stream in 0..=2 {
            // SAFETY: `fcntl` with `F_GETFD` has no effect on memory, and the path ends with a zero byte. `open` returns the lowest
            // free number. This is `stream`, because all lower numbers are open.
            unsafe {
                if libc::fcntl(stream, libc::F_GETFD) == -1 {
                    libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                }
            }
        }
    }
}

/// On Windows nothing needs to be restored: the handler of Ctrl-C that the command line installs is called before the handler of Python.
#[cfg(not(unix))]
mod process {
    use pyo3::prelude::*;

    pub(super) fn restore(_py: Python<'_>) {}
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_command_line, module)?)
}
