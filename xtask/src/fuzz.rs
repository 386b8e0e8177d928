//! Coverage-guided tests of everything that reads bytes from outside: the targets of the folder `fuzz`.
//!
//! The targets are compiled by the stable compiler with the coverage counters of LLVM, and linked with libFuzzer. Inputs that reach new
//! code are kept in `target/fuzz/corpus/TARGET`. A run begins with those of earlier runs ([`corpora`](crate::corpora)) and with
//! `fuzz/seeds/TARGET`, which contains an example of each kind of input, and every input that once failed. Inputs of the tests and of targets with
//! the same format follow. The executions and the coverage of each run are written to `target/reliability/fuzz.json`.

use std::env::consts::OS;
use std::fs;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::corpora;
use crate::fuzz_progress::Progress;
use crate::reliability::record;
use crate::steps::{Failed, cargo_with, is_linux, root, runs};

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

/// The program that cargo starts as the compiler.
const COMPILER: &str = "fuzz/rustc.sh";

/// Files of the tests, in the formats of several targets. They are further inputs of each target.
const FILES: &str = "crates/nuq-io/tests/data";

/// Targets with the same file format. Each of these targets also reads the inputs of the others.
const SAME_FORMAT: [&str; 2] = ["model", "manifest"];

/// Number of new inputs per target if no option is given. Their executions take seconds.
const DEFAULT_RUNS: u64 = 20_000;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// After this number of new inputs, which follow the known ones. With the seed, all runs from the same inputs execute the same new ones.
    Runs {
        count: u64,
        seed: Option<u32>,
    },
    Seconds(u64),
    /// When the run has converged ([`Progress::converges_at`]).
    Converged,
}

/// A target, the largest length of its inputs in bytes, and the folders of its inputs.
struct Target {
    name: &'static str,
    max_len: usize,
    /// The folder for new inputs, and the folders of the other known ones: the seeds, and the unpacked archives of all targets with the
    /// same format.
    folders: Vec<PathBuf>,
}

/// `cargo xtask fuzz [TARGET] [--runs N | --seconds N | --converge]`, `cargo xtask fuzz seeds` or `cargo xtask fuzz corpora`. On
/// other systems than Linux, only `seeds` runs; the others print a notice.
pub(crate) fn fuzz(words: &[&str]) -> Result<(), Failed> {
    if words == ["seeds"] {
        return cargo_with(&["run", "--manifest-path", "fuzz/Cargo.toml", "--bin", "seeds"], &[]);
    }
    let is_corpora = words == ["corpora"];
    let (name, limit) = options(if is_corpora { &[] } else { words })?;
    if !is_linux(OS, "fuzz") {
        return Ok(());
    }
    if limit == Limit::Converged && !runs("addr2line", &["--version"]) {
        return Err(Failed("fuzz: --converge needs the program addr2line: install binutils".to_owned()));
    }
    // Targets with the same format read the same archives, so these are unpacked before any target runs.
    let chosen = TARGETS.into_iter().filter(|(target, _)| name.is_none_or(|name| name == *target));
    let targets = chosen.map(|(name, max_len)| target(name, max_len)).collect::<Result<Vec<_>, _>>()?;
    let compiler = root().join(COMPILER).to_string_lossy().into_owned();
    let variables = [("RUSTFLAGS", FLAGS), ("RUSTC_WRAPPER", &compiler)];
    if name.is_none() {
        cargo_with(&arguments("test", &["--lib"]), &variables)?;
    }
    // The program `seeds` is no target: it is built by `fuzz seeds` alone.
    let programs: Vec<&str> = TARGETS.iter().flat_map(|(target, _)| ["--bin", *target]).collect();
    cargo_with(&arguments("build", &programs), &variables)?;
    in_parallel(&targets, |target| if is_corpora { pack(target) } else { run_target(target, limit) })
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

/// Creates the folder for new inputs of a target, and unpacks its archives.
fn target(name: &'static str, max_len: usize) -> Result<Target, Failed> {
    let new = corpus(name);
    fs::create_dir_all(&new).map_err(|error| Failed(format!("{}: {error}", new.display())))?;
    let sources = if SAME_FORMAT.contains(&name) { SAME_FORMAT.to_vec() } else { vec![name] };
    let mut folders = vec![new];
    for source in sources {
        folders.push(root().join("fuzz/seeds").join(source));
        folders.extend(corpora::unpack(source)?);
    }
    Ok(Target { name, max_len, folders })
}

/// Writes the archive of a target.
fn pack(target: &Target) -> Result<(), Failed> {
    let Target { name, folders, .. } = target;
    let memory = Memory::new(name)?;
    corpora::pack(name, &program(name), folders, &memory.0)
}

/// The target, if one is named, and the end of the runs. Runs without an option have a fixed seed, so that CI executes the same inputs every
/// time.
fn options<'a>(arguments: &[&'a str]) -> Result<(Option<&'a str>, Limit), Failed> {
    let (name, rest) = match arguments {
        [name, rest @ ..] if !name.starts_with("--") => (Some(*name), rest),
        rest => (None, rest),
    };
    let known: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
    if name.is_some_and(|name| !known.contains(&name)) {
        return Err(Failed(format!("fuzz: the targets are {}", known.join(", "))));
    }
    let limit = match rest {
        [] => Some(Limit::Runs { count: DEFAULT_RUNS, seed: Some(1) }),
        ["--runs", count] => count.parse().ok().map(|count| Limit::Runs { count, seed: None }),
        ["--seconds", seconds] => seconds.parse().ok().map(Limit::Seconds),
        ["--converge"] => Some(Limit::Converged),
        _ => None,
    };
    let limit = limit.ok_or_else(|| {
        Failed("fuzz: the options are --runs NUMBER, --seconds NUMBER or --converge".to_owned())
    })?;
    Ok((name, limit))
}

