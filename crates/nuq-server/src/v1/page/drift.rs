//! The drift test of a model, and the acknowledgement of its alarm. The wealth of the test starts at 1, and a large wealth is evidence that
//! the rows have changed.

use axum::Json;
use serde_json::{Value, json};

use super::super::blocking;
use crate::error::ApiError;
use crate::models::NamedModel;
use crate::state::{EndedTest, WealthPoint};

/// Largest number of points of the wealth over time, besides the last point.
const POINTS: usize = 600;

pub(super) async fn get(NamedModel(served): NamedModel) -> Json<Value> {
    let telemetry = served.state.telemetry();
    let Some(drift) = &telemetry.drift else {
        return Json(
            json!({ "available": telemetry.source.is_some(), "points": [], "alarm": null, "ended": [] }),
        );
    };
    let step = drift.points.len().div_ceil(POINTS).max(1);
    let last = drift.points.len().saturating_sub(1);
    let shown = drift.points.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
    let alpha = drift.monitor.alpha();
    Json(json!({
        "available": true,
        "is_paused": telemetry.source.is_none(),
        "alpha": alpha,
        // The name of the threshold whose held-out scores the test uses.
        "threshold": drift.threshold,
        "measure": drift.measure.to_string(),
        "rows": drift.monitor.rows(),
        "held_out_rows": drift.monitor.held_out(),
        "started": drift.started_ms,
        "points": points(shown.map(|(_, point)| point)),
        "alarm": alarm(drift.alarm_ms),
        // The number of tests that ended because their alarm was acknowledged.
        "acknowledged": drift.ended.acknowledged,
        "ended": drift.ended.iter().map(ended).collect::<Vec<_>>(),
        "statement": statement(alpha, drift.ended.iter().next().is_some()),
    }))
}

/// The guarantee of the test in words. If there were earlier tests, the guarantee is for the rows since the start of each test.
fn statement(alpha: f64, has_earlier: bool) -> String {
    // Rounded, since 100 × 0.07 is 7.000000000000001.
    let percent = (1e8 * alpha).round() / 1e6;
    let chance = format!("the probability that there is ever an alarm is at most {percent} %");
    match has_earlier {
        false => format!("If nothing changed, {chance}."),
        true => format!(
            "For each start of the test: if the rows since then are like the held-out rows, {chance}. After a false alarm the \
             probability is higher, because all starts share the held-out rows."
        ),
    }
}

fn alarm(time_ms: Option<u64>) -> Option<Value> {
    time_ms.map(|time| json!({ "time": time }))
}

fn points<'p>(points: impl Iterator<Item = &'p WealthPoint>) -> Vec<Value> {
    let point = |point: &WealthPoint| json!({ "time": point.time_ms, "log10_wealth": point.log_wealth / std::f64::consts::LN_10 });
    points.map(point).collect()
}

fn ended(test: &EndedTest) -> Value {
    json!({
        "threshold": test.threshold,
        "measure": test.measure.to_string(),
        "alpha": test.alpha,
        "rows": test.rows,
        "started": test.started_ms,
        "ended": test.ended_ms,
        "ended_by": test.ending.name(),
        "alarm": alarm(test.alarm_ms),
        "points": points(test.points.iter()),
    })
}

/// Acknowledges the alarm. The test starts again with a wealth of 1.
pub(super) async fn acknowledge(NamedModel(served): NamedModel) -> Result<Json<Value>, ApiError> {
    let value = blocking(move || {
        let time = served.state.acknowledge_drift()?;
        tracing::info!(model = served.name, alarm = time, "the alarm of the drift test is acknowledged");
        let telemetry = served.state.telemetry();
        let started = telemetry.drift.as_ref().map(|drift| drift.started_ms);
        Ok(json!({ "alarm": alarm(Some(time)), "started": started }))
    });
    value.await.map(Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_depends_on_earlier_tests() {
        assert_eq!(
            statement(0.01, false),
            "If nothing changed, the probability that there is ever an alarm is at most 1 %."
        );
        assert!(statement(0.05, true).starts_with("For each start of the test: if the rows since then"));
        assert!(statement(0.07, true).contains("at most 7 %"));
    }
}
