//! `nuq score` on files: rows per second, and peak memory, which does not grow with the number of rows.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use nuq::{Model, NuqClassifier};

use crate::data::Source;
use crate::large_file::{self, Temporary};
use crate::memory::{MIB, Peak, watch};
use crate::peers;

const DIM: usize = 512;
const CLASSES: usize = 10;
const TRAINING_ROWS: usize = 10_000;
const ROWS: [usize; 2] = [100_000, 1_000_000];

pub(crate) fn run() -> Result<(), String> {
    let nuq = build()?;
    let source = Source::new(DIM, CLASSES, 1);
    let model = Temporary(peers::folder()?.join("score.nuq"));
    let (x, y) = source.draw(TRAINING_ROWS, 2);
    let fitted = NuqClassifier::params().fit(&x, &y).map_err(|e| e.to_string())?;
    nuq_io::save(&Model::Classifier(fitted), &model.0).map_err(|e| e.to_string())?;
    println!("\nnuq score, a model of {TRAINING_ROWS} × {DIM}, from npy to csv");
    println!("{:>9} {:>9} {:>12} {:>16}", "rows", "file MiB", "rows / s", "peak memory MiB");
    let mut peaks = Vec::new();
    for rows in ROWS {
        let queries = Temporary(peers::folder()?.join("score-queries.npy"));
        large_file::write(&queries.0, &source, rows, 3)?;
        let (seconds, peak) = score(&nuq, &model.0, &queries.0)?;
        let (size, speed) = ((rows * DIM * 4) as f64 / MIB, rows as f64 / seconds);
        println!("{rows:>9} {size:>9.0} {speed:>12.0} {:>16}", peak.columns()[0]);
        peaks.push(peak.resident);
    }
    // Systems without `/proc` report no peaks.
    if let [few, many] = peaks[..]
        && few > 0.0
    {
        println!("difference of the peaks: {:.0} MiB (bound 100 MiB)", (many - few) / MIB);
    }
    Ok(())
}

/// Builds the program `nuq` with optimizations and returns its path.
pub(crate) fn build() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments = ["build", "--quiet", "--release", "--package", "nuq-cli"];
    peers::run(Command::new(env!("CARGO")).args(arguments).current_dir(&root))?;
    // The benchmarks run with `--release` too. Cargo therefore puts both programs into the same folder.
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(program.with_file_name(format!("nuq{}", std::env::consts::EXE_SUFFIX)))
}

/// Seconds and peak memory of a run.
fn score(nuq: &Path, model: &Path, queries: &Path) -> Result<(f64, Peak), String> {
    let out = Temporary(queries.with_file_name("scores.csv"));
    let start = Instant::now();
    let mut command = Command::new(nuq);
    command.arg("score").arg("--model").arg(model).arg("--embeddings").arg(queries).arg("--out").arg(&out.0);
    let (_, peak) = watch(command.arg("--quiet"))?;
    Ok((start.elapsed().as_secs_f64(), peak))
}
