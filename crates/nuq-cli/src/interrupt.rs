//! Ctrl-C, and being asked to end: at once, and with no file half-written.

/// What a shell says of a command that Ctrl-C ended; documented in `nuq --help`.
const EXIT_CODE: i32 = 130;

/// From here on SIGINT, SIGTERM and SIGHUP remove the files that are being written and end the process.
pub(crate) fn leave_nothing_half_written() {
    let end = || nuq_io::stop_writing(|| std::process::exit(EXIT_CODE));
    // Where whoever started nuq has one of them ignored (`nohup` does), all stay as they are: that is no error.
    let _ = ctrlc::try_set_handler(end);
}
