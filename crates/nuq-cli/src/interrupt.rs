//! SIGINT (Ctrl-C), SIGTERM and SIGHUP: the process ends at once and leaves no partial file.

/// The shell's exit code for a command that Ctrl-C ended; documented in `nuq --help`.
const EXIT_CODE: i32 = 130;

/// Installs a signal handler that removes the files being written and ends the process.
pub(crate) fn install_handler() {
    let end = || nuq_io::stop_writing(|| std::process::exit(EXIT_CODE));
    // The handler is not installed if one of the signals is ignored already, as under `nohup`. That is no error.
    let _ = ctrlc::try_set_handler(end);
}
