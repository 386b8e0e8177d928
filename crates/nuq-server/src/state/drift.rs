//! The drift monitor of a model, with the wealth of its test over time. The wealth starts at 1, and a large wealth is evidence that the
//! rows have changed (see [`DriftMonitor`]).

use nuq::DriftMonitor;
use nuq::calibrate::{Measure, Predictor, Rules};
use nuq::parts::DriftParts;

use super::Observation;
use super::codec::{Decoder, Encoder};
use super::ended_test::{EndedTests, Ending};

/// Largest number of points of the wealth over time. When there are more, every second one is removed, and the time between points
/// doubles.
const POINTS: usize = 2000;

/// The initial time between points, in milliseconds.
const INTERVAL_MS: u64 = 200;

/// A threshold whose held-out scores the drift test compares with the scores of new rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DriftSource {
    pub(crate) threshold: String,
    pub(crate) measure: Measure,
    predictor: Predictor,
    /// The held-out scores, ascending.
    scores: Vec<f64>,
}

impl DriftSource {
    /// The threshold that is used for the drift test. Candidates are the thresholds that have held-out scores and were not calibrated on
    /// training rows. Thresholds on the epistemic uncertainty are preferred, then those on the density, the total uncertainty and the
    /// aleatoric uncertainty. Among thresholds on the same measure, the first name in alphabetical order is used.
    /// `None` if there is no candidate.
    pub(crate) fn of(rules: &Rules) -> Option<Self> {
        let order = [Measure::Epistemic, Measure::Density, Measure::Total, Measure::Aleatoric];
        order.into_iter().find_map(|measure| {
            rules.thresholds.iter().find_map(|(name, threshold)| {
                let is_usable = threshold.measure == measure && threshold.score.training_rows == 0;
                let scores = rules.held_out_scores(name).filter(|_| is_usable)?.to_vec();
                Some(Self { threshold: name.clone(), measure, predictor: threshold.predictor, scores })
            })
        })
    }

    /// Identifies the scores: FNV-1a of their bytes.
    fn checksum(&self) -> u64 {
        let bytes = self.scores.iter().flat_map(|score| score.to_bits().to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }

    /// The conformal p-value of a row among the held-out scores: `(1 + #{i : s_i ≥ s}) / (n + 1)`. `None` if the row
    /// has no [`score`](Self::score).
    pub(super) fn p_value(&self, row: &Observation) -> Option<f64> {
        let score = self.score(row)?;
        let below = self.scores.partition_point(|held_out| *held_out < score);
        let n = self.scores.len();
        Some((1 + n - below) as f64 / (n + 1) as f64)
    }

    /// The score of a row; `None` if the threshold was not applied to the row, if the row has the prediction of another predictor
    /// (this does not matter for the density), or if the score is NaN.
    fn score(&self, row: &Observation) -> Option<f64> {
        let is_compared = row.accept.iter().any(|(name, _)| *name == self.threshold);
        let has_predictor = self.measure == Measure::Density || row.predictor == self.predictor;
        Some(row.measure(self.measure)).filter(|score| is_compared && has_predictor && !score.is_nan())
    }
}

/// The wealth at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WealthPoint {
    /// Milliseconds since 1970.
    pub(crate) time_ms: u64,
    /// The natural logarithm of the wealth.
    pub(crate) log_wealth: f64,
}

impl WealthPoint {
    pub(super) fn encode_all(points: &[Self], encoder: &mut Encoder) {
        encoder.u64(points.len() as u64);
        for point in points {
            encoder.u64(point.time_ms).f64(point.log_wealth);
        }
    }

    pub(super) fn decode_all(decoder: &mut Decoder<'_>) -> Option<Vec<Self>> {
        let count = decoder.u64()?;
        let mut points = vec![];
        for _ in 0..count {
            points.push(Self { time_ms: decoder.u64()?, log_wealth: decoder.f64()? });
        }
        Some(points)
    }
}

/// A monitor and its wealth over time.
#[derive(Debug, Clone)]
pub(crate) struct Drift {
    /// Name of the threshold.
    pub(crate) threshold: String,
    pub(crate) measure: Measure,
    /// Checksum of the held-out scores of the threshold.
    checksum: u64,
    pub(crate) monitor: DriftMonitor,
    /// The wealth over time, by ascending time. The last point is the current wealth.
    pub(crate) points: Vec<WealthPoint>,
    /// Milliseconds between points.
    interval_ms: u64,
    /// The time of the first alarm, in milliseconds since 1970.
    pub(crate) alarm_ms: Option<u64>,
    /// The time at which the monitor started, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// Earlier tests of the model.
    pub(crate) ended: EndedTests,
}

