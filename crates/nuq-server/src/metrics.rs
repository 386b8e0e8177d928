//! Counters and histograms in the text format of Prometheus. Labels are values of small sets, such as the routes and the models, so
//! that the number of metrics stays small. Only the names of thresholds are not a fixed set: clients with the write key choose them, and
//! the metrics of a removed threshold remain until the server ends.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use nuq::FittedModel;

use crate::App;
use crate::error::ApiError;
use crate::exchange::Outcome;
use crate::state::Observation;

/// Upper ends of the histogram buckets for durations, in seconds.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// Upper ends of the histogram buckets for the number of rows in a batch.
const ROWS: [f64; 13] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

/// Counts of values by bucket.
#[derive(Debug)]
struct Histogram<const N: usize> {
    ends: [f64; N],
    counts: [AtomicU64; N],
    total: AtomicU64,
    /// The sum in millionths.
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    fn new(ends: [f64; N]) -> Self {
        Self {
            ends,
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            total: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    fn add(&self, value: f64) {
        if let Some(bucket) = self.ends.iter().position(|end| value <= *end) {
            self.counts[bucket].fetch_add(1, Relaxed);
        }
        self.total.fetch_add(1, Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Relaxed);
    }

    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut below = 0;
        for (end, count) in self.ends.iter().zip(&self.counts) {
            below += count.load(Relaxed);
            line(text, &format!("{name}_bucket{{{labels},le=\"{end}\"}}"), below as f64);
        }
        // Another thread may have counted a value in its bucket and not yet in the total.
        let total = self.total.load(Relaxed).max(below) as f64;
        line(text, &format!("{name}_bucket{{{labels},le=\"+Inf\"}}"), total);
        line(text, &format!("{name}_sum{{{labels}}}"), self.sum.load(Relaxed) as f64 / 1e6);
        line(text, &format!("{name}_count{{{labels}}}"), total);
    }
}

/// All metrics of the server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<RequestLabels, u64>>,
    seconds: Mutex<BTreeMap<(String, Outcome), Arc<Histogram<14>>>>,
    models: Mutex<BTreeMap<String, Arc<ModelMetrics>>>,
    pub(crate) running: AtomicUsize,
    pub(crate) connections: AtomicUsize,
}

/// Method, route, status and outcome of requests. The status is `None` if the client was gone before the response began.
type RequestLabels = (MethodName, String, Option<u16>, Outcome);

/// The name of a method. Unknown methods share the name `other`, so that the number of metrics is bounded.
type MethodName = &'static str;

fn method_name(method: &Method) -> MethodName {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::DELETE => "DELETE",
        Method::PUT => "PUT",
        _ => "other",
    }
}

/// The metrics of one model.
#[derive(Debug)]
pub(crate) struct ModelMetrics {
    rows: AtomicU64,
    cancelled: AtomicU64,
    batch_rows: Histogram<13>,
    batch_seconds: Histogram<14>,
    /// For each threshold, the number of rows that it accepted or rejected, and the number of rows that it rejected.
    decisions: Mutex<BTreeMap<String, (u64, u64)>>,
}

impl ModelMetrics {
    fn new() -> Self {
        Self {
            rows: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            batch_rows: Histogram::new(ROWS),
            batch_seconds: Histogram::new(SECONDS),
            decisions: Mutex::default(),
        }
    }

    pub(crate) fn batch(&self, rows: usize, time: Duration) {
        self.rows.fetch_add(rows as u64, Relaxed);
        self.batch_rows.add(rows as f64);
        self.batch_seconds.add(time.as_secs_f64());
    }

    pub(crate) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Relaxed);
    }

    /// Counts the decisions of all thresholds for the observed rows.
    pub(crate) fn decided(&self, observations: &[Observation]) {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        for (threshold, accept) in observations.iter().flat_map(|row| &row.accept) {
            if !decisions.contains_key(threshold) {
                decisions.insert(threshold.to_owned(), (0, 0));
            }
            let sums = decisions.get_mut(threshold).expect("the threshold was inserted");
            sums.0 += 1;
            sums.1 += u64::from(!accept);
        }
    }
}

