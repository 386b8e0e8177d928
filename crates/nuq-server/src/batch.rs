//! Adaptive batching: a batch is what waits when the previous one ends.
