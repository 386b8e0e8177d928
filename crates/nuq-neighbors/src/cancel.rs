//! Cancellation of long computations.
//!
//! [`CancelToken::run`] calls a function. When another thread calls [`CancelToken::cancel`], the function ends at its next
//! check point, and `run` returns [`Cancelled`]. The long loops of the nuq crates have a check point about every 25
//! milliseconds or more often. A cancelled computation leaves indexes and models as they were before it.
//!
//! A check point ends the computation by unwinding (`std::panic::resume_unwind`), which calls no panic hook and
//! prints nothing. Functions therefore need no error for cancellation. Without a token, a check point costs one
//! branch. Programs that are compiled with `panic = "abort"` cannot use tokens.
//!
//! ```
//! use nuq_neighbors::{CancelToken, Cancelled, Embeddings, ExactIndex, NeighborIndex};
//!
//! let x = Embeddings::from_rows(&[[0.0], [1.0], [3.0]])?;
//! let index = ExactIndex::new(&x)?;
//! let token = CancelToken::new();
//! assert_eq!(token.run(|| index.search(&x, 1)), Ok(index.search(&x, 1)));
//! token.cancel();
//! assert_eq!(token.run(|| index.search(&x, 1)), Err(Cancelled));
//! # Ok::<(), nuq_neighbors::Error>(())
//! ```
//!
//! # Check points in new code
//!
//! A serial loop calls [`checkpoint`]. This function reads the token of the current thread. The threads of a pool
//! have no token, so a parallel loop reads the token before it starts:
//!
//! ```
//! use nuq_neighbors::cancel::{Checkpoint, ParallelCheckpoints, checkpoint};
//! use rayon::prelude::*;
//!
//! // A check point before each item.
//! (0..100).into_par_iter().with_checkpoints().for_each(|_| ());
//! // `enter` sets the token for the check points in the body.
//! let here = Checkpoint::current();
//! (0..100).into_par_iter().for_each(|_| here.enter(|| (0..100).for_each(|_| checkpoint())));
//! ```
//!
//! Code that changes stored values has no check point between its first and its last step, or it restores the
//! previous values when it is unwound.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

/// A computation was cancelled by its [`CancelToken`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the computation was cancelled")]
pub struct Cancelled;

/// Cancels the computations that it runs. Clones are the same token.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: AtomicBool,
    /// Only tokens of tests count their check points.
    counter: Option<Counter>,
}

#[derive(Debug)]
struct Counter {
    checks: AtomicU64,
    /// The number of the check point that cancels the computation.
    limit: u64,
}

/// The payload of the unwind, with the token that caused it.
struct Unwind(CancelToken);

thread_local! {
    static CURRENT: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

impl CancelToken {
    /// Creates a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends each running computation of this token at its next check point, and each later computation at its first
    /// one.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Relaxed)
    }

    /// Calls `compute` on this thread. In a program with its own thread pool, call `run` inside the pool: a pool that
    /// is entered within `compute` has no token. If calls of `run` are nested, the token of the innermost call is
    /// used.
    ///
    /// # Errors
    /// [`Cancelled`] when the computation ended at a check point. A computation that has passed its last check point
    /// completes and returns its result.
    pub fn run<T>(&self, compute: impl FnOnce() -> T) -> Result<T, Cancelled> {
        let result = catch_unwind(AssertUnwindSafe(|| Checkpoint(Some(self.clone())).enter(compute)));
        result.map_err(|cause| match cause.downcast_ref::<Unwind>() {
            Some(Unwind(token)) if Arc::ptr_eq(&token.0, &self.0) => Cancelled,
            _ => resume_unwind(cause),
        })
    }

    /// A token that cancels its computations at their `limit`-th check point, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn at_check(limit: u64) -> Self {
        let counter = Some(Counter { checks: AtomicU64::new(0), limit });
        Self(Arc::new(State { is_cancelled: AtomicBool::new(false), counter }))
    }

    /// The number of check points that computations have reached, for tests; 0 unless created by `at_check`.
    #[doc(hidden)]
    #[must_use]
    pub fn checks(&self) -> u64 {
        self.0.counter.as_ref().map_or(0, |counter| counter.checks.load(Relaxed))
    }

    /// Counts the check point if the token has a counter, and returns whether the computation must end at it.
    fn must_stop(&self) -> bool {
        if let Some(Counter { checks, limit }) = &self.0.counter
            && checks.fetch_add(1, Relaxed) + 1 >= *limit
        {
            self.cancel();
        }
        self.is_cancelled()
    }
}

/// The token of a computation, read on the thread that starts a parallel loop.
#[derive(Debug, Clone)]
pub struct Checkpoint(Option<CancelToken>);

impl Checkpoint {
    /// The token of the computation of this thread.
    #[must_use]
    pub fn current() -> Self {
        Self(CURRENT.with_borrow(Clone::clone))
    }

    /// Ends the computation if it was cancelled.
    #[inline]
    pub fn check(&self) {
        if let Some(token) = &self.0
            && token.must_stop()
        {
            stop(token.clone());
        }
    }

