//! Exact search at the size of ImageNet. The rows are in a file that is written in blocks and then mapped. Fit and predict run in
//! separate processes, so the peak memory of each is known.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use nuq::{FittedModel, IndexKind, Model, NuqClassifier};
use nuq_io::{ArraySpec, EmbeddingsFile};
use nuq_neighbors::Embeddings;

use crate::data::Source;
use crate::large_file::{self, Temporary};
use crate::memory::{self, MIB, Peak, watch};
use crate::peers;

const ROWS: usize = 1_281_167;
const COLUMNS: usize = 2048;
const CLASSES: usize = 1000;
const LATENT: usize = 64;
const NOISE: f32 = 0.5;
const QUERIES: usize = 1000;

fn source(columns: usize) -> Source {
    Source::with_latent(LATENT, columns, CLASSES, 1).noise(NOISE)
}

/// Measures a model of `ROWS` × `COLUMNS`, or of other sizes: `[ROWS] [COLUMNS]`.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let (rows, columns) = large_file::sizes("imagenet", arguments, (ROWS, COLUMNS))?;
    let bytes = (4 * rows * columns) as f64;
    let folder = peers::folder()?;
    // Space for the rows, and for the model file, which contains the rows too.
    large_file::check_space(&folder, 2.0 * bytes + 1e9)?;
    println!(
        "\n{rows} × {columns} ({:.1} GB) in {CLASSES} clusters of {LATENT} latent dimensions + noise {NOISE}, exact search",
        bytes / 1e9
    );
    let (data, model) = (Temporary(folder.join("imagenet.npy")), Temporary(folder.join("imagenet.nuq")));
    let start = Instant::now();
    large_file::write(&data.0, &source(columns), rows, 3)?;
    println!("  {:<52} {:>9.1} s", "making the file", start.elapsed().as_secs_f64());
    let (times, peak) = child("fit", &[&data.0, &model.0], columns)?;
    let [reading, fit, predict, save] = times[..] else { return Err("four times are expected".to_owned()) };
    println!("  {:<52} {reading:>9.1} s", "mapping the file and checking its values");
    println!("  {:<52} {fit:>9.1} s", "fit, leave-one-out on 10,000 rows");
    println!("  {:<52} {:>9.2} ms a query", "predict 1,000 queries after the fit", per_query(predict));
    println!("  {:<52} {save:>9.1} s", "save");
    print_peak(&peak, bytes);
    drop(data);
    let (times, peak) = child("predict", &[&model.0], columns)?;
    let [open, search, first, predict, again] = times[..] else {
        return Err("five times are expected".to_owned());
    };
    println!("  {:<52} {open:>9.3} s", "open, in a new process");
    println!("  {:<52} {search:>9.3} s", "first search, which verifies the file");
    println!("  {:<52} {first:>9.3} s", "first prediction");
    println!(
        "  {:<52} {:>9.2} ms a query",
        "next 1,000 queries; the rows may be ordered first",
        per_query(predict)
    );
    println!("  {:<52} {:>9.2} ms a query", "1,000 more", per_query(again));
    print_peak(&peak, bytes);
    Ok(())
}

fn per_query(seconds: f64) -> f64 {
    1e3 * seconds / QUERIES as f64
}

fn print_peak(peak: &Peak, bytes: f64) {
    let [resident, anonymous, mapped] = peak.columns();
    let bound = memory::bound(bytes) / MIB;
    println!(
        "  {:<52} {resident:>9} MiB (bound {bound:.0}); anonymous {anonymous}, mapped {mapped}",
        "peak memory"
    );
}

/// Runs a step in a process of its own. Returns the times that it prints, and its peak memory.
fn child(step: &str, paths: &[&Path], columns: usize) -> Result<(Vec<f64>, Peak), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    let (printed, peak) = watch(command.args(["measure-imagenet", step, &columns.to_string()]).args(paths))?;
    Ok((printed.split_whitespace().filter_map(|word| word.parse().ok()).collect(), peak))
}

/// A step of the benchmark. Prints the times of its parts in seconds.
pub(crate) fn measure(arguments: &[&str]) -> Result<(), String> {
    let columns = |word: &str| word.parse().map_err(|_| "COLUMNS is not a number".to_owned());
    let times = match arguments {
        ["fit", dim, data, model] => fit(columns(dim)?, Path::new(data), Path::new(model))?,
        ["predict", dim, model] => predict(columns(dim)?, Path::new(model))?,
        _ => return Err("measure-imagenet takes a step, a number and paths".to_owned()),
    };
    println!("{}", times.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
    Ok(())
}

/// Seconds of a call, and its result.
fn timed<T, E: ToString>(call: impl FnOnce() -> Result<T, E>) -> Result<(f64, T), String> {
    let start = Instant::now();
    let result = call().map_err(|error| error.to_string())?;
    Ok((start.elapsed().as_secs_f64(), result))
}

/// Maps the rows as `nuq fit` does, fits, predicts and saves.
fn fit(columns: usize, data: &Path, model: &Path) -> Result<Vec<f64>, String> {
    let (queries, _) = source(columns).draw(QUERIES, 1);
    let (reading, rows) = timed(|| {
        let spec = ArraySpec { path: data.to_owned(), name: None };
        let values = EmbeddingsFile::open(&spec).and_then(EmbeddingsFile::map).map_err(|e| e.to_string())?;
        Embeddings::from_values(values.values, columns).map_err(|e| e.to_string())
    })?;
    let labels: Vec<i64> = (0..rows.len()).map(|i| (i % large_file::BLOCK % CLASSES) as i64).collect();
    let (fit, fitted) = timed(|| NuqClassifier::params().index(IndexKind::Exact).fit(&rows, &labels))?;
    let (predict, _) = timed(|| fitted.predict(&queries))?;
    let (save, ()) = timed(|| nuq_io::save(&Model::Classifier(fitted), model))?;
    Ok(vec![reading, fit, predict, save])
}

/// Opens the model, searches one query and predicts it, and then predicts two sets of queries. Returns the seconds of each step.
fn predict(columns: usize, model: &Path) -> Result<Vec<f64>, String> {
    let source = source(columns);
    let ((queries, _), (others, _)) = (source.draw(QUERIES, 1), source.draw(QUERIES, 2));
    let first = Embeddings::borrowed(queries.row(0), columns).map_err(|e| e.to_string())?;
    let (open, opened) = timed(|| nuq_io::open(model))?;
    let Model::Classifier(model) = &opened.model else {
        return Err("the model is not a classifier".to_owned());
    };
    let predict = |rows: &Embeddings<'_>| timed(|| model.predict(rows)).map(|(seconds, _)| seconds);
    let (search, _) = timed(|| model.index().search(&first, model.n_neighbors()))?;
    Ok(vec![open, search, predict(&first)?, predict(&queries)?, predict(&others)?])
}
