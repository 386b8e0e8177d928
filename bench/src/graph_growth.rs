//! Build time and memory of a graph by number of rows, and the time to open its file.

use std::process::Command;
use std::time::Instant;

use nuq::nuq_neighbors::Reason;
use nuq::parts::{FittedDensityParts, RegressorParts, SmootherParts};
use nuq::{Bandwidth, HnswIndex, HnswParams, IndexChoice, IndexKind, Kernel, Model, NuqRegressor};
use nuq_report::{LogLogChart, LogLogLine};

use crate::data::Source;
use crate::fit::peak_memory;
use crate::growth::write;
use crate::peers;

const DIM: usize = 128;
const SIZES: [usize; 5] = [10_000, 30_000, 100_000, 300_000, 1_000_000];

/// Measurements of one process.
struct Measured {
    /// Seconds of the build.
    build: f64,
    /// Additional memory for data and graph, divided by the size of rows and links. The additional memory is the peak memory of the
    /// process minus its memory before the data were created.
    memory: f64,
    /// Milliseconds to open the file.
    open: f64,
    /// Milliseconds of the first prediction after the file was opened.
    first: f64,
}

pub(crate) fn run() -> Result<(), String> {
    println!("\nBuilding a graph, d = {DIM}, M = 16, ef_construction = 200, and opening its file");
    println!(
        "{:>9} {:>9} {:>22} {:>22} {:>9} {:>15}",
        "rows", "build s", "s / (N log N)", "peak / (rows + links)", "open ms", "first query ms"
    );
    let growth = |rows: usize| rows as f64 * (rows as f64).ln();
    let mut points: Vec<(f64, f64)> = Vec::new();
    for rows in SIZES {
        let Measured { build, memory, open, first } = measure_in_new_process(rows)?;
        points.push((rows as f64, build));
        // The column `s / (N log N)` is relative to the smallest size, so that its first value is 1.
        let unit = points[0].1 / growth(SIZES[0]);
        println!(
            "{rows:>9} {build:>9.2} {:>22.2} {memory:>22.2} {open:>9.1} {first:>15.1}",
            build / growth(rows) / unit
        );
    }
    let unit = points[0].1 / growth(SIZES[0]);
    let figure = LogLogChart {
        title: "Building a graph, compared with N log N".to_owned(),
        caption: format!(
            "d = {DIM}, M = 16, ef_construction = 200, {} threads",
            rayon::current_num_threads()
        ),
        x_title: "rows".to_owned(),
        y_title: "seconds".to_owned(),
        lines: vec![
            LogLogLine { name: "build".to_owned(), points },
            LogLogLine {
                name: "N log N".to_owned(),
                points: SIZES.iter().map(|&rows| (rows as f64, unit * growth(rows))).collect(),
            },
        ],
    };
    write(&figure.draw(), "graph-growth")
}

fn measure_in_new_process(rows: usize) -> Result<Measured, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let printed = peers::run(Command::new(program).args(["measure-graph", &rows.to_string()]))?;
    let numbers: Vec<f64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [build, memory, open, first] => Ok(Measured { build, memory, open, first }),
        _ => Err(format!("unexpected output of a measurement: {printed:?}")),
    }
}

/// Builds, saves and opens a graph once. Prints the fields of [`Measured`].
pub(crate) fn measure(rows: &str) -> Result<(), String> {
    let rows: usize = rows.parse().map_err(|_| "measure-graph takes a number of rows".to_owned())?;
    // The clusters overlap. With separate clusters of few rows, the beam of a search would cover a whole cluster, and the time for
    // few rows would be too low for the comparison with N log N.
    let source = Source::new(DIM, 100, 1).spread(2.0);
    // Memory of the idle process: program, threads and stacks.
    let idle = rayon::broadcast(|_| peak_memory())[0].unwrap_or(0.0);
    let x = source.draw(rows, 2).0;
    let start = Instant::now();
    let params = HnswParams::default();
    let index = HnswIndex::new(&x, params).map_err(|e| e.to_string())?;
    let build = start.elapsed().as_secs_f64();
    let bytes = index.bytes();
    let memory = peak_memory().map_or(f64::NAN, |peak| (peak - idle) / (bytes.rows + bytes.links) as f64);

    let smoother = SmootherParts {
        kernel: Kernel::Gaussian,
        bandwidth: Bandwidth::Scalar(1.0),
        density: FittedDensityParts::Same,
        dimension: 1.0,
        scale: nuq::FittedScale::Ambient,
        n_neighbors: 20,
        normalize: false,
        choice: IndexChoice { kind: IndexKind::Hnsw(params), reason: Reason::Requested, device: None },
        column_names: None,
        sample_weights: None,
        gaussians: None,
    };
    let parts = RegressorParts {
        smoother,
        prior_weight: 1e-3,
        rules: Default::default(),
        targets: vec![0.0; rows],
        curve: None,
    };
    let model = NuqRegressor::from_parts(parts, Box::new(index)).map_err(|e| e.to_string())?;
    let path = peers::folder()?.join("graph.nuq");
    nuq_io::save(&Model::Regressor(model), &path).map_err(|e| e.to_string())?;
    let start = Instant::now();
    let Model::Regressor(opened) = nuq_io::open(&path).map_err(|e| e.to_string())?.model else {
        return Err("the saved regressor was opened as another model".to_owned());
    };
    let open = 1e3 * start.elapsed().as_secs_f64();
    let start = Instant::now();
    opened.predict(&source.draw(1, 3).0).map_err(|e| e.to_string())?;
    let first = 1e3 * start.elapsed().as_secs_f64();
    std::fs::remove_file(&path).map_err(|e| e.to_string())?;
    println!("{build} {memory} {open} {first}");
    Ok(())
}