/// The arguments of cargo for a command with the packages of the targets. The folder of the programs is given, because the variable
/// `CARGO_TARGET_DIR` may name another one.
fn arguments<'a>(command: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let build =
        ["--release", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", TARGET_DIR, "--target", PLATFORM];
    [&[command], &build[..], rest].concat()
}

/// The number of files in folders and in the folders within them.
fn count_files(folders: &[PathBuf]) -> Result<u64, Failed> {
    let failed = |folder: &Path, error: std::io::Error| Failed(format!("{}: {error}", folder.display()));
    let mut folders = folders.to_vec();
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| failed(&folder, error))? {
            let path = entry.map_err(|error| failed(&folder, error))?.path();
            if path.is_dir() { folders.push(path) } else { count += 1 }
        }
    }
    Ok(count)
}

/// Runs a target and records its counts. libFuzzer stops at the first input that fails, writes it to `target/fuzz` and prints its path.
fn run_target(target: &Target, limit: Limit) -> Result<(), Failed> {
    let folder = root().join("target/fuzz");
    let Target { name: target, max_len, folders } = target;
    let folders = [&folders[..], &[root().join(FILES)]].concat();
    let mut arguments = match limit {
        // libFuzzer also counts the executions of known inputs.
        Limit::Runs { count, seed } => {
            let runs = format!("-runs={}", count + count_files(&folders)?);
            [Some(runs), seed.map(|seed| format!("-seed={seed}"))].into_iter().flatten().collect()
        }
        Limit::Seconds(seconds) => vec![format!("-max_total_time={seconds}")],
        Limit::Converged => vec![],
    };
    arguments.extend([
        format!("-max_len={max_len}"),
        // An input fails if its execution takes more than 10 seconds or 2048 MiB of memory.
        "-timeout=10".to_owned(),
        "-rss_limit_mb=2048".to_owned(),
        "-print_final_stats=1".to_owned(),
        "-print_pcs=1".to_owned(),
        format!("-artifact_prefix={}/{target}-", folder.display()),
        format!("-dict={}/fuzz/dictionaries/{}.dict", root().display(), dictionary(target)),
    ]);
    arguments.extend(folders.iter().map(|folder| folder.to_string_lossy().into_owned()));
    let program = program(target);
    let name = format!("{program} {}", arguments.join(" "));
    eprintln!("xtask: {name}");
    let mut command = Command::new(&program);
    let memory = Memory::new(target)?;
    // With one thread, an input takes the same path at every execution.
    command
        .args(&arguments)
        .current_dir(root())
        .envs([("RAYON_NUM_THREADS", "1".as_ref()), ("TMPDIR", memory.0.as_os_str())]);
    let until_converged = (limit == Limit::Converged).then_some(&program[..]);
    let (progress, is_success) =
        follow(&mut command, target, until_converged).map_err(|error| Failed(format!("{name}: {error}")))?;
    let own_edges = progress.own_edges(&program);
    for (execution, source) in
        own_edges.iter().flatten().filter(|(execution, _)| progress.is_late(*execution))
    {
        eprintln!(
            "{target}: code that was first reached in the last third: {source} at execution {execution}"
        );
    }
    // A short run takes no place in the documentation, unless it has failed.
    if progress.is_long() || !is_success {
        record("fuzz", &[progress.line(target, own_edges.as_deref(), is_success)])?;
    }
    if is_success { Ok(()) } else { Err(Failed(name)) }
}

