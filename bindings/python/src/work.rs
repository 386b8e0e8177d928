//! A long call: on threads of its own choosing, without the interpreter's lock, and with an ear for Ctrl-C.

use std::collections::HashMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::{Failure, raise};

/// How often Python is asked whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Runs `work` on another thread and waits for it; an interrupt is raised at once, and work that nobody waits for any more
/// ends by itself. With `n_jobs`, so many threads do it; `None` is all processors.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    n_jobs: Option<usize>,
    tick: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    run_in(py, n_jobs, tick, move |pool| pool.install(work))
}

/// The same for work that takes a lock, which it must do before it enters the pool: whoever waits inside of it may be given
/// work of others, and would wait for a lock that it holds itself.
pub(crate) fn run_in<T: Send + 'static>(
    py: Python<'_>,
    n_jobs: Option<usize>,
    tick: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&rayon::ThreadPool) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let pool = pool(py, n_jobs.unwrap_or(ALL))?;
    let (sender, receiver) = mpsc::channel();
    // Only this thread receives; the lock is what lets it do so without the interpreter's.
    let receiver = Mutex::new(receiver);
    std::thread::spawn(move || {
        // Whoever asked may be gone.
        let _ = sender.send(work(&pool));
    });
    loop {
        let received = py.detach(|| locked(&receiver).recv_timeout(PATIENCE));
        match received {
            Ok(done) => return Ok(done?),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                if let Some(tick) = tick {
                    tick.call0()?;
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(raise(
                    "NuqError",
                    "a computation ended without a result: please report it".to_owned(),
                ));
            }
        }
    }
}

/// Runs something short without the interpreter's lock, on the threads that `run` uses.
pub(crate) fn briefly<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let pool = pool(py, ALL)?;
    Ok(py.detach(|| pool.install(work)))
}

/// The number of threads that stands for one per processor.
const ALL: usize = 0;

/// Pools by process and number of threads.
type Pools = HashMap<(u32, usize), Arc<rayon::ThreadPool>>;

/// A pool of so many threads, made once in each process: a child that `fork` made has none of its parent's threads, and
/// would wait for them forever. Whoever forks holds the interpreter's lock, so the map is never locked while that happens.
fn pool(_py: Python<'_>, threads: usize) -> PyResult<Arc<rayon::ThreadPool>> {
    static POOLS: OnceLock<Mutex<Pools>> = OnceLock::new();
    let mut pools = locked(POOLS.get_or_init(Mutex::default));
    let key = (std::process::id(), threads);
    if let Some(pool) = pools.get(&key) {
        return Ok(pool.clone());
    }
    let made = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let made = Arc::new(made.map_err(|problem| raise("NuqError", format!("n_jobs={threads}: {problem}")))?);
    pools.insert(key, made.clone());
    Ok(made)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
