//! An allocator that ends the process if a single request for memory is larger than the input of the target justifies.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest size of a single request for an empty input, in bytes. Buffers of fixed size, arrays of a small model and stacks of threads
/// do not depend on the input.
const BASE: usize = 64 << 20;
/// Additional bytes per byte of input. A deflated byte can become 1032 bytes.
const PER_BYTE: usize = 4096;

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Sets the limit for an input of `len` bytes.
pub fn limit_for(len: usize) {
    LIMIT.store(BASE + PER_BYTE * len, Ordering::Relaxed);
}

/// Sets the limit for a parquet file of `len` bytes. The header of a page states its unpacked size as a number of 31 bits, for which the
/// parquet library reserves memory. Pages of constant values shrink by any factor, so a large size may be valid.
pub fn limit_for_parquet(len: usize) {
    LIMIT.store(i32::MAX as usize + PER_BYTE * len, Ordering::Relaxed);
}

struct Limited;

// SAFETY: all requests are passed to the allocator of the system.
unsafe impl GlobalAlloc for Limited {
    // SAFETY: the contract is that of `GlobalAlloc::alloc`.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: the caller fulfills the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the contract is that of `GlobalAlloc::alloc_zeroed`.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: the caller fulfills the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: the contract is that of `GlobalAlloc::realloc`.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check(size);
        // SAFETY: the caller fulfills the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    // SAFETY: the contract is that of `GlobalAlloc::dealloc`.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfills the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fn check(size: usize) {
    if size > LIMIT.load(Ordering::Relaxed) {
        // The limit is removed, because writing the message may need memory.
        LIMIT.store(usize::MAX, Ordering::Relaxed);
        eprintln!("a request of {size} bytes is larger than the input justifies");
        std::process::abort();
    }
}
