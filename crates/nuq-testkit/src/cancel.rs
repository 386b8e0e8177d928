//! Tests of cancellation: long loops have enough check points, and a cancelled computation changes nothing.

use nuq_neighbors::{CancelToken, Cancelled};

/// The largest number of elementary steps (multiply-adds, or bytes that are read) between two check points. A slow
/// processor core takes 25 ms for them.
pub const MAX_STEPS: u64 = 50_000_000;

/// The number of check points of a computation.
pub fn count_checks<T>(compute: impl FnOnce() -> T) -> u64 {
    let token = CancelToken::at_check(u64::MAX);
    assert!(token.run(compute).is_ok(), "the computation was cancelled");
    token.checks()
}

/// Asserts that a computation of `steps` elementary steps has a check point at least every [`MAX_STEPS`] steps on
/// average. `scale` is the number of steps of the largest expected computation of this kind, divided by `steps`. In
/// that computation, the number of steps between check points is larger at most by this factor.
pub fn assert_checks_often<T>(what: &str, steps: u64, scale: u64, compute: impl FnOnce() -> T) {
    let checks = count_checks(compute);
    let between = steps / checks;
    assert!(
        between.saturating_mul(scale) <= MAX_STEPS,
        "{what}: {between} steps between {checks} check points"
    );
}

/// Runs a computation several times. Each run is cancelled at another check point (the first ones and some of the later ones), and then
/// `assert_unchanged` is called. The last run is not cancelled. Returns its number of check points.
pub fn cancel_at_check_points<S, T>(
    subject: &mut S,
    mut compute: impl FnMut(&mut S) -> T,
    mut assert_unchanged: impl FnMut(&S),
) -> u64 {
    let mut at = 1;
    loop {
        let token = CancelToken::at_check(at);
        match token.run(|| compute(subject)) {
            Err(Cancelled) => assert_unchanged(subject),
            Ok(_) => return token.checks(),
        }
        // All of the first five check points, then about a dozen per power of ten.
        at += 1 + at / 5;
    }
}