impl Drift {
    /// A new monitor, or `None` if the scores or `alpha` cannot be used.
    pub(super) fn start(source: &DriftSource, alpha: f64, seed: u64, started_ms: u64) -> Option<Self> {
        Some(Self {
            threshold: source.threshold.clone(),
            measure: source.measure,
            checksum: source.checksum(),
            monitor: DriftMonitor::new(&source.scores, alpha, seed).ok()?,
            points: vec![],
            interval_ms: INTERVAL_MS,
            alarm_ms: None,
            started_ms,
            ended: EndedTests::default(),
        })
    }

    /// The monitor that replaces this one, with this one in its history. The new monitor begins with the held-out scores
    /// only: it does not take over the rows that this monitor has read, because these rows may differ from the held-out rows.
    pub(super) fn restart(
        &self,
        source: &DriftSource,
        alpha: f64,
        seed: u64,
        ending: Ending,
    ) -> Option<Self> {
        let now = super::now_ms();
        let mut next = Self::start(source, alpha, seed, now)?;
        next.ended = self.ended.clone();
        next.ended.add(self, now, ending);
        Some(next)
    }

    /// Whether the monitor compares rows with the scores of this source.
    pub(super) fn is_of(&self, source: &DriftSource) -> bool {
        self.threshold == source.threshold
            && self.measure == source.measure
            && self.checksum == source.checksum()
    }

