//! `nuq score` on files: rows per second, and peak memory, which does not grow with the number of rows.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nuq::{Model, NuqClassifier};

use crate::data::Source;
use crate::{fit, peers};

const DIM: usize = 512;
const CLASSES: usize = 10;
const TRAINING_ROWS: usize = 10_000;
const ROWS: [usize; 2] = [100_000, 1_000_000];
/// Number of rows that are drawn and written at once.
const BLOCK: usize = 10_000;
const MIB: f64 = 1024.0 * 1024.0;

/// A file that is removed on drop.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that remains under target/ is harmless.
        let _ = std::fs::remove_file(&self.0);
    }
}

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
        write(&queries.0, &source, rows).map_err(|e| format!("{}: {e}", queries.0.display()))?;
        let (seconds, peak) = score(&nuq, &model.0, &queries.0)?;
        let (size, speed) = ((rows * DIM * 4) as f64 / MIB, rows as f64 / seconds);
        println!("{rows:>9} {size:>9.0} {speed:>12.0} {:>16}", peak_text(peak));
        peaks.extend(peak);
    }
    if let [few, many] = peaks[..] {
        println!("difference: {:.0} MiB (bound 100)", (many - few) / MIB);
    }
    Ok(())
}

fn peak_text(peak: Option<f64>) -> String {
    peak.map_or("unknown".to_owned(), |peak| format!("{:.0}", peak / MIB))
}

/// Builds the command line for release and returns its path.
fn build() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments = ["build", "--quiet", "--release", "--package", "nuq-cli"];
    peers::run(Command::new(env!("CARGO")).args(arguments).current_dir(&root))?;
    // Cargo puts both programs into the same folder.
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(program.with_file_name(format!("nuq{}", std::env::consts::EXE_SUFFIX)))
}

/// Writes an npy file block by block.
fn write(path: &Path, source: &Source, rows: usize) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {DIM}), }}\n");
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&(header.len() as u16).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for block in 0..rows / BLOCK {
        let (values, _) = source.draw(BLOCK, 3 + block as u64);
        for value in values.as_slice() {
            file.write_all(&value.to_le_bytes())?;
        }
    }
    file.flush()
}

/// Seconds and peak memory of a run, by polling the process until it ends.
fn score(nuq: &Path, model: &Path, queries: &Path) -> Result<(f64, Option<f64>), String> {
    let out = Temporary(queries.with_file_name("scores.csv"));
    let start = Instant::now();
    let mut command = Command::new(nuq);
    command.arg("score").arg("--model").arg(model).arg("--embeddings").arg(queries).arg("--out").arg(&out.0);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| e.to_string())?;
    let mut peak = None;
    loop {
        peak = fit::peak_memory_of(&child.id().to_string()).or(peak);
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok((start.elapsed().as_secs_f64(), peak)),
            Some(status) => return Err(format!("nuq score failed: {status}")),
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
