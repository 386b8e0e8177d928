//! Coverage-guided tests of everything that reads bytes from outside: the targets of the folder `fuzz`.
//!
//! The targets are compiled by the stable compiler with the coverage counters of LLVM, and linked with libFuzzer. Inputs that reach new
//! code are kept in `target/fuzz/corpus/TARGET`. A run begins with those of earlier runs ([`corpora`](crate::corpora)) and with
//! `fuzz/seeds/TARGET`, which contains an example of each kind of input, and every input that once failed. The executions and the coverage
//! of each run are written to `target/reliability/fuzz.json`.

use std::collections::BTreeSet;
use std::env::consts::OS;
use std::fs;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::corpora;
use crate::fuzz_progress::Progress;
use crate::reliability::record;
use crate::steps::{Failed, cargo_with, is_linux, root};

/// The targets, each with the largest length of its inputs in bytes.
const TARGETS: [(&str, usize); 11] = [
    ("npy", 4096),
    ("npz", 4096),
    ("safetensors", 4096),
    ("table", 2048),
    ("parquet", 8192),
    ("model", 8192),
    ("manifest", 8192),
    ("rules", 2048),
    ("options", 256),
    ("http", 2048),
    ("changes", 1024),
];

/// The platform of the option `--target` of cargo. Without this option, build scripts would be compiled with counters too.
const PLATFORM: &str = env!("NUQ_PLATFORM");

/// The folder of the compiled targets.
const TARGET_DIR: &str = "fuzz/target";

/// Compiler flags that insert what libFuzzer needs: a counter for each edge of the control flow, and at each comparison a call with both
/// compared values.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Files of the tests, in the formats of several targets. They are further inputs of each target.
const FILES: &str = "crates/nuq-io/tests/data";

/// Targets with the same file format. The inputs of each are inputs of all.
const SAME_FORMAT: [&str; 2] = ["model", "manifest"];

/// Number of executions per target if no option is given. They take seconds, and are enough to apply the mutations of libFuzzer to
/// each seed.
const DEFAULT_RUNS: &str = "20000";

/// `cargo xtask fuzz [TARGET] [--runs N | --seconds N]`, `cargo xtask fuzz seeds` or `cargo xtask fuzz corpora`. On
/// other systems than Linux, only `seeds` runs; the others print a notice.
pub(crate) fn fuzz(words: &[&str]) -> Result<(), Failed> {
    if words == ["seeds"] {
        return cargo_with(&["run", "--manifest-path", "fuzz/Cargo.toml", "--bin", "seeds"], &[]);
    }
    let is_corpora = words == ["corpora"];
    let (name, limit) = options(if is_corpora { &[] } else { words })?;
    let targets: Vec<_> =
        TARGETS.into_iter().filter(|(target, _)| name.is_none_or(|name| name == *target)).collect();
    if !is_linux(OS, "fuzz") {
        return Ok(());
    }
    if name.is_none() {
        cargo_with(&arguments("test", &["--lib"]), &[("RUSTFLAGS", FLAGS)])?;
    }
    // The program `seeds` is not built, because it is not linked with libFuzzer.
    let programs: Vec<&str> = TARGETS.iter().flat_map(|(target, _)| ["--bin", *target]).collect();
    cargo_with(&arguments("build", &programs), &[("RUSTFLAGS", FLAGS)])?;
    // All archives are unpacked before a target reads them.
    let sources: BTreeSet<&str> = targets.iter().flat_map(|(target, _)| sources(target)).collect();
    sources.into_iter().try_for_each(unpack_corpus)?;
    in_parallel(&targets, |&(target, max_len)| match is_corpora {
        true => corpora::pack(target, &program(target), &corpus(target)),
        false => run_target(target, max_len, &limit),
    })
}

/// Calls a function for each item, for as many at a time as there are processor cores. After an error, no further call begins.
fn in_parallel<T: Sync>(
    items: &[T],
    function: impl Fn(&T) -> Result<(), Failed> + Sync,
) -> Result<(), Failed> {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            function(item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed))?;
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        // All workers end before the first error is returned.
        results.fold(Ok(()), Result::and)
    })
}

/// The compiled program of a target.
fn program(target: &str) -> String {
    root().join(TARGET_DIR).join(PLATFORM).join("release").join(target).to_string_lossy().into_owned()
}

/// The folder of the inputs that runs of a target have found on this machine.
fn corpus(target: &str) -> PathBuf {
    root().join("target/fuzz/corpus").join(target)
}

/// Adds the inputs of the archive in the repository to the folder of a target.
fn unpack_corpus(target: &str) -> Result<(), Failed> {
    let folder = corpus(target);
    fs::create_dir_all(&folder).map_err(|error| Failed(format!("{}: {error}", folder.display())))?;
    corpora::unpack(target, &folder)
}

/// The target, if one is named, and the options of libFuzzer that limit the executions or the time. Runs without an option have a fixed seed,
/// so that CI executes the same inputs every time.
fn options<'a>(arguments: &[&'a str]) -> Result<(Option<&'a str>, Vec<String>), Failed> {
    let (name, rest) = match arguments {
        [name, rest @ ..] if !name.starts_with("--") => (Some(*name), rest),
        rest => (None, rest),
    };
    let known: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
    if name.is_some_and(|name| !known.contains(&name)) {
        return Err(Failed(format!("fuzz: the targets are {}", known.join(", "))));
    }
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    match rest {
        [] => Ok((name, vec![format!("-runs={DEFAULT_RUNS}"), "-seed=1".to_owned()])),
        ["--runs", runs] if is_number(runs) => Ok((name, vec![format!("-runs={runs}")])),
        ["--seconds", seconds] if is_number(seconds) => {
            Ok((name, vec![format!("-max_total_time={seconds}")]))
        }
        _ => Err(Failed("fuzz: the options are --runs NUMBER or --seconds NUMBER".to_owned())),
    }
}

