//! A test for drift: whether new rows have the same distribution as held-out rows. Its guarantee holds after any number
//! of rows.
//!
//! A [`DriftMonitor`] reads the scores of new rows, such as their epistemic uncertainty, one after the other. For each
//! score it computes a conformal p-value from the earlier scores, and bets that the p-values are not uniformly
//! distributed. The wealth from these bets starts at 1. A large wealth is evidence against the hypothesis that held-out
//! and new rows are exchangeable (Vovk, Gammerman and Shafer 2005, chapter 7).
//!
//! **P-values.** The pool contains earlier scores, at first those of the held-out rows, or of a random sample of them if
//! they exceed the capacity of the pool. A new score `s` has the p-value
//!
//! ```text
//! p = (#{pool > s} + θ (1 + #{pool = s})) / (1 + #pool),    θ uniform on [0, 1)
//! ```
//!
//! and is then added to the pool. If the pool exceeds its capacity, one of its scores is removed at random. Each score,
//! including the new one, is removed with equal probability.
//!
//! **Claim.** If held-out and new scores are exchangeable, the p-values are independent and uniform on [0, 1]. *Proof.*
//! Let `B_k` be the multiset of the pool and the k-th new score `s_k`, `R_k` the pool after the removal, and `F_k` the
//! information of `B_k`, `R_k`, all later scores and all later random choices. Before the step, the scores of the pool
//! in random order, followed by `s_k, s_{k+1}, …`, are exchangeable. This holds at the start, and a removal that does
//! not depend on the order preserves it. As the removal depends on the multiset only, each element of `B_k` is the new
//! score with equal probability, given `F_k`. With the random `θ`, `p_k` is then uniform given `F_k`. As `F_k`
//! determines `p_{k+1}, p_{k+2}, …`, each p-value is independent of all later ones. ∎
//!
//! A fixed pool of held-out scores would not have this property: each p-value would be uniform, but their common dependence on
//! the pool makes the share of small p-values differ from its expectation, and the wealth would grow without any change.
//!
//! **Wealth.** The bets are those of the simple jumper (Vovk, Petej, Nouretdinov, Ahlberg, Carlsson and Gammerman
//! 2021): there is one bet with a capital `C_ε` for each `ε ∈ {−1, 0, 1}`. At each row, the share `J = 0.01` of all
//! capital in bets is first divided equally among the three bets. Then `C_ε` is multiplied by `1 + ε (p − ½)`. The
//! initial capital is not bet all at once: at row t, `1/(t (t+1))` of the initial capital is added to the bets, and
//! `1/(t+1)` remains in reserve. This is a mixture over the row at which betting starts. The wealth is never below
//! `1/(t+1)`, and a change after a long time without change is found within few rows. The wealth is the sum of the
//! reserve and of the capital in fair bets. Therefore it is a nonnegative martingale with mean 1, and by Ville's
//! inequality
//!
//! ```text
//! P(the wealth ever reaches 1/α) ≤ α.
//! ```
//!
//! **Limits.** The bets are on the mean of the p-values: a change that keeps this mean at ½ is not found. A slow
//! change, over more rows than the pool contains, may not be found either, because the scores in the pool then change
//! together with the new scores. Rows that depend on each other, such as frames of one video, are not exchangeable, and
//! the guarantee does not hold for them.

use nuq_neighbors::SeededRng;

use crate::Error;
use crate::calibrate::{check_scores, check_share};
use crate::error::out_of_range;
use crate::log_space::log_add;

/// Default of the largest number of scores in the pool.
const CAPACITY: usize = 10_000;

/// `J`, the share of the capital in bets that is divided equally among the three bets at each row.
const JUMP: f64 = 0.01;

/// `ε` of the three bets.
const SLOPES: [f64; 3] = [-1.0, 0.0, 1.0];

