//! Memory use: the memory of `nuq score` does not depend on the number of rows, `nuq fit` does not copy mapped rows, and
//! `nuq fit --shards` has at most one shard in memory.

use crate::common::nuq_command;
use crate::sparse_file;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Number of columns of the rows that are scored.
const SCORED_COLUMNS: usize = 128;
/// Number of columns of the rows of a fit.
const FITTED_COLUMNS: usize = 64;
const MIB: u64 = 1 << 20;

fn start(arguments: &[&str], folder: &Path) -> std::process::Child {
    let mut command = nuq_command();
    command.args(arguments).current_dir(folder).stdout(Stdio::null()).spawn().unwrap()
}

/// Writes an npz archive with a compressed copy of an npy file.
fn compress(from: &Path, to: &Path) {
    let mut archive = zip::ZipWriter::new(fs::File::create(to).unwrap());
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .compression_level(Some(1));
    archive.start_file("q.npy", options).unwrap();
    std::io::copy(&mut fs::File::open(from).unwrap(), &mut archive).unwrap();
    archive.finish().unwrap();
}

/// Peak memory of scoring `rows` rows, in bytes, as last reported by the system before the process ended.
fn peak(rows: usize, input: &str, out: &str, folder: &Path) -> u64 {
    sparse_file::write(&folder.join("q.npy"), rows, SCORED_COLUMNS, &[]);
    if input.ends_with(".csv") {
        let line = ["0"; SCORED_COLUMNS].join(",") + "\n";
        fs::write(folder.join(input), line.repeat(rows)).unwrap();
    }
    if input.ends_with(".npz") {
        compress(&folder.join("q.npy"), &folder.join(input));
    }
    let score = ["score", "--model", "m.nuq", "--embeddings", input, "--out", out, "--quiet"];
    largest("VmHWM:", start(&score, folder))
}

/// The largest value, in bytes, that the line `name` of `/proc/PID/status` has until the process ends.
fn largest(name: &str, mut child: std::process::Child) -> u64 {
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with(name));
        if let Some(kib) = line.and_then(|line| line.split_whitespace().nth(1)) {
            peak = peak.max(1024 * kib.parse::<u64>().unwrap());
        }
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return peak;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_memory_of_score_does_not_depend_on_the_number_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<f32> = (0..200 * SCORED_COLUMNS).map(|i| ((i * i) % 101) as f32).collect();
    sparse_file::write(&folder.path().join("x.npy"), 200, SCORED_COLUMNS, &values);
    fs::write(folder.path().join("y.csv"), "0\n1\n".repeat(100)).unwrap();
    let fit = ["fit", "--embeddings", "x.npy", "--labels", "y.csv", "--out", "m.nuq", "--quiet"];
    assert!(start(&fit, folder.path()).wait().unwrap().success());
    let parquet = cfg!(feature = "parquet").then_some(("q.npy", "s.parquet"));
    for (input, out) in
        [("q.npy", "s.csv"), ("q.npz", "s.csv.gz"), ("q.csv", "s.tsv")].into_iter().chain(parquet)
    {
        let (few, many) = (peak(10_000, input, out, folder.path()), peak(100_000, input, out, folder.path()));
        // The values of the additional rows alone take 44 MiB.
        let (few, many) = (few / MIB, many / MIB);
        assert!(many < few + 24, "{input} to {out}: {few} MiB for few rows, {many} for many");
    }
}

/// The additional anonymous memory of a fit of 300,000 rows, compared with a fit of 400 rows, in MiB. Memory of mapped files is not
/// counted, because the system can reuse it for other processes. The values of all rows take 73 MiB.
fn memory_of_fit(options: &str) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<f32> = (0..200 * FITTED_COLUMNS).map(|i| ((i * i) % 101) as f32).collect();
    let fit = "fit -e x.npy -l y.npy --bandwidth 1 --density-bandwidth 1 --scale ambient --quiet -o m";
    let arguments: Vec<&str> = fit.split(' ').chain(options.split_whitespace()).collect();
    let memory = |rows: usize| {
        sparse_file::write(&folder.path().join("x.npy"), rows, FITTED_COLUMNS, &values);
        sparse_file::write(&folder.path().join("y.npy"), rows, 1, &values[..200]);
        largest("RssAnon:", start(&arguments, folder.path())) / MIB
    };
    memory(300_000).saturating_sub(memory(400))
}

#[test]
fn a_fit_in_shards_holds_one_shard_in_memory() {
    let (one, many) = (memory_of_fit("--shards 1"), memory_of_fit("--shards 20"));
    assert!(many + 50 < one, "{one} MiB for one shard, {many} for 20");
}

#[test]
fn a_fit_has_at_most_one_copy_of_the_rows_in_memory() {
    // Labels take about 30 MiB. Mapped rows take no anonymous memory, and normalized rows take 73 MiB.
    let (mapped, normalized) = (memory_of_fit(""), memory_of_fit("--normalize"));
    assert!(mapped < 60, "{mapped} MiB for mapped rows");
    assert!(normalized < 130, "{normalized} MiB for normalized rows");
}
