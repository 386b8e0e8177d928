//! SIGINT (Ctrl-C), SIGTERM and SIGHUP: the process ends at once and leaves no partial file.

/// Starts a thread that waits for the signals. At a signal, the thread removes the files being written and ends the process. The exit
/// code is 128 plus the number of the signal, as in a shell. A signal that is ignored already, as SIGHUP under `nohup`, stays ignored.
///
/// Must be called before any other thread starts: threads inherit the set of blocked signals, and a signal that one thread does not
/// block would end the process without removing the files.
#[cfg(unix)]
pub(crate) fn install_handler() {
    let signals = blocked_signals([libc::SIGINT, libc::SIGTERM, libc::SIGHUP]);
    let wait = move || {
        let mut signal = 0;
        // SAFETY: the set is initialized, and `signal` is a valid place to write to.
        if unsafe { libc::sigwait(&signals, &mut signal) } == 0 {
            nuq_io::stop_writing(|| std::process::exit(128 + signal));
        }
    };
    // If the thread cannot be started, the signals stay blocked. The error is ignored: the threads of the search cannot be started
    // either, and that error ends the command.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
}

/// Blocks the signals that are not ignored, and returns them as a set.
#[cfg(unix)]
fn blocked_signals<const N: usize>(signals: [libc::c_int; N]) -> libc::sigset_t {
    // SAFETY: `sigset_t` and `sigaction` are plain data. All pointers point to live variables, or are null if null is allowed.
    // `sigemptyset` initializes the set before its first use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            if action.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&mut set, signal);
            }
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    }
}

/// Installs a handler of Ctrl-C that removes the files being written and ends the process.
#[cfg(not(unix))]
pub(crate) fn install_handler() {
    // An error means that a handler exists already. It is ignored: the existing handler then ends the process.
    let _ = ctrlc::try_set_handler(|| nuq_io::stop_writing(|| std::process::exit(130)));
}
