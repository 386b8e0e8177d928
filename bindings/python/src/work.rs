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
    let pool = n_jobs.map(pool).transpose()?;
    let (sender, receiver) = mpsc::channel();
    // Only this thread receives; the lock is what lets it do so without the interpreter's.
    let receiver = Mutex::new(receiver);
    std::thread::spawn(move || {
        let done = match pool {
            Some(pool) => pool.install(work),
            None => work(),
        };
        // Whoever asked may be gone.
        let _ = sender.send(done);
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

/// A pool of so many threads, made once.
fn pool(threads: usize) -> PyResult<Arc<rayon::ThreadPool>> {
    static POOLS: OnceLock<Mutex<HashMap<usize, Arc<rayon::ThreadPool>>>> = OnceLock::new();
    let mut pools = locked(POOLS.get_or_init(Mutex::default));
    if let Some(pool) = pools.get(&threads) {
        return Ok(pool.clone());
    }
    let made = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let made = Arc::new(made.map_err(|problem| raise("NuqError", format!("n_jobs={threads}: {problem}")))?);
    pools.insert(threads, made.clone());
    Ok(made)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