impl Metrics {
    pub(crate) fn of_model(&self, name: &str) -> Arc<ModelMetrics> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        models.entry(name.to_owned()).or_insert_with(|| Arc::new(ModelMetrics::new())).clone()
    }

    /// Counts a request that has ended.
    pub(crate) fn exchange(
        &self,
        method: &Method,
        route: &str,
        (status, outcome): (Option<u16>, Outcome),
        time: Duration,
    ) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((method_name(method), route.to_owned(), status, outcome)).or_default() += 1;
        drop(requests);
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = seconds.entry((route.to_owned(), outcome));
        let histogram = histogram.or_insert_with(|| Arc::new(Histogram::new(SECONDS))).clone();
        drop(seconds);
        histogram.add(time.as_secs_f64());
    }

    /// The counted metrics as text. [`get`] adds the metrics that are read from the models, such as the number of training rows.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let help =
            "Requests by method, route, status and outcome: complete, aborted by the client, or incomplete.";
        head(&mut text, "nuq_requests_total", "counter", help);
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((method, route, status, outcome), count) in requests {
            let status = status.map_or("none".to_owned(), |status| status.to_string());
            let labels = format!(
                "method=\"{method}\",route=\"{}\",status=\"{status}\",outcome=\"{}\"",
                escaped(&route),
                outcome.name()
            );
            line(&mut text, &format!("nuq_requests_total{{{labels}}}"), count as f64);
        }
        head(&mut text, "nuq_request_seconds", "histogram", "Time until the response ended.");
        let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((route, outcome), histogram) in seconds {
            let labels = format!("route=\"{}\",outcome=\"{}\"", escaped(&route), outcome.name());
            histogram.write(&mut text, "nuq_request_seconds", &labels);
        }
        head(&mut text, "nuq_requests_running", "gauge", "Requests that are processed now.");
        line(&mut text, "nuq_requests_running", self.running.load(Relaxed) as f64);
        head(&mut text, "nuq_connections", "gauge", "Open connections.");
        line(&mut text, "nuq_connections", self.connections.load(Relaxed) as f64);
        if let Some(bytes) = resident_bytes() {
            head(&mut text, "process_resident_memory_bytes", "gauge", "Memory of the process.");
            line(&mut text, "process_resident_memory_bytes", bytes as f64);
        }
        self.write_models(&mut text);
        text
    }

    fn write_models(&self, text: &mut String) {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let label = |name: &str| format!("model=\"{}\"", escaped(name));
        head(text, "nuq_rows_total", "counter", "Scored rows.");
        for (name, model) in &models {
            line(text, &format!("nuq_rows_total{{{}}}", label(name)), model.rows.load(Relaxed) as f64);
        }
        let help = "Batches that were cancelled because no request waited for the results.";
        head(text, "nuq_cancelled_batches_total", "counter", help);
        for (name, model) in &models {
            let series = format!("nuq_cancelled_batches_total{{{}}}", label(name));
            line(text, &series, model.cancelled.load(Relaxed) as f64);
        }
        head(text, "nuq_batch_rows", "histogram", "Rows that were computed together.");
        models.iter().for_each(|(name, model)| model.batch_rows.write(text, "nuq_batch_rows", &label(name)));
        head(text, "nuq_batch_seconds", "histogram", "Time of the computation of a batch.");
        models
            .iter()
            .for_each(|(name, model)| model.batch_seconds.write(text, "nuq_batch_seconds", &label(name)));
        let decisions = models.iter().flat_map(|(name, model)| {
            let decisions = model.decisions.lock().unwrap_or_else(PoisonError::into_inner).clone();
            decisions.into_iter().map(move |(threshold, sums)| (name, threshold, sums))
        });
        let decisions: Vec<_> = decisions.collect();
        for (metric, help, is_rejected) in [
            ("nuq_decided_rows_total", "Rows that a threshold accepted or rejected.", false),
            ("nuq_rejected_rows_total", "Rows that a threshold rejected.", true),
        ] {
            head(text, metric, "counter", help);
            for (name, threshold, (rows, rejected)) in &decisions {
                let series = format!("{metric}{{{},threshold=\"{}\"}}", label(name), escaped(threshold));
                line(text, &series, if is_rejected { *rejected } else { *rows } as f64);
            }
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn line(text: &mut String, series: &str, value: f64) {
    let _ = writeln!(text, "{series} {value}");
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// The memory of the process, on Linux.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Writes the metrics of the recorded activity and of the drift monitor. The wealth of the monitor is its evidence of drift: it starts at
/// 1, and a wealth of 1/alpha raises an alarm.
fn write_state(text: &mut String, app: &App) {
    let label = |name: &str| format!("model=\"{}\"", escaped(name));
    let help = "Scored rows that are not part of the recorded activity and of the drift test.";
    head(text, "nuq_unrecorded_rows_total", "counter", help);
    for served in app.models.iter() {
        let series = format!("nuq_unrecorded_rows_total{{{}}}", label(&served.name));
        line(text, &series, served.state.dropped_rows() as f64);
    }
    let drift: Vec<(String, f64, bool, u64)> = app
        .models
        .iter()
        .filter_map(|served| {
            let telemetry = served.state.telemetry();
            let drift = telemetry.drift.as_ref()?;
            // At the start the wealth is 1, and `log_wealth` returns -0. Adding 0.0 turns it into 0.
            let log10_wealth = drift.monitor.log_wealth() / std::f64::consts::LN_10 + 0.0;
            Some((
                label(&served.name),
                log10_wealth,
                drift.monitor.alarm().is_some(),
                drift.ended.acknowledged,
            ))
        })
        .collect();
    head(
        text,
        "nuq_drift_log10_wealth",
        "gauge",
        "Base-10 logarithm of the wealth of the drift monitor. An alarm is raised at -log10(alpha).",
    );
    for (label, log10_wealth, ..) in &drift {
        line(text, &format!("nuq_drift_log10_wealth{{{label}}}"), *log10_wealth);
    }
    let help = "1 if the drift monitor has raised an alarm that is not acknowledged, otherwise 0.";
    head(text, "nuq_drift_alarm", "gauge", help);
    for (label, _, alarm, _) in &drift {
        line(text, &format!("nuq_drift_alarm{{{label}}}"), f64::from(u8::from(*alarm)));
    }
    head(text, "nuq_drift_acknowledged_total", "counter", "Acknowledged alarms of the drift monitor.");
    for (label, .., acknowledged) in &drift {
        line(text, &format!("nuq_drift_acknowledged_total{{{label}}}"), *acknowledged as f64);
    }
}

/// `GET /metrics`.
pub(crate) async fn get(State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    let task = tokio::task::spawn_blocking(move || {
        let mut text = app.metrics.text();
        head(&mut text, "nuq_body_bytes", "gauge", "Memory of the bodies of current requests.");
        line(&mut text, "nuq_body_bytes", app.capacity.body_bytes() as f64);
        head(&mut text, "nuq_model_rows", "gauge", "Training rows of the model.");
        for served in app.models.iter() {
            if let Ok(model) = served.current().read() {
                let series = format!("nuq_model_rows{{model=\"{}\"}}", served.name);
                line(&mut text, &series, model.index().len() as f64);
            }
        }
        head(&mut text, "nuq_model_version", "gauge", "Version of the model. Each change adds one.");
        for served in app.models.iter() {
            line(
                &mut text,
                &format!("nuq_model_version{{model=\"{}\"}}", served.name),
                served.version() as f64,
            );
        }
        write_state(&mut text, &app);
        text
    });
    let text = task.await.map_err(|_| ApiError::internal())?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_histogram_are_cumulative() {
        let histogram = Histogram::new([1.0, 2.0]);
        [0.5, 1.0, 1.5, 9.0].into_iter().for_each(|value| histogram.add(value));
        let mut text = String::new();
        histogram.write(&mut text, "x", "a=\"b\"");
        let expected = "x_bucket{a=\"b\",le=\"1\"} 2\nx_bucket{a=\"b\",le=\"2\"} 3\nx_bucket{a=\"b\",le=\"+Inf\"} 4\n\
                        x_sum{a=\"b\"} 12\nx_count{a=\"b\"} 4\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\n"), r#"a\"b\\c\n"#);
    }
}
