//! Handles the signal SIGBUS of mapped files. It is raised by an access to bytes that cannot be read any more, because another process has
//! shortened the file or the disk has failed. The handler ends the process, or replaces lost pages by zeros and notes the loss.

use std::ffi::c_void;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use crate::end_process::end_process;

/// Largest number of mapped files that are known to the handler. For further files the signal ends the process without a message.
const MAX_FILES: usize = 1 << 16;

/// A mapped range and the name of its file. A slot whose `start` is 0 is free.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    name: AtomicPtr<Vec<u8>>,
    /// Whether a page of the range was replaced by zeros.
    has_lost_pages: AtomicBool,
}

static SLOTS: [Slot; MAX_FILES] = [const {
    Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        name: AtomicPtr::new(std::ptr::null_mut()),
        has_lost_pages: AtomicBool::new(false),
    }
}; MAX_FILES];

/// The number of slots that were ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

static EXIT_CODE: AtomicI32 = AtomicI32::new(1);

/// The size of a page, if lost pages are replaced; 0 if the process ends.
static REPLACED_PAGE: AtomicUsize = AtomicUsize::new(0);

/// A mapped range that the handler knows. Drop it before the range is unmapped.
#[derive(Debug)]
pub(crate) struct Registered(usize);

/// Registers a mapped range; `None` if there are too many.
pub(crate) fn register(map: &[u8], path: &Path) -> Option<Registered> {
    let (start, end) = (map.as_ptr() as usize, map.as_ptr() as usize + map.len());
    let at = SLOTS.iter().position(|slot| {
        slot.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })?;
    let name = Box::into_raw(Box::new(path.as_os_str().as_bytes().to_vec()));
    SLOTS[at].has_lost_pages.store(false, Ordering::Release);
    SLOTS[at].name.store(name, Ordering::Release);
    SLOTS[at].end.store(end, Ordering::Release);
    USED.fetch_max(at + 1, Ordering::AcqRel);
    Some(Registered(at))
}

impl Registered {
    /// Whether a page of the range was replaced by zeros.
    pub(crate) fn has_lost_pages(&self) -> bool {
        SLOTS[self.0].has_lost_pages.load(Ordering::Acquire)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let slot = &SLOTS[self.0];
        slot.end.store(0, Ordering::Release);
        let name = slot.name.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: the pointer comes from `Box::into_raw`, and `swap` gives it to this call alone. The handler reads names of ranges that
        // are being accessed, and those are not dropped.
        drop(unsafe { Box::from_raw(name) });
        slot.start.store(0, Ordering::Release);
    }
}

/// Sets a handler of SIGBUS that ends the process with an exit code and a message that names the file. Files that are being written are
/// removed.
pub(crate) fn end_on_lost_file(exit_code: i32) {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    EXIT_CODE.store(exit_code, Ordering::Relaxed);
    INSTALLED.get_or_init(|| {
        // SAFETY: the structure is initialized, and the handler has the signature that SA_SIGINFO requires.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    });
}

/// Lets the handler replace lost pages by zeros.
pub(crate) fn continue_after_lost_pages() {
    // SAFETY: the function has no requirements.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    REPLACED_PAGE.store(usize::try_from(page).unwrap_or(0), Ordering::Relaxed);
}

/// Replaces the page of an address, and all later pages of its map, by zeros: usually all of them are lost, and a system call for each of
/// them would take long. Returns whether this was possible.
fn replace_pages(address: usize, end: usize, page: usize) -> bool {
    let start = address - address % page;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the pages belong to a registered map, which is not unmapped while it is being accessed; a map ends with a whole page. Its bytes
    // change, as those of a mapped file can; all bytes are valid values.
    let map = unsafe { libc::mmap(start as *mut c_void, end - start, libc::PROT_READ, flags, -1, 0) };
    map != libc::MAP_FAILED
}

/// The handler. The signal is raised by an access to the map, so that this thread is neither in the allocator nor in a system call.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the system passes a valid structure.
    let address = unsafe { (*info).si_addr() } as usize;
    let used = &SLOTS[..USED.load(Ordering::Acquire)];
    let is_in = |slot: &&Slot| {
        (slot.start.load(Ordering::Acquire)..slot.end.load(Ordering::Acquire)).contains(&address)
    };
    let Some(slot) = used.iter().find(is_in) else {
        // Another cause: the access is repeated, and the signal ends the process.
        // SAFETY: SIG_DFL is a valid action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    };
    let page = REPLACED_PAGE.load(Ordering::Relaxed);
    if page > 0 {
        // The loss is noted first: no search may return a result of the replaced page.
        slot.has_lost_pages.store(true, Ordering::Release);
        if replace_pages(address, slot.end.load(Ordering::Acquire), page) {
            return;
        }
    }
    // SAFETY: the name is freed when the map is dropped, and the map is not dropped while its range is being accessed.
    let name = unsafe { slot.name.load(Ordering::Acquire).as_ref() }.map_or(&b"a file"[..], Vec::as_slice);
    let parts: [&[u8]; 3] = [
        b"nuq: cannot read ",
        name,
        b": it was shortened by another process while it was in use, or the disk failed\n",
    ];
    end_process(EXIT_CODE.load(Ordering::Relaxed), &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_register_ranges_at_the_same_time_get_different_slots() {
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let map = [thread; 16];
                    let path = Path::new(if thread % 2 == 0 { "even" } else { "odd" });
                    for _ in 0..2000 {
                        let registered = register(&map, path).unwrap();
                        let slot = &SLOTS[registered.0];
                        assert_eq!(slot.start.load(Ordering::Acquire), map.as_ptr() as usize);
                        assert_eq!(slot.end.load(Ordering::Acquire), map.as_ptr() as usize + 16);
                        let name = slot.name.load(Ordering::Acquire);
                        // SAFETY: the name exists until `registered` is dropped.
                        assert_eq!(unsafe { &*name }, path.as_os_str().as_bytes());
                    }
                });
            }
        });
    }
}