    /// Ends the computation if it was cancelled, and calls `compute` with this token on the current thread.
    ///
    /// A thread of a pool may execute a part of one computation while it waits for parts of another. `enter` therefore
    /// replaces the token of the thread also if this computation has no token.
    pub fn enter<T>(&self, compute: impl FnOnce() -> T) -> T {
        self.check();
        let _scope = Scope { outer: CURRENT.replace(self.0.clone()) };
        compute()
    }
}

/// Check points of parallel iterators.
pub trait ParallelCheckpoints: IndexedParallelIterator {
    /// Adds a check point before each item. When a computation is cancelled, the remaining items are skipped.
    fn with_checkpoints(self) -> impl IndexedParallelIterator<Item = Self::Item> {
        let here = Checkpoint::current();
        let check = move |item| {
            here.check();
            item
        };
        // Without the fuse, each of possibly a million items would be unwound separately.
        self.map(check).panic_fuse()
    }
}

impl<I: IndexedParallelIterator> ParallelCheckpoints for I {}

/// Ends the computation of this thread if it was cancelled.
#[inline]
pub fn checkpoint() {
    let cancelled = CURRENT.with_borrow(|token| token.as_ref().filter(|token| token.must_stop()).cloned());
    if let Some(token) = cancelled {
        stop(token);
    }
}

/// Calls `compute` without check points: for changes that are short and must not end in the middle.
pub fn uninterrupted<T>(compute: impl FnOnce() -> T) -> T {
    Checkpoint(None).enter(compute)
}

/// Changes a value completely or not at all: when `change` unwinds, `restore` is called and the unwind continues.
pub(crate) fn all_or_nothing<V, T>(
    value: &mut V,
    change: impl FnOnce(&mut V) -> T,
    restore: impl FnOnce(&mut V),
) -> T {
    match catch_unwind(AssertUnwindSafe(|| change(value))) {
        Ok(result) => result,
        Err(cause) => {
            restore(value);
            resume_unwind(cause)
        }
    }
}

#[cold]
fn stop(token: CancelToken) -> ! {
    resume_unwind(Box::new(Unwind(token)))
}

/// Restores the token of a thread when it is dropped, also by an unwind.
struct Scope {
    outer: Option<CancelToken>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.set(self.outer.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_a_parallel_loop_at_its_next_check_point() {
        let token = CancelToken::at_check(10);
        let count = AtomicU64::new(0);
        let result = token.run(|| {
            (0..1_000_000).into_par_iter().with_checkpoints().for_each(|_| {
                count.fetch_add(1, Relaxed);
            });
        });
        assert_eq!(result, Err(Cancelled));
        // The first check point is in `run`, and the tenth one cancels the computation, so at most eight items are
        // counted. The count is smaller if another thread stops between its check point and its count.
        assert!(count.load(Relaxed) <= 8, "{count:?}");
        assert!(token.checks() < 100, "the remaining items are skipped");
        assert!(token.is_cancelled());
        assert_eq!(token.run(|| 3), Err(Cancelled), "a cancelled token starts no computation");
    }

    #[test]
    fn nested_parallel_loops_have_the_token_of_the_outer_loop() {
        let token = CancelToken::at_check(u64::MAX);
        let inner = || (0..10).into_par_iter().with_checkpoints().for_each(|_| ());
        let result = token.run(|| {
            let here = Checkpoint::current();
            (0..10).into_par_iter().for_each(|_| here.enter(inner));
        });
        assert_eq!(result, Ok(()));
        // One check point in `run`, one per step of the outer loop and one per step of an inner loop.
        assert_eq!(token.checks(), 1 + 10 + 100);
    }

    #[test]
    fn a_token_does_not_cancel_other_computations_in_the_same_pool() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let work = |token: &CancelToken| {
            token.run(|| {
                let here = Checkpoint::current();
                (0..64).into_par_iter().for_each(|_| {
                    here.enter(|| (0..64).into_par_iter().with_checkpoints().for_each(|_| ()));
                });
            })
        };
        let results: Vec<(u64, Result<(), Cancelled>)> = pool.install(|| {
            (0..40u64)
                .into_par_iter()
                .map(|i| (i, work(&CancelToken::at_check(if i % 2 == 0 { 100 } else { u64::MAX }))))
                .collect()
        });
        for (i, result) in results {
            assert_eq!(result, if i % 2 == 0 { Err(Cancelled) } else { Ok(()) }, "{i}");
        }
    }

    #[test]
    fn the_token_of_a_thread_ends_with_its_computation() {
        let token = CancelToken::at_check(2);
        assert_eq!(token.run(checkpoint), Err(Cancelled));
        checkpoint();
        let outer = CancelToken::new();
        assert_eq!(outer.run(|| CancelToken::at_check(1).run(checkpoint)), Ok(Err(Cancelled)));
        // Within `uninterrupted`, a check point has no effect; the next one after it ends the computation.
        let stopped = CancelToken::new();
        let result = stopped.run(|| {
            stopped.cancel();
            uninterrupted(checkpoint);
            checkpoint();
        });
        assert_eq!(result, Err(Cancelled));
    }

    #[test]
    fn other_panics_are_not_caught() {
        let run = || CancelToken::new().run(|| resume_unwind(Box::new("another cause")));
        let caught: Result<Result<(), _>, _> = catch_unwind(run);
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"another cause"));
    }
}