/// The arguments of cargo for a command with the packages of the targets. The folder of the programs is given, because the variable
/// `CARGO_TARGET_DIR` may name another one.
fn arguments<'a>(command: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let build =
        ["--release", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", TARGET_DIR, "--target", PLATFORM];
    [&[command], &build[..], rest].concat()
}

/// The targets whose inputs a target reads.
fn sources(target: &str) -> Vec<&str> {
    if SAME_FORMAT.contains(&target) { SAME_FORMAT.to_vec() } else { vec![target] }
}

/// Runs a target and records its counts. libFuzzer stops at the first input that fails, writes it to `target/fuzz` and prints its path.
fn run_target(target: &str, max_len: usize, limit: &[String]) -> Result<(), Failed> {
    let folder = root().join("target/fuzz");
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let dictionary = root().join("fuzz/dictionaries").join(format!("{target}.dict"));
    let mut arguments = limit.to_vec();
    arguments.extend([
        format!("-max_len={max_len}"),
        // An input fails if its execution takes more than 10 seconds or 2048 MiB of memory.
        "-timeout=10".to_owned(),
        "-rss_limit_mb=2048".to_owned(),
        "-print_final_stats=1".to_owned(),
        "-print_pcs=1".to_owned(),
        format!("-artifact_prefix={}/{target}-", folder.display()),
        text(corpus(target)),
        text(root().join(FILES)),
    ]);
    for source in sources(target) {
        arguments.push(text(root().join("fuzz/seeds").join(source)));
        if source != target {
            arguments.push(text(corpus(source)));
        }
    }
    if dictionary.exists() {
        arguments.push(format!("-dict={}", dictionary.display()));
    }
    let program = program(target);
    let name = format!("{program} {}", arguments.join(" "));
    eprintln!("xtask: {name}");
    let mut command = Command::new(&program);
    // With one thread, an input takes the same path at every execution.
    command.args(&arguments).current_dir(root()).env("RAYON_NUM_THREADS", "1");
    let (progress, is_success) =
        follow(&mut command, target).map_err(|error| Failed(format!("{name}: {error}")))?;
    let own_edges = progress.own_edges(&program);
    for (execution, source) in
        own_edges.iter().flatten().filter(|(execution, _)| progress.is_late(*execution))
    {
        eprintln!(
            "{target}: code that was first reached in the last third: {source} at execution {execution}"
        );
    }
    let line = progress.line(target, own_edges.as_deref(), is_success);
    // Other targets may end at the same time.
    static RECORDED: Mutex<()> = Mutex::new(());
    let recorded = RECORDED.lock().unwrap_or_else(PoisonError::into_inner);
    record("fuzz", &[line])?;
    drop(recorded);
    if is_success { Ok(()) } else { Err(Failed(name)) }
}

/// Runs a fuzz target, prints its standard error and reads the counts from it. Returns the counts and whether the target succeeded.
fn follow(command: &mut Command, target: &str) -> std::io::Result<(Progress, bool)> {
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let id = child.id();
    let stderr = child.stderr.take().expect("standard error is a pipe");
    let mut progress = Progress::default();
    // Messages may contain bytes of inputs, which need not be UTF-8.
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if progress.read(&line, id) {
            eprintln!("{target}: {line}");
        }
    }
    let is_success = child.wait()?.success();
    remove_files(id);
    Ok((progress, is_success))
}

/// Removes the temporary files of a target, which is ended without a cleanup. The names are those of `fuzz/src/file.rs`.
fn remove_files(process_id: u32) {
    for parent in [PathBuf::from("/dev/shm"), std::env::temp_dir()] {
        // Only one of the folders exists, and none if the target has written no file.
        let _ = fs::remove_dir_all(parent.join(format!("nuq-fuzz-{process_id}")));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn targets_are_built_in_the_folder_from_which_they_are_started() {
        let arguments = arguments("build", &[]);
        assert!(arguments.windows(2).any(|words| words == ["--target-dir", TARGET_DIR]), "{arguments:?}");
    }

    #[cfg(unix)]
    #[test]
    fn temporary_files_of_a_target_are_removed() {
        let script = r#"mkdir "$0/nuq-fuzz-$$" && echo "stat::number_of_executed_units: $$" >&2"#;
        let folder = std::env::temp_dir();
        let mut command = Command::new("sh");
        let (progress, is_success) = follow(command.args(["-c", script]).arg(&folder), "sh").unwrap();
        assert!(is_success && progress.executions > 0);
        assert!(!folder.join(format!("nuq-fuzz-{}", progress.executions)).exists());
    }

    #[test]
    fn after_an_error_no_further_item_begins() {
        let begun = AtomicUsize::new(0);
        let all = in_parallel(&[1; 50], |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        assert!(all.is_ok());
        assert_eq!(begun.swap(0, Ordering::Relaxed), 50);
        // Only the first item fails. Without the error, the other workers would begin all items.
        let items: Vec<usize> = (0..1000).collect();
        let failed = in_parallel(&items, |&item| {
            begun.fetch_add(1, Ordering::Relaxed);
            if item == 0 {
                return Err(Failed("an input".to_owned()));
            }
            thread::sleep(Duration::from_millis(1));
            Ok(())
        });
        assert_eq!(failed.err().unwrap().0, "an input");
        assert!(begun.into_inner() < items.len());
    }
}