/// A test of whether held-out and new scores are exchangeable. Its result is valid after each row. The documentation of
/// the [module](self) describes it.
///
/// ```
/// use nuq::DriftMonitor;
///
/// let held_out: Vec<f64> = (0..500).map(f64::from).collect();
/// let mut monitor = DriftMonitor::new(&held_out, 0.01, 7)?;
/// // Scores above all held-out ones: the wealth reaches 1/0.01 = 100 within a few rows.
/// for _ in 0..30 {
///     monitor.update(1000.0)?;
/// }
/// assert!(monitor.log_wealth() > 100f64.ln());
/// assert!(monitor.alarm().is_some_and(|row| row < 20));
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct DriftMonitor {
    alpha: f64,
    held_out: usize,
    capacity: usize,
    /// Earlier scores, ascending.
    pool: Vec<f64>,
    rows: u64,
    /// The logarithm of the capital in bets.
    log_bets: f64,
    /// The shares of the bets in that capital.
    shares: [f64; 3],
    alarm: Option<u64>,
    rng: SeededRng,
}

/// A [`DriftMonitor`] as plain data.
#[derive(Debug, Clone, PartialEq)]
pub struct DriftParts {
    /// The upper bound on the probability of a false alarm, in (0, 1).
    pub alpha: f64,
    /// The number of held-out scores.
    pub held_out: usize,
    /// The largest number of scores in the pool, at least 1.
    pub capacity: usize,
    /// The pool of earlier scores, ascending.
    pub pool: Vec<f64>,
    /// The number of new rows.
    pub rows: u64,
    /// The logarithm of the capital in bets.
    pub log_bets: f64,
    /// The shares of the three bets in that capital, with sum 1.
    pub shares: [f64; 3],
    /// The position, counted from zero, of the first new row at which the wealth reached `1/α`; `None` if there was no
    /// alarm.
    pub alarm: Option<u64>,
    /// The state of the random number generator.
    pub random_state: u64,
}

impl DriftMonitor {
    /// Starts with the scores of held-out rows. `alpha` bounds the probability of an alarm if nothing changes. `seed`
    /// determines the random choices. Different monitors should have different seeds.
    ///
    /// # Errors
    /// [`Error::NoRows`] or [`Error::NanScore`] for unusable scores, [`Error::OutOfRange`] for `alpha` outside (0, 1).
    pub fn new(held_out: &[f64], alpha: f64, seed: u64) -> Result<Self, Error> {
        Self::with_capacity(held_out, alpha, seed, CAPACITY)
    }

    /// The same as [`new`](Self::new), with a pool of at most `capacity` scores instead of 10,000. The smaller the
    /// pool, the less reliably slow changes are found.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), and [`Error::OutOfRange`] for a capacity of 0.
    pub fn with_capacity(held_out: &[f64], alpha: f64, seed: u64, capacity: usize) -> Result<Self, Error> {
        check_share("alpha", alpha)?;
        check_capacity(capacity)?;
        check_scores(held_out, "held-out scores")?;
        let mut rng = SeededRng::new(seed);
        let chosen = rng.sample(held_out.len(), capacity);
        let mut pool: Vec<f64> = chosen.into_iter().map(|row| held_out[row as usize]).collect();
        pool.sort_by(f64::total_cmp);
        let (held_out, log_bets, shares) = (held_out.len(), f64::NEG_INFINITY, [1.0 / 3.0; 3]);
        Ok(Self { alpha, held_out, capacity, pool, rows: 0, log_bets, shares, alarm: None, rng })
    }

    /// Reads the score of a new row and returns its p-value, which is small if the score exceeds most earlier scores.
    /// The update moves a part of the pool in memory; with the default capacity this takes a few microseconds at most.
    ///
    /// # Errors
    /// [`Error::NanScore`] for NaN. The monitor is then unchanged.
    pub fn update(&mut self, score: f64) -> Result<f64, Error> {
        if score.is_nan() {
            return Err(Error::NanScore { what: "scores", row: self.rows as usize });
        }
        let p_value = self.p_value(score);
        self.bet(p_value);
        if self.alarm.is_none() && self.log_wealth() >= -self.alpha.ln() {
            self.alarm = Some(self.rows - 1);
        }
        Ok(p_value)
    }

    /// Computes the p-value of a score and adds the score to the pool.
    fn p_value(&mut self, score: f64) -> f64 {
        let n = self.pool.len();
        let at = self.pool.partition_point(|other| *other < score);
        let equal = self.pool[at..].partition_point(|other| *other <= score);
        let above = n - at - equal;
        let p_value = (above as f64 + self.rng.uniform() * (equal + 1) as f64) / (n + 1) as f64;
        if n < self.capacity {
            self.pool.insert(at, score);
            return p_value;
        }
        // A position in the ascending list of n + 1 scores. The new score has the position `at` in this list.
        let removed = self.rng.below(n + 1);
        if removed < at {
            self.pool.copy_within(removed + 1..at, removed);
            self.pool[at - 1] = score;
        } else if removed > at {
            self.pool.copy_within(at..removed - 1, at + 1);
            self.pool[at] = score;
        }
        p_value
    }

