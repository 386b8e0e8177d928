//! Time of fit with leave-one-out selection of the bandwidth, time of predict, and the peak memory of the process.

use std::process::Command;
use std::time::Instant;

use nuq::NuqClassifier;
use nuq_neighbors::{ExactIndex, NeighborIndex, Pruning};

use crate::data::Source;
use crate::peers;

/// Seconds of fit and predict of the Python package of the paper's authors for the same sizes, on two idle cores. These times are quoted, not
/// measured: the package cannot be installed.
struct Authors {
    fit: f64,
    predict: f64,
}

struct Case {
    rows: usize,
    dim: usize,
    classes: usize,
    authors: Option<Authors>,
}

const QUERIES: usize = 10_000;
/// The default number of neighbors of a classifier.
const K: usize = 20;
const CASES: [Case; 3] = [
    Case { rows: 40_000, dim: 50, classes: 10, authors: Some(Authors { fit: 35.0, predict: 2.0 }) },
    Case { rows: 50_000, dim: 512, classes: 100, authors: Some(Authors { fit: 133.0, predict: 4.2 }) },
    Case { rows: 50_000, dim: 2048, classes: 100, authors: None },
];

/// Measurements of one process.
pub(crate) struct Measured {
    /// Seconds of the fit.
    pub(crate) fit: f64,
    /// Seconds of the prediction of all queries.
    pub(crate) predict: f64,
    pub(crate) accuracy: f64,
    /// Peak memory in bytes; `None` if the system does not report it.
    pub(crate) peak: Option<f64>,
}

const MIB: f64 = 1024.0 * 1024.0;

pub(crate) fn run() -> Result<(), String> {
    println!(
        "\nFit with leave-one-out selection, then predict {QUERIES} queries; times are the best of 3 runs"
    );
    println!(
        "{:>8} {:>5} {:>8} {:>8} {:>10} {:>10} {:>11} {:>14} {:>9}  peak memory (limit 1.25 × the rows + 200 MiB)",
        "rows", "dim", "classes", "fit s", "predict s", "all rows s", "× authors", "× authors", "accuracy"
    );
    println!(
        "{:>8} {:>5} {:>8} {:>8} {:>10} {:>10} {:>11} {:>14}",
        "", "", "", "", "", "", "(fit)", "(predict)"
    );
    for case in CASES {
        let Case { rows, dim, classes, authors } = case;
        let mut best = measure_in_new_process(rows, dim, classes, QUERIES)?;
        for _ in 0..2 {
            let repeat = measure_in_new_process(rows, dim, classes, QUERIES)?;
            best.fit = best.fit.min(repeat.fit);
            best.predict = best.predict.min(repeat.predict);
        }
        let bound = 1.25 * (rows * dim * 4) as f64 + 200.0 * MIB;
        let memory = match best.peak {
            Some(peak) => format!("{:.0} MiB ({:.0})", peak / MIB, bound / MIB),
            None => "unknown on this system".to_owned(),
        };
        println!(
            "{rows:>8} {dim:>5} {classes:>8} {:>8.2} {:>10.2} {:>10.2} {:>11} {:>14} {:>9.3}  {memory}",
            best.fit,
            best.predict,
            all_rows_seconds(rows, dim, classes)?,
            authors.as_ref().map_or("-".to_owned(), |authors| format!("{:.0}", authors.fit / best.fit)),
            authors
                .as_ref()
                .map_or("-".to_owned(), |authors| format!("{:.1}", authors.predict / best.predict)),
            best.accuracy
        );
    }
    println!(
        "× authors: quoted times of the Python package of the paper's authors on another machine, divided by the times of nuq"
    );
    Ok(())
}

/// Seconds of a search of the queries that compares all rows.
fn all_rows_seconds(rows: usize, dim: usize, classes: usize) -> Result<f64, String> {
    let source = Source::new(dim, classes, 1);
    let (x, q) = (source.draw(rows, 2).0, source.draw(QUERIES, 3).0);
    let index = ExactIndex::new(&x).map_err(|e| e.to_string())?.pruning(Pruning::Off);
    let start = Instant::now();
    index.search(&q, K).map_err(|e| e.to_string())?;
    Ok(start.elapsed().as_secs_f64())
}

/// Measures one case in a separate process.
pub(crate) fn measure_in_new_process(
    rows: usize,
    dim: usize,
    classes: usize,
    queries: usize,
) -> Result<Measured, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let numbers = [rows, dim, classes, queries].map(|n| n.to_string());
    let printed = peers::run(Command::new(program).arg("measure").args(numbers))?;
    let numbers: Vec<f64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers.as_slice() {
        [fit, predict, accuracy, peak] => {
            let peak = (*peak > 0.0).then_some(*peak);
            Ok(Measured { fit: *fit, predict: *predict, accuracy: *accuracy, peak })
        }
        _ => Err(format!("unexpected output of a measurement: {printed:?}")),
    }
}

/// Fits and predicts once. Prints seconds, accuracy and the peak memory in bytes (0 if unknown).
pub(crate) fn measure(arguments: &[&str]) -> Result<(), String> {
    let numbers: Vec<usize> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    let [rows, dim, classes, queries] = numbers[..] else {
        return Err("measure takes four numbers".to_owned());
    };
    let source = Source::new(dim, classes, 1);
    let ((x, y), (q, truth)) = (source.draw(rows, 2), source.draw(queries, 3));
    let start = Instant::now();
    let model = NuqClassifier::params().fit(&x, &y).map_err(|e| e.to_string())?;
    let fit = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let predictions = model.predict(&q).map_err(|e| e.to_string())?;
    let predict = start.elapsed().as_secs_f64();
    let correct = predictions.iter().zip(&truth).filter(|(p, truth)| p.class as i64 == **truth).count();
    println!("{fit} {predict} {} {}", correct as f64 / queries as f64, peak_memory().unwrap_or(0.0));
    Ok(())
}

/// Peak resident memory of this process, in bytes.
pub(crate) fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| 1024.0 * kib)
}
