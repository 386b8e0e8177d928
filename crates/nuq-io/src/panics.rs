//! Panics of a third-party reader, returned as errors.
//!
//! The parquet library panics on some damaged files, for example if the footer has a negative length, or if a page
//! refers to a dictionary that is absent. A footer has no checksum, so the damage cannot be detected before the
//! library reads it.
//!
//! Other crates use [`catch_panic`] for other libraries that panic instead of returning an error.
//!
//! The panic hook belongs to the application and is not changed here. By default it prints a message before the panic is
//! caught; [`is_catching_panics`] lets an application suppress that message.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Whether [`catch_panic`] would catch a panic on this thread, so that its caller can return an error.
///
/// Call it in an application's panic hook, so that a damaged input file is reported once, as an error:
///
/// ```
/// let default_hook = std::panic::take_hook();
/// std::panic::set_hook(Box::new(move |info| {
///     if !nuq_io::is_catching_panics() {
///         default_hook(info);
///     }
/// }));
/// ```
#[must_use]
pub fn is_catching_panics() -> bool {
    // Thread-local storage may already be destroyed when the hook runs.
    IS_CATCHING.try_with(Cell::get).unwrap_or(false)
}

/// Calls `read`; `None` if it panicked. State that `read` borrows must stay valid wherever a panic interrupts it.
pub fn catch_panic<T>(read: impl FnOnce() -> T) -> Option<T> {
    let outer = IS_CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    IS_CATCHING.set(outer);
    result.ok()
}

#[cfg(test)]
mod tests {
    use std::panic::{set_hook, take_hook};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// The hook counts only panics of this thread, because other tests of this process panic on purpose on other
    /// threads.
    #[test]
    fn a_panic_is_caught_after_the_hook_of_the_application_was_called() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        static WAS_CATCHING: AtomicBool = AtomicBool::new(false);
        let thread = std::thread::current().id();
        let default_hook = take_hook();
        set_hook(Box::new(move |info| {
            if std::thread::current().id() == thread {
                CALLS.fetch_add(1, Ordering::Relaxed);
                WAS_CATCHING.store(is_catching_panics(), Ordering::Relaxed);
            } else {
                default_hook(info);
            }
        }));
        let caught: Option<()> = catch_panic(|| panic!("as on a damaged file"));
        drop(take_hook());
        assert!(caught.is_none() && WAS_CATCHING.load(Ordering::Relaxed));
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
        assert!(!is_catching_panics());
        assert_eq!(catch_panic(|| catch_panic(|| 3)), Some(Some(3)));
    }
}