    fn bet(&mut self, p_value: f64) {
        self.rows += 1;
        let t = self.rows as f64;
        let log_added = -t.ln() - t.ln_1p();
        let log_bets = log_add(self.log_bets, log_added);
        let (kept, added) = ((self.log_bets - log_bets).exp(), (log_added - log_bets).exp());
        let mut growth = 0.0;
        for (share, slope) in self.shares.iter_mut().zip(SLOPES) {
            let capital = *share * kept + added / 3.0;
            *share = ((1.0 - JUMP) * capital + JUMP / 3.0) * (1.0 + slope * (p_value - 0.5));
            growth += *share;
        }
        self.shares.iter_mut().for_each(|share| *share /= growth);
        self.log_bets = log_bets + growth.ln();
    }

    /// The natural logarithm of the wealth; 0 at the start.
    #[must_use]
    pub fn log_wealth(&self) -> f64 {
        log_add(self.log_bets, -(self.rows as f64).ln_1p())
    }

    /// The position, counted from zero, of the first new row at which the wealth reached `1/α`. It does not change
    /// afterwards. `None` if there was no alarm.
    #[must_use]
    pub fn alarm(&self) -> Option<u64> {
        self.alarm
    }

    /// The number of new rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The upper bound on the probability of a false alarm.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The number of held-out scores.
    #[must_use]
    pub fn held_out(&self) -> usize {
        self.held_out
    }

    /// The monitor as plain data.
    #[must_use]
    pub fn parts(&self) -> DriftParts {
        DriftParts {
            alpha: self.alpha,
            held_out: self.held_out,
            capacity: self.capacity,
            pool: self.pool.clone(),
            rows: self.rows,
            log_bets: self.log_bets,
            shares: self.shares,
            alarm: self.alarm,
            random_state: self.rng.state(),
        }
    }

    /// Restores a monitor from its parts. It continues exactly as the original monitor would.
    ///
    /// # Errors
    /// [`Error::NoRows`], [`Error::NanScore`] or [`Error::OutOfRange`] for values that no monitor has.
    pub fn from_parts(parts: DriftParts) -> Result<Self, Error> {
        let DriftParts { alpha, held_out, capacity, mut pool, rows, log_bets, shares, alarm, random_state } =
            parts;
        check_share("alpha", alpha)?;
        check_capacity(capacity)?;
        check_scores(&pool, "pool of scores")?;
        if pool.len() > capacity {
            return Err(out_of_range("pool size", pool.len() as f64, "it must not exceed the capacity"));
        }
        pool.sort_by(f64::total_cmp);
        if held_out == 0 {
            return Err(out_of_range("number of held-out rows", 0.0, "it must be at least 1"));
        }
        // Larger numbers of rows are not exact in `f64`.
        if rows > 1 << f64::MANTISSA_DIGITS {
            return Err(out_of_range("number of rows", rows as f64, "it must be at most 2⁵³"));
        }
        let sum: f64 = shares.iter().sum();
        if !(shares.iter().all(|share| *share >= 0.0) && (sum - 1.0).abs() < 1e-9) {
            return Err(out_of_range("sum of the shares", sum, "it must be 1, and no share may be negative"));
        }
        if log_bets.is_nan() || log_bets == f64::INFINITY {
            return Err(out_of_range("log_bets", log_bets, "it must be a number below infinity"));
        }
        if let Some(row) = alarm
            && row >= rows
        {
            return Err(out_of_range("alarm", row as f64, "it must be the number of a row that was added"));
        }
        let rng = SeededRng::new(random_state);
        Ok(Self { alpha, held_out, capacity, pool, rows, log_bets, shares, alarm, rng })
    }
}

