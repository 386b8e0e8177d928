//! Drift tests that have ended, because an alarm was acknowledged or because the held-out scores or the probability of a false alarm were
//! replaced.

use nuq::calibrate::Measure;

use super::codec::{Decoder, Encoder};
use super::drift::{Drift, WealthPoint};

/// Largest number of ended tests that are stored for a model. Older tests are removed.
const TESTS: usize = 20;

/// Approximate largest number of points of the wealth over time that are stored for each ended test.
const POINTS: usize = 200;

/// Why a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its alarm was acknowledged.
    Acknowledged,
    /// The held-out scores or the probability of a false alarm were replaced.
    Replaced,
}

impl Ending {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::Replaced => "replaced",
        }
    }
}

/// A test that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndedTest {
    /// Name of the threshold.
    pub(crate) threshold: String,
    pub(crate) measure: Measure,
    /// The probability of a false alarm.
    pub(crate) alpha: f64,
    /// The number of rows that the test read.
    pub(crate) rows: u64,
    /// The time of the start. This and the following times are milliseconds since 1970.
    pub(crate) started_ms: u64,
    pub(crate) ended_ms: u64,
    pub(crate) alarm_ms: Option<u64>,
    pub(crate) ending: Ending,
    /// The wealth over time, by ascending time. The wealth of a test starts at 1; a large wealth is evidence of drift.
    pub(crate) points: Vec<WealthPoint>,
}

/// The ended tests of a model, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct EndedTests {
    tests: Vec<EndedTest>,
    /// The number of tests that ended by an acknowledgement, including tests that are no longer stored.
    pub(crate) acknowledged: u64,
}

impl EndedTests {
    /// Adds a test that ends now. A test that has read no row is not added.
    pub(super) fn add(&mut self, drift: &Drift, ended_ms: u64, ending: Ending) {
        if drift.monitor.rows() == 0 {
            return;
        }
        self.acknowledged += u64::from(ending == Ending::Acknowledged);
        let step = drift.points.len().div_ceil(POINTS).max(1);
        let last = drift.points.len().saturating_sub(1);
        let points = drift.points.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
        self.tests.push(EndedTest {
            threshold: drift.threshold.clone(),
            measure: drift.measure,
            alpha: drift.monitor.alpha(),
            rows: drift.monitor.rows(),
            started_ms: drift.started_ms,
            ended_ms,
            alarm_ms: drift.alarm_ms,
            ending,
            points: points.map(|(_, point)| *point).collect(),
        });
        let surplus = self.tests.len().saturating_sub(TESTS);
        self.tests.drain(..surplus);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &EndedTest> {
        self.tests.iter()
    }

    pub(super) fn encode(&self, encoder: &mut Encoder) {
        encoder.u64(self.acknowledged).u64(self.tests.len() as u64);
        for test in &self.tests {
            encoder.text(&test.threshold).text(test.measure.name()).f64(test.alpha).u64(test.rows);
            encoder.u64(test.started_ms).u64(test.ended_ms).u64(test.alarm_ms.unwrap_or(u64::MAX));
            encoder.text(test.ending.name());
            WealthPoint::encode_all(&test.points, encoder);
        }
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Option<Self> {
        let (acknowledged, count) = (decoder.u64()?, decoder.u64()?);
        let mut tests = vec![];
        for _ in 0..count {
            tests.push(EndedTest {
                threshold: decoder.text()?,
                measure: decoder.text()?.parse().ok()?,
                alpha: decoder.f64()?,
                rows: decoder.u64()?,
                started_ms: decoder.u64()?,
                ended_ms: decoder.u64()?,
                alarm_ms: Some(decoder.u64()?).filter(|time| *time != u64::MAX),
                ending: {
                    let name = decoder.text()?;
                    [Ending::Acknowledged, Ending::Replaced]
                        .into_iter()
                        .find(|ending| ending.name() == name)?
                },
                points: WealthPoint::decode_all(decoder)?,
            });
        }
        Some(Self { tests, acknowledged })
    }
}
