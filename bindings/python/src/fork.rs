//! Forks of the process while other threads use a model.
//!
//! A child process has only the thread that called `fork`. A lock that another thread held at that moment is never released
//! in the child, and a model that another thread was updating stays half updated there. A fork therefore waits until no
//! thread uses a model, and calls that begin meanwhile wait until the fork is done.
//!
//! Both counters are changed without a lock, so that they have a known state in the child.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Calls that use a model now.
static ACTIVE_USES: AtomicUsize = AtomicUsize::new(0);

/// Forks that are waiting or in progress.
static PENDING_FORKS: AtomicUsize = AtomicUsize::new(0);

/// Time between two looks at a counter.
const POLL: Duration = Duration::from_millis(1);

/// Use of a model by one call. No fork happens while it exists.
pub(crate) struct ModelUse(());

impl ModelUse {
    /// Waits for pending forks. Between the last look at the counter and the return the interpreter lock is held, without
    /// which no fork begins.
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

/// Lets other Python threads run for a moment.
pub(crate) fn pause(py: Python<'_>) {
    py.detach(|| std::thread::sleep(POLL));
}

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

/// Forks that other threads of the parent were waiting for do not happen in the child.
#[pyfunction]
fn after_fork_in_child() {
    PENDING_FORKS.store(0, SeqCst);
}

/// Registers the handlers with `os.register_at_fork`, which systems without `fork` do not have.
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