fn check_capacity(capacity: usize) -> Result<(), Error> {
    match capacity {
        0 => Err(out_of_range("capacity", 0.0, "it must be at least 1")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_p_value_is_the_smoothed_rank() {
        // Two of four scores are larger, one is equal: p lies in (2 + [0, 2)) / 5.
        for seed in 0..100 {
            let mut monitor = DriftMonitor::new(&[1.0, 2.0, 3.0, 4.0], 0.01, seed).unwrap();
            let p_value = monitor.update(2.0).unwrap();
            assert!((0.4..0.8).contains(&p_value), "{p_value}");
            assert_eq!(monitor.pool, [1.0, 2.0, 2.0, 3.0, 4.0]);
        }
    }

    #[test]
    fn a_full_pool_stays_sorted_and_keeps_its_size() {
        let held_out: Vec<f64> = (0..CAPACITY).map(|i| i as f64).collect();
        let mut monitor = DriftMonitor::new(&held_out, 0.01, 3).unwrap();
        let mut rng = SeededRng::new(5);
        for i in 0..2000 {
            let score = match i % 3 {
                0 => rng.uniform() * CAPACITY as f64,
                1 => f64::INFINITY,
                _ => f64::NEG_INFINITY,
            };
            let before = monitor.pool.clone();
            monitor.update(score).unwrap();
            assert_eq!(monitor.pool.len(), CAPACITY);
            assert!(monitor.pool.is_sorted());
            // The pool lost one score of the union of the old pool and the new score.
            let mut union = before;
            union.insert(union.partition_point(|other| *other < score), score);
            let lost = monitor.pool.iter().zip(&union).position(|(a, b)| a != b).unwrap_or(CAPACITY);
            union.remove(lost);
            assert_eq!(monitor.pool, union);
        }
        // In each of 2000 steps one score was removed. On average, 90 % of the pool were held-out scores, so about 1800 of them were
        // removed.
        let kept = monitor.pool.iter().filter(|score| score.is_finite() && score.fract() == 0.0).count();
        assert!((8000..8500).contains(&kept), "{kept}");
    }

    #[test]
    fn a_restored_monitor_continues_identically() {
        let mut rng = SeededRng::new(11);
        let held_out: Vec<f64> = (0..300).map(|_| rng.normal()).collect();
        let mut monitor = DriftMonitor::new(&held_out, 0.05, 1).unwrap();
        for _ in 0..50 {
            monitor.update(rng.normal()).unwrap();
        }
        let mut restored = DriftMonitor::from_parts(monitor.parts()).unwrap();
        for _ in 0..500 {
            let score = 2.0 + rng.normal();
            assert_eq!(monitor.update(score), restored.update(score));
        }
        assert_eq!(monitor.parts(), restored.parts());
        assert!(monitor.alarm().is_some());
    }

    #[test]
    fn invalid_values_are_errors() {
        assert!(matches!(DriftMonitor::new(&[], 0.01, 0), Err(Error::NoRows { .. })));
        assert!(DriftMonitor::new(&[1.0], 0.0, 0).is_err());
        let mut monitor = DriftMonitor::new(&[1.0], 0.01, 0).unwrap();
        let before = monitor.parts();
        assert!(matches!(monitor.update(f64::NAN), Err(Error::NanScore { .. })));
        assert_eq!(monitor.parts(), before);
        let parts = DriftParts { shares: [0.5, 0.5, 0.5], ..before.clone() };
        assert!(DriftMonitor::from_parts(parts).is_err());
        assert!(DriftMonitor::from_parts(DriftParts { log_bets: f64::NAN, ..before.clone() }).is_err());
        assert!(DriftMonitor::from_parts(DriftParts { alarm: Some(before.rows), ..before.clone() }).is_err());
        assert!(DriftMonitor::from_parts(DriftParts { pool: vec![], ..before }).is_err());
    }

    #[test]
    fn the_wealth_stays_finite_and_above_its_reserve() {
        let mut monitor = DriftMonitor::new(&[0.0; 10], 0.01, 0).unwrap();
        for i in 1..200_000u32 {
            monitor.bet(if i < 100_000 { f64::from(i % 2) } else { 0.0 });
            let log_wealth = monitor.log_wealth();
            assert!(
                log_wealth.is_finite() && log_wealth >= -f64::from(i + 1).ln() - 1e-9,
                "{i}: {log_wealth}"
            );
        }
        assert!(monitor.log_wealth() > 30_000.0);
    }
}
