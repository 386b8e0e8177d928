//! Time and peak memory of the commands of the command line for one model. The peak memory is compared with [`memory::bound`].

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::data::Source;
use crate::large_file::{self, BLOCK, Temporary};
use crate::memory::{self, MIB, watch};
use crate::{peers, score};

const ROWS: usize = 200_000;
const COLUMNS: usize = 512;
/// With 512 columns, the number of classes is so large that `nuq evaluate` skips SNGP and DUQ, which train a layer. Layers are trained only
/// if classes × columns is at most 100,000.
const CLASSES: usize = 200;
/// Number of test rows, and number of out-of-distribution rows.
const QUERIES: usize = 10_000;

/// The commands in the order in which they run. Files are relative to the folder of the benchmark.
const COMMANDS: [&str; 8] = [
    "fit -e commands-x.npy -l commands-y.csv -o commands.nuq --index exact",
    "inspect commands.nuq",
    "score -m commands.nuq -e commands-q.npy -o commands-scores.csv",
    "calibrate -m commands.nuq -e commands-q.npy --target coverage=0.9",
    "label-issues commands.nuq",
    "evaluate -m commands.nuq --test commands-q.npy --labels commands-yq.csv --ood far=commands-far.npy",
    "fit -e commands-x.npy -l commands-y.csv -o commands.nuq --index exact --normalize",
    "fit -e commands-x.npy -l commands-y.csv -o commands.nuq --index hnsw",
];

/// Measures all commands for a model of `ROWS` × `COLUMNS`, or of other sizes: `[ROWS] [COLUMNS]`.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let (rows, columns) = large_file::sizes("commands", arguments, (ROWS, COLUMNS))?;
    let bytes = (4 * rows * columns) as f64;
    let folder = peers::folder()?;
    large_file::check_space(&folder, 2.0 * bytes + 1e9)?;
    let nuq = score::build()?;
    let file = |name: &str| Temporary(folder.join(name));
    let (x, q, far) = (file("commands-x.npy"), file("commands-q.npy"), file("commands-far.npy"));
    let (y, yq) = (file("commands-y.csv"), file("commands-yq.csv"));
    let _results = (file("commands.nuq"), file("commands-scores.csv"));
    let source = Source::new(columns, CLASSES, 1);
    large_file::write(&q.0, &source, QUERIES, 1)?;
    large_file::write(&far.0, &Source::new(columns, CLASSES, 2), QUERIES, 2)?;
    large_file::write(&x.0, &source, rows, 3)?;
    labels(&y.0, rows)?;
    labels(&yq.0, QUERIES)?;
    println!("\nCommands for {rows} × {columns} ({:.0} MiB) in {CLASSES} classes", bytes / MIB);
    println!(
        "{:<34} {:>8} {:>13} {:>11} {:>8} {:>7}",
        "command", "seconds", "resident MiB", "anonymous", "mapped", "bound"
    );
    for line in COMMANDS {
        let start = Instant::now();
        let (_, peak) =
            watch(Command::new(&nuq).args(line.split(' ')).args(["--quiet", "--json"]).current_dir(&folder))?;
        let [resident, anonymous, mapped] = peak.columns();
        println!(
            "{:<34} {:>8.1} {resident:>13} {anonymous:>11} {mapped:>8} {:>7.0}",
            name(line),
            start.elapsed().as_secs_f64(),
            memory::bound(bytes) / MIB
        );
    }
    Ok(())
}

/// The command without its files: its name and the options by which it differs from the other commands.
fn name(line: &str) -> String {
    let is_file = |word: &&str| {
        word.contains("commands") || ["-e", "-l", "-o", "-m", "--test", "--labels", "--ood"].contains(word)
    };
    line.split(' ').filter(|word| !is_file(word)).collect::<Vec<_>>().join(" ")
}

/// Writes the labels of rows that [`large_file::write`] wrote.
fn labels(path: &Path, rows: usize) -> Result<(), String> {
    let lines: String = (0..rows).map(|i| format!("{}\n", i % BLOCK % CLASSES)).collect();
    std::fs::write(path, lines).map_err(|e| format!("{}: {e}", path.display()))
}