    pub(super) fn add(&mut self, source: &DriftSource, row: &Observation) {
        let Some(score) = source.score(row) else { return };
        if self.monitor.update(score).is_err() {
            return;
        }
        if self.monitor.alarm().is_some() && self.alarm_ms.is_none() {
            self.alarm_ms = Some(row.time_ms);
        }
        let point = WealthPoint { time_ms: row.time_ms, log_wealth: self.monitor.log_wealth() };
        // Later points were recorded while the clock was ahead, or by a thread that was slightly faster.
        while self.points.last().is_some_and(|last| last.time_ms > point.time_ms) {
            self.points.pop();
        }
        // The last point is replaced until it is at least one interval later than the point before it.
        match self.points.as_mut_slice() {
            [.., before, last] if last.time_ms.saturating_sub(before.time_ms) < self.interval_ms => {
                *last = point
            }
            _ => self.points.push(point),
        }
        if self.points.len() > POINTS {
            let last = self.points.len() - 1;
            let mut at = 0..;
            self.points.retain(|_| at.next().is_some_and(|at| at % 2 == 0 || at == last));
            self.interval_ms *= 2;
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let parts = self.monitor.parts();
        let mut encoder = Encoder::default();
        encoder.text(&self.threshold).text(self.measure.name()).u64(self.checksum).u64(self.interval_ms);
        encoder.u64(self.alarm_ms.map_or(u64::MAX, |time| time));
        encoder.f64(parts.alpha).u64(parts.held_out as u64).u64(parts.capacity as u64).f64s(&parts.pool);
        encoder.u64(parts.rows).f64(parts.log_bets).f64s(&parts.shares);
        encoder.u64(parts.alarm.unwrap_or(u64::MAX)).u64(parts.random_state);
        WealthPoint::encode_all(&self.points, &mut encoder);
        encoder.u64(self.started_ms);
        self.ended.encode(&mut encoder);
        encoder.finish()
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` for other bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let (threshold, measure) = (decoder.text()?, decoder.text()?.parse().ok()?);
        let (checksum, interval_ms) = (decoder.u64()?, decoder.u64()?);
        let present = |value: u64| Some(value).filter(|value| *value != u64::MAX);
        let alarm_ms = present(decoder.u64()?);
        let parts = DriftParts {
            alpha: decoder.f64()?,
            held_out: decoder.u64()? as usize,
            capacity: decoder.u64()? as usize,
            pool: decoder.f64s()?,
            rows: decoder.u64()?,
            log_bets: decoder.f64()?,
            shares: decoder.f64s()?.try_into().ok()?,
            alarm: present(decoder.u64()?),
            random_state: decoder.u64()?,
        };
        let monitor = DriftMonitor::from_parts(parts).ok()?;
        let points = WealthPoint::decode_all(&mut decoder)?;
        let started_ms = decoder.u64()?;
        let ended = EndedTests::decode(&mut decoder)?;
        Some(Self { threshold, measure, checksum, monitor, points, interval_ms, alarm_ms, started_ms, ended })
    }
}

#[cfg(test)]
mod tests {
    use nuq::calibrate::{Target, calibrate};

    use super::super::tests::observation;
    use super::*;

    fn source() -> DriftSource {
        let scores: Vec<f64> = (0..100).map(f64::from).collect();
        let mut rules = Rules::default();
        for measure in [Measure::Total, Measure::Epistemic] {
            let threshold = calibrate(measure, &scores, None, Target::Coverage(0.9)).unwrap();
            rules.set_threshold(&measure.to_string(), threshold, &scores).unwrap();
        }
        // The threshold "a" is not a candidate, because it was calibrated on training rows.
        let on_training_rows = rules.thresholds["epistemic"].on_training_rows(50);
        rules.set_threshold("a", on_training_rows, &scores).unwrap();
        DriftSource::of(&rules).unwrap()
    }

    #[test]
    fn held_out_scores_of_the_epistemic_uncertainty_are_preferred() {
        assert_eq!(source().threshold, "epistemic");
        assert_eq!(DriftSource::of(&Rules::default()), None);
    }

    #[test]
    fn rows_of_another_predictor_or_without_the_threshold_do_not_enter_the_test() {
        let source = source();
        let mut drift = Drift::start(&source, 0.01, 1, 0).unwrap();
        drift.add(&source, &observation(0, 5.0, true));
        assert_eq!(drift.monitor.rows(), 1);
        let mut of_network = observation(1, 5.0, true);
        of_network.predictor = Predictor::Network;
        drift.add(&source, &of_network);
        let mut without_threshold = observation(2, 5.0, true);
        without_threshold.accept.clear();
        drift.add(&source, &without_threshold);
        assert_eq!(drift.monitor.rows(), 1);
    }

    #[test]
    fn p_values_are_equal_to_conformal_p_values() {
        let source = source();
        for score in [-1.0, 0.0, 49.5, 99.0, f64::INFINITY] {
            let expected = nuq::calibrate::conformal_p_values(&source.scores, &[score]).unwrap()[0];
            assert_eq!(source.p_value(&observation(0, score, true)), Some(expected));
        }
    }

    #[test]
    fn points_are_bounded_and_the_last_one_is_current() {
        let source = source();
        let mut drift = Drift::start(&source, 0.01, 1, 0).unwrap();
        for i in 0..20_000u64 {
            drift.add(&source, &observation(i * 1000, (i % 100) as f64, true));
            assert!(drift.points.len() <= POINTS);
            let last = drift.points.last().unwrap();
            assert_eq!((last.time_ms, last.log_wealth), (i * 1000, drift.monitor.log_wealth()));
        }
        assert!(drift.points.len() > POINTS / 4 && drift.points.is_sorted_by_key(|point| point.time_ms));
    }

    #[test]
    fn a_test_that_starts_again_has_a_wealth_of_one_and_the_history() {
        let source = source();
        let mut drift = Drift::start(&source, 0.01, 1, 5).unwrap();
        (10..60).for_each(|i| drift.add(&source, &observation(i, f64::INFINITY, false)));
        let mut next = drift.restart(&source, 0.01, 2, Ending::Acknowledged).unwrap();
        assert_eq!((next.monitor.log_wealth(), next.monitor.rows(), next.alarm_ms), (0.0, 0, None));
        // New rows are not compared with the rows of the ended test.
        assert_eq!(next.monitor.parts().pool, source.scores);
        let ended: Vec<_> = next.ended.iter().collect();
        assert_eq!((ended.len(), ended[0].rows, ended[0].started_ms), (1, 50, 5));
        assert_eq!((ended[0].alarm_ms, ended[0].points.last()), (drift.alarm_ms, drift.points.last()));
        // A further alarm is raised if the rows still differ.
        (60..110).for_each(|i| next.add(&source, &observation(i, f64::INFINITY, false)));
        assert!(next.alarm_ms.is_some_and(|time| time >= 60));
        for _ in 0..30 {
            next = next.restart(&source, 0.01, 3, Ending::Acknowledged).unwrap();
            (0..9).for_each(|i| next.add(&source, &observation(i, 3.0, true)));
        }
        assert_eq!((next.ended.iter().count(), next.ended.acknowledged), (20, 31));
    }

    #[test]
    fn a_stored_monitor_continues_identically() {
        let source = source();
        let mut drift = Drift::start(&source, 0.01, 1, 0).unwrap();
        (0..50).for_each(|i| drift.add(&source, &observation(i, f64::INFINITY, false)));
        assert!(drift.alarm_ms.is_some());
        drift = drift.restart(&source, 0.01, 1, Ending::Replaced).unwrap();
        let mut restored = Drift::decode(&drift.encode()).unwrap();
        assert!(restored.is_of(&source));
        for i in 50..100 {
            drift.add(&source, &observation(i, 3.0, true));
            restored.add(&source, &observation(i, 3.0, true));
        }
        assert_eq!(drift.encode(), restored.encode());
        let bytes = drift.encode();
        assert!((0..bytes.len()).step_by(97).all(|length| Drift::decode(&bytes[..length]).is_none()));
    }
}
