//! The end of a process whose memory is exhausted: a message and an exit code in place of an abort.
//!
//! Most functions of Rust's standard library that allocate memory cannot return an error: if their allocation fails, the library aborts
//! the process. The allocator of this program notes every failed allocation of a thread. If the thread then aborts, the handler of the
//! signal SIGABRT removes the files that are being written and ends the process. An abort without a failed allocation is not changed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The exit code, as documented in `nuq --help`.
const EXIT_CODE: i32 = 4;

const MESSAGE: &[u8] =
    b"nuq: the memory is exhausted: free some, raise its limit, or use fewer rows or fewer --threads\n";

thread_local! {
    /// Whether an allocation of this thread has failed.
    static HAS_FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Calls the allocator of the system, and notes failed allocations.
pub(crate) struct NotingAllocator;

fn noted(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        HAS_FAILED.set(true);
    }
    pointer
}

// SAFETY: all calls are those of the allocator of the system, with the same arguments and results.
unsafe impl GlobalAlloc for NotingAllocator {
    // SAFETY: the contract is that of `GlobalAlloc::alloc`.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what `System` requires.
        noted(unsafe { System.alloc(layout) })
    }

    // SAFETY: the contract is that of `GlobalAlloc::alloc_zeroed`.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what `System` requires.
        noted(unsafe { System.alloc_zeroed(layout) })
    }

    // SAFETY: the contract is that of `GlobalAlloc::dealloc`.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: the contract is that of `GlobalAlloc::realloc`.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees what `System` requires.
        noted(unsafe { System.realloc(pointer, layout, size) })
    }
}

/// Sets the handler of SIGABRT.
pub(crate) fn install_handler() {
    // SAFETY: the handler has the signature that the system requires.
    unsafe { libc::signal(libc::SIGABRT, handle as *const () as libc::sighandler_t) };
}

/// The handler runs on the thread that aborts, outside of the allocator. When it returns, the process is aborted.
extern "C" fn handle(_: libc::c_int) {
    if !HAS_FAILED.get() {
        return;
    }
    nuq_io::end_process(EXIT_CODE, &[MESSAGE])
}
