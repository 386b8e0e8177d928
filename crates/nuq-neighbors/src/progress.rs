//! Progress of long computations.
//!
//! [`Progress::observe`] calls a function. Meanwhile, another thread reads with [`Progress::stage`] which stage the function has
//! reached. Without an observer, each block of work costs one additional branch.
//!
//! ```
//! use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex, Progress, progress};
//!
//! let x = Embeddings::from_rows(&[[0.0], [1.0], [3.0]])?;
//! let index = ExactIndex::new(&x)?;
//! let observer = Progress::new();
//! observer.observe(|| {
//!     progress::start("searching neighbors", x.len());
//!     index.search(&x, 1)
//! })?;
//! let stage = observer.stage();
//! assert_eq!((stage.name, stage.done, stage.total), ("searching neighbors", 3, 3));
//! # Ok::<(), nuq_neighbors::Error>(())
//! ```

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Observes computations. Clones are the same observer.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Name and number of steps of the current stage.
    stage: Mutex<(&'static str, u64)>,
    done: AtomicU64,
}

/// A stage of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// The name, for example `searching neighbors`; empty before the first stage.
    pub name: &'static str,
    /// The number of finished steps, at most `total`.
    pub done: u64,
    /// The number of steps, such as rows; 0 if it is unknown.
    pub total: u64,
}

thread_local! {
    static CURRENT: RefCell<Option<Progress>> = const { RefCell::new(None) };
}

impl Progress {
    /// Creates an observer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `compute` on this thread and observes its stages.
    pub fn observe<T>(&self, compute: impl FnOnce() -> T) -> T {
        let _scope = Scope { outer: CURRENT.replace(Some(self.clone())) };
        compute()
    }

    /// The stage that the computation has reached.
    #[must_use]
    pub fn stage(&self) -> Stage {
        let (name, total) = *self.0.stage.lock().unwrap_or_else(PoisonError::into_inner);
        Stage { name, done: self.0.done.load(Relaxed).min(total), total }
    }
}

/// When the scope is dropped, also during a panic, it restores the previous observer of the thread.
struct Scope {
    outer: Option<Progress>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.set(self.outer.take());
    }
}

/// Starts a stage of `total` steps, or of an unknown number if `total` is 0. Searches count their queries as steps.
pub fn start(name: &'static str, total: usize) {
    if let Some(Progress(state)) = CURRENT.with_borrow(Clone::clone) {
        *state.stage.lock().unwrap_or_else(PoisonError::into_inner) = (name, total as u64);
        state.done.store(0, Relaxed);
    }
}

/// Counts finished steps of the current stage, on any thread. It is created on the thread that starts a
/// parallel loop, because the threads of the loop do not know the observer.
#[derive(Debug, Clone)]
pub struct Steps(Option<Progress>);

impl Steps {
    /// The counter of the computation of this thread.
    #[must_use]
    pub fn current() -> Self {
        Self(CURRENT.with_borrow(Clone::clone))
    }

    /// Counts finished steps.
    #[inline]
    pub fn add(&self, steps: usize) {
        if let Some(Progress(state)) = &self.0 {
            state.done.fetch_add(steps as u64, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    #[test]
    fn steps_of_all_threads_are_counted_while_a_computation_is_observed() {
        let observer = Progress::new();
        assert_eq!(observer.stage(), Stage { name: "", done: 0, total: 0 });
        observer.observe(|| {
            start("first", 10);
            Steps::current().add(3);
            start("second", 1000);
            let steps = Steps::current();
            (0..500).into_par_iter().for_each(|_| steps.add(2));
        });
        assert_eq!(observer.stage(), Stage { name: "second", done: 1000, total: 1000 });
        // Outside of `observe` nothing is counted.
        start("third", 5);
        Steps::current().add(1);
        assert_eq!(observer.stage().name, "second");
    }
}
