//! Damaged parquet files, on which the library that reads them panics in places: where the footer gives a negative length,
//! or a page speaks of a dictionary that is not there. Here that is an error like any other.
//!
//! The footer has no checksum, so damage cannot be ruled out before the library sees it.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::ArraySpec;
use crate::Error;

thread_local! {
    /// Whether a panic of this thread will be told as an error.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Reads something; a panic on the way says that the file is damaged. What `read` borrows must be of use after it stopped
/// anywhere.
pub(super) fn guarded<T>(spec: &ArraySpec, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                others(info);
            }
        }));
    });
    GUARDED.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(false);
    result.unwrap_or_else(|_| Err(Error::damaged_parquet(spec, "its parts contradict each other")))
}
