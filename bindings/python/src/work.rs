//! Long calls run on worker threads, without the interpreter lock, and can be interrupted with Ctrl-C.

use std::collections::HashMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use nuq::{CancelToken, Cancelled};
use pyo3::prelude::*;

use crate::errors::{Failure, raise};
use crate::fork::ModelUse;

/// Time between two checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// Longest time that an interrupted call waits for its worker. A worker stops within milliseconds, unless it computes the
/// eigendecomposition of a large matrix, or waits for another call that changes the model.
const MAX_STOP: Duration = Duration::from_secs(1);

/// The threads of a call, and the token that an interrupt cancels.
pub(crate) struct Worker {
    pool: Arc<rayon::ThreadPool>,
    token: CancelToken,
}

impl Worker {
    /// Computes on all threads of the pool, until the computation ends or is interrupted. If the interrupt came before the computation, for
    /// example while the worker waited for a lock, the computation does not begin: the interrupted call may already have ended, and a
    /// model must not change after that.
    pub(crate) fn compute<T: Send>(
        &self,
        compute: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        if self.token.is_cancelled() {
            return Err(Cancelled.into());
        }
        self.pool.install(|| self.token.run(compute)).unwrap_or_else(|cancelled| Err(cancelled.into()))
    }
}

/// Runs `work` on a worker thread and waits for it.
///
/// An interrupt cancels the work and is raised when the worker has stopped, or after [`MAX_STOP`]. `n_jobs` is the number of threads,
/// `None` for [`ALL_PROCESSORS`]. `tick` is called at each check for signals.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    n_jobs: Option<usize>,
    tick: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    run_worker(py, n_jobs, tick, None, move |worker| worker.compute(work))
}

/// Runs `work` as [`run`] does, and passes the worker to it.
///
/// Work that takes a lock must take it before it calls [`Worker::compute`]. Otherwise a deadlock is possible: a pool thread that holds the
/// lock may run the task of another call while it waits for subtasks, and this task would wait for the same lock.
///
/// `in_use` delays forks while the worker runs. It is released after the result has been sent.
pub(crate) fn run_worker<T: Send + 'static>(
    py: Python<'_>,
    n_jobs: Option<usize>,
    tick: Option<&Bound<'_, PyAny>>,
    in_use: Option<ModelUse>,
    work: impl FnOnce(&Worker) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let token = CancelToken::new();
    let worker = Worker { pool: pool(py, n_jobs.unwrap_or(ALL_PROCESSORS))?, token: token.clone() };
    let (sender, receiver) = mpsc::channel();
    // Waiting without the interpreter lock requires a `Sync` value, but a receiver is not `Sync`. The mutex makes it `Sync`; only this
    // thread locks it.
    let receiver = Mutex::new(receiver);
    // If the system cannot start another thread, Python gets an `OSError`.
    std::thread::Builder::new().spawn(move || {
        // The error is ignored: the receiver no longer exists if an interrupted call did not wait for its worker.
        let _ = sender.send(work(&worker));
        drop(in_use);
    })?;
    loop {
        let received = py.detach(|| locked(&receiver).recv_timeout(SIGNAL_INTERVAL));
        match received {
            Ok(result) => return Ok(result?),
            Err(RecvTimeoutError::Timeout) => {
                let interrupt =
                    py.check_signals().and_then(|()| tick.map_or(Ok(()), |tick| tick.call0().map(drop)));
                if let Err(interrupt) = interrupt {
                    token.cancel();
                    // The worker may still send a result if it had passed its last check for an interrupt. This result is dropped.
                    let _ = py.detach(|| locked(&receiver).recv_timeout(MAX_STOP));
                    return Err(interrupt);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let text = "internal error: a worker thread panicked. This is a bug in nuq.";
                return Err(raise("NuqError", text.to_owned()));
            }
        }
    }
}

/// Runs a short computation on `n_jobs` threads without the interpreter lock. It cannot be interrupted.
pub(crate) fn without_gil<T: Send>(
    py: Python<'_>,
    n_jobs: Option<usize>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let pool = pool(py, n_jobs.unwrap_or(ALL_PROCESSORS))?;
    Ok(py.detach(|| pool.install(work)))
}

/// The value of `num_threads` that starts one thread per processor: rayon replaces zero by `RAYON_NUM_THREADS`, or by the number of
/// processors if this variable is not set.
const ALL_PROCESSORS: usize = 0;

/// Pools by process id, number of threads, and whether the calls that use the pool come from a thread of another pool.
type Pools = HashMap<(u32, usize, bool), Arc<rayon::ThreadPool>>;

/// A pool of `threads` threads. A Python function that a computation calls runs on a thread of the computation's pool. If this function calls
/// nuq again, it gets another pool: the threads of the first one, possibly a single thread, wait for the function. Each process has its own pools, because a forked child has none of the threads of its parent.
/// The map is locked only while the interpreter lock is held. A fork needs the interpreter lock too, so the map is
/// unlocked in every child.
fn pool(_py: Python<'_>, threads: usize) -> PyResult<Arc<rayon::ThreadPool>> {
    static POOLS: OnceLock<Mutex<Pools>> = OnceLock::new();
    let mut pools = locked(POOLS.get_or_init(Mutex::default));
    let key = (std::process::id(), threads, rayon::current_thread_index().is_some());
    if let Some(pool) = pools.get(&key) {
        return Ok(pool.clone());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = Arc::new(pool.map_err(|error| {
        let what = match threads {
            ALL_PROCESSORS => "the threads could not be started".to_owned(),
            _ => format!("n_jobs={threads}"),
        };
        raise("NuqError", format!("{what}: {error}"))
    })?);
    pools.insert(key, pool.clone());
    Ok(pool)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
