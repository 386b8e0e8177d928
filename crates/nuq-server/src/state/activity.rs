//! Sums of requests, rows, rejected rows and latencies, per minute and per five seconds. Intervals without requests are not stored.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// The largest number of intervals of one minute that are stored: one week, if every minute has requests.
pub(super) const MINUTES: usize = 7 * 24 * 60;

/// The largest number of intervals of five seconds that are kept in memory: fifteen minutes, if every interval has requests.
const SHORT_INTERVALS: usize = 15 * 12;

const MINUTE_MS: u64 = 60_000;
const SHORT_MS: u64 = 5_000;

/// Latencies are counted in buckets: bucket `i` ends at `10 µs · 2^(i/4)`. The last bucket has no end.
const BUCKETS: usize = 96;
const SHORTEST: f64 = 1e-5;

/// The sums of one interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    /// The beginning, in milliseconds since 1970.
    pub(crate) start_ms: u64,
    pub(crate) requests: u64,
    pub(crate) rows: u64,
    /// Numbers of rows that each threshold accepted or rejected.
    pub(crate) thresholds: BTreeMap<String, Decisions>,
    /// Numbers of requests by bucket of latency, without trailing zeros.
    latencies: Vec<u32>,
}

/// Numbers of rows on which a threshold decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decisions {
    /// Accepted and rejected rows.
    pub(crate) rows: u64,
    pub(crate) rejected: u64,
}

impl Interval {
    fn add_latency(&mut self, seconds: f64) {
        let bucket = (4.0 * (seconds / SHORTEST).log2()).ceil().clamp(0.0, (BUCKETS - 1) as f64) as usize;
        if self.latencies.len() <= bucket {
            self.latencies.resize(bucket + 1, 0);
        }
        self.latencies[bucket] = self.latencies[bucket].saturating_add(1);
    }

    /// A quantile of the latencies in seconds, accurate to a factor of `2^(1/8)`; `None` without requests.
    pub(crate) fn latency(&self, share: f64) -> Option<f64> {
        let total: u64 = self.latencies.iter().map(|&count| u64::from(count)).sum();
        let rank = (share * total as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let bucket = self.latencies.iter().position(|&count| {
            sum += u64::from(count);
            sum >= rank
        })?;
        // The geometric middle of the bucket.
        Some(SHORTEST * ((bucket as f64 - 0.5) / 4.0).exp2())
    }
}

/// Intervals of equal length, by ascending time. Intervals without requests are absent.
#[derive(Debug)]
struct Series {
    length_ms: u64,
    limit: usize,
    intervals: VecDeque<Interval>,
}

impl Series {
    fn new(length_ms: u64, limit: usize) -> Self {
        Self { length_ms, limit, intervals: VecDeque::new() }
    }

    /// The interval that contains a time. Much later intervals are removed: the clock was ahead when they were recorded, and was set back since. Slightly
    /// later ones are kept, because rows of several threads arrive in any order.
    fn at(&mut self, time_ms: u64) -> &mut Interval {
        let start_ms = time_ms - time_ms % self.length_ms;
        let latest_ms = start_ms.saturating_add(2 * self.length_ms);
        while self.intervals.back().is_some_and(|last| last.start_ms > latest_ms) {
            self.intervals.pop_back();
        }
        let mut at = self.intervals.partition_point(|interval| interval.start_ms < start_ms);
        if self.intervals.get(at).is_none_or(|interval| interval.start_ms != start_ms) {
            if self.intervals.len() == self.limit {
                // At most two intervals are later, so the first one is before the new one.
                self.intervals.pop_front();
                at = at.saturating_sub(1);
            }
            self.intervals.insert(at, Interval { start_ms, ..Interval::default() });
        }
        &mut self.intervals[at]
    }

    fn since(&self, first_ms: u64) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().skip_while(move |interval| interval.start_ms < first_ms)
    }
}

/// The sums of the last [`MINUTES`] minutes and [`SHORT_INTERVALS`] intervals of five seconds with requests.
#[derive(Debug)]
pub(crate) struct Activity {
    minutes: Series,
    short: Series,
    /// The beginning of the first minute that differs from the database.
    changed_from: Option<u64>,
}

impl Default for Activity {
    fn default() -> Self {
        Self::restored(vec![])
    }
}

impl Activity {
    /// The activity with these stored minutes, which are in ascending order.
    pub(super) fn restored(intervals: Vec<Interval>) -> Self {
        let minutes = Series { intervals: intervals.into(), ..Series::new(MINUTE_MS, MINUTES) };
        Self { minutes, short: Series::new(SHORT_MS, SHORT_INTERVALS), changed_from: None }
    }

    /// Applies a change to the two intervals that contain a time.
    fn update(&mut self, time_ms: u64, change: impl Fn(&mut Interval)) {
        change(self.short.at(time_ms));
        let minute = self.minutes.at(time_ms);
        change(minute);
        let start_ms = minute.start_ms;
        self.mark_changed(start_ms);
    }

