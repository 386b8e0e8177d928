//! An interrupted command leaves no output file and no temporary file.

use crate::common::{clean_command, nuq_command};
use crate::sparse_file;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nuq_neighbors::SeededRng;

/// A folder with training rows `x.npy` and labels `y.csv`.
fn folder_with_data(rows: usize, dim: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = SeededRng::new(1);
    let values: Vec<f32> = (0..rows * dim).map(|_| rng.normal() as f32).collect();
    sparse_file::write(&folder.path().join("x.npy"), rows, dim, &values);
    fs::write(folder.path().join("y.csv"), "0\n1\n".repeat(rows / 2)).unwrap();
    folder
}

fn start(arguments: &[&str], folder: &Path) -> Child {
    start_with(&["--default-signal=INT,TERM,HUP"], arguments, folder)
}

/// Starts nuq with the program `env`. `signals` are options of `env` that set which signals nuq ignores at its start.
fn start_with(signals: &[&str], arguments: &[&str], folder: &Path) -> Child {
    let mut command = if cfg!(target_os = "linux") {
        // Without `env`, nuq would ignore a signal that the process of the tests ignores.
        let mut env = clean_command("env");
        env.args(signals).arg(env!("CARGO_BIN_EXE_nuq"));
        env
    } else {
        nuq_command()
    };
    command.args(arguments).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_interrupted_score_leaves_no_file() {
    let folder = folder_with_data(200, 8);
    let fit = ["fit", "--embeddings", "x.npy", "--labels", "y.csv", "--out", "m.nuq", "--quiet"];
    assert!(start(&fit, folder.path()).wait().unwrap().success());
    sparse_file::write(&folder.path().join("many.npy"), 50_000_000, 8, &[]);
    for (name, out, code) in [("-INT", "s.csv", 130), ("-TERM", "s.jsonl", 143), ("-HUP", "s.csv", 129)] {
        let score = ["score", "--model", "m.nuq", "--embeddings", "many.npy", "--out", out];
        // Signals that are ignored at the start, as SIGHUP under `nohup`, do not end the process. The case of SIGTERM checks this too; in
        // the other cases the second option changes nothing.
        let ignored = if name == "-TERM" { "--ignore-signal=HUP,INT" } else { "--default-signal=TERM" };
        let mut child = start_with(&["--default-signal=INT,TERM,HUP", ignored], &score, folder.path());
        let start_time = Instant::now();
        while !names(folder.path()).iter().any(|name| name.ends_with(".partial")) {
            assert!(start_time.elapsed() < Duration::from_secs(60), "no temporary file was created");
            std::thread::sleep(Duration::from_millis(5));
        }
        // On other systems than Linux, `start_with` does not set the ignored signals.
        if cfg!(target_os = "linux") && ignored.starts_with("--ignore") {
            signal(&child, "-HUP");
            signal(&child, "-INT");
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(child.try_wait().unwrap(), None, "ignored signals stay ignored");
        }
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
        assert_eq!(names(folder.path()), ["m.nuq", "many.npy", "x.npy", "y.csv"], "{name}");
    }
}

#[test]
fn an_interrupted_fit_leaves_the_previous_model() {
    let folder = folder_with_data(60_000, 64);
    fs::write(folder.path().join("m.nuq"), "old").unwrap();
    let fit = ["fit", "--embeddings", "x.npy", "--labels", "y.csv", "--out", "m.nuq", "--progress", "plain"];
    let mut child = start(&fit, folder.path());
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "read 60000 rows of 64 columns from x.npy");
    let stage = lines.next().unwrap().unwrap();
    assert!(stage.starts_with("fitting: searching neighbors of sampled rows, "), "{stage}");
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(folder.path()), ["m.nuq", "x.npy", "y.csv"]);
    assert_eq!(fs::read(folder.path().join("m.nuq")).unwrap(), b"old");
}

#[test]
fn an_interrupted_fit_leaves_no_shards() {
    let folder = folder_with_data(60_000, 64);
    let fit = "fit -e x.npy -l y.csv --shards 3 --progress plain -o sharded";
    let mut child = start(&fit.split(' ').collect::<Vec<_>>(), folder.path());
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "read 60000 rows of 64 columns from x.npy, in 3 shards");
    let stage = lines.next().unwrap().unwrap();
    assert!(stage.starts_with("fitting: searching neighbors of sampled rows, "), "{stage}");
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(folder.path()), ["x.npy", "y.csv"]);
}
