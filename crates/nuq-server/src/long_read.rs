//! The interruption of a long computation that reads a model. A change needs exclusive access to the model, so without the interruption it
//! would wait for the end of the computation.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nuq::CancelToken;

/// A long computation that reads a model, and the changes that interrupt it. No computation begins while a change is pending. Otherwise a
/// cancelled computation could begin again before the change has locked the model, and the change would wait for it nevertheless.
#[derive(Default)]
pub(crate) struct LongRead {
    state: Mutex<State>,
    /// Notified when the last pending change has ended.
    no_change: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of pending changes.
    changes: usize,
    /// The token of the last computation.
    token: CancelToken,
}

impl LongRead {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the running computation. The change is pending until the returned value is dropped.
    #[must_use]
    pub(crate) fn interrupt(&self) -> PendingChange<'_> {
        let mut state = self.state();
        state.changes += 1;
        state.token.cancel();
        PendingChange(self)
    }

    /// Waits until no change is pending, and returns the token of the next computation; `None` after the deadline. Without a deadline,
    /// frequent changes could delay or interrupt the computation forever.
    pub(crate) fn begin(&self, deadline: Instant) -> Option<CancelToken> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.no_change.wait_timeout_while(self.state(), left, |state| state.changes > 0);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if Instant::now() >= deadline {
            return None;
        }
        state.token = CancelToken::new();
        Some(state.token.clone())
    }
}

/// A change that is pending until this value is dropped.
pub(crate) struct PendingChange<'r>(&'r LongRead);

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.changes -= 1;
        if state.changes == 0 {
            self.0.no_change.notify_all();
        }
    }
}