    /// Marks the minute with this start, and all later ones, as different from the database.
    pub(super) fn mark_changed(&mut self, start_ms: u64) {
        self.changed_from = Some(self.changed_from.map_or(start_ms, |first| first.min(start_ms)));
    }

    pub(super) fn add_request(&mut self, time_ms: u64, seconds: f64) {
        self.update(time_ms, |interval| {
            interval.requests += 1;
            interval.add_latency(seconds);
        });
    }

    pub(super) fn add_row(&mut self, time_ms: u64, accept: &[(String, bool)]) {
        self.update(time_ms, |interval| {
            interval.rows += 1;
            for (name, accept) in accept {
                // A name is cloned only once in each interval.
                let decisions = match interval.thresholds.get_mut(name) {
                    Some(decisions) => decisions,
                    None => interval.thresholds.entry(name.clone()).or_default(),
                };
                decisions.rows += 1;
                decisions.rejected += u64::from(!accept);
            }
        });
    }

    /// The minutes that begin at `first_ms` or later, by ascending time.
    pub(crate) fn minutes(&self, first_ms: u64) -> impl Iterator<Item = &Interval> {
        self.minutes.since(first_ms)
    }

    /// The intervals of five seconds that begin at `first_ms` or later, by ascending time. They are
    /// intervals since the start of this process.
    pub(crate) fn short_intervals(&self, first_ms: u64) -> impl Iterator<Item = &Interval> {
        self.short.since(first_ms)
    }

    /// The minutes that changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<Interval> {
        let Some(first) = self.changed_from.take() else { return vec![] };
        self.minutes(first).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_separate_for_each_interval() {
        let mut activity = Activity::default();
        let accept = [("a".to_owned(), true), ("b".to_owned(), false)];
        activity.add_row(60_000, &accept);
        activity.add_row(119_999, &accept[..1]);
        activity.add_row(120_000, &accept);
        activity.add_request(120_000, 0.5);
        let minutes: Vec<&Interval> = activity.minutes(0).collect();
        let sums = |intervals: &[&Interval]| -> Vec<(u64, u64, u64)> {
            intervals.iter().map(|sums| (sums.start_ms, sums.rows, sums.requests)).collect()
        };
        assert_eq!(sums(&minutes), [(60_000, 2, 0), (120_000, 1, 1)]);
        let short: Vec<&Interval> = activity.short_intervals(0).collect();
        assert_eq!(sums(&short), [(60_000, 1, 0), (115_000, 1, 0), (120_000, 1, 1)]);
        assert_eq!(minutes[0].thresholds["a"], Decisions { rows: 2, rejected: 0 });
        assert_eq!(minutes[0].thresholds["b"], Decisions { rows: 1, rejected: 1 });
        assert_eq!(activity.minutes(60_001).count(), 1);
        assert_eq!(activity.take_changed().len(), 2);
        assert!(activity.take_changed().is_empty());
        activity.add_row(120_001, &[]);
        assert_eq!(activity.take_changed().iter().map(|sums| sums.start_ms).collect::<Vec<_>>(), [120_000]);
    }

    #[test]
    fn quantiles_of_latencies_are_accurate_to_a_bucket() {
        let mut interval = Interval::default();
        assert_eq!(interval.latency(0.5), None);
        (1..=100).for_each(|i| interval.add_latency(f64::from(i) * 1e-3));
        for (share, expected) in [(0.5, 0.05), (0.99, 0.099)] {
            let ratio = interval.latency(share).unwrap() / expected;
            assert!((0.84..1.19).contains(&ratio), "{share}: {ratio}");
        }
        for seconds in [0.0, 1e9, f64::INFINITY] {
            interval.add_latency(seconds);
        }
        assert!(interval.latency(1.0).unwrap() > 100.0);
    }

    #[test]
    fn intervals_are_right_after_the_clock_was_ahead() {
        let (mut activity, minute) = (Activity::default(), MINUTE_MS);
        activity.add_request(10 * minute, 0.1);
        // Rows of several threads arrive in any order.
        activity.add_request(11 * minute, 0.1);
        activity.add_request(10 * minute + 5, 0.1);
        activity.add_request(u64::MAX / 2, 0.1);
        activity.add_request(12 * minute, 0.1);
        let starts: Vec<(u64, u64)> =
            activity.minutes(0).map(|sums| (sums.start_ms / minute, sums.requests)).collect();
        assert_eq!(starts, [(10, 2), (11, 1), (12, 1)]);
        assert_eq!(activity.take_changed().len(), 3);
    }

    #[test]
    fn old_minutes_are_removed() {
        let mut activity = Activity::default();
        (0..MINUTES as u64 + 5).for_each(|minute| activity.add_request(minute * 60_000, 0.1));
        assert_eq!(activity.minutes(0).count(), MINUTES);
        assert_eq!(activity.minutes(0).next().unwrap().start_ms, 5 * 60_000);
        assert_eq!(activity.short_intervals(0).count(), SHORT_INTERVALS);
    }
}
