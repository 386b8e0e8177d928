//! Panics of third-party readers that nuq catches and returns as errors.

use std::panic::{set_hook, take_hook};

/// Lets the process continue after panics that [`nuq_io::catch_panic`] catches. The panic hook of libFuzzer ends the process at every panic.
pub fn allow() {
    let abort = take_hook();
    set_hook(Box::new(move |info| {
        if !nuq_io::is_catching_panics() {
            abort(info);
        }
    }));
}
