//! Makes `fork` safe while other threads use a model.
//!
//! A child process has only the thread that called `fork`. A lock that another thread held at that moment is never released
//! in the child, and a model that another thread was updating stays half updated there. A fork therefore waits until no
//! thread uses a model. A call that begins during this time waits until the fork has ended.
//!
//! The number of uses and the number of forks are atomic variables. They are not protected by a lock, because the child could inherit a
//! lock that is never released.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Number of calls that are using a model.
static ACTIVE_USES: AtomicUsize = AtomicUsize::new(0);

/// Number of forks that are waiting or in progress.
static PENDING_FORKS: AtomicUsize = AtomicUsize::new(0);

/// Time between two checks of a counter.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Guard that a call holds while it uses a model. No fork happens while a guard exists.
pub(crate) struct ModelUse(());

impl ModelUse {
    /// Waits until no fork is pending. The interpreter lock is held from the last check of the counter until the return. A
    /// fork needs this lock, so no fork can begin in between.
    pub(crate) fn begin(py: Python<'_>) -> PyResult<Self> {
        while PENDING_FORKS.load(SeqCst) > 0 {
            pause(py);
            py.check_signals()?;
        }
        ACTIVE_USES.fetch_add(1, SeqCst);
        Ok(Self(()))
    }
}

impl Drop for ModelUse {
    fn drop(&mut self) {
        ACTIVE_USES.fetch_sub(1, SeqCst);
    }
}

/// Sleeps for a short time without the interpreter lock, so that other Python threads can run.
pub(crate) fn pause(py: Python<'_>) {
    py.detach(|| std::thread::sleep(POLL_INTERVAL));
}

/// Waits until no call uses a model.
#[pyfunction]
fn before_fork(py: Python<'_>) {
    PENDING_FORKS.fetch_add(1, SeqCst);
    while ACTIVE_USES.load(SeqCst) > 0 {
        pause(py);
    }
}

#[pyfunction]
fn after_fork_in_parent() {
    PENDING_FORKS.fetch_sub(1, SeqCst);
}

/// Resets the number of pending forks: threads of the parent that are waiting to fork do not exist in the child.
#[pyfunction]
fn after_fork_in_child() {
    PENDING_FORKS.store(0, SeqCst);
}

/// Registers the handlers with `os.register_at_fork`. Systems without `fork` do not have this function.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let os = module.py().import("os")?;
    let Ok(register_at_fork) = os.getattr("register_at_fork") else { return Ok(()) };
    let handlers = PyDict::new(module.py());
    handlers.set_item("before", wrap_pyfunction!(before_fork, module)?)?;
    handlers.set_item("after_in_parent", wrap_pyfunction!(after_fork_in_parent, module)?)?;
    handlers.set_item("after_in_child", wrap_pyfunction!(after_fork_in_child, module)?)?;
    register_at_fork.call((), Some(&handlers))?;
    Ok(())
}