/// Runs a fuzz target, prints its standard error and reads the counts from it. Returns the counts and whether the target succeeded. The
/// target is ended when it has converged if its program, which contains the source lines of the edges, is given.
fn follow(
    command: &mut Command,
    target: &str,
    until_converged: Option<&str>,
) -> std::io::Result<(Progress, bool)> {
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let id = child.id();
    let stderr = child.stderr.take().expect("standard error is a pipe");
    let mut progress = Progress::default();
    // No run converges before this execution.
    let mut next_check = 0;
    // Messages may contain bytes of inputs, which need not be UTF-8.
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if progress.read(&line, id) {
            eprintln!("{target}: {line}");
        }
        let Some(program) = until_converged.filter(|_| progress.executions >= next_check) else { continue };
        next_check = progress.converges_at(program).unwrap_or(0);
        if progress.executions >= next_check {
            // libFuzzer then prints its counts and ends with success.
            Command::new("kill").args(["-USR1", &id.to_string()]).status()?;
            next_check = u64::MAX;
        }
    }
    Ok((progress, child.wait()?.success()))
}

/// The dictionary of a target.
fn dictionary(target: &str) -> &str {
    if SAME_FORMAT.contains(&target) { SAME_FORMAT[0] } else { target }
}

/// The folder of the temporary files of a target, in memory if the system has a file system in memory. libFuzzer ends its processes without
/// a cleanup, so the folder is removed here.
struct Memory(PathBuf);

impl Memory {
    fn new(target: &str) -> Result<Self, Failed> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = parent.join(format!("nuq-fuzz-{}-{target}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| Failed(format!("{}: {error}", folder.display())))?;
        Ok(Self(folder))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A folder that remains takes memory until the machine is restarted, but no run reads it.
        let _ = fs::remove_dir_all(&self.0);
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

    #[test]
    fn temporary_files_of_a_target_are_removed() {
        let memory = Memory::new("test").ok().unwrap();
        let folder = memory.0.clone();
        fs::write(folder.join("input.nuq"), "").unwrap();
        drop(memory);
        assert!(!folder.exists());
    }

    #[cfg(unix)]
    #[test]
    fn the_counts_are_read_while_a_target_runs() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo stat::number_of_executed_units: 7 >&2; exit 1"]);
        let (progress, is_success) = follow(&mut command, "sh", None).unwrap();
        assert_eq!((progress.executions, is_success), (7, false));
    }

    #[cfg(unix)]
    #[test]
    fn a_target_is_ended_when_it_has_converged() {
        let mut command = Command::new("sh");
        // Without the signal, the loop would not end.
        command.args([
            "-c",
            r#"trap 'echo stat::number_of_executed_units: 1200000 >&2; exit 0' USR1
               printf '#1\tINITED cov: 7\n#1000000\tpulse cov: 7\n' >&2; while true; do sleep 0.01; done"#,
        ]);
        let (progress, is_success) = follow(&mut command, "sh", Some("sh")).unwrap();
        assert_eq!((progress.executions, is_success), (1_200_000, true));
    }

    #[test]
    fn options_set_the_target_and_the_end_of_a_run() {
        let fixed = Limit::Runs { count: DEFAULT_RUNS, seed: Some(1) };
        assert_eq!(options(&[]).ok(), Some((None, fixed)));
        assert_eq!(options(&["npy", "--seconds", "5"]).ok(), Some((Some("npy"), Limit::Seconds(5))));
        assert_eq!(options(&["--runs", "9"]).ok(), Some((None, Limit::Runs { count: 9, seed: None })));
        assert_eq!(options(&["npz", "--converge"]).ok(), Some((Some("npz"), Limit::Converged)));
        for wrong in [&["--converge", "1"][..], &["--runs"], &["--runs", "x"], &["--seconds", "-1"], &["mpy"]]
        {
            assert!(options(wrong).err().unwrap().0.starts_with("fuzz: the "), "{wrong:?}");
        }
    }

    #[test]
    fn files_are_counted_in_all_folders() {
        let memory = Memory::new("count").ok().unwrap();
        fs::create_dir(memory.0.join("inner")).unwrap();
        for name in ["a", "inner/b", "inner/c"] {
            fs::write(memory.0.join(name), "").unwrap();
        }
        assert_eq!(count_files(std::slice::from_ref(&memory.0)).ok(), Some(3));
        assert!(count_files(&[memory.0.join("missing")]).is_err());
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
